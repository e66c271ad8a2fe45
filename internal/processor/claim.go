package processor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/peil-stream/peil/internal/dlq"
	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/ledger"
	"github.com/peil-stream/peil/window"
)

// claim takes a partition in SQL, decides where reading begins, and makes its
// task (R5, R11). Nothing of the task runs yet.
func (p *Processor) claim(ctx context.Context, a *stream.Assignment) (*task, error) {
	c, err := p.askClaim(ctx, a)
	if err != nil {
		return nil, err
	}
	var bounds stream.Bounds
	err = patiently(ctx, p.cfg.Patience, p.waiting, func() (err error) {
		bounds, err = stream.BoundsOf(ctx, p.log, a.Partition)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("partition %s: ask the log for its bounds: %w", a.Partition, err)
	}
	cold, err := p.start(a, c, bounds)
	if err != nil {
		return nil, err
	}
	j, windowed := p.cfg.Job(a.Partition.Topic)
	t := &task{
		p: p, a: a, windowed: windowed, epoch: c.Epoch, size: p.cfg.Window.Size.Milliseconds(),
		job: j, lane: dlq.NewLane(p.log, a.Partition.Index%p.deadPartitions[a.Partition.Topic], p.cfg.Logger),
		ledger: ledger.New(a.Start), position: a.Start, leaderEpoch: -1, cold: cold,
		since: map[int64]moment{}, newestSince: sink.NoTime, otherAt: none(), otherHeld: none(), quietFrom: time.Now(),
		requests: make(chan func()), stop: make(chan struct{}), done: make(chan struct{}),
	}
	resume := window.Resume{Watermark: window.NoTime}
	if c.Stored {
		t.found, t.counts, t.leaderEpoch = c.Point.Position, c.Counts, c.LeaderEpoch
		if c.Watermark == sink.NoTime && c.Counts.Total() == 0 {
			t.found = a.Start // nothing was judged, whatever the position says
		}
		t.written, t.stored = &c.Point, c.Point.Position
		resume = window.Resume{Watermark: c.Watermark, Position: t.found}
	}
	if t.windows, err = window.NewPartition(p.cfg.Window, resume); err != nil {
		return nil, fmt.Errorf("partition %s: make its windows: %w", a.Partition, err)
	}
	t.publish()
	p.cfg.Logger.LogAttrs(ctx, slog.LevelDebug, "partition claimed",
		slog.String("partition", a.Partition.String()), slog.Int64("epoch", c.Epoch), slog.Int64("from", a.Start),
		slog.Int64("position", t.found), slog.Bool("cold_start", cold))
	return t, nil
}

func (p *Processor) askClaim(ctx context.Context, a *stream.Assignment) (sink.Claim, error) {
	var c sink.Claim
	err := patiently(ctx, p.cfg.Patience, p.waiting, func() error {
		var err error
		c, err = p.sink.Claim(ctx, sink.ClaimRequest{
			Partition: a.Partition, TopicID: a.TopicID, Group: p.cfg.Group,
			Owner: p.cfg.Owner, Fingerprint: p.cfg.Fingerprint,
		})
		return err
	})
	if m, ok := errors.AsType[*sink.MismatchError](err); ok {
		return c, mismatch(m)
	}
	if err != nil {
		return c, fmt.Errorf("partition %s: claim: %w", a.Partition, err)
	}
	return c, nil
}

// startEpoch is the leader epoch of the record before the start, by which the log
// knows whether it was cut below it (R11). The stored epoch is that of the record
// before the position; of an earlier one it may have been another.
func startEpoch(c sink.Claim) int32 {
	if c.Point.Next == c.Point.Position {
		return c.LeaderEpoch
	}
	return -1
}

// start sets where reading begins, and says whether it is a cold start.
func (p *Processor) start(a *stream.Assignment, c sink.Claim, b stream.Bounds) (cold bool, err error) {
	if !c.Stored {
		a.Start = b.Start
		if p.cfg.Start == StartLatest {
			a.Start = b.End
		}
		return a.Start > 0, nil
	}
	a.Start, a.StartEpoch = c.Point.Next, startEpoch(c)
	switch {
	case c.Point.Next < b.Start:
		return false, lost(a.Partition, c.Point.Next, b.Start)
	case b.End < c.Point.Position:
		return false, truncated(a.Partition, c.Point.Position, b.End)
	case c.Point.Next > c.Point.Position, c.Watermark == sink.NoTime && c.Counts.Accepted > 0:
		return false, &Error{
			Err: fmt.Errorf("partition %s: %w: next_offset %d, position %d, %d records accepted, watermark unknown: %t",
				a.Partition, ErrInconsistent, c.Point.Next, c.Point.Position, c.Counts.Accepted, c.Watermark == sink.NoTime),
			hint: "something else has written consumer_offsets; " + freshSchema,
		}
	}
	if c.Watermark == sink.NoTime {
		a.StartEpoch = -1
		// Nothing was ever accepted, so reading from the start again loses
		// nothing: a cold start that was stored while it was quiet stays one, and
		// if a tool has moved the offsets, no window becomes a fragment by it.
		if p.cfg.Start == StartEarliest {
			a.Start = b.Start
		}
		return a.Start > 0, nil
	}
	return false, nil
}
