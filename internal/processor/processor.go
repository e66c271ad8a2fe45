package processor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/peil-stream/peil/internal/dlq"
	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/internal/telemetry"
)

// readAhead is how many batches of a partition are held: one being processed, two
// waiting for it, and one being read.
const readAhead = 4

// errBroken is returned by flushes after the first error that ends the process.
var errBroken = errors.New("the processor has stopped after an error")

// errEnded is returned by Drain when Run has returned before.
var errEnded = errors.New("the processor has ended")

// Processor runs the tasks of one process. Make one with New and call Run once.
type Processor struct {
	log     stream.Log
	sink    sink.Sink
	cfg     Config
	metrics metrics
	codec   *codec

	windowed       []stream.Topic
	deadPartitions map[string]int32
	consumer       stream.Consumer

	mu    sync.Mutex
	tasks map[stream.Partition]*task

	flushMu   sync.Mutex
	kick      chan struct{}
	unflushed atomic.Int64
	healthy   atomic.Bool
	broken    atomic.Bool
	ready     atomic.Bool
	cancel    context.CancelCauseFunc
	stopping  func() error // why the process is ending, or nil
	ended     chan struct{}
	// err is why the process ended by itself; it is set once aborted is closed.
	err     error
	aborted chan struct{}
}

// New makes a processor over a log and a sink, both of which it borrows: the
// caller closes them after Run has returned.
func New(log stream.Log, s sink.Sink, cfg Config, m *telemetry.Metrics) (*Processor, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	c, err := newCodec()
	if err != nil {
		return nil, err
	}
	return &Processor{
		log: log, sink: s, cfg: cfg, metrics: metrics{m}, codec: c,
		deadPartitions: map[string]int32{},
		tasks:          map[stream.Partition]*task{},
		kick:           make(chan struct{}, 1),
		ended:          make(chan struct{}),
		aborted:        make(chan struct{}),
	}, nil
}

// Run processes until ctx is done, then flushes what has closed, gives the
// partitions back and returns nil. An error means that it stopped by itself;
// nothing is committed past what is durable in either case.
func (p *Processor) Run(ctx context.Context) error {
	defer close(p.ended)
	if err := p.prepare(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p.cancel, p.stopping = cancel, ctx.Err

	var background sync.WaitGroup
	background.Go(func() {
		if err := p.loop(ctx); err != nil {
			p.abort(err)
		}
	})
	err := p.consumer.Run(ctx, p)
	p.ready.Store(false)
	if err != nil {
		p.abort(err)
	}
	cancel(nil)
	background.Wait()
	if p.broken.Load() {
		<-p.aborted
		return p.err
	}
	return nil
}

// prepare looks the topics up and registers their partitions in SQL.
func (p *Processor) prepare(ctx context.Context) error {
	topics, err := p.log.Describe(ctx, p.cfg.Topics...)
	if err != nil {
		return fmt.Errorf("look up the topics: %w", err)
	}
	partitions := 0
	for _, t := range topics {
		partitions += int(t.Partitions)
		dead, err := p.log.Describe(ctx, dlq.Topic(t.Name))
		if err != nil {
			return fmt.Errorf("look up the dead-letter topic of %s: %w", t.Name, err)
		}
		p.deadPartitions[t.Name] = dead[0].Partitions
		if _, windowed := p.cfg.Job(t.Name); windowed {
			p.windowed = append(p.windowed, t)
		}
		err = patiently(ctx, p.cfg.Patience, p.waiting, func() error { return p.sink.Register(ctx, t, p.cfg.Group) })
		if m, ok := errors.AsType[*sink.MismatchError](err); ok {
			return mismatch(m)
		}
		if err != nil {
			return fmt.Errorf("register the partitions of %s: %w", t.Name, err)
		}
	}
	p.healthy.Store(true)
	p.consumer, err = p.log.Consumer(stream.Subscription{
		Group: p.cfg.Group, Topics: p.cfg.Topics, BatchBytes: max(1, p.cfg.BatchBytes/max(1, readAhead*partitions)),
	})
	if err != nil {
		return fmt.Errorf("make the consumer: %w", err)
	}
	return nil
}

// abort ends the process with err; the first one counts. Nothing is flushed
// after it.
func (p *Processor) abort(err error) {
	if p.broken.Swap(true) {
		return
	}
	p.err = err
	close(p.aborted)
	p.cancel(err)
}

// Assigned claims the partitions and, once it has them all, starts their tasks.
func (p *Processor) Assigned(ctx context.Context, as []*stream.Assignment) error {
	tasks := make([]*task, len(as))
	for i, a := range as {
		var err error
		if tasks[i], err = p.claim(ctx, a); err != nil {
			return err
		}
	}
	p.mu.Lock()
	for _, t := range tasks {
		p.tasks[t.a.Partition] = t
	}
	p.mu.Unlock()
	for _, t := range tasks {
		// It lives until Revoked or Lost, which wait for it, not until ctx is done.
		go t.run(context.WithoutCancel(ctx))
	}
	p.ready.Store(true)
	p.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "partitions claimed", slog.Int("partitions", len(as)))
	return nil
}

