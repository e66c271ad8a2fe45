package sinktest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/peil-stream/peil/internal/sink"
)

func viewChecks() []Check {
	return []Check{
		{"a view is of one moment", oneMoment},
		{"aggregates are found by dimension, id and time", aggregateQueries},
		{"a sequence may be left early and begun again", leftEarly},
		{"segments come with or without data", segmentViews},
		{"incidents come newest first", newestIncidents},
		{"incidents do not grow without end", boundedIncidents},
		{"the newest cold start outlives them", keptColdStarts},
		{"closing twice is closing once", closedTwice},
	}
}

// all is the query without a restriction.
func all() sink.AggregateQuery { return sink.AggregateQuery{From: sink.NoTime, To: sink.NoTime} }

func oneMoment(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 1)
	a := s.claim(ctx, arrival(0))
	a.add(0, 10, 60)
	s.save(ctx, a)
	s.look(ctx, func(v sink.View) error {
		a.heartbeat(1, 430)
		a.state.Vehicles = []sink.Vehicle{{VehicleID: "nl:1", ObservedAt: at(0)}}
		a.incidents = []sink.Incident{{Kind: "test", Topic: arrivals}}
		s.save(ctx, a)
		s.finalise(ctx, topicID)

		offsets, err := v.Offsets(ctx)
		if err == nil && (len(offsets) != 1 || offsets[0].Point.Position != 1) {
			s.failf("the view sees later offsets: %+v", offsets)
		}
		rows, errRows := collect(v.Aggregates(ctx, all()))
		segments, errSegments := collect(v.Segments(ctx, arrivals, false))
		vehicles, errVehicles := collect(v.Vehicles(ctx))
		incidents, errIncidents := v.Incidents(ctx, 0)
		s.equal("later rows in the view", 0, len(rows)+len(segments)+len(vehicles)+len(incidents))
		return errors.Join(err, errRows, errSegments, errVehicles, errIncidents)
	})
	s.equal("position in a new view", int64(2), s.offset(ctx, arrival(0)).Point.Position)
	s.equal("rows in a new view", 2, len(s.aggregates(ctx)))
	return s.err
}

func aggregateQueries(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 1)
	for n := range int64(3) {
		s.apply(ctx, arrivals, n, rowOf("network", "a", "", 1, 0), rowOf("line", "b", "", 1, 0), rowOf("line", "a", "", 1, 0))
	}
	with := func(change func(*sink.AggregateQuery)) sink.AggregateQuery {
		q := all()
		change(&q)
		return q
	}
	for _, tt := range []struct {
		name string
		q    sink.AggregateQuery
		want string
	}{
		{"all", all(), "0la 0lb 0na 1la 1lb 1na 2la 2lb 2na "},
		{"limit", with(func(q *sink.AggregateQuery) { q.Limit = 4 }), "0la 0lb 0na 1la "},
		{"newest", with(func(q *sink.AggregateQuery) { q.Newest = true; q.Limit = 4 }), "2la 2lb 2na 1la "},
		{"dimension", with(func(q *sink.AggregateQuery) { q.Dimension = "line" }), "0la 0lb 1la 1lb 2la 2lb "},
		{"id", with(func(q *sink.AggregateQuery) { q.DimensionID = "a" }), "0la 0na 1la 1na 2la 2na "},
		{"both", with(func(q *sink.AggregateQuery) { q.Dimension, q.DimensionID = "line", "a" }), "0la 1la 2la "},
		{"both, newest", with(func(q *sink.AggregateQuery) {
			q.Dimension, q.DimensionID, q.Newest, q.Limit = "line", "a", true, 2
		}), "2la 1la "},
		{"from, including", with(func(q *sink.AggregateQuery) { q.From = start(2) }), "2la 2lb 2na "},
		{"to, excluding", with(func(q *sink.AggregateQuery) { q.To = start(1) }), "0la 0lb 0na "},
		{"from and to", with(func(q *sink.AggregateQuery) {
			q.Dimension, q.From, q.To = "network", start(0)+1, start(2)
		}), "1na "},
		{"nothing there", with(func(q *sink.AggregateQuery) { q.Dimension, q.DimensionID = "line", "' OR TRUE --" }), ""},
	} {
		s.look(ctx, func(v sink.View) error {
			var got strings.Builder
			for a, err := range v.Aggregates(ctx, tt.q) {
				if err != nil {
					return err
				}
				fmt.Fprintf(&got, "%d%s%s ", (a.Start-base)/windowSize, a.Dimension[:1], a.DimensionID)
			}
			s.equal(tt.name, tt.want, got.String())
			return nil
		})
	}
	return s.err
}

func leftEarly(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 1)
	s.apply(ctx, arrivals, 0, rowOf("line", "a", "", 1, 0), rowOf("line", "b", "", 1, 0))
	s.look(ctx, func(v sink.View) error {
		seq := v.Aggregates(ctx, all())
		for range 20 {
			for a, err := range seq {
				if err != nil {
					return err
				}
				s.equal("first row", "a", a.DimensionID)
				break
			}
		}
		rows, err := collect(seq)
		s.equal("rows", 2, len(rows))
		return err
	})
	// A sequence inside another one.
	s.look(ctx, func(v sink.View) error {
		pairs := 0
		for _, err := range v.Aggregates(ctx, all()) {
			if err != nil {
				return err
			}
			inner, err := collect(v.Aggregates(ctx, all()))
			if err != nil {
				return err
			}
			pairs += len(inner)
		}
		s.equal("pairs", 4, pairs)
		return nil
	})
	return s.err
}

