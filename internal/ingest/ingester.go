package ingest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/peil-stream/peil/event"
	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/internal/telemetry"
	"github.com/peil-stream/peil/internal/transit/gtfsrt"
)

// Config says what an ingester publishes where.
type Config struct {
	// Feed is the feed's name: the scope of all ids, and part of the publisher's.
	Feed string
	// Group is the consumer group, the first part of the publisher's id. Defaults
	// to peil.
	Group string
	// Emit is what becomes an event. Defaults to predictions.
	Emit gtfsrt.Emit
	// ArrivalsTopic and PositionsTopic must exist. Both are required.
	ArrivalsTopic, PositionsTopic string
	// WindowSize is that of the windows that [Ingester.CloseMarkers] closes.
	// Defaults to 5 minutes.
	WindowSize time.Duration
	// MaxSkew is how far a header time may lie after the fetch before it counts
	// as absent. Defaults to 5 minutes.
	MaxSkew time.Duration
	// PartEvents and PartBytes bound what is published in one transaction.
	// Default to 100,000 and 64 MiB.
	PartEvents, PartBytes int
	// Now is the clock of a replay. Defaults to time.Now.
	Now func() time.Time
}

// publisher is the transactional id: two replicas of one feed fence each other by
// it, and other topics of the same feed have a memory of their own (R12).
func (c Config) publisher() string { return c.Group + "." + c.ArrivalsTopic + "." + c.Feed }

// Defaults of [Config].
const (
	WindowSizeDefault = 5 * time.Minute
	PartEventsDefault = 100_000
	PartBytesDefault  = 64 << 20
)

