package sinktest

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/peil-stream/peil/internal/sink"
)

func mergeChecks() []Check {
	return []Check{
		{"M01 a segment written after a merge is merged later", laterSegment},
		{"M01 instances that finalise side by side lose nothing", sideBySide},
		{"one instance finalises a topic at a time", oneAtATime},
		{"M02 an empty flush finalises what two closes left", twoCloses},
		{"M13 equal content does not raise the revision", equalContent},
		{"M19 a segment replaced after it was read stays unmerged", replacedMeanwhile},
		{"a waking partition revises a final row", wakingPartition},
		{"K27 both flush orders give one row", bothOrders},
		{"negative delays", negativeDelays},
	}
}

// M01: A flushes p0 and finalises; in between B writes p1's segment of the same
// window.
func laterSegment(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 2)
	o := s.other()
	a, b := s.claim(ctx, arrival(0)), o.claim(ctx, arrival(1))
	b.idle = true
	a.add(0, 10, 60)
	a.heartbeat(1, 430)
	s.save(ctx, a)
	o.save(ctx, b)
	b.add(0, 20, 600)
	b.heartbeat(1, 430)
	s.final(ctx, topicID, 10, func(f sink.Finaliser, windows []sink.PendingWindow) error {
		s.equal("windows for A", 1, len(windows))
		if h.Interleaves {
			o.save(ctx, b)
		}
		return s.applyAll(ctx, f, windows)
	})
	if !h.Interleaves {
		o.save(ctx, b)
	}
	windows, _ := o.finalise(ctx, topicID)
	s.equal("windows to merge", 1, windows)
	s.equal("count", int64(2), s.network(ctx, 0).Count)
	s.equal("max", int32(600), s.network(ctx, 0).Max)
	for _, g := range s.segments(ctx) {
		s.equal("merged", true, g.MergedAt != sink.NoTime)
	}
	return errors.Join(s.err, o.err)
}

// sideBySide has two instances close the same windows, each in its own
// partition, and finalise at once: whichever comes second revises the row, and
// none undoes what the other has merged. Both partitions are idle, so that no
// window waits for the slower one.
func sideBySide(ctx context.Context, h Harness) error {
	const rounds = 60
	s := newScene(ctx, h, 2)
	o := s.other()
	both, side := errgroup.WithContext(ctx)
	for _, t := range []*task{s.claim(ctx, arrival(0)), o.claim(ctx, arrival(1))} {
		if t.scene.err != nil {
			return t.scene.err
		}
		t.idle = true
		both.Go(func() error { return t.scene.closeAndFinalise(side, t, rounds) })
	}
	s.must("work side by side", both.Wait())
	s.finalise(ctx, topicID)
	for n := range int64(rounds) {
		s.equal("count", int64(2), s.network(ctx, n).Count)
	}
	for _, g := range s.segments(ctx) {
		s.equal("merged", true, g.MergedAt != sink.NoTime)
	}
	return s.err
}

// closeAndFinalise closes a window with one record in each round.
func (s *scene) closeAndFinalise(ctx context.Context, t *task, rounds int64) error {
	for n := range rounds {
		t.add(n*2, n*300+10, 1)
		t.heartbeat(n*2+1, n*300+430)
		f := t.snapshot()
		if err := patiently(func() error { return s.flushOnce(ctx, f) }); err != nil {
			return fmt.Errorf("window %d: flush: %w", n, err)
		}
		t.wrote(f)
		if err := patiently(func() error { return s.finaliseOnce(ctx) }); err != nil {
			return fmt.Errorf("window %d: finalise: %w", n, err)
		}
	}
	return s.err
}

