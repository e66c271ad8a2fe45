package sinktest

import (
	"context"
	"errors"
	"fmt"

	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/stream"
)

func flushChecks() []Check {
	return []Check{
		{"a flush under an older epoch is fenced", olderEpoch},
		{"a flush for another topic id is fenced", olderTopicID},
		{"a flush from another stored point is fenced", otherPoint},
		{"one fenced partition stops the whole flush", fencedTogether},
		{"redoing each flush leaves the tables byte-equal", redo},
		{"a lost acknowledgement has one effect", lostAcknowledgement},
		{"position and watermark never go back", neverBack},
		{"a cancelled flush writes nothing", cancelled},
		{"an aggregate flushed by two epochs counts once", twoEpochs},
	}
}

func olderEpoch(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 1)
	p := arrival(0)
	a := s.claim(ctx, p)
	a.add(0, 10, 60)
	s.save(ctx, a)
	b := s.claim(ctx, p)
	// The zombie has more to say than the row knows, in every table.
	a.heartbeat(1, 430)
	a.state = sink.State{
		Vehicles: []sink.Vehicle{{VehicleID: "nl:1", ObservedAt: at(0)}},
		Trips:    []sink.Trip{{TripID: "nl:1", ObservedAt: at(0), PredictedTime: sink.NoTime}},
	}
	a.incidents = []sink.Incident{{Kind: "test", Topic: arrivals}}
	s.fenced(ctx, "the older epoch", []stream.Partition{p}, a.snapshot())
	b.add(0, 10, 60)
	b.add(1, 11, 30)
	s.save(ctx, b)
	s.equal("position", int64(2), s.offset(ctx, p).Point.Position)
	return s.err
}

func olderTopicID(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 1)
	p := arrival(0)
	a := s.claim(ctx, p)
	f := a.snapshot()
	f.TopicID = otherID
	s.fenced(ctx, "another topic id", []stream.Partition{p}, f)
	s.flush(ctx, a.snapshot())
	return s.err
}

func otherPoint(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 1)
	p := arrival(0)
	a := s.claim(ctx, p)
	a.add(0, 10, 60)
	f := a.snapshot()
	f.From = &sink.Point{}
	s.fenced(ctx, "a point where none is stored", []stream.Partition{p}, f)
	f.From = nil
	s.flush(ctx, f)

	next := f
	next.To = sink.Point{Next: 5, Position: 9}
	next.From = nil
	s.fenced(ctx, "no point where one is stored", []stream.Partition{p}, next)
	// M17: after a failover the row is older than what was acknowledged.
	next.From = &sink.Point{Next: f.To.Next, Position: f.To.Position + 1}
	s.fenced(ctx, "another position", []stream.Partition{p}, next)
	next.From = &sink.Point{Next: f.To.Next + 1, Position: f.To.Position}
	next.To.Next++
	s.fenced(ctx, "another next offset", []stream.Partition{p}, next)
	next.From = &f.To
	s.flush(ctx, next)
	return s.err
}

func fencedTogether(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 3)
	a, b, c := s.claim(ctx, arrival(0)), s.claim(ctx, arrival(1)), s.claim(ctx, arrival(2))
	s.claim(ctx, arrival(0))
	s.claim(ctx, arrival(2))
	for _, t := range []*task{a, b, c} {
		t.add(0, 10, 60)
		t.heartbeat(1, 430)
	}
	fb := b.snapshot()
	s.fenced(ctx, "two of three", []stream.Partition{arrival(0), arrival(2)}, c.snapshot(), fb, a.snapshot())
	s.flush(ctx, fb)
	s.equal("segments", 1, len(s.segments(ctx)))
	s.equal("position of the fenced one is stored", false, s.offset(ctx, arrival(0)).Stored)
	return s.err
}

// redo plays a busy quarter of an hour and applies each flush twice, and in the
// end every one again.
func redo(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 2)
	a, b := s.claim(ctx, arrival(0)), s.claim(ctx, arrival(1))
	var done [][]sink.PartitionFlush
	for round := range int64(8) {
		second := round * 120
		for i, t := range []*task{a, b} {
			t.add(round*10, second+int64(i), int32(round), -5, 300)
			t.heartbeat(round*10+5, second+60)
			t.state.Vehicles = []sink.Vehicle{
				{VehicleID: fmt.Sprintf("nl:%d", round%3), ObservedAt: at(second), Tie: round, Latitude: 52.1},
				{VehicleID: "nl:same", ObservedAt: at(0), Tie: 1},
			}
			t.state.Trips = []sink.Trip{{TripID: "nl:t", ObservedAt: at(second), PredictedTime: at(second + 60), DelayS: 7}}
			t.incidents = []sink.Incident{{
				Kind: "test", Topic: arrivals, Partition: int32(i), FromOffset: round, ToOffset: -1, Detail: "round",
			}}
		}
		flush := []sink.PartitionFlush{a.snapshot(), b.snapshot()}
		s.flush(ctx, flush...)
		a.wrote(flush[0])
		b.wrote(flush[1])
		s.finalise(ctx, topicID)
		before := s.dump(ctx)
		s.flush(ctx, flush...)
		s.unchanged(ctx, "redo", before)
		windows, _ := s.finalise(ctx, topicID)
		s.equal("windows to merge after the redo", 0, windows)
		done = append(done, flush)
	}
	s.equal("segments", 4, len(s.segments(ctx)))
	s.equal("incidents", 16, len(s.incidents(ctx)))
	before := s.dump(ctx)
	for _, flush := range done {
		s.try(ctx, flush...)
	}
	s.unchanged(ctx, "redoing everything", before)
	return s.err
}