func (c Config) withDefaults() Config {
	if c.Group == "" {
		c.Group = "peil"
	}
	if c.WindowSize <= 0 {
		c.WindowSize = WindowSizeDefault
	}
	if c.MaxSkew <= 0 {
		c.MaxSkew = gtfsrt.SkewDefault * time.Millisecond
	}
	if c.PartEvents <= 0 {
		c.PartEvents = PartEventsDefault
	}
	if c.PartBytes <= 0 {
		c.PartBytes = PartBytesDefault
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// keyClosed is the key of the memory that says for which state of the trip
// updates a close marker was sent: what their last snapshot was ordered by.
const keyClosed = "closed|trip_updates"

// Ingester publishes the events of one feed. Make it with [Open].
type Ingester struct {
	cfg     Config
	log     stream.Log
	metrics *telemetry.Metrics
	logger  *slog.Logger

	publisher stream.Publisher
	differ    *gtfsrt.Differ
	closed    int64 // the value of keyClosed, or gtfsrt.NoTime
	warned    [256]bool
	// dead is why nothing can be published any more.
	dead error
}

// Open opens the publisher of the feed, which fences an earlier one, and reads
// what was published. Topics that carry another feed are a *[FeedError]. Metrics
// and logger may be nil.
func Open(ctx context.Context, log stream.Log, cfg Config, metrics *telemetry.Metrics, logger *slog.Logger) (*Ingester, error) {
	cfg = cfg.withDefaults()
	if cfg.ArrivalsTopic == "" || cfg.PositionsTopic == "" {
		return nil, errors.New("open ingester: no topic for arrivals or for positions")
	}
	if metrics == nil {
		metrics = telemetry.New("")
	}
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	i := &Ingester{
		cfg: cfg, log: log, metrics: metrics, closed: gtfsrt.NoTime,
		logger: logger.With(slog.String("component", "ingest"), slog.String("feed", cfg.Feed)),
	}
	if err := i.checkFeed(ctx); err != nil {
		return nil, fmt.Errorf("open ingester of feed %s: %w", cfg.Feed, err)
	}
	var err error
	if i.publisher, err = log.OpenPublisher(ctx, stream.PublisherSpec{ID: cfg.publisher(), Topic: cfg.ArrivalsTopic}); err != nil {
		return nil, fmt.Errorf("open ingester of feed %s: %w", cfg.Feed, err)
	}
	if err := i.remember(); err != nil {
		return nil, errors.Join(fmt.Errorf("open ingester of feed %s: %w", cfg.Feed, err), i.publisher.Close())
	}
	return i, nil
}

// remember reads the publisher's memory.
func (i *Ingester) remember() (err error) {
	i.differ, err = gtfsrt.NewDiffer(gtfsrt.Config{
		Feed: i.cfg.Feed, Emit: i.cfg.Emit, MaxSkew: i.cfg.MaxSkew.Milliseconds(),
	}, i.publisher.Memory())
	if err != nil {
		return err
	}
	for key, value := range i.publisher.Memory() {
		if key != keyClosed {
			continue
		}
		n, size := binary.Varint(value)
		if size != len(value) || size == 0 {
			return fmt.Errorf("read memory key %q: it is damaged", key)
		}
		i.closed = n
	}
	return nil
}

// Last gives what the last snapshot of a kind was ordered by, which is its header
// time in Unix milliseconds, or [gtfsrt.NoTime].
func (i *Ingester) Last(k gtfsrt.Kind) int64 { return i.differ.Last(k) }

// Config gives the configuration with its defaults.
func (i *Ingester) Config() Config { return i.cfg }

// Close ends the publisher. Idempotent.
func (i *Ingester) Close() error {
	if i.dead == nil {
		i.dead = errors.New("the ingester is closed")
	}
	return i.publisher.Close()
}

// Result says what became of a snapshot.
type Result struct {
	// Skipped is why nothing was published, or empty.
	Skipped SkipReason
	// Sources by gtfsrt.TripUpdates and gtfsrt.VehiclePositions.
	Sources [2]gtfsrt.Source
	Stats   gtfsrt.Stats
	// Heartbeats that were published, and in how many Parts.
	Heartbeats, Parts int
}

// Events is the number of events that were published.
func (r *Result) Events() int { return r.Stats.Predictions + r.Stats.Positions }

// SkipReason is why a snapshot, or a file of a capture, was left out.
type SkipReason string

// The reasons.
const (
	// Unchanged: its header time is that of the last snapshot of its source.
	Unchanged SkipReason = "unchanged"
	// OutOfOrder: its header time is older than that of the last snapshot.
	OutOfOrder SkipReason = "out_of_order"
	// NotNewer: a replay met one of the two, as a rule because an earlier run has
	// published the snapshot.
	NotNewer SkipReason = "not_newer"
	// AlertsOnly: it says nothing about trips or vehicles.
	AlertsOnly SkipReason = "alerts_only"
	// NoCapture: the file's name is not that of a capture.
	NoCapture SkipReason = "not_a_capture"
)

// Publish publishes what is new in a snapshot that was fetched at an instant,
// with further messages of the caller before the heartbeats. A snapshot that is
// not newer than the last one of its source is skipped, and the messages of the
// caller with it.
func (i *Ingester) Publish(ctx context.Context, s *gtfsrt.Snapshot, fetched time.Time, extra ...stream.Message) (Result, error) {
	if i.dead != nil {
		return Result{}, fmt.Errorf("publish snapshot: %w", i.dead)
	}
	delta := i.differ.Diff(s, fetched.UnixMilli())
	r := Result{Sources: delta.Sources, Stats: delta.Stats, Skipped: skipped(delta)}
	if r.Skipped != "" {
		i.metrics.IngestSnapshotsSkipped.WithLabelValues(i.cfg.Feed, string(r.Skipped)).Inc()
		return r, nil
	}
	var beats []stream.Message
	if trips := delta.Sources[gtfsrt.TripUpdates]; trips.Outcome == gtfsrt.Taken {
		var err error
		if beats, err = i.markers(ctx, event.HeartbeatType, trips.Header); err != nil {
			return r, i.die("publish snapshot", err)
		}
	}
	r.Heartbeats = len(beats)
	if err := i.publish(ctx, delta, append(slices.Clip(extra), beats...), &r); err != nil {
		return r, i.die("publish snapshot", err)
	}
	i.report(&r)
	return r, nil
}

// skipped says why a delta is not worth publishing, or nothing.
func skipped(delta *gtfsrt.Delta) SkipReason {
	reason := AlertsOnly
	for _, s := range delta.Sources {
		switch s.Outcome {
		case gtfsrt.Taken:
			return ""
		case gtfsrt.Unchanged:
			reason = Unchanged
		case gtfsrt.OutOfOrder:
			if reason == AlertsOnly {
				reason = OutOfOrder
			}
		default:
		}
	}
	return reason
}

// markers makes a record without key for every partition of the arrivals topic.
// The partitions are asked for each time: they may have grown.
func (i *Ingester) markers(ctx context.Context, kind string, at int64) ([]stream.Message, error) {
	topics, err := i.log.Describe(ctx, i.cfg.ArrivalsTopic)
	if err != nil {
		return nil, err
	}
	value := event.AppendMarker(nil, &event.Marker{Feed: []byte(i.cfg.Feed), Timestamp: at})
	headers := []stream.Header{{Key: event.MarkerHeader, Value: []byte(kind)}}
	out := make([]stream.Message, 0, topics[0].Partitions)
	for p := range topics[0].Partitions {
		out = append(out, stream.Message{Topic: i.cfg.ArrivalsTopic, Partition: p, Value: value, Headers: headers})
	}
	return out, nil
}

// CloseMarkers tells the readers that the capture is complete: it publishes close
// markers with the end of the window that holds the last event, once for each
// state of the feed. It gives the number of markers that it published.
func (i *Ingester) CloseMarkers(ctx context.Context) (int, error) {
	if i.dead != nil {
		return 0, fmt.Errorf("publish close markers: %w", i.dead)
	}
	last, latest := i.differ.Last(gtfsrt.TripUpdates), i.differ.Latest(gtfsrt.TripUpdates)
	if latest == gtfsrt.NoTime || last == i.closed {
		return 0, nil
	}
	size := i.cfg.WindowSize.Milliseconds()
	end := latest - mod(latest, size) + size
	markers, err := i.markers(ctx, event.CloseType, end)
	if err != nil {
		return 0, i.die("publish close markers", err)
	}
	changes := []stream.Change{{Key: keyClosed, Value: binary.AppendVarint(nil, last)}}
	if err := i.publisher.Publish(ctx, markers, changes); err != nil {
		return 0, i.die("publish close markers", err)
	}
	i.closed = last
	return len(markers), nil
}

// mod is the remainder that is never below zero.
func mod(a, b int64) int64 { return ((a % b) + b) % b }

// die remembers why nothing can be published any more.
func (i *Ingester) die(doing string, err error) error {
	i.dead = fmt.Errorf("an earlier publish came to nothing: %w", err)
	return fmt.Errorf("%s: %w", doing, err)
}

// report counts and logs a snapshot that was published. What is odd in a feed is
// a warning the first time only, or it would be one with every poll.
func (i *Ingester) report(r *Result) {
	i.metrics.IngestSnapshots.WithLabelValues(i.cfg.Feed).Inc()
	i.metrics.IngestEvents.WithLabelValues(i.cfg.Feed).Add(float64(r.Events()))
	for _, s := range r.Sources {
		if s.Outcome == gtfsrt.Taken {
			i.metrics.FeedAge.Since(time.UnixMilli(s.Header), i.cfg.Feed)
		}
	}
	i.logger.Debug("snapshot published",
		slog.Int("predictions", r.Stats.Predictions), slog.Int("positions", r.Stats.Positions),
		slog.Int("trips", r.Stats.Trips), slog.Int("vehicles", r.Stats.Vehicles), slog.Int("parts", r.Parts))
	for reason, n := range r.Stats.Tally.All() {
		if !i.warned[reason] {
			i.warned[reason] = true
			i.logger.Warn("odd in the feed, said once", slog.String("reason", reason.String()), slog.Int("times", n))
		}
	}
}
