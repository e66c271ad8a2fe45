package peil

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/peil-stream/peil/internal/api"
	"github.com/peil-stream/peil/internal/config"
	"github.com/peil-stream/peil/internal/dlq"
	"github.com/peil-stream/peil/internal/processor"
	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/sqlitefile"
	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/internal/telemetry"
	"github.com/peil-stream/peil/internal/transit"
	"github.com/peil-stream/peil/window"
)

// Settings are what peil.yaml, the environment and the flags say.
type Settings = config.Config

// Target is what a source writes to.
type Target struct {
	Log             stream.Log
	Group           string
	Arrivals        string
	Positions       string
	Window, MaxSkew time.Duration
	Metrics         *telemetry.Metrics
	Logger          *slog.Logger
}

// Source fills the log.
type Source interface {
	// Feed is the name of the feed that it carries.
	Feed() string
	// Run publishes until everything is published or ctx is done.
	Run(ctx context.Context, to Target) error
}

// Config says what an instance does. The zero value of a field is its default.
type Config struct {
	Settings Settings
	// Source fills the log; nil is none. Without Process the instance ends when
	// the source has published everything.
	Source Source
	// Process reads the topics into the tables.
	Process bool
	// Serve answers HTTP on Settings.HTTP.Listen.
	Serve bool
	// UntilDone ends Run once the source has published everything, every
	// partition is read to the end, dead letters are acknowledged, and every
	// window that is final is merged. It needs Source and Process.
	UntilDone bool
	// Version is shown in metrics and by the API. Defaults to "dev".
	Version string
	// Logger; nil discards.
	Logger *slog.Logger
}

// Instance is one process. Make it with New, and call Run once.
type Instance struct {
	cfg       Config
	metrics   *telemetry.Metrics
	topics    []topics
	processor atomic.Pointer[processor.Processor]
	viewer    atomic.Pointer[backend]
	addr      atomic.Pointer[string]
	open      []processor.OpenWindow
}

type topics struct{ feed, arrivals, positions string }

