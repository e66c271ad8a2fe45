package processor

import (
	"fmt"
	"time"

	"github.com/peil-stream/peil/internal/sink"
)

// snapshot is what of a partition is being written: immutable from the moment
// its task hands it over.
type snapshot struct {
	task  *task
	flush sink.PartitionFlush
	// dead is how many dead letters must be acknowledged before it is written.
	dead int64
	// empty: nothing has changed since the last durable flush.
	empty bool
	ends  []int64
}

// snapshot marks the ledger and takes what is to be written, or returns the one
// that is still in flight. nil: this partition has nothing that may be stored
// yet. Runs in the task's goroutine.
func (t *task) snapshot(end int64) *snapshot {
	if t.held != nil {
		return t.held
	}
	idle := t.idle(end)
	if t.cold && !idle {
		// A record is about to say which windows may have begun before; until
		// then the partition counts as not read. A quiet one is stored, so that
		// it does not hold finality, and without a watermark, by which the next
		// start knows (see start).
		return nil
	}
	t.checkHeld()
	ends := make([]int64, len(t.closed))
	segments := make([]sink.Segment, len(t.closed))
	for i, s := range t.closed {
		ends[i] = s.End
		segments[i] = sink.Segment{
			Start: s.Start, End: s.End, FirstOffset: s.FirstOffset, ThroughOffset: s.ThroughOffset,
			Records: s.Records, Origin: sink.OriginLive, Data: t.p.codec.compress(s.Data),
		}
	}
	point := t.ledger.Mark(ends)
	f := sink.PartitionFlush{
		Partition: t.a.Partition, TopicID: t.a.TopicID, Epoch: t.epoch,
		From: t.written,
		// While replaying after a restart the position read lies below the
		// stored one, which must not go back (R4).
		To:          sink.Point{Next: point.Next, Position: max(point.Position, t.stored)},
		LeaderEpoch: t.leaderEpoch,
		Watermark:   t.windows.Watermark(),
		FinalTo:     t.finalTo(idle),
		Counts:      t.counts,
		Segments:    segments,
		State:       t.job.Take(),
		Incidents:   t.incidents,
	}
	s := &snapshot{task: t, flush: f, dead: t.lane.Sent(), ends: ends, empty: t.unchanged(&f)}
	t.held = s
	t.closed, t.incidents = nil, nil
	t.p.unflushed.Add(-int64(t.sinceMark))
	t.sinceMark = 0
	t.otherHeld, t.otherAt = t.otherAt, none()
	t.publish()
	return s
}

// unchanged says whether f would write what the last durable flush wrote.
func (t *task) unchanged(f *sink.PartitionFlush) bool {
	l := t.last
	return l != nil && l.To == f.To && l.Watermark == f.Watermark && l.FinalTo == f.FinalTo &&
		l.Counts == f.Counts && len(f.Segments) == 0 && len(f.Incidents) == 0 &&
		len(f.State.Trips) == 0 && len(f.State.Vehicles) == 0
}

// release makes the snapshot in flight durable. Runs in the task's goroutine.
func (t *task) release() {
	s := t.held
	t.held = nil
	t.otherHeld = none()
	t.ledger.Release()
	for _, end := range s.ends {
		delete(t.since, end)
	}
	if !s.empty {
		// A copy: a pointer into the snapshot would keep all of it, and by its From
		// all earlier ones.
		written := s.flush.To
		t.written = &written
		last := s.flush
		last.Segments, last.Incidents, last.State = nil, nil, sink.State{}
		t.last = &last
	}
	t.publish()
}

// heldSince is about the oldest uncommitted record: when it was appended, and
// when this process read it.
func (t *task) heldSince() (oldest moment, ok bool) {
	oldest = t.otherHeld
	if oldest.logged == sink.NoTime {
		oldest = t.otherAt
	}
	ok = oldest.logged != sink.NoTime
	for _, m := range t.since {
		if !ok || m.logged < oldest.logged {
			oldest, ok = m, true
		}
	}
	return oldest, ok
}

// checkHeld makes an incident when too much is held, once until it is below the
// bounds again (R13). What counts is how long this process has held it: a
// backlog is old when it is read, and nobody holds it yet.
func (t *task) checkHeld() {
	pending := t.ledger.Pending()
	since, held := t.heldSince()
	age := time.Since(since.read)
	if pending <= t.p.cfg.HeldRecords && (!held || age <= t.p.cfg.HeldFor) {
		t.tooHeld = false
		return
	}
	if t.tooHeld {
		return
	}
	t.tooHeld = true
	t.incidents = append(t.incidents, sink.Incident{
		Kind: "held", Topic: t.a.Partition.Topic, Partition: t.a.Partition.Index,
		FromOffset: t.ledger.Committed(), ToOffset: t.position,
		Detail: fmt.Sprintf("%d records are read but not yet committed, the oldest for %s; a crash now would read them again", pending, age.Round(time.Second)),
	})
}

// publish makes the live status of the partition visible to other goroutines.
func (t *task) publish() {
	s := &PartitionStatus{
		Partition: t.a.Partition, Epoch: t.epoch, Position: t.position, Committed: t.ledger.Committed(),
		Pending: t.ledger.Pending(), Watermark: t.windows.Watermark(), HeldSince: sink.NoTime,
		Counts: t.counts, Windowed: t.windowed, InFlight: t.held != nil,
	}
	if since, ok := t.heldSince(); ok && s.Pending > 0 {
		s.HeldSince = since.logged
	}
	for _, w := range t.windows.Open() {
		s.Open = append(s.Open, OpenWindow{Start: w.Start, End: w.End, FirstOffset: w.FirstOffset, Records: w.Records})
	}
	t.status.Store(s)
	t.p.metrics.partition(s)
}
