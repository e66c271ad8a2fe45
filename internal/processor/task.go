package processor

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/peil-stream/peil/internal/dlq"
	"github.com/peil-stream/peil/internal/job"
	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/ledger"
	"github.com/peil-stream/peil/window"
)

// task is one assignment of a partition: the only goroutine that touches the
// partition's windows, ledger and job.
type task struct {
	p        *Processor
	a        *stream.Assignment
	windowed bool
	epoch    int64
	size     int64 // window size in milliseconds

	job     job.Job
	decoded job.Decoded
	windows *window.Partition
	ledger  *ledger.Ledger
	lane    *dlq.Lane

	// found is the position at the claim: below it everything was judged. stored
	// is the same as it stands in SQL, which never goes back.
	found       int64
	stored      int64
	position    int64
	leaderEpoch int32
	counts      sink.Counts
	written     *sink.Point // last durable point; nil: nothing stored
	last        *sink.PartitionFlush
	closed      []window.Segment
	incidents   []sink.Incident
	// cold: reading began above offset 0 without stored state, and no record
	// has come yet that says which windows may have begun before (R5).
	cold bool
	// held is the snapshot in flight.
	held        *snapshot
	sinceMark   int
	since       map[int64]moment // of the first record of each window not yet durable, by its end
	newestSince int64            // the end looked up last in since
	otherAt     moment           // of the first other record since the mark
	otherHeld   moment           // the same of the snapshot in flight
	tooHeld     bool             // the bound of held records was reported
	quietFrom   time.Time        // when the last batch came
	batch       stream.Batch     // what is being consumed, from record at on
	at          int
	consuming   bool
	stopped     bool

	requests chan func()
	stop     chan struct{}
	done     chan struct{}
	status   atomic.Pointer[PartitionStatus]
}

// run consumes until stop is closed or the assignment ends. A panic ends the
// process without a commit: what it was about is read again.
func (t *task) run(ctx context.Context) {
	defer close(t.done)
	ctx, cancel := context.WithCancel(ctx)
	var lane sync.WaitGroup
	lane.Go(func() { t.lane.Run(ctx) })
	defer lane.Wait()
	defer cancel()
	defer func() {
		if r := recover(); r != nil {
			t.p.abort(fmt.Errorf("partition %s: panic: %v\n%s", t.a.Partition, r, debug.Stack()))
		}
	}()
	defer func() { t.batch.Release() }()
	batches, ready := t.a.Batches, always()
	for {
		in, goOn := batches, ready
		if t.full() {
			in, goOn = nil, nil
		}
		if t.consuming {
			in = nil
		} else {
			goOn = nil
		}
		select {
		case <-t.stop:
			return
		case f := <-t.requests:
			f()
		case <-t.lane.Wake():
		case <-goOn:
			t.consume()
		case b, ok := <-in:
			if !ok {
				batches = nil
				if err := t.a.Err(); err != nil {
					t.p.abort(fmt.Errorf("partition %s: read: %w", t.a.Partition, err))
				}
				continue
			}
			t.batch, t.at, t.consuming = b, 0, true
			t.consume()
		}
	}
}

// full says that the task must not read now: a flush or its dead letters must
// become durable first.
func (t *task) full() bool {
	return t.stopped || t.lane.Full() || (t.held != nil && t.sinceMark >= t.p.cfg.FlushRecords)
}

// do runs f in the task's goroutine and waits for it.
func (t *task) do(ctx context.Context, f func()) error {
	finished := make(chan struct{})
	select {
	case t.requests <- func() { defer close(finished); f() }:
	case <-t.done:
		return errTaskEnded
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case <-finished:
		return nil
	case <-t.done:
		return errTaskEnded
	}
}

// consume goes on with the batch until it is done or the task is full: how many
// records a batch holds is not bounded, only their bytes are.
func (t *task) consume() {
	before, begun := t.counts, t.at
	for t.at < len(t.batch.Records) && !t.lane.Full() {
		rec := &t.batch.Records[t.at]
		t.record(rec)
		t.position = rec.Offset + 1
		t.at++
	}
	n := t.at - begun
	if t.at == len(t.batch.Records) {
		t.position = t.batch.Next
		t.ledger.Advance(t.batch.Next)
		t.leaderEpoch = t.batch.LeaderEpoch
		t.batch.Release()
		t.consuming = false
	}
	t.closed = append(t.closed, t.windows.TakeClosed()...)
	t.sinceMark += n
	if n > 0 {
		t.quietFrom = time.Now()
	}
	t.p.metrics.consumed(t.a.Partition.Topic, n, before, t.counts)
	t.publish()
	if int(t.p.unflushed.Add(int64(n))) >= t.p.cfg.FlushRecords {
		notify(t.p.kick)
	}
}

