package sinktest

import (
	"context"
	"errors"

	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/stream"
)

func segmentChecks() []Check {
	return []Check{
		{"a fragment never replaces a whole", fragment},
		{"an equal segment changes nothing", equalSegment},
		{"a wider segment replaces and is merged again", widerSegment},
		{"a segment of another topic id counts as absent", otherTopicSegment},
		{"a backfilled segment outlives a live replay", backfillStands},
	}
}

func retentionChecks() []Check {
	return []Check{
		{"retention empties only what is merged", retain},
		{"M03 a sealed window is not merged until it is rewritten", sealed},
	}
}

// M04: offsets 0:W0 1:W3 2:dead 3:W0, 4 closes W0; a reader that began at 1
// would write {3}.
func fragment(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 1)
	a := s.claim(ctx, arrival(0))
	a.add(0, 10, 60)
	a.add(3, 20, 30)
	a.heartbeat(4, 430)
	s.save(ctx, a)
	s.finalise(ctx, topicID)
	before := s.dump(ctx)
	for _, g := range []sink.Segment{
		s.segment(0, 3, 4, 30),     // begins later
		s.segment(0, 0, 3, 60),     // ends earlier
		s.segment(0, 3, 900, 30),   // begins later and reaches further
		s.segment(0, 1, 3, 60, 30), // lies inside
		s.backfill(1, 900, 1, 2),   // a backfill is no exception
	} {
		result := s.rewrite(ctx, a, g)
		s.equal("refused", sink.FlushResult{Refused: []sink.Refused{{
			Partition: arrival(0), Start: start(0), FirstOffset: 0, ThroughOffset: 4,
			OfferedFirst: g.FirstOffset, OfferedThrough: g.ThroughOffset,
		}}}, result)
		s.unchanged(ctx, "a fragment", before)
	}
	windows, _ := s.finalise(ctx, topicID)
	s.equal("windows to merge", 0, windows)
	return s.err
}

func equalSegment(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 1)
	a := s.claim(ctx, arrival(0))
	a.heartbeat(9, 430)
	g := s.segment(0, 0, 5, 60, 30)
	s.rewrite(ctx, a, g)
	unmerged := s.dump(ctx)
	s.equal("result before the merge", sink.FlushResult{}, s.rewrite(ctx, a, g))
	s.unchanged(ctx, "an equal segment before the merge", unmerged)
	s.finalise(ctx, topicID)
	merged := s.dump(ctx)
	s.equal("result after the merge", sink.FlushResult{}, s.rewrite(ctx, a, g))
	s.unchanged(ctx, "an equal segment after the merge", merged)
	return s.err
}

func widerSegment(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 1)
	a := s.claim(ctx, arrival(0))
	a.heartbeat(99, 430)
	count := int64(0)
	for _, g := range []sink.Segment{
		s.segment(0, 10, 20, 1),
		s.segment(0, 10, 21, 1, 2),
		s.segment(0, 9, 21, 1, 2, 3),
		s.segment(0, 0, 90, 1, 2, 3, 4),
		s.backfill(0, 90, 1, 2, 3, 4, 5),
	} {
		count++
		s.equal("result", sink.FlushResult{}, s.rewrite(ctx, a, g))
		stored := s.segments(ctx)
		s.equal("segments", []sink.StoredSegment{{Segment: g, MergedAt: sink.NoTime, TopicID: topicID}}, stored)
		windows, _ := s.finalise(ctx, topicID)
		s.equal("windows to merge", 1, windows)
		s.equal("count", count, s.network(ctx, 0).Count)
		s.equal("revision", count, s.network(ctx, 0).Revision)
	}
	return s.err
}

func otherTopicSegment(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 2)
	a, b := s.claim(ctx, arrival(0)), s.claim(ctx, arrival(1))
	a.heartbeat(5, 430)
	b.heartbeat(5, 430)
	s.save(ctx, a, b)
	s.rewrite(ctx, a, s.segment(0, 0, 5, 1, 2, 3))
	s.rewrite(ctx, b, s.segment(0, 0, 5, 4))
	s.equal("segments of the first topic", 2, len(s.segments(ctx)))

	for _, t := range []*task{a, b} {
		s.must("void", h.Void(ctx, t.partition, otherID))
	}
	s.fenced(ctx, "the owner for the first topic", []stream.Partition{arrival(0)}, a.snapshot())
	a, b = s.claimAs(ctx, arrival(0), otherID), s.claimAs(ctx, arrival(1), otherID)
	a.heartbeat(4, 430)
	b.idle = true
	s.save(ctx, a, b)
	s.equal("pending with segments of the first topic", []int64(nil), s.pending(ctx, otherID, 10))
	g := s.segment(0, 3, 4, 9)
	s.equal("result", sink.FlushResult{}, s.rewrite(ctx, a, g))
	s.finalise(ctx, otherID)
	s.equal("count without the segment of the first topic", int64(1), s.network(ctx, 0).Count)
	s.equal("segments", 2, len(s.segments(ctx)))
	return s.err
}