// Revoked stops reading, flushes what has closed within ctx, and drops the rest:
// the next owner reads open windows again (R6).
func (p *Processor) Revoked(ctx context.Context, as []*stream.Assignment) {
	switch err := p.lastFlush(ctx, as); {
	case err == nil || errors.Is(err, errBroken):
	case p.stopping() == nil && (ctx.Err() != nil || errors.Is(err, sink.ErrTransient)):
		// Other partitions stay and write again; of these the next owner reads
		// what was not written.
		p.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "partitions were given back without a last flush", slog.String("error", err.Error()))
	default:
		p.abort(err)
	}
	p.drop(as)
}

// lastFlush stops the tasks of the assignments and writes what they have closed.
func (p *Processor) lastFlush(ctx context.Context, as []*stream.Assignment) error {
	for _, t := range p.of(as) {
		if err := t.do(ctx, func() { t.stopped = true }); err != nil && !errors.Is(err, errTaskEnded) {
			return fmt.Errorf("partition %s: stop reading: %w", t.a.Partition, err)
		}
	}
	if _, err := p.flush(ctx); err != nil {
		return fmt.Errorf("last flush: %w", err)
	}
	return nil
}

// Lost drops everything: others may already own the partitions.
func (p *Processor) Lost(as []*stream.Assignment) {
	// Wait for a flush in flight, so that it does not meet a task half gone.
	p.flushMu.Lock()
	defer p.flushMu.Unlock()
	p.drop(as)
}

// drop ends the tasks of the assignments and waits for them.
func (p *Processor) drop(as []*stream.Assignment) {
	for _, t := range p.of(as) {
		close(t.stop)
		<-t.done
		p.mu.Lock()
		delete(p.tasks, t.a.Partition)
		p.mu.Unlock()
		p.unflushed.Add(-int64(t.sinceMark))
		p.metrics.Forget(t.a.Partition.Topic, t.a.Partition.Index)
	}
}

// of returns the tasks of exactly these assignments: a completion for an older
// stay of a partition finds nothing (R6).
func (p *Processor) of(as []*stream.Assignment) []*task {
	p.mu.Lock()
	defer p.mu.Unlock()
	var ts []*task
	for _, a := range as {
		if t := p.tasks[a.Partition]; t != nil && t.a == a {
			ts = append(ts, t)
		}
	}
	return ts
}

// sorted returns the tasks by topic and partition.
func (p *Processor) sorted() []*task {
	p.mu.Lock()
	defer p.mu.Unlock()
	ts := make([]*task, 0, len(p.tasks))
	for _, t := range p.tasks {
		ts = append(ts, t)
	}
	slices.SortFunc(ts, func(a, b *task) int { return a.a.Partition.Compare(b.a.Partition) })
	return ts
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Ready says why the processor cannot do its work now, or nil.
func (p *Processor) Ready() error {
	switch {
	case p.broken.Load():
		return errBroken
	case !p.ready.Load():
		return errors.New("no partitions assigned yet")
	case !p.healthy.Load():
		return errors.New("the database cannot answer")
	}
	return nil
}

// Drain flushes until every partition has been read to the end that the log has
// now, every dead letter is acknowledged, and every window that is final is
// merged. It returns the windows that are still open. Nothing may be appended
// meanwhile by the caller, or it may never return before ctx ends.
func (p *Processor) Drain(ctx context.Context) ([]OpenWindow, error) {
	// Each look asks log and database; a long wait looks less often.
	const first, most = 20 * time.Millisecond, 250 * time.Millisecond
	pause := first
	wait := time.NewTimer(0)
	defer wait.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-p.aborted:
			return nil, p.err
		case <-p.ended:
			return nil, errEnded
		case <-wait.C:
		}
		read, err := p.readToEnd(ctx)
		if err != nil {
			return nil, err
		}
		if read {
			busy, err := p.flush(ctx)
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if err != nil {
				p.abort(err)
				return nil, err
			}
			if !busy && p.settled() {
				return p.openWindows(), nil
			}
		}
		wait.Reset(pause)
		pause = min(2*pause, most)
	}
}

// readToEnd asks the log for the ends of all partitions and compares how far they
// were read: those of this process by what it has read, those of another member
// of the group by what it has stored.
func (p *Processor) readToEnd(ctx context.Context) (bool, error) {
	if !p.ready.Load() {
		return false, nil
	}
	topics, err := p.log.Describe(ctx, p.cfg.Topics...)
	if err != nil {
		return false, fmt.Errorf("look up the topics: %w", err)
	}
	position := map[stream.Partition]int64{}
	offsets, err := p.offsets(ctx)
	if err != nil {
		return false, err
	}
	for _, o := range offsets {
		if o.Stored {
			position[o.Partition] = o.Point.Position
		}
	}
	for _, t := range p.sorted() {
		position[t.a.Partition] = t.status.Load().Position
	}
	for _, t := range topics {
		partitions := make([]stream.Partition, t.Partitions)
		for i := range t.Partitions {
			partitions[i] = stream.Partition{Topic: t.Name, Index: i}
		}
		bounds, err := p.log.Bounds(ctx, partitions...)
		if err != nil {
			return false, fmt.Errorf("ask the log for its ends: %w", err)
		}
		for i, b := range bounds {
			if at, known := position[partitions[i]]; !known || at < b.End {
				return false, nil
			}
		}
	}
	return true, nil
}

// settled says that nothing is left in flight after a flush.
func (p *Processor) settled() bool {
	for _, t := range p.sorted() {
		if s := t.status.Load(); s.InFlight || t.lane.Acked() < t.lane.Sent() {
			return false
		}
	}
	return true
}