// New checks the configuration and makes an instance; nothing is opened yet.
func New(cfg Config) (*Instance, error) {
	cfg.Settings = cfg.Settings.WithDefaults()
	if err := errors.Join(cfg.Settings.Validate(), supported(cfg.Settings)); err != nil {
		return nil, err
	}
	if cfg.UntilDone && (cfg.Source == nil || !cfg.Process) {
		return nil, errors.New("an instance that runs until done needs a source and a processor")
	}
	if cfg.Version == "" {
		cfg.Version = "dev"
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	i := &Instance{cfg: cfg, metrics: telemetry.New(cfg.Version)}
	var more []string
	if cfg.Source != nil {
		more = append(more, cfg.Source.Feed())
	}
	i.topics = topicsOf(cfg.Settings, more...)
	return i, nil
}

// topicsOf lists the topics of the feeds of a configuration and of one more, or,
// without any feed, those of no name.
func topicsOf(settings Settings, more ...string) []topics {
	var feeds []string
	for _, f := range settings.Feeds {
		feeds = append(feeds, f.Name)
	}
	for _, f := range more {
		if !slices.Contains(feeds, f) {
			feeds = append(feeds, f)
		}
	}
	if len(feeds) == 0 {
		feeds = []string{""}
	}
	var all []topics
	for _, f := range feeds {
		a, p := settings.TopicsOf(f)
		if !slices.ContainsFunc(all, func(o topics) bool { return o.arrivals == a }) {
			all = append(all, topics{feed: f, arrivals: a, positions: p})
		}
	}
	return all
}

// Windowed tells which topics of a configuration are cut into windows: all but
// those that carry vehicle positions, of whatever feed.
func Windowed(settings Settings) func(topic string) bool {
	const anyFeed = "\x00" // in no topic's name
	_, form := settings.TopicsOf(anyFeed)
	before, after, named := strings.Cut(form, anyFeed)
	return func(topic string) bool {
		if !named {
			return topic != form
		}
		return !strings.HasPrefix(topic, before) || !strings.HasSuffix(topic, after)
	}
}

// Run does the work until ctx is done, then ends in order and returns nil; with
// UntilDone it ends by itself. Any other end is an error.
func (i *Instance) Run(ctx context.Context) (err error) {
	stop := ctx
	defer func() {
		if stop.Err() != nil && onlyStopped(err, context.Cause(stop)) {
			err = nil // what was being opened was given up, as asked
		}
	}()
	b, err := openBackend(ctx, i.cfg.Settings, i.cfg.Logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	if err := b.log.Create(ctx, i.specs()...); err != nil {
		return fmt.Errorf("create the topics: %w", err)
	}
	i.viewer.Store(b)
	defer i.viewer.Store(nil)

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	parts, err := i.parts(ctx, b)
	if err != nil {
		return err
	}
	// The first part that fails ends the others; each is waited for.
	var wg sync.WaitGroup
	errs := make([]error, len(parts))
	for n, part := range parts {
		wg.Go(func() {
			if err := part(ctx); err != nil {
				errs[n] = err
				cancel(err)
				return
			}
			if n == 0 && i.endsWithSource() {
				cancel(nil) // with UntilDone the source has waited for the rest
			}
		})
	}
	wg.Wait()
	return first(errs, context.Cause(ctx))
}

// endsWithSource says whether there is nothing left to do when the source, which
// is the first part, has published everything.
func (i *Instance) endsWithSource() bool {
	return i.cfg.Source != nil && (i.cfg.UntilDone || !i.cfg.Process)
}

// onlyStopped says whether an error, and each of those that it joins, says no more
// than that a context has ended for that cause.
func onlyStopped(err, cause error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return !slices.ContainsFunc(joined.Unwrap(), func(e error) bool { return !onlyStopped(e, cause) })
	}
	return errors.Is(err, context.Canceled) || errors.Is(err, cause)
}

// first returns the failure that ended the instance: the others follow from it.
func first(errs []error, cause error) error {
	for _, err := range errs {
		if err != nil && errors.Is(err, cause) {
			return err
		}
	}
	return errors.Join(errs...)
}

// parts are the functions to run side by side, the source first.
func (i *Instance) parts(ctx context.Context, b *backend) ([]func(context.Context) error, error) {
	var parts []func(context.Context) error
	if i.cfg.Source != nil {
		parts = append(parts, func(ctx context.Context) error { return i.feed(ctx, b) })
	}
	if i.cfg.Process {
		p, err := processor.New(b.log, b.sink, i.processing(), i.metrics)
		if err != nil {
			return nil, err
		}
		i.processor.Store(p)
		parts = append(parts, p.Run)
	}
	if i.cfg.Serve {
		s, err := api.Serve(ctx, i.cfg.Settings.HTTP.Listen, i.handler(b), i.cfg.Logger)
		if err != nil {
			return nil, err
		}
		addr := s.Addr()
		i.addr.Store(&addr)
		parts = append(parts, func(context.Context) error { return s.Wait() })
	}
	if b.embedded != nil {
		parts = append(parts, func(ctx context.Context) error { return i.trim(ctx, b) })
	}
	return parts, nil
}

// feed runs the source and, with UntilDone, waits for the processor.
func (i *Instance) feed(ctx context.Context, b *backend) error {
	arrivals, positions := i.cfg.Settings.TopicsOf(i.cfg.Source.Feed())
	err := i.cfg.Source.Run(ctx, Target{
		Log: b.log, Group: i.cfg.Settings.Kafka.Group, Arrivals: arrivals, Positions: positions,
		Window: i.cfg.Settings.Window.Size.Std(), MaxSkew: i.cfg.Settings.Future.MaxSkew.Std(),
		Metrics: i.metrics, Logger: i.cfg.Logger,
	})
	if err != nil || !i.cfg.UntilDone || ctx.Err() != nil {
		return err
	}
	open, err := i.processor.Load().Drain(ctx)
	if err != nil && ctx.Err() == nil {
		return err
	}
	i.open = open
	return nil
}

// specs are the topics that must exist.
func (i *Instance) specs() []stream.TopicSpec {
	n := int32(i.cfg.Settings.Topics.Partitions) // validated: 1 to 1000
	var specs []stream.TopicSpec
	for _, name := range i.names() {
		specs = append(specs,
			stream.TopicSpec{Name: name, Partitions: n, Retention: logRetention},
			stream.TopicSpec{Name: dlq.Topic(name), Partitions: n, Retention: deadRetention})
	}
	return specs
}

// names lists arrivals and positions topics of all feeds.
func (i *Instance) names() []string {
	var names []string
	for _, t := range i.topics {
		names = append(names, t.arrivals, t.positions)
	}
	return names
}

// processing is the processor's configuration.
func (i *Instance) processing() processor.Config {
	s := i.cfg.Settings
	jobs := transit.Jobs(transit.Config{
		Windowed: Windowed(s), MaxSkew: s.Future.MaxSkew.Std(), WindowSize: s.Window.Size.Std(),
	})
	return processor.Config{
		Group:         s.Kafka.Group,
		Owner:         owner(),
		Topics:        i.names(),
		Job:           jobs,
		Window:        window.Config{Size: s.Window.Size.Std(), Lateness: s.Window.Lateness.Std()},
		MaxSkew:       s.Future.MaxSkew.Std(),
		Fingerprint:   s.Fingerprint(),
		Start:         s.Offsets.Start,
		FlushInterval: s.Flush.Interval.Std(),
		FlushRecords:  s.Flush.Records,
		IdleTimeout:   s.Idle.Timeout.Std(),
		HeldRecords:   int64(s.Limits.HeldRecords),
		HeldFor:       s.Limits.HeldFor.Std(),
		Retention:     s.Segments.Retention.Std(),
		BatchBytes:    int(s.Limits.BatchBytes),
		Logger:        i.cfg.Logger.With(slog.String("component", "processor")),
	}
}

// owner names this process in consumer_offsets.
func owner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown" // the name is for people; the epoch is what fences
	}
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}

