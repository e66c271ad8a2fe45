package sinktest

import (
	"context"
	"errors"
	"fmt"

	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/stats"
	"github.com/peil-stream/peil/window"
)

const positions = "positions"

func applyChecks() []Check {
	return []Check{
		{"rows keep every column exactly", exactRows},
		{"rows no longer in the result are removed", removedRows},
		{"rows of another topic are left alone", foreignRows},
		{"an operator once known stays", operatorStays},
		{"each content column raises the revision", everyColumn},
		{"a rolled back finaliser changes nothing", rolledBack},
	}
}

// positions registers a second topic of one partition, which nothing has read.
func (s *scene) positions(ctx context.Context) {
	topic := stream.Topic{Name: positions, ID: otherID, Partitions: 1}
	s.must("register", s.h.Sink.Register(ctx, topic, group))
}

// rowOf makes a row of n equal values.
func rowOf(dimension, id, label string, n int64, value int32) window.Row {
	return window.Row{Dimension: dimension, ID: id, Label: label, Summary: stats.Summary{
		Count: n, Sum: n * int64(value), Min: value, Max: value, P90: value,
	}}
}

// apply applies rows to window n of a topic as if they had been merged from it.
func (s *scene) apply(ctx context.Context, topic string, n int64, rows ...window.Row) (applied sink.Applied) {
	if s.err != nil {
		return applied
	}
	f, err := s.h.Sink.Final(ctx, sink.FinalRequest{Topic: topic, TopicID: topicID, Limit: 1})
	if err != nil {
		s.must("begin finalising", err)
		return applied
	}
	applied, err = f.Apply(ctx, sink.PendingWindow{Start: start(n), End: start(n + 1)}, rows)
	if err == nil {
		err = f.Commit(ctx)
	}
	s.must("apply", errors.Join(err, f.Rollback(ctx)))
	return applied
}

func exactRows(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 1)
	rows := []window.Row{
		// No order, and ids that a collation of words would sort otherwise.
		rowOf("network", "nl", "", 1, 0),
		rowOf("line", "nl:b", "", 1, -1),
		rowOf("line", "nl:B", "nl:GVB", 1, 1),
		rowOf("line", "nl:é", "", 1<<40, 86_400),
		rowOf("line", "nl:_", "", 1, -86_400),
		{Dimension: "line", ID: "nl:mean", Summary: stats.Summary{Count: 3606, Sum: 88_052, P90: 158, Max: 2125, Min: -1991}},
	}
	s.equal("changes", sink.Applied{Inserted: 6}, s.apply(ctx, arrivals, 0, rows...))
	want := map[string]window.Row{}
	for _, r := range rows {
		want[r.ID] = r
	}
	got := s.computed(ctx)
	s.equal("rows", len(want), len(got))
	for _, a := range got {
		r := want[a.DimensionID]
		s.equal("computed at some time", true, a.ComputedAt > base)
		s.equal("row", sink.Aggregate{
			Start: start(0), End: start(1), Dimension: r.Dimension, DimensionID: r.ID, Operator: r.Label,
			Count: r.Count, Mean: float64(r.Sum) / float64(r.Count), P90: float64(r.P90), Max: r.Max, Min: r.Min,
			Revision: 1, Topic: arrivals, ComputedAt: a.ComputedAt,
		}, a)
	}
	s.equal("changes of the same rows", sink.Applied{}, s.apply(ctx, arrivals, 0, rows...))
	s.equal("rows again", got, s.computed(ctx))
	return s.err
}

func removedRows(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 1)
	network := rowOf("network", "nl", "", 3, 0)
	s.apply(ctx, arrivals, 0, rowOf("line", "a", "", 1, 0), rowOf("line", "b", "", 1, 0), rowOf("line", "c", "", 1, 0), network)
	s.apply(ctx, arrivals, 1, rowOf("line", "a", "", 1, 0))
	s.apply(ctx, positions, 0, rowOf("line", "z", "", 1, 0))
	applied := s.apply(ctx, arrivals, 0, rowOf("line", "b", "", 1, 0), rowOf("line", "d", "", 1, 0), network)
	s.equal("changes", sink.Applied{Inserted: 1, Removed: 2}, applied)
	var got []string
	for _, a := range s.aggregates(ctx) {
		got = append(got, fmt.Sprintf("%d %s %s %d", (a.Start-base)/windowSize, a.Topic, a.DimensionID, a.Revision))
	}
	s.equal("rows", []string{
		"0 arrivals b 1", "0 arrivals d 1", "0 positions z 1", "0 arrivals nl 1", "1 arrivals a 1",
	}, got)
	s.equal("changes", sink.Applied{Removed: 3}, s.apply(ctx, arrivals, 0))
	s.equal("rows left", 2, len(s.aggregates(ctx)))
	return s.err
}

