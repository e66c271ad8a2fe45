package sink_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/stream"
)

func offset(index int32, o sink.Offset) sink.Offset {
	o.Partition = stream.Partition{Topic: "arrivals", Index: index}
	if o.TopicID == "" {
		o.TopicID = "new"
	}
	return o
}

func TestHolders(t *testing.T) {
	t.Parallel()
	const none, inf = sink.NoTime, sink.Infinity
	holder := func(index int32, finalTo int64, why sink.Hold) sink.Holder {
		return sink.Holder{Partition: stream.Partition{Topic: "arrivals", Index: index}, FinalTo: finalTo, Hold: why}
	}
	active := func(index int32, watermark int64) sink.Offset {
		return offset(index, sink.Offset{Stored: true, Watermark: watermark, FinalTo: watermark})
	}
	foreign := active(0, 100)
	foreign.Partition.Topic = "positions"

	tests := []struct {
		name    string
		offsets []sink.Offset
		topicID string
		want    sink.Finality
	}{
		{name: "no rows", want: sink.Finality{FinalTo: none}},
		{name: "rows of another topic only", offsets: []sink.Offset{foreign}, want: sink.Finality{FinalTo: none}},
		{
			name:    "the lowest watermark holds",
			offsets: []sink.Offset{active(2, 700), foreign, active(0, 900), active(1, 600)},
			topicID: "new",
			want:    sink.Finality{FinalTo: 600, Holders: []sink.Holder{holder(1, 600, sink.HoldWatermark)}},
		},
		{
			name:    "two hold together, by index",
			offsets: []sink.Offset{active(2, 600), active(0, 600), active(1, 700)},
			topicID: "new",
			want: sink.Finality{FinalTo: 600, Holders: []sink.Holder{
				holder(0, 600, sink.HoldWatermark), holder(2, 600, sink.HoldWatermark),
			}},
		},
		{
			name:    "idle with an open window",
			offsets: []sink.Offset{active(0, 900), offset(1, sink.Offset{Stored: true, Watermark: 700, FinalTo: 600})},
			topicID: "new",
			want:    sink.Finality{FinalTo: 600, Holders: []sink.Holder{holder(1, 600, sink.HoldOpenWindow)}},
		},
		{
			name:    "idle without a window lets the others decide",
			offsets: []sink.Offset{active(0, 900), offset(1, sink.Offset{Stored: true, Watermark: none, FinalTo: inf})},
			topicID: "new",
			want:    sink.Finality{FinalTo: 900, Holders: []sink.Holder{holder(0, 900, sink.HoldWatermark)}},
		},
		{
			name:    "all idle: nothing holds",
			offsets: []sink.Offset{offset(0, sink.Offset{Stored: true, FinalTo: inf}), offset(1, sink.Offset{Stored: true, FinalTo: inf})},
			topicID: "new",
			want:    sink.Finality{FinalTo: inf},
		},
		{
			name: "what was not read holds everything",
			offsets: []sink.Offset{
				active(0, 900), offset(1, sink.Offset{Watermark: none, FinalTo: none}),
				offset(2, sink.Offset{Stored: true, Watermark: none, FinalTo: none}),
			},
			topicID: "new",
			want: sink.Finality{FinalTo: none, Holders: []sink.Holder{
				holder(1, none, sink.HoldNotRead), holder(2, none, sink.HoldNoTime),
			}},
		},
		{
			name:    "another topic id holds everything, even idle",
			offsets: []sink.Offset{active(0, 900), offset(1, sink.Offset{TopicID: "old", Stored: true, FinalTo: inf})},
			topicID: "new",
			want:    sink.Finality{FinalTo: none, Holders: []sink.Holder{holder(1, inf, sink.HoldOtherTopic)}},
		},
		{
			name: "without an id the row written last decides",
			offsets: []sink.Offset{
				offset(0, sink.Offset{TopicID: "old", Stored: true, Watermark: 900, FinalTo: 900, UpdatedAt: 1}),
				offset(1, sink.Offset{Stored: true, Watermark: 700, FinalTo: 700, UpdatedAt: 2}),
			},
			want: sink.Finality{FinalTo: none, Holders: []sink.Holder{holder(0, 900, sink.HoldOtherTopic)}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := sink.Holders(tt.offsets, "arrivals", tt.topicID)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Holders mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFinalityFinal(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		finalTo int64
		end     int64
		want    bool
	}{
		{"end reached", 600, 600, true},
		{"end not reached", 599, 600, false},
		{"nothing is final", sink.NoTime, sink.NoTime, false},
		{"everything is final", sink.Infinity, sink.Infinity, true},
		{"negative times", -600, -900, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := (sink.Finality{FinalTo: tt.finalTo}).Final(tt.end); got != tt.want {
				t.Errorf("Final(%d) up to %d = %v, want %v", tt.end, tt.finalTo, got, tt.want)
			}
		})
	}
}

func TestHoldsAreExplained(t *testing.T) {
	t.Parallel()
	for _, h := range []sink.Hold{sink.HoldOtherTopic, sink.HoldNotRead, sink.HoldNoTime, sink.HoldOpenWindow, sink.HoldWatermark} {
		if h.Explain() == string(h) {
			t.Errorf("%q has no words", h)
		}
	}
}