// logRetention is how long the embedded log keeps what has been processed, and
// deadRetention how long it keeps dead letters. Topics on brokers are made with
// the same.
const (
	logRetention  = 7 * 24 * time.Hour
	deadRetention = 30 * 24 * time.Hour
)

// trim removes from the embedded log what is old and durable, every hour.
func (i *Instance) trim(ctx context.Context, b *backend) error {
	tick := time.NewTicker(time.Hour)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			err := i.trimOnce(ctx, b, now)
			switch {
			case err == nil || ctx.Err() != nil:
			case sqlitefile.Transient(err) || errors.Is(err, sink.ErrTransient):
				i.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "the embedded log was not trimmed, again in an hour", slog.String("error", err.Error()))
			default:
				return fmt.Errorf("trim the embedded log: %w", err)
			}
		}
	}
}

func (i *Instance) trimOnce(ctx context.Context, b *backend, now time.Time) error {
	view, err := b.sink.View(ctx)
	if err != nil {
		return err
	}
	offsets, err := view.Offsets(ctx)
	if err = errors.Join(err, view.Close()); err != nil {
		return err
	}
	for _, o := range offsets {
		if !o.Stored {
			continue
		}
		if err := b.embedded.TrimOlder(ctx, o.Partition, now.Add(-logRetention).UnixMilli(), o.Point.Next); err != nil {
			return err
		}
		dead := stream.Partition{Topic: dlq.Topic(o.Partition.Topic), Index: o.Partition.Index}
		bounds, err := stream.BoundsOf(ctx, b.embedded, dead)
		if err != nil {
			return err
		}
		if err := b.embedded.TrimOlder(ctx, dead, now.Add(-deadRetention).UnixMilli(), bounds.End); err != nil {
			return err
		}
	}
	return nil
}

// OpenWindows lists what was still open when UntilDone ended the run.
func (i *Instance) OpenWindows() []OpenWindow { return i.open }

// OpenWindow is a window that is not closed.
type OpenWindow = processor.OpenWindow

// tables are the tables while the instance runs, or nil.
func (i *Instance) tables() sink.Viewer {
	if b := i.viewer.Load(); b != nil {
		return b.sink
	}
	return nil
}