// oneAtATime wants the lock of a topic to be its own, and to be free once its
// holder has ended. Where there is one writer, the second one waits instead.
func oneAtATime(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 1)
	if !h.Interleaves {
		return s.err
	}
	o := s.other()
	request := sink.FinalRequest{Topic: arrivals, TopicID: topicID, Limit: 1}
	s.final(ctx, topicID, 1, func(sink.Finaliser, []sink.PendingWindow) error {
		for _, h := range []Harness{s.h, o.h} {
			f, err := h.Sink.Final(ctx, request)
			if err == nil {
				err = f.Rollback(ctx)
			}
			s.equal("a second one is told that the topic is busy", true, errors.Is(err, sink.ErrBusy))
		}
		f, err := o.h.Sink.Final(ctx, sink.FinalRequest{Topic: positions, TopicID: topicID, Limit: 1})
		if err != nil {
			return fmt.Errorf("finalise another topic: %w", err)
		}
		return f.Rollback(ctx)
	})
	o.finalise(ctx, topicID)
	return errors.Join(s.err, o.err)
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
	o := s.other()
	a, b := s.claim(ctx, arrival(0)), o.claim(ctx, arrival(1))
	for _, t := range []*task{a, b} {
		t.add(0, 10, 60)
		t.scene.save(ctx, t)
		t.heartbeat(1, 430)
	}
	fa, fb := a.snapshot(), b.snapshot()
	s.flush(ctx, fa)
	a.wrote(fa)
	s.final(ctx, topicID, 10, func(f sink.Finaliser, windows []sink.PendingWindow) error {
		s.equal("windows for A", 0, len(windows))
		if h.Interleaves {
			// B closes now, and cannot finalise because A has the lock.
			o.flush(ctx, fb)
		}
		return s.applyAll(ctx, f, windows)
	})
	if !h.Interleaves {
		o.flush(ctx, fb)
	}
	s.equal("rows", 0, len(s.aggregates(ctx)))
	s.save(ctx, a) // an empty one
	windows, _ := s.finalise(ctx, topicID)
	s.equal("windows after the next tick", 1, windows)
	s.equal("count", int64(2), s.network(ctx, 0).Count)
	return errors.Join(s.err, o.err)
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
	o := s.other()
	a := o.claim(ctx, arrival(0))
	a.heartbeat(99, 5000)
	o.save(ctx, a)
	fuller := []sink.Segment{
		s.backfill(10, 20, 60, 30),   // another origin
		s.segment(1, 10, 21, 60, 30), // another end
		s.segment(2, 9, 20, 60, 30),  // another begin
	}
	for n := range fuller {
		o.rewrite(ctx, a, s.segment(int64(n), 10, 20, 60))
	}
	var read []sink.PendingWindow
	s.final(ctx, topicID, 10, func(f sink.Finaliser, windows []sink.PendingWindow) error {
		read = windows
		if !h.Interleaves {
			return nil
		}
		o.rewrite(ctx, a, fuller...)
		return s.applyAll(ctx, f, windows)
	})
	if !h.Interleaves {
		o.rewrite(ctx, a, fuller...)
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
	return errors.Join(s.err, o.err)
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
	o := s.other()
	a, b := s.claim(ctx, arrival(0)), o.claim(ctx, arrival(1))
	for n, order := range [][]*task{{a, b}, {b, a}} {
		second := int64(n) * 300
		for _, t := range order {
			if t == a {
				t.add(t.position, second+10, 0, 60)
			} else {
				t.add(t.position, second+10, 600)
			}
			t.heartbeat(t.position, second+420)
			t.scene.save(ctx, t)
			t.scene.finalise(ctx, topicID)
		}
		got := s.network(ctx, int64(n))
		s.equal("row", sink.Aggregate{
			Start: start(int64(n)), End: start(int64(n) + 1), Dimension: "network", DimensionID: "nl", Operator: "nl:GVB",
			Count: 3, Mean: 220, P90: 600, Max: 600, Min: 0, Revision: 1, Topic: arrivals,
		}, got)
	}
	// A rebalance moves p1 to A, which reads its open window again.
	b = s.claim(ctx, arrival(1))
	b.forget()
	b.add(0, 10, 600)
	b.heartbeat(1, 420)
	s.save(ctx, b)
	before := s.dump(ctx)
	s.finalise(ctx, topicID)
	s.unchanged(ctx, "finalising after the move", before)
	return errors.Join(s.err, o.err)
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
