package processor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/stream"
)

const (
	// flushTimeout ends a flush whose transaction hangs.
	flushTimeout = 2 * time.Minute
	// busyRetry is when finalising is tried again that another instance held.
	busyRetry = 250 * time.Millisecond
)

// loop flushes by time and by size until ctx is done.
func (p *Processor) loop(ctx context.Context) error {
	tick := time.NewTicker(p.cfg.FlushInterval)
	defer tick.Stop()
	retain := time.NewTicker(time.Hour)
	defer retain.Stop()
	busy := time.NewTimer(busyRetry)
	defer busy.Stop()
	busy.Stop()
	for {
		again := false
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-retain.C:
			err = p.retain(ctx)
		case <-busy.C:
			again, err = p.finalise(ctx)
		case <-p.kick:
			again, err = p.flush(ctx)
		case <-tick.C:
			again, err = p.flush(ctx)
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if again {
			busy.Reset(busyRetry)
		}
	}
}

// flush writes one snapshot of every partition in one transaction, releases
// them, finalises, and hints. busy: another instance was finalising.
func (p *Processor) flush(ctx context.Context) (busy bool, err error) {
	p.flushMu.Lock()
	defer p.flushMu.Unlock()
	if p.broken.Load() {
		return false, errBroken
	}
	begun := time.Now()
	snaps, err := p.collect(ctx)
	if err != nil {
		return false, err
	}
	ready, err := p.acknowledged(ctx, snaps)
	if err != nil {
		return false, err
	}
	if err := p.write(ctx, ready); err != nil {
		return false, err
	}
	for _, s := range ready {
		if err := s.task.do(ctx, s.task.release); err != nil && !errors.Is(err, errTaskEnded) {
			return false, err
		}
	}
	busy, err = p.finalise(ctx)
	if err != nil {
		return false, err
	}
	p.healthy.Store(true)
	p.metrics.flushed(time.Since(begun))
	if err := p.showFinality(ctx); err != nil {
		return false, err
	}
	p.hint(ctx, ready)
	return busy, nil
}

// collect asks every task for its snapshot.
func (p *Processor) collect(ctx context.Context) ([]*snapshot, error) {
	tasks := p.sorted()
	ends, err := p.ends(ctx, tasks)
	if err != nil {
		return nil, err
	}
	var snaps []*snapshot
	for i, t := range tasks {
		var s *snapshot
		err := t.do(ctx, func() { s = t.snapshot(ends[i]) })
		switch {
		case errors.Is(err, errTaskEnded):
			continue
		case err != nil:
			return nil, err
		case s != nil:
			snaps = append(snaps, s)
		}
	}
	return snaps, nil
}

// endUnknown is the end of a partition that the log would not tell: nobody is
// idle before it.
const endUnknown = math.MaxInt64

// ends asks the log for the ends of the tasks' partitions. A log that cannot
// answer now keeps no flush from being written; only idleness waits for it.
func (p *Processor) ends(ctx context.Context, tasks []*task) ([]int64, error) {
	ends := make([]int64, len(tasks))
	partitions := make([]stream.Partition, len(tasks))
	for i, t := range tasks {
		partitions[i], ends[i] = t.a.Partition, endUnknown
	}
	bounds, err := p.log.Bounds(ctx, partitions...)
	if errors.Is(err, stream.ErrUnavailable) {
		p.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "the log does not tell its end", slog.String("error", err.Error()))
		return ends, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ask the log for its ends: %w", err)
	}
	for i, t := range tasks {
		ends[i] = bounds[i].End
		p.metrics.lag(t.status.Load(), ends[i])
	}
	return ends, nil
}

// acknowledged returns the snapshots whose dead letters are all durable. It
// waits a moment for those on their way; the rest is tried at the next flush,
// unchanged.
func (p *Processor) acknowledged(ctx context.Context, snaps []*snapshot) ([]*snapshot, error) {
	wait := time.NewTimer(min(p.cfg.FlushInterval, time.Second))
	defer wait.Stop()
	var ready []*snapshot
	expired := false
	for _, s := range snaps {
		for s.task.lane.Acked() < s.dead && !expired {
			select {
			case <-s.task.lane.Settled():
			case <-wait.C:
				expired = true
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		if s.task.lane.Acked() >= s.dead {
			ready = append(ready, s)
		}
	}
	return ready, nil
}

// write makes the snapshots durable. A shutdown does not cancel the transaction,
// whose outcome would be unknown for no reason; it only ends the trying again.
func (p *Processor) write(ctx context.Context, snaps []*snapshot) error {
	var parts []sink.PartitionFlush
	for _, s := range snaps {
		if !s.empty {
			parts = append(parts, s.flush)
		}
	}
	if len(parts) == 0 {
		return nil
	}
	var res sink.FlushResult
	err := patiently(ctx, p.cfg.Patience, p.waiting, func() error {
		once, cancel := detached(ctx)
		defer cancel()
		var err error
		res, err = p.sink.Flush(once, parts)
		return err
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return &Error{Err: fmt.Errorf("flush: %w", err), hint: "one flush took longer than it may: smaller ones need a lower flush.records or flush.interval"}
	}
	if err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	if len(res.Fenced) > 0 {
		p.metrics.Fenced.Add(float64(len(res.Fenced)))
		return fenced(res.Fenced)
	}
	for _, r := range res.Refused {
		p.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "segment refused, the stored one covers more",
			slog.String("partition", r.Partition.String()), slog.Int64("window_start", r.Start),
			slog.Int64("stored_first", r.FirstOffset), slog.Int64("stored_through", r.ThroughOffset),
			slog.Int64("offered_first", r.OfferedFirst), slog.Int64("offered_through", r.OfferedThrough))
	}
	p.metrics.committed(parts, res)
	return nil
}

// detached is a context for one transaction: not cancelled by a shutdown, but
// bounded, by the deadline of a revoke if there is one.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	by, ok := ctx.Deadline()
	if !ok {
		by = time.Now().Add(flushTimeout)
	}
	return context.WithDeadline(context.WithoutCancel(ctx), by)
}

// waiting is told of each refusal by a database that cannot answer.
func (p *Processor) waiting(err error) {
	if p.healthy.Swap(false) {
		p.cfg.Logger.LogAttrs(context.Background(), slog.LevelWarn, // a log line needs no deadline
			"the database cannot answer, nothing is committed until it does", slog.String("error", err.Error()))
	}
	p.metrics.CommitFailures.Inc()
}

// hint tells the log how far the group is, for lag tools. It decides nothing, so
// a refusal is only worth a line.
func (p *Processor) hint(ctx context.Context, snaps []*snapshot) {
	next := map[stream.Partition]int64{}
	for _, s := range snaps {
		if !s.empty {
			next[s.flush.Partition] = s.flush.To.Next
		}
	}
	if len(next) == 0 || p.consumer == nil {
		return
	}
	if err := p.consumer.Hint(ctx, next); err != nil && ctx.Err() == nil {
		p.cfg.Logger.LogAttrs(ctx, slog.LevelDebug, "the log did not take the hint", slog.String("error", err.Error()))
	}
}

func (p *Processor) retain(ctx context.Context) error {
	before := p.cfg.Now().Add(-p.cfg.Retention).UnixMilli()
	n := 0
	err := patiently(ctx, p.cfg.Patience, p.waiting, func() (err error) {
		n, err = p.sink.Retain(ctx, before)
		return err
	})
	if err != nil {
		return fmt.Errorf("empty old segments: %w", err)
	}
	if n > 0 {
		p.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "segments older than the retention emptied", slog.Int("segments", n))
	}
	return nil
}
