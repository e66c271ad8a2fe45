package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/peil-stream/peil/internal/api"
	"github.com/peil-stream/peil/internal/sink"
)

// fullStatus is a topic of five partitions, one of them in trouble, and one of
// positions.
func fullStatus() *api.Status {
	number := func(n int64) *int64 { return &n }
	const at = 1_796_043_900_000 // 2026-11-30T13:05:00Z
	st := &api.Status{Topics: []api.TopicStatus{
		{Topic: "arrival-predictions", Partitions: 5, Windowed: true, FinalTo: at},
		{Topic: "vehicle-positions", Partitions: 1, FinalTo: api.Instant(sink.NoTime)},
	}}
	for n := range int32(5) {
		p := api.PartitionStatus{
			Topic: "arrival-predictions", Partition: n, NextOffset: number(1_000_000 + int64(n)), Position: number(1_016_000),
			LogEnd: number(1_016_000), Lag: number(123_456), Uncommitted: number(16_000), HeldSince: at + 61_000, Watermark: at + 71_000,
			FinalTo: at + 71_000, Accepted: 900_000, Late: 100_204, Dead: 12_345, Epoch: 3, Owner: "some-rather-long-host-name:12345",
			HeldWindow: &api.Span{Start: at, End: at + 300_000},
		}
		if n == 2 {
			p.HeldWindow, p.Problem = nil, "the log no longer holds next_offset: records were lost"
		}
		st.Partitions = append(st.Partitions, p)
		if n != 3 {
			st.Topics[0].Holders = append(st.Topics[0].Holders, api.Holder{Partition: n, FinalTo: at, Explanation: "has its watermark there"})
		}
	}
	st.Topics[0].Holders = append(st.Topics[0].Holders, api.Holder{Partition: 3, FinalTo: at, Explanation: "is idle with an open window"})
	st.Partitions = append(st.Partitions, api.PartitionStatus{
		Topic: "vehicle-positions", Watermark: api.Instant(sink.NoTime), HeldSince: api.Instant(sink.NoTime), FinalTo: api.Instant(sink.Infinity),
	})
	return st
}

func TestStatusFitsATerminal(t *testing.T) {
	t.Parallel()
	const want = `Times are in UTC.

arrival-predictions
PARTITION  NEXT OFFSET  UNCOMMITTED     LAG    LATE   DEAD  WATERMARK
        0      1000000        16000  123456  100204  12345  2026-11-30 13:06:11
        1      1000001        16000  123456  100204  12345  2026-11-30 13:06:11
        2      1000002        16000  123456  100204  12345  2026-11-30 13:06:11
        3      1000003        16000  123456  100204  12345  2026-11-30 13:06:11
        4      1000004        16000  123456  100204  12345  2026-11-30 13:06:11
partitions 0-1, 3-4: held by the window 2026-11-30 13:05:00 to 13:10:00
partition 2: the log no longer holds next_offset: records were lost
windows are final up to 2026-11-30 13:05:00
  each of partitions 0-2, 4 has its watermark there
  partition 3 is idle with an open window

vehicle-positions
PARTITION  NEXT OFFSET  UNCOMMITTED  LAG  LATE  DEAD  WATERMARK
        0            -            -    -     0     0          -
`
	var got bytes.Buffer
	if err := printStatus(&output{format: formatTable, w: &got}, fullStatus(), false); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for line := range strings.Lines(got.String()) {
		if columns(line)-1 > 80 {
			t.Errorf("%d columns: %s", columns(line)-1, line)
		}
	}
}

// TestStatusKeepsEverything: the other forms have all columns.
func TestStatusKeepsEverything(t *testing.T) {
	t.Parallel()
	var wide, csv, doc bytes.Buffer
	for _, o := range []*output{{format: formatTable, w: &wide}, {format: formatCSV, w: &csv}, {format: formatJSON, w: &doc}} {
		if err := printStatus(o, fullStatus(), true); err != nil {
			t.Fatal(err)
		}
	}
	head, _, _ := strings.Cut(wide.String(), "\n")
	for _, column := range []string{"TOPIC", "POSITION", "LOG END", "HELD SINCE", "FINAL TO", "ACCEPTED", "IGNORED", "EPOCH", "OWNER", "NOTE"} {
		if !strings.Contains(head, column) {
			t.Errorf("--wide has no column %s: %s", column, head)
		}
	}
	for _, text := range []string{"\nTimes are in UTC.\n", "each of partitions 0-2, 4 has its watermark there\n"} {
		if !strings.Contains(wide.String(), text) {
			t.Errorf("--wide has no %q:\n%s", text, &wide)
		}
	}
	const columns = "topic,partition,next_offset,position,log_end,lag,uncommitted,held_since,watermark,final_to,accepted,late,dead,ignored,epoch,owner,note\n"
	if !strings.HasPrefix(csv.String(), columns) || strings.Count(csv.String(), "\n") != 7 {
		t.Errorf("CSV:\n%s", &csv)
	}
	var back struct {
		Partitions []map[string]any `json:"partitions"`
	}
	if err := json.Unmarshal(doc.Bytes(), &back); err != nil || len(back.Partitions) != 6 || back.Partitions[0]["owner"] == nil {
		t.Errorf("JSON: %v\n%s", err, &doc)
	}
}
