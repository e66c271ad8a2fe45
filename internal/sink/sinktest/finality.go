package sinktest

import (
	"context"

	"github.com/peil-stream/peil/internal/sink"
)

func finalityChecks() []Check {
	return []Check{
		{"a partition that was not read holds every window", unreadHolds},
		{"an idle partition lets the others decide", idleDecidesNothing},
		{"a partition of another topic id holds every window", otherIDHolds},
		{"a window is final at its end, not before", finalAtEnd},
		{"pending windows come oldest first and bounded", oldestFirst},
		{"a topic sees its own partitions only", ownPartitions},
	}
}

func unreadHolds(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 2)
	a := s.claim(ctx, arrival(0))
	a.add(0, 10, 60)
	a.heartbeat(1, 430)
	s.save(ctx, a)
	s.equal("pending while p1 has no claim", []int64(nil), s.pending(ctx, topicID, 10))
	b := s.claim(ctx, arrival(1))
	s.equal("pending while p1 is claimed", []int64(nil), s.pending(ctx, topicID, 10))
	s.save(ctx, b)
	s.equal("pending while p1 has no time", []int64(nil), s.pending(ctx, topicID, 10))
	b.heartbeat(0, 430)
	s.save(ctx, b)
	s.equal("pending once p1 has passed the window", []int64{start(0)}, s.pending(ctx, topicID, 10))
	return s.err
}

// M21: p0 closes W0, then all partitions are idle, and p1 never had a record.
func idleDecidesNothing(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 2)
	a, b := s.claim(ctx, arrival(0)), s.claim(ctx, arrival(1))
	a.add(0, 10, 60)
	a.heartbeat(1, 430)
	s.save(ctx, a, b)
	s.equal("pending before", []int64(nil), s.pending(ctx, topicID, 10))
	a.idle, b.idle = true, true
	s.save(ctx, a, b)
	s.equal("stored final_to", sink.Infinity, s.offset(ctx, arrival(1)).FinalTo)
	s.equal("pending", []int64{start(0)}, s.pending(ctx, topicID, 10))
	s.finalise(ctx, topicID)
	s.equal("count", int64(1), s.network(ctx, 0).Count)
	return s.err
}

func otherIDHolds(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 2)
	b := s.claim(ctx, arrival(1))
	b.idle = true
	s.save(ctx, b)
	s.must("void", h.Void(ctx, arrival(0), otherID))
	a := s.claimAs(ctx, arrival(0), otherID)
	a.add(0, 10, 60)
	a.heartbeat(1, 430)
	s.save(ctx, a)
	s.equal("pending while p1 is of the first topic", []int64(nil), s.pending(ctx, otherID, 10))
	s.equal("pending for the first topic", []int64(nil), s.pending(ctx, topicID, 10))
	s.must("void", h.Void(ctx, arrival(1), otherID))
	b = s.claimAs(ctx, arrival(1), otherID)
	b.idle = true
	s.save(ctx, b)
	s.equal("pending", []int64{start(0)}, s.pending(ctx, otherID, 10))
	return s.err
}

func finalAtEnd(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 2)
	a, b := s.claim(ctx, arrival(0)), s.claim(ctx, arrival(1))
	a.add(0, 10, 60)
	a.heartbeat(1, 430)
	s.save(ctx, a, b)
	f := b.snapshot()
	for _, tt := range []struct {
		finalTo int64
		want    []int64
	}{{start(1) - 1, nil}, {start(1), []int64{start(0)}}, {sink.NoTime, nil}} {
		f.FinalTo = tt.finalTo
		s.flush(ctx, f)
		b.wrote(f)
		f.From = b.from
		s.equal("pending", tt.want, s.pending(ctx, topicID, 10))
	}
	return s.err
}

func oldestFirst(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 2)
	a, b := s.claim(ctx, arrival(0)), s.claim(ctx, arrival(1))
	a.heartbeat(99, 5000)
	b.heartbeat(99, 5000)
	s.save(ctx, a, b)
	// Windows below and above the epoch's text, in no order.
	for _, n := range []int64{3, 1, -7_000_000, 2} {
		s.rewrite(ctx, b, s.segment(n, 20, 30, 1))
		s.rewrite(ctx, a, s.segment(n, 10, 20, 1))
	}
	s.equal("two of four", []int64{start(-7_000_000), start(1)}, s.pending(ctx, topicID, 2))
	s.equal("all", []int64{start(-7_000_000), start(1), start(2), start(3)}, s.pending(ctx, topicID, 10))
	// Their identities are equal but for the window.
	s.final(ctx, topicID, 2, func(f sink.Finaliser, windows []sink.PendingWindow) error {
		return s.applyAll(ctx, f, windows)
	})
	s.equal("two left", []int64{start(2), start(3)}, s.pending(ctx, topicID, 10))
	s.finalise(ctx, topicID)
	s.equal("pending afterwards", []int64(nil), s.pending(ctx, topicID, 10))

	// One new segment brings all of its window, by partition.
	s.rewrite(ctx, b, s.segment(2, 20, 31, 1))
	s.final(ctx, topicID, 10, func(_ sink.Finaliser, windows []sink.PendingWindow) error {
		if len(windows) != 1 || len(windows[0].Segments) != 2 {
			s.failf("want one window of two segments, got %+v", windows)
			return nil
		}
		w := windows[0]
		s.equal("window", [2]int64{start(2), start(3)}, [2]int64{w.Start, w.End})
		for i, g := range w.Segments {
			s.equal("partition", int32(i), g.Partition)
			s.equal("topic id", topicID, g.TopicID)
			s.equal("has data", true, len(g.Data) > 0)
		}
		s.equal("first is merged", true, w.Segments[0].MergedAt != sink.NoTime)
		s.equal("second is not", sink.NoTime, w.Segments[1].MergedAt)
		return nil
	})
	return s.err
}

func ownPartitions(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 1)
	s.positions(ctx)
	a := s.claim(ctx, arrival(0))
	a.add(0, 10, 60)
	a.heartbeat(1, 430)
	s.save(ctx, a)
	s.equal("pending beside an unread partition of another topic", []int64{start(0)}, s.pending(ctx, topicID, 10))
	f, err := h.Sink.Final(ctx, sink.FinalRequest{Topic: "no-such-topic", TopicID: topicID, Limit: 10})
	if err != nil {
		s.must("begin finalising", err)
		return s.err
	}
	windows, err := f.Pending(ctx)
	s.must("pending", err)
	s.equal("pending of a topic without rows", 0, len(windows))
	s.must("roll back", f.Rollback(ctx))
	return s.err
}