func segmentViews(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 2)
	a, b := s.claim(ctx, arrival(0)), s.claim(ctx, arrival(1))
	late, early, other, last := s.segment(1, 3, 9, 1, 2), s.segment(0, 0, 5, 3), s.segment(0, 1, 6, 4), s.segment(2, 9, 12, 5)
	s.rewrite(ctx, b, late, other)
	s.rewrite(ctx, a, last, early)
	want := []sink.StoredSegment{
		{Partition: 0, Segment: early, MergedAt: sink.NoTime, TopicID: topicID},
		{Partition: 1, Segment: other, MergedAt: sink.NoTime, TopicID: topicID},
		{Partition: 1, Segment: late, MergedAt: sink.NoTime, TopicID: topicID},
		{Partition: 0, Segment: last, MergedAt: sink.NoTime, TopicID: topicID},
	}
	s.equal("with data", want, s.segments(ctx))
	s.look(ctx, func(v sink.View) error {
		bare, err := collect(v.Segments(ctx, arrivals, false))
		for i := range want {
			want[i].Data = nil
		}
		s.equal("without data", want, bare)
		none, errNone := collect(v.Segments(ctx, "no-such-topic", true))
		s.equal("segments of a topic without any", 0, len(none))
		return errors.Join(err, errNone)
	})
	return s.err
}

func newestIncidents(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 1)
	full := sink.Incident{Kind: "lost", Topic: arrivals, Partition: 0, FromOffset: 0, ToOffset: 499, Detail: "500 records"}
	bare := sink.Incident{Kind: "bare", Partition: -1, FromOffset: -1, ToOffset: -1}
	a := s.claim(ctx, arrival(0))
	s.must("record", h.Sink.Record(ctx, full))
	a.incidents = []sink.Incident{bare, full} // the second one is known already
	s.save(ctx, a)
	got := s.incidents(ctx)
	if len(got) == 2 {
		if got[0].ID <= got[1].ID || got[0].At <= got[1].At || got[1].At <= base {
			s.failf("ids and times do not rise: %+v", got)
		}
		got[0].ID, got[0].At, got[1].ID, got[1].At = 0, 0, 0, 0
	}
	s.equal("incidents", []sink.Incident{bare, full}, got)
	s.look(ctx, func(v sink.View) error {
		newest, err := v.Incidents(ctx, 1)
		s.equal("limit", 1, len(newest))
		if len(newest) == 1 {
			s.equal("newest", "bare", newest[0].Kind)
		}
		return err
	})
	return s.err
}

func boundedIncidents(ctx context.Context, h Harness) error {
	const more = 10
	s := newScene(ctx, h, 1)
	a := s.claim(ctx, arrival(0))
	for i := range int64(sink.IncidentsMax + more) {
		a.incidents = append(a.incidents, sink.Incident{Kind: "test", Topic: arrivals, FromOffset: i, ToOffset: i})
	}
	s.save(ctx, a)
	kept := s.incidents(ctx)
	s.equal("kept", sink.IncidentsMax, len(kept))
	if len(kept) > 0 {
		s.equal("oldest kept", int64(more), kept[len(kept)-1].FromOffset)
	}
	s.must("record", h.Sink.Record(ctx, sink.Incident{Kind: "newest"}))
	kept = s.incidents(ctx)
	s.equal("kept after one more", sink.IncidentsMax, len(kept))
	if len(kept) > 0 {
		s.equal("newest kept", "newest", kept[0].Kind)
	}
	return s.err
}

// keptColdStarts holds that the newest cold start of a partition outlives the
// others, for verify begins where it says.
func keptColdStarts(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 2)
	a := s.claim(ctx, arrival(0))
	for _, in := range []sink.Incident{{Partition: 0, FromOffset: 1}, {Partition: 0, FromOffset: 7}, {Partition: 1, FromOffset: 5}} {
		in.Kind, in.Topic, in.ToOffset = sink.IncidentColdStart, arrivals, -1
		a.incidents = append(a.incidents, in)
	}
	s.save(ctx, a)
	a.incidents = nil
	for i := range int64(sink.IncidentsMax) {
		a.incidents = append(a.incidents, sink.Incident{Kind: "test", Topic: arrivals, FromOffset: i, ToOffset: i})
	}
	s.save(ctx, a)
	kept := s.incidents(ctx)
	s.equal("kept", sink.IncidentsMax+2, len(kept))
	if n := len(kept); n > 2 {
		s.equal("cold start of partition 1", int64(5), kept[n-2].FromOffset)
		s.equal("newer cold start of partition 0", int64(7), kept[n-1].FromOffset)
	}
	return s.err
}

func closedTwice(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 1)
	a := s.claim(ctx, arrival(0))
	s.save(ctx, a)
	s.must("close", h.Sink.Close())
	s.must("close again", h.Sink.Close())
	_, err := h.Sink.Flush(ctx, []sink.PartitionFlush{a.snapshot()})
	s.refuse("flush after close", err)
	s.refuse("record after close", h.Sink.Record(ctx, sink.Incident{Kind: "test"}))
	f, err := h.Sink.Final(ctx, sink.FinalRequest{Topic: arrivals, TopicID: topicID, Limit: 1})
	s.refuse("finalising after close", err)
	if err == nil {
		s.must("roll back", f.Rollback(ctx))
	}
	return s.err
}
