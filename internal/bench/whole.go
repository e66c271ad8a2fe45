package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/peil-stream/peil/internal/config"
	"github.com/peil-stream/peil/internal/processor"
	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/internal/telemetry"
	"github.com/peil-stream/peil/window"
)

// lookEvery is how often a whole job is asked whether it has read everything.
const lookEvery = 2 * time.Millisecond

// whole runs the product's own processor until every window is final and durable.
func whole(ctx context.Context, log stream.Log, s *Spec) (_ Measure, err error) {
	tables, err := openTables(ctx, s)
	if err != nil {
		return Measure{}, err
	}
	defer func() { err = errors.Join(err, tables.Close()) }()
	var clock meter
	flushes := &countedSink{Sink: tables}
	watched := &watchedLog{Log: log, spec: s, assigned: clock.start}
	p, err := processor.New(watched, flushes, processing(s), telemetry.New("bench"))
	if err != nil {
		return Measure{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	drained := make(chan error, 1)
	go func() { drained <- drain(ctx, p, s) }()
	var m Measure
	select {
	case err = <-drained:
		m = clock.stop()
		m.Records = s.Messages
		m.Flushes, m.Slowest = flushes.read()
		cancel()
		err = errors.Join(err, <-ended)
	case err = <-ended:
		cancel()
		err = errors.Join(err, <-drained)
	}
	return m, err
}

// processing is the product's configuration for a topic of arrivals: its defaults,
// but for a lower flush.records where the topic would else be done in a few.
func processing(s *Spec) processor.Config {
	c := config.Config{}.WithDefaults()
	return processor.Config{
		Group: s.Group, Owner: fmt.Sprintf("bench:%d", os.Getpid()), Topics: []string{s.Topic},
		Job:           jobs(),
		Window:        window.Config{Size: c.Window.Size.Std(), Lateness: c.Window.Lateness.Std()},
		MaxSkew:       c.Future.MaxSkew.Std(),
		Fingerprint:   c.Fingerprint(),
		Start:         c.Offsets.Start,
		FlushInterval: c.Flush.Interval.Std(),
		FlushRecords:  s.FlushRecords,
		IdleTimeout:   c.Idle.Timeout.Std(),
		HeldRecords:   int64(c.Limits.HeldRecords),
		HeldFor:       c.Limits.HeldFor.Std(),
		Retention:     c.Segments.Retention.Std(),
		BatchBytes:    int(c.Limits.BatchBytes),
	}
}

// drain returns once everything is read, durable and final.
func drain(ctx context.Context, p *processor.Processor, s *Spec) error {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		read := int64(0)
		for _, part := range p.Status() {
			read += part.Position
		}
		if read >= s.Messages {
			open, err := p.Drain(ctx)
			if err == nil && len(open) > 0 {
				err = fmt.Errorf("%d windows are still open at the end", len(open))
			}
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-look.C:
		}
	}
}

// watchedLog tells when the partitions are assigned.
type watchedLog struct {
	stream.Log

	spec     *Spec
	assigned func()
}

// Consumer refuses a subscription that other stages do not have.
func (l *watchedLog) Consumer(sub stream.Subscription) (stream.Consumer, error) {
	if want := l.spec.subscription(); sub.BatchBytes != want.BatchBytes {
		return nil, fmt.Errorf("the processor reads batches of %d bytes, other stages of %d", sub.BatchBytes, want.BatchBytes)
	}
	c, err := l.Log.Consumer(sub)
	return watchedConsumer{c, l.assigned}, err
}

type watchedConsumer struct {
	stream.Consumer

	assigned func()
}

func (c watchedConsumer) Run(ctx context.Context, h stream.Handler) error {
	return c.Consumer.Run(ctx, watchedHandler{h, c.assigned})
}

type watchedHandler struct {
	stream.Handler

	assigned func()
}

func (h watchedHandler) Assigned(ctx context.Context, as []*stream.Assignment) error {
	if len(as) > 0 {
		h.assigned()
	}
	return h.Handler.Assigned(ctx, as)
}

// countedSink counts and times the flushes.
type countedSink struct {
	sink.Sink

	mu      sync.Mutex
	flushes int64
	slowest time.Duration
}

func (s *countedSink) Flush(ctx context.Context, parts []sink.PartitionFlush) (sink.FlushResult, error) {
	begun := time.Now()
	res, err := s.Sink.Flush(ctx, parts)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flushes++
	s.slowest = max(s.slowest, time.Since(begun))
	return res, err
}

func (s *countedSink) read() (flushes int64, slowest float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flushes, s.slowest.Seconds()
}
