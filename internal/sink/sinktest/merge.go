package sinktest

import (
	"context"

	"github.com/peil-stream/peil/internal/sink"
)

func mergeChecks() []Check {
	return []Check{
		{"a segment written after a merge is merged later", laterSegment},
		{"an empty flush finalises what two closes left", twoCloses},
		{"equal content does not raise the revision", equalContent},
		{"a segment replaced after it was read stays unmerged", replacedMeanwhile},
		{"a waking partition revises a final row", wakingPartition},
		{"both flush orders give one row", bothOrders},
		{"negative delays", negativeDelays},
	}
}

// M01: A flushes p0 and finalises; in between B writes p1's segment of the same
// window.
func laterSegment(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 2)
	a, b := s.claim(ctx, arrival(0)), s.claim(ctx, arrival(1))
	b.idle = true
	a.add(0, 10, 60)
	a.heartbeat(1, 430)
	s.save(ctx, a, b)
	b.add(0, 20, 600)
	b.heartbeat(1, 430)
	s.final(ctx, topicID, 10, func(f sink.Finaliser, windows []sink.PendingWindow) error {
		if h.Interleaves {
			s.save(ctx, b)
		}
		return s.applyAll(ctx, f, windows)
	})
	if !h.Interleaves {
		s.save(ctx, b)
	}
	windows, _ := s.finalise(ctx, topicID)
	s.equal("windows to merge", 1, windows)
	s.equal("count", int64(2), s.network(ctx, 0).Count)
	s.equal("max", int32(600), s.network(ctx, 0).Max)
	for _, g := range s.segments(ctx) {
		s.equal("merged", true, g.MergedAt != sink.NoTime)
	}
	return s.err
}

func (s *scene) applyAll(ctx context.Context, f sink.Finaliser, windows []sink.PendingWindow) error {
	for _, w := range windows {
		rows, err := merge(w)
		if err != nil {
			return err
		}
		if _, err := f.Apply(ctx, w, rows); err != nil {
			return err
		}
	}
	return nil
}

// M02: A and B close W0 at once, and each finalises with the other's old
// watermark in sight.
func twoCloses(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 2)
	a, b := s.claim(ctx, arrival(0)), s.claim(ctx, arrival(1))
	for _, t := range []*task{a, b} {
		t.add(0, 10, 60)
	}
	s.save(ctx, a, b)
	for _, t := range []*task{a, b} {
		t.heartbeat(1, 430)
	}
	fa, fb := a.snapshot(), b.snapshot()
	s.flush(ctx, fa)
	windows, _ := s.finalise(ctx, topicID)
	s.equal("windows for A", 0, windows)
	s.flush(ctx, fb)
	a.wrote(fa)
	s.save(ctx, a) // an empty one
	windows, _ = s.finalise(ctx, topicID)
	s.equal("windows after the next tick", 1, windows)
	s.equal("count", int64(2), s.network(ctx, 0).Count)
	return s.err
}

// M13: a window is finalised again, and its content is the same.
func equalContent(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 1)
	a := s.claim(ctx, arrival(0))
	a.add(0, 10, 60, 30)
	a.heartbeat(2, 430)
	s.save(ctx, a)
	_, applied := s.finalise(ctx, topicID)
	s.equal("first", sink.Applied{Inserted: 2}, applied)
	rows := s.computed(ctx)
	s.rewrite(ctx, a, s.backfill(0, 9, 60, 30))
	windows, applied := s.finalise(ctx, topicID)
	s.equal("windows merged again", 1, windows)
	s.equal("again", sink.Applied{}, applied)
	s.equal("rows, with revision and time", rows, s.computed(ctx))
	s.rewrite(ctx, a, s.backfill(0, 10, 60, 31))
	_, applied = s.finalise(ctx, topicID)
	s.equal("other content", sink.Applied{Revised: 2}, applied)
	s.equal("revision", int64(2), s.network(ctx, 0).Revision)
	return s.err
}

// computed returns all rows with the time at which they were computed.
func (s *scene) computed(ctx context.Context) (rows []sink.Aggregate) {
	s.look(ctx, func(v sink.View) (err error) {
		rows, err = collect(v.Aggregates(ctx, all()))
		return err
	})
	return rows
}

