package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/peil-stream/peil/internal/stream"
)

const (
	// openTimeout bounds the question whether any broker answers.
	openTimeout = 10 * time.Second
	// fetchWait is how long a broker may sit on a fetch without records. A
	// partition that was paused waits for the fetch in flight.
	fetchWait = 300 * time.Millisecond
	// metadataAge is the least age of metadata before they are asked for anew.
	// With the client's default the first use of a new topic takes 5 s.
	metadataAge = 100 * time.Millisecond
)

// Open connects to the brokers. That none of them answers within 10 s is an
// error that wraps [stream.ErrUnavailable] and names them. The caller closes
// the log.
func Open(ctx context.Context, o Options) (*Log, error) {
	l, err := newLog(o)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	pinging, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	if err := l.client.Ping(pinging); err != nil {
		l.client.Close()
		return nil, fmt.Errorf("open log at %s: %w", strings.Join(o.Brokers, ", "), classify(ctx, err))
	}
	return l, nil
}

func newLog(o Options) (*Log, error) {
	if o.ClientID == "" {
		o.ClientID = "peil"
	}
	if o.SessionTimeout == 0 {
		o.SessionTimeout = 45 * time.Second
	}
	if o.RevokeTimeout == 0 {
		o.RevokeTimeout = 12 * time.Second
	}
	if o.RequestTimeout == 0 {
		o.RequestTimeout = 10 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	client, err := o.client(producing()...)
	if err != nil {
		return nil, err
	}
	return &Log{opts: o, client: client, admin: kadm.NewClient(client), log: o.Logger}, nil
}

// client makes a client with the options that all clients share, and more. It
// connects when it is used first. A client that consumes sees committed records
// only, gets the transaction markers (they take offsets), and never moves to an
// offset by itself. The caller closes it.
func (o Options) client(extra ...kgo.Opt) (*kgo.Client, error) {
	opts := []kgo.Opt{
		kgo.SeedBrokers(o.Brokers...),
		kgo.ClientID(o.ClientID),
		kgo.WithLogger(logger{log: o.Logger}),
		kgo.DisableClientMetrics(),
		kgo.MetadataMinAge(metadataAge),
		kgo.RetryTimeout(o.RequestTimeout),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMaxWait(fetchWait),
	}
	switch {
	case o.Dial != nil:
		opts = append(opts, kgo.Dialer(o.Dial))
	case o.TLS != nil:
		opts = append(opts, kgo.DialTLSConfig(o.TLS.Clone()))
	}
	mechanism, err := o.SASL.mechanism()
	if err != nil {
		return nil, err
	}
	if mechanism != nil {
		opts = append(opts, kgo.SASL(mechanism))
	}
	client, err := kgo.NewClient(append(opts, extra...)...)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return client, nil
}

// mechanism is what authenticates, or nil.
func (s SASL) mechanism() (sasl.Mechanism, error) {
	switch strings.ToLower(s.Mechanism) {
	case "":
		return nil, nil
	case "plain":
		return plain.Auth{User: s.Username, Pass: s.Password}.AsMechanism(), nil
	case "scram-sha-256":
		return scram.Auth{User: s.Username, Pass: s.Password}.AsSha256Mechanism(), nil
	case "scram-sha-512":
		return scram.Auth{User: s.Username, Pass: s.Password}.AsSha512Mechanism(), nil
	}
	return nil, fmt.Errorf("unknown SASL mechanism %q", s.Mechanism)
}

// classify gives an error of the client the kind that callers branch on. An
// error of a call whose ctx is done is that of the ctx.
func classify(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if cerr := ctx.Err(); cerr != nil {
		if errors.Is(err, cerr) {
			return err
		}
		return fmt.Errorf("%w: %w", cerr, err)
	}
	kind := kindOf(err)
	if kind == nil || errors.Is(err, kind) {
		return err
	}
	return fmt.Errorf("%w: %w", kind, err)
}

// kindOf is the error of the contract that fits, or nil.
func kindOf(err error) error {
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID), errors.Is(err, kerr.InconsistentTopicID):
		return stream.ErrNoTopic
	case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.RecordListTooLarge):
		return stream.ErrTooLarge
	case errors.Is(err, kerr.OffsetOutOfRange):
		return stream.ErrOutOfRange
	case unavailable(err):
		return stream.ErrUnavailable
	}
	return nil
}

// unavailable says that the brokers are away, busy, or have not yet agreed on
// who leads, so that the same call may succeed later.
func unavailable(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, kgo.ErrRecordTimeout) || errors.Is(err, kgo.ErrRecordRetries) {
		return true
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	if _, ok := errors.AsType[*kgo.ErrFirstReadEOF](err); ok {
		return true
	}
	return kerr.IsRetriable(err) || kgo.IsRetryableBrokerErr(err)
}

// logger hands what the client says to the log. Its errors are returned to
// somebody or mended by the client itself, so none of them is more than a
// warning.
type logger struct{ log *slog.Logger }

func (l logger) Level() kgo.LogLevel {
	ctx := context.Background() // the client's loggers have none
	switch {
	case l.log.Enabled(ctx, slog.LevelDebug):
		return kgo.LogLevelInfo
	case l.log.Enabled(ctx, slog.LevelWarn):
		return kgo.LogLevelWarn
	}
	return kgo.LogLevelNone
}

func (l logger) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	to := slog.LevelDebug
	if level <= kgo.LogLevelWarn {
		to = slog.LevelWarn
	}
	l.log.Log(context.Background(), to, "kafka client says", append([]any{"what", msg}, keyvals...)...) // as above
}