func (t *task) record(rec *stream.Record) {
	if t.cold && rec.Timestamp >= 0 {
		t.coldStart(rec)
	}
	t.job.Decode(rec, &t.decoded)
	d := &t.decoded
	d.Record.Offset, d.Record.LogTime = rec.Offset, rec.Timestamp
	fresh := rec.Offset >= t.found
	switch d.Kind {
	case job.Event:
		t.event(rec, d, fresh)
		return
	case job.Heartbeat:
		t.windows.Heartbeat(rec.Offset, d.Record.Time, rec.Timestamp)
	case job.Close:
		t.windows.CloseMarker(rec.Offset, d.Record.Time)
	case job.Ignored:
		if fresh {
			t.counts.Ignored++
		}
	case job.Dead:
		if fresh {
			t.counts.Dead++
			t.bury(rec, d)
		}
	}
	t.other(rec)
}

// event judges a valid record (R1, R5).
func (t *task) event(rec *stream.Record, d *job.Decoded, fresh bool) {
	if !t.windowed {
		t.windows.Heartbeat(rec.Offset, d.Record.Time, rec.Timestamp)
		if fresh {
			t.counts.Accepted++
			t.job.Keep(rec.Offset)
		}
		t.other(rec)
		return
	}
	verdict := t.windows.Add(&d.Record)
	if fresh {
		if verdict == window.Late {
			t.counts.Late++
		} else {
			t.counts.Accepted++
		}
		// A late record is in no window, but may still be the newest of its trip
		// (R10).
		t.job.Keep(rec.Offset)
	} else if verdict == window.Redelivered {
		t.p.metrics.Redelivered.Inc()
	}
	if d.Record.HasValue && (verdict == window.Accepted || verdict == window.Replayed) {
		end := window.Start(d.Record.Time, t.size) + t.size
		t.ledger.Window(rec.Offset, end)
		if end != t.newestSince {
			if _, ok := t.since[end]; !ok {
				t.since[end] = t.read(rec)
			}
			t.newestSince = end // most records follow one of the same window
		}
		return
	}
	t.other(rec)
}

func (t *task) other(rec *stream.Record) {
	t.ledger.Other(rec.Offset)
	if t.otherAt.logged == sink.NoTime {
		t.otherAt = t.read(rec)
	}
}

// moment is when a record was appended, in Unix milliseconds or sink.NoTime for
// none, and when this process read it.
type moment struct {
	logged int64
	read   time.Time
}

func (t *task) read(rec *stream.Record) moment {
	now := time.Now()
	if rec.Timestamp < 0 {
		return moment{logged: t.p.cfg.Now().UnixMilli(), read: now}
	}
	return moment{logged: rec.Timestamp, read: now}
}

// none is the moment of no record.
func none() moment { return moment{logged: sink.NoTime} }

func (t *task) bury(rec *stream.Record, d *job.Decoded) {
	t.p.metrics.dead(t.a.Partition.Topic, d.Reason)
	t.lane.Enqueue(dlq.Entry{
		Partition: t.a.Partition, Record: rec, Reason: d.Reason, Detail: d.Detail, At: t.p.cfg.Now(),
	})
}

// coldStart closes every window that may have begun before the first record
// that this partition could read (R5), and says so in SQL: verify begins there
// too.
func (t *task) coldStart(rec *stream.Record) {
	t.cold = false
	detail := "reading began here without knowing what came before"
	if t.windowed {
		b := t.windows.ColdStart(rec.Timestamp, t.p.cfg.MaxSkew.Milliseconds())
		detail += "; windows that end at or before " + time.UnixMilli(b).UTC().Format("2006-01-02T15:04:05.000Z") + " are not written"
	}
	t.incidents = append(t.incidents, sink.Incident{
		Kind: sink.IncidentColdStart, Topic: t.a.Partition.Topic, Partition: t.a.Partition.Index,
		FromOffset: t.a.Start, ToOffset: -1, Detail: detail,
	})
	t.p.cfg.Logger.Warn("cold start",
		slog.String("partition", t.a.Partition.String()), slog.Int64("offset", t.a.Start), slog.String("detail", detail))
}

// always returns a channel that can always be received from.
func always() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// idle says whether the partition is quiet in the sense of R9; end is the end of
// the log as the broker has just said it.
func (t *task) idle(end int64) bool {
	return t.position >= end && !t.consuming && len(t.a.Batches) == 0 &&
		time.Since(t.quietFrom) >= t.p.cfg.IdleTimeout
}

// finalTo is up to where this partition lets windows become final.
func (t *task) finalTo(idle bool) int64 {
	if !idle {
		return t.windows.Watermark()
	}
	if start, ok := t.windows.OldestOpen(); ok {
		return start
	}
	return sink.Infinity
}