// M19: a segment is replaced between the finaliser's read and its mark, once in
// each part of its identity. Where flushes wait for the finaliser, the same is
// had by applying what an earlier, rolled back one has read.
func replacedMeanwhile(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 1)
	a := s.claim(ctx, arrival(0))
	a.heartbeat(99, 5000)
	s.save(ctx, a)
	fuller := []sink.Segment{
		s.backfill(10, 20, 60, 30),   // another origin
		s.segment(1, 10, 21, 60, 30), // another end
		s.segment(2, 9, 20, 60, 30),  // another begin
	}
	for n := range fuller {
		s.rewrite(ctx, a, s.segment(int64(n), 10, 20, 60))
	}
	var read []sink.PendingWindow
	s.final(ctx, topicID, 10, func(f sink.Finaliser, windows []sink.PendingWindow) error {
		read = windows
		if !h.Interleaves {
			return nil
		}
		s.rewrite(ctx, a, fuller...)
		return s.applyAll(ctx, f, windows)
	})
	if !h.Interleaves {
		s.rewrite(ctx, a, fuller...)
		s.final(ctx, topicID, 10, func(f sink.Finaliser, _ []sink.PendingWindow) error {
			return s.applyAll(ctx, f, read)
		})
	}
	for n := range fuller {
		s.equal("count from what was read", int64(1), s.network(ctx, int64(n)).Count)
	}
	for _, g := range s.segments(ctx) {
		s.equal("a replaced segment is unmerged", sink.NoTime, g.MergedAt)
	}
	windows, applied := s.finalise(ctx, topicID)
	s.equal("windows at the next tick", 3, windows)
	s.equal("changes", sink.Applied{Revised: 6}, applied)
	for n := range fuller {
		s.equal("count", int64(2), s.network(ctx, int64(n)).Count)
	}
	return s.err
}

// K15: p1 never had a record, so W0 is final without it; then it wakes.
func wakingPartition(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 2)
	a, b := s.claim(ctx, arrival(0)), s.claim(ctx, arrival(1))
	a.add(0, 10, 60)
	a.heartbeat(1, 430)
	b.idle = true
	s.save(ctx, a, b)
	s.finalise(ctx, topicID)
	s.equal("revision", int64(1), s.network(ctx, 0).Revision)
	b.add(0, 250, 30)
	s.save(ctx, b)
	s.equal("pending while p1 has the window open", []int64(nil), s.pending(ctx, topicID, 10))
	s.equal("count meanwhile", int64(1), s.network(ctx, 0).Count)
	b.heartbeat(1, 430)
	s.save(ctx, b)
	_, applied := s.finalise(ctx, topicID)
	s.equal("changes", sink.Applied{Revised: 2}, applied)
	got := s.network(ctx, 0)
	s.equal("row", sink.Aggregate{
		Start: start(0), End: start(1), Dimension: "network", DimensionID: "nl", Operator: "nl:GVB",
		Count: 2, Mean: 45, P90: 60, Max: 60, Min: 30, Revision: 2, Topic: arrivals,
	}, got)
	return s.err
}

// K27: rows of the network get data from both partitions, in either order.
func bothOrders(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 2)
	a, b := s.claim(ctx, arrival(0)), s.claim(ctx, arrival(1))
	for n, order := range [][]*task{{a, b}, {b, a}} {
		second := int64(n) * 300
		for _, t := range order {
			if t == a {
				t.add(t.position, second+10, 0, 60)
			} else {
				t.add(t.position, second+10, 600)
			}
			t.heartbeat(t.position, second+420)
			s.save(ctx, t)
			s.finalise(ctx, topicID)
		}
		got := s.network(ctx, int64(n))
		s.equal("row", sink.Aggregate{
			Start: start(int64(n)), End: start(int64(n) + 1), Dimension: "network", DimensionID: "nl", Operator: "nl:GVB",
			Count: 3, Mean: 220, P90: 600, Max: 600, Min: 0, Revision: 1, Topic: arrivals,
		}, got)
	}
	return s.err
}

// K38: nothing is seeded with 0 or -1.
func negativeDelays(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 1)
	a := s.claim(ctx, arrival(0))
	a.add(0, 10, -120, -60)
	a.heartbeat(2, 430)
	s.save(ctx, a)
	s.finalise(ctx, topicID)
	s.equal("row", sink.Aggregate{
		Start: start(0), End: start(1), Dimension: "network", DimensionID: "nl", Operator: "nl:GVB",
		Count: 2, Mean: -90, P90: -60, Max: -60, Min: -120, Revision: 1, Topic: arrivals,
	}, s.network(ctx, 0))
	return s.err
}

// collect is the content of a sequence up to its error.
func collect[T any](seq func(yield func(T, error) bool)) (vs []T, _ error) {
	for v, err := range seq {
		if err != nil {
			return vs, err
		}
		vs = append(vs, v)
	}
	return vs, nil
}
