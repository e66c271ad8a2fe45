package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/peil-stream/peil/internal/stream"
)

// warnEvery is how often a trouble that goes on is reported again.
const warnEvery = time.Minute

// dialTimeout bounds one attempt to reach a broker.
const dialTimeout = 10 * time.Second

// warnKinds bounds how many troubles are remembered.
const warnKinds = 100

// unmendable says that waiting does not help, whatever the error is about.
func unmendable(err error) bool {
	return slices.ContainsFunc([]error{
		kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.ClusterAuthorizationFailed,
		kerr.SaslAuthenticationFailed, kerr.UnsupportedSaslMechanism, kerr.IllegalSaslState,
		kerr.FencedInstanceID, kerr.InvalidGroupID, kerr.InconsistentGroupProtocol, kerr.InvalidSessionTimeout,
		kgo.ErrClientClosed,
	}, func(e error) bool { return errors.Is(err, e) })
}

// failed decides what an error of a fetch means. One about a partition stops that
// partition, unless the client tries again by itself.
func (m *member) failed(ctx context.Context, topic string, partition int32, err error) {
	if unmendable(err) {
		m.end(about(topic, partition, err))
		return
	}
	why := lasting(err)
	if _, group := errors.AsType[*kgo.ErrGroupSession](err); group || why == nil {
		m.warn(ctx, about(topic, partition, err))
		return
	}
	stays := m.of(topic)
	if partition >= 0 {
		stays = m.held(map[string][]int32{topic: {partition}})
	}
	if len(stays) == 0 {
		m.warn(ctx, about(topic, partition, fmt.Errorf("not held here: %w", err)))
	}
	for _, s := range stays {
		s.abandon(why)
	}
}

// lasting is why a partition cannot be read on, or nil if the client tries again.
func lasting(err error) error {
	if loss, ok := errors.AsType[*kgo.ErrDataLoss](err); ok {
		return fmt.Errorf("%w: %w below offset %d, which was read up to epoch %d; it agrees up to %d: %w", stream.ErrOutOfRange,
			errTruncated, loss.ConsumedTo, loss.ConsumedToEpoch, loss.ResetTo, err)
	}
	switch kind := kindOf(err); {
	case kind == nil:
		return err
	case errors.Is(kind, stream.ErrUnavailable):
		return nil
	default:
		return fmt.Errorf("%w: %w", kind, err)
	}
}

func about(topic string, partition int32, err error) error {
	switch {
	case topic == "":
		return err
	case partition < 0:
		return fmt.Errorf("topic %s: %w", topic, err)
	}
	return fmt.Errorf("partition %s: %w", stream.Partition{Topic: topic, Index: partition}, err)
}

// warn reports a trouble that is being handled, and the same trouble again only
// after a while.
func (m *member) warn(ctx context.Context, err error) {
	key := err.Error()
	m.mu.Lock()
	again := time.Since(m.warned[key]) < warnEvery
	if !again {
		if len(m.warned) >= warnKinds {
			clear(m.warned)
		}
		m.warned[key] = time.Now()
	}
	m.mu.Unlock()
	if !again {
		m.log.LogAttrs(ctx, slog.LevelWarn, "a consumer has trouble with the brokers and goes on", slog.String("error", key))
	}
}

// away is the error of a broker that cannot be reached. The client takes a refused
// connection for final, and a member then gives up all its partitions at once. To
// the brokers such a member is as good as one that waits for an answer, so this
// says that trying again may help.
type away struct{ cause string }

func (a away) Error() string { return a.cause }
func (away) Timeout() bool   { return true }
func (away) Temporary() bool { return true }

// patient makes connections whose failure is never final.
func (o Options) patient() func(ctx context.Context, network, address string) (net.Conn, error) {
	dial := o.Dial
	switch direct := (&net.Dialer{Timeout: dialTimeout}); {
	case dial != nil:
	case o.TLS != nil:
		dial = (&tls.Dialer{NetDialer: direct, Config: o.TLS.Clone()}).DialContext
	default:
		dial = direct.DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil && ctx.Err() == nil {
			return nil, away{cause: err.Error()}
		}
		return conn, err
	}
}