// M06: the outcome of a flush is unknown; it is redone, and the first one comes
// through after all, now or later.
func lostAcknowledgement(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 1)
	p := arrival(0)
	a := s.claim(ctx, p)
	a.add(0, 10, 60)
	a.heartbeat(1, 430)
	first := a.snapshot()
	s.flush(ctx, first)
	s.flush(ctx, first)
	a.wrote(first)
	a.add(2, 431, 30)
	second := a.snapshot()
	s.flush(ctx, second)
	s.fenced(ctx, "the first one again", []stream.Partition{p}, first)
	s.flush(ctx, second)
	s.equal("position", int64(3), s.offset(ctx, p).Point.Position)
	s.equal("segments", 1, len(s.segments(ctx)))
	return s.err
}

// M09: after a restart the position that was read lies below the stored one.
func neverBack(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 1)
	p := arrival(0)
	a := s.claim(ctx, p)
	f := a.snapshot()
	f.To, f.Watermark, f.FinalTo = sink.Point{Next: 1, Position: 5}, at(100), at(100)
	s.flush(ctx, f)
	f.From = &sink.Point{Next: 1, Position: 5}

	back := f
	back.To = sink.Point{Next: 1, Position: 2}
	// The adapter may refuse this or keep what is stored.
	if _, err := h.Sink.Flush(ctx, []sink.PartitionFlush{back}); err != nil && errors.Is(err, sink.ErrTransient) {
		s.failf("position back: %w", err)
	}
	s.equal("position", int64(5), s.offset(ctx, p).Point.Position)

	for _, watermark := range []int64{at(50), sink.NoTime} {
		f.Watermark = watermark
		s.flush(ctx, f)
		s.equal("watermark", at(100), s.offset(ctx, p).Watermark)
	}
	f.Watermark = at(101)
	s.flush(ctx, f)
	s.equal("watermark that rises", at(101), s.offset(ctx, p).Watermark)
	c, err := h.Sink.Claim(ctx, request(p, topicID))
	s.must("claim", err)
	s.equal("claimed position", int64(5), c.Point.Position)
	return s.err
}

func cancelled(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 1)
	a := s.claim(ctx, arrival(0))
	a.add(0, 10, 60)
	a.heartbeat(1, 430)
	f := a.snapshot()
	before := s.dump(ctx)
	dead, cancel := context.WithCancel(ctx)
	cancel()
	_, err := h.Sink.Flush(dead, []sink.PartitionFlush{f})
	if !errors.Is(err, context.Canceled) {
		s.failf("cancelled flush: got %v", err)
	}
	s.unchanged(ctx, "cancelled flush", before)
	s.flush(ctx, f)
	return s.err
}

// twoEpochs writes (10, 144.0, 300.0) by one owner, and again by the next one,
// which reads everything once more and closes the window at the same offset.
func twoEpochs(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 1)
	p := arrival(0)
	want := sink.Aggregate{
		Start: start(0), End: start(1), Dimension: "network", DimensionID: "nl", Operator: "nl:GVB",
		Count: 10, Mean: 144, P90: 300, Max: 300, Min: 0, Revision: 1, Topic: arrivals,
	}
	for epoch := range 2 {
		t := s.claim(ctx, p)
		t.forget()
		t.add(0, 10, 0, 300, 60, 0, 120, 300, 60, 120, 180, 300)
		t.heartbeat(10, 420)
		s.save(ctx, t)
		s.finalise(ctx, topicID)
		s.equal(fmt.Sprintf("row after owner %d", epoch), want, s.network(ctx, 0))
	}
	// A third owner closes the window one offset later: the segment is another
	// one, and the row is still the same.
	t := s.claim(ctx, p)
	t.forget()
	t.add(0, 10, 0, 300, 60, 0, 120, 300, 60, 120, 180, 300)
	t.heartbeat(11, 420)
	s.save(ctx, t)
	windows, applied := s.finalise(ctx, topicID)
	s.equal("windows merged again", 1, windows)
	s.equal("changes", sink.Applied{}, applied)
	s.equal("row after the third owner", want, s.network(ctx, 0))
	s.equal("rows", 2, len(s.aggregates(ctx)))
	return s.err
}