func foreignRows(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 1)
	s.apply(ctx, positions, 0, rowOf("line", "a", "", 1, 5), rowOf("line", "b", "", 1, 5), rowOf("line", "c", "", 1, 5))
	rows := s.computed(ctx)
	applied := s.apply(ctx, arrivals, 0, rowOf("line", "a", "", 2, 7), rowOf("line", "b", "", 2, 7), rowOf("line", "x", "", 2, 7))
	s.equal("changes", sink.Applied{Inserted: 1, Foreign: 2}, applied)
	got := s.computed(ctx)
	s.equal("rows", 4, len(got))
	if s.err == nil {
		s.equal("rows of the other topic", rows, got[:3])
	}
	ins := s.incidents(ctx)
	if len(ins) != 1 || ins[0].Kind != sink.IncidentForeignRow || ins[0].Topic != arrivals {
		s.failf("want one incident %q, got %+v", sink.IncidentForeignRow, ins)
	}
	s.equal("changes", sink.Applied{Removed: 1}, s.apply(ctx, arrivals, 0))
	s.equal("rows left", rows, s.computed(ctx))
	return s.err
}

func operatorStays(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 1)
	for _, step := range []struct {
		label, want string
		count       int64
		applied     sink.Applied
	}{
		{"", "", 1, sink.Applied{Inserted: 1}},
		{"nl:GVB", "nl:GVB", 1, sink.Applied{Revised: 1}},
		{"", "nl:GVB", 1, sink.Applied{}},
		{"", "nl:GVB", 2, sink.Applied{Revised: 1}},
		{"nl:CXX", "nl:CXX", 2, sink.Applied{Revised: 1}},
	} {
		applied := s.apply(ctx, arrivals, 0, rowOf("network", "nl", step.label, step.count, 0))
		s.equal("changes", step.applied, applied)
		s.equal("operator", step.want, s.network(ctx, 0).Operator)
	}
	s.equal("revision", int64(4), s.network(ctx, 0).Revision)
	return s.err
}

func everyColumn(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 1)
	r := window.Row{Dimension: "network", ID: "nl", Summary: stats.Summary{Count: 4, Sum: 40, P90: 10, Max: 10, Min: 10}}
	s.apply(ctx, arrivals, 0, r)
	revision := int64(1)
	for _, change := range []func(){
		func() { r.Sum++ },
		func() { r.P90++ },
		func() { r.Max++ },
		func() { r.Min-- },
		func() { r.Count, r.Sum = 8, 2*r.Sum }, // the same mean
		func() { r.Label = "nl:GVB" },
	} {
		change()
		revision++
		s.equal("changes", sink.Applied{Revised: 1}, s.apply(ctx, arrivals, 0, r))
		s.equal("no further change", sink.Applied{}, s.apply(ctx, arrivals, 0, r))
		got := s.network(ctx, 0)
		s.equal("row", sink.Aggregate{
			Start: start(0), End: start(1), Dimension: "network", DimensionID: "nl", Operator: r.Label, Count: r.Count,
			Mean: r.Mean(), P90: float64(r.P90), Max: r.Max, Min: r.Min, Revision: revision, Topic: arrivals,
		}, got)
	}
	return s.err
}

func rolledBack(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 1)
	a := s.claim(ctx, arrival(0))
	a.add(0, 10, 60)
	a.heartbeat(1, 430)
	s.save(ctx, a)
	before := s.dump(ctx)
	f, err := h.Sink.Final(ctx, sink.FinalRequest{Topic: arrivals, TopicID: topicID, Limit: 1})
	if err != nil {
		return errors.Join(s.err, err)
	}
	windows, err := f.Pending(ctx)
	s.must("pending", err)
	s.equal("windows", 1, len(windows))
	s.must("apply", s.applyAll(ctx, f, windows))
	s.must("roll back", f.Rollback(ctx))
	s.must("roll back again", f.Rollback(ctx))
	s.unchanged(ctx, "rolling back", before)
	windowsMerged, _ := s.finalise(ctx, topicID) // rolls back after its commit
	s.equal("windows merged afterwards", 1, windowsMerged)
	s.equal("count", int64(1), s.network(ctx, 0).Count)
	return s.err
}