// M14: the state of an old owner is replayed over a backfill.
func backfillStands(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 1)
	a := s.claim(ctx, arrival(0))
	a.add(0, 10, 60, 30)
	a.heartbeat(2, 430)
	s.save(ctx, a)
	s.finalise(ctx, topicID)
	full := s.backfill(0, 50, 60, 30, 15)
	s.rewrite(ctx, a, full)
	s.finalise(ctx, topicID)
	s.equal("count after the backfill", int64(3), s.network(ctx, 0).Count)

	b := s.claim(ctx, arrival(0))
	b.forget()
	b.add(0, 10, 60, 30)
	b.heartbeat(2, 430)
	result := s.save(ctx, b)
	s.equal("refused", 1, len(result.Refused))
	s.finalise(ctx, topicID)
	s.equal("count after the replay", int64(3), s.network(ctx, 0).Count)
	for _, g := range s.segments(ctx) {
		s.equal("origin", sink.OriginBackfill, g.Origin)
	}
	return s.err
}

func retain(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 2)
	a, b := s.claim(ctx, arrival(0)), s.claim(ctx, arrival(1))
	a.add(0, 10, 60)
	a.heartbeat(1, 430)
	b.idle = true
	s.save(ctx, a, b)
	s.finalise(ctx, topicID)
	// p1 adds a segment, so that one of the two is merged and the other is not.
	b.add(0, 20, 30)
	b.heartbeat(1, 430)
	s.save(ctx, b)
	s.retained(ctx, sink.Infinity, 0)
	s.finalise(ctx, topicID)

	stored := s.segments(ctx)
	if s.err != nil {
		return s.err
	}
	merged := max(stored[0].MergedAt, stored[1].MergedAt)
	s.retained(ctx, min(stored[0].MergedAt, stored[1].MergedAt), 0)
	s.retained(ctx, merged+1, 2)
	for i := range stored {
		stored[i].Data = nil
	}
	s.equal("emptied segments", stored, s.segments(ctx))
	s.retained(ctx, sink.Infinity, 0)
	s.equal("count", int64(2), s.network(ctx, 0).Count)
	return s.err
}

func (s *scene) retained(ctx context.Context, before int64, want int) {
	if s.err != nil {
		return
	}
	n, err := s.h.Sink.Retain(ctx, before)
	s.must("retain", err)
	s.equal("emptied segments", want, n)
}

// M03, and the way back by a backfill.
func sealed(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 2)
	o := s.other()
	a, b := s.claim(ctx, arrival(0)), o.claim(ctx, arrival(1))
	a.add(0, 10, make([]int32, 1000)...)
	a.heartbeat(1000, 430)
	b.idle = true
	s.save(ctx, a)
	o.save(ctx, b)
	s.finalise(ctx, topicID)
	s.retained(ctx, sink.Infinity, 1)

	b.add(0, 20, 30)
	b.heartbeat(1, 430)
	late := b.snapshot()
	s.equal("result", sink.FlushResult{Sealed: 1}, o.flush(ctx, late))
	before := s.dump(ctx)
	s.equal("result of the redo", sink.FlushResult{}, o.flush(ctx, late))
	s.unchanged(ctx, "redo over a sealed window", before)
	b.wrote(late)
	ins := s.incidents(ctx)
	if len(ins) != 1 || ins[0].Kind != sink.IncidentSealed || ins[0].Partition != 1 {
		s.failf("want one incident %q of partition 1, got %+v", sink.IncidentSealed, ins)
	}
	windows, _ := s.finalise(ctx, topicID)
	s.equal("windows to merge", 0, windows)
	s.equal("count of the sealed window", int64(1000), s.network(ctx, 0).Count)
	s.retained(ctx, sink.Infinity, 0)

	fa, fb := a.snapshot(), b.snapshot()
	fa.Segments = []sink.Segment{s.backfill(0, 1000, make([]int32, 1000)...)}
	fb.Segments = []sink.Segment{s.backfill(0, 1, 30)}
	s.equal("result of the backfill", sink.FlushResult{}, s.flush(ctx, fb, fa))
	windows, _ = s.finalise(ctx, topicID)
	s.equal("windows to merge after the backfill", 1, windows)
	s.equal("count after the backfill", int64(1001), s.network(ctx, 0).Count)
	return errors.Join(s.err, o.err)
}
