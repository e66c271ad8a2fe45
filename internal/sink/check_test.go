package sink_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/window"
)

func part(topic string, index int32) sink.PartitionFlush {
	return sink.PartitionFlush{Partition: stream.Partition{Topic: topic, Index: index}, To: sink.Point{Next: 3, Position: 5}}
}

func TestSortFlush(t *testing.T) {
	t.Parallel()
	given := []sink.PartitionFlush{part("b", 0), part("a", 11), part("a", 2)}
	sorted, err := sink.SortFlush(given)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range sorted {
		got = append(got, p.Partition.String())
	}
	if diff := cmp.Diff([]string{"a/2", "a/11", "b/0"}, got); diff != "" {
		t.Errorf("SortFlush mismatch (-want +got):\n%s", diff)
	}
	if given[0].Partition.Topic != "b" {
		t.Error("SortFlush changed the slice of its caller")
	}
}

func TestSortFlushRefuses(t *testing.T) {
	t.Parallel()
	segment := sink.Segment{Start: 0, End: 300_000, FirstOffset: 1, ThroughOffset: 4, Data: []byte{}}
	tests := map[string]struct {
		change func(*sink.PartitionFlush)
		want   string
	}{
		"next after position":   {func(p *sink.PartitionFlush) { p.To.Next = 6 }, "does not lie between"},
		"negative next":         {func(p *sink.PartitionFlush) { p.To.Next = -1 }, "does not lie between"},
		"position goes back":    {func(p *sink.PartitionFlush) { p.From = &sink.Point{Next: 3, Position: 6} }, "go back from 6 to 5"},
		"two of one window":     {func(p *sink.PartitionFlush) { p.Segments = []sink.Segment{segment, segment} }, "two segments"},
		"window without length": {func(p *sink.PartitionFlush) { s := segment; s.End = 0; p.Segments = []sink.Segment{s} }, "ends at 1970-01-01T00:00:00.000Z"},
		"offsets turned round":  {func(p *sink.PartitionFlush) { s := segment; s.FirstOffset = 5; p.Segments = []sink.Segment{s} }, "lies after through offset 4"},
		"no data":               {func(p *sink.PartitionFlush) { s := segment; s.Data = nil; p.Segments = []sink.Segment{s} }, "without data"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := part("a", 0)
			tt.change(&p)
			if _, err := sink.SortFlush([]sink.PartitionFlush{p}); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("SortFlush: %v, want an error about %q", err, tt.want)
			}
		})
	}
	if _, err := sink.SortFlush([]sink.PartitionFlush{part("a", 1), part("a", 1)}); err == nil {
		t.Error("a partition given twice is accepted")
	}
}

func TestSortRows(t *testing.T) {
	t.Parallel()
	row := func(dimension, id string) window.Row { return window.Row{Dimension: dimension, ID: id} }
	rows, err := sink.SortRows([]window.Row{row("station", "a"), row("line", "b"), row("line", "a")})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]window.Row{row("line", "a"), row("line", "b"), row("station", "a")}, rows); diff != "" {
		t.Errorf("SortRows mismatch (-want +got):\n%s", diff)
	}
	if _, err := sink.SortRows([]window.Row{row("line", "a"), row("line", "a")}); err == nil {
		t.Error("a key given twice is accepted")
	}
}
