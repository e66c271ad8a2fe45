package ingest_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/peil-stream/peil/internal/ingest"
	"github.com/peil-stream/peil/internal/transit/gtfsrt"
)

// dutch is the snapshot of the Dutch network, with its licence beside it.
var dutch = filepath.Join("..", "..", "testdata", "nl-ovapi-tripupdates-2014")

// arrived is one event of the arrivals mode, as a reader sees it.
type arrived struct {
	Time     time.Time `json:"timestamp"`
	Line     string    `json:"line_id"`
	Operator string
	Delay    int `json:"delay_s"`
	kind     string
}

// readArrivals reads a topic partition by partition.
func readArrivals(t *testing.T, r *rig) [][]arrived {
	t.Helper()
	var out [][]arrived
	for _, records := range r.records(arrivals) {
		events := make([]arrived, 0, len(records))
		for _, record := range records {
			kind, value, _ := strings.Cut(record, " ")
			e := arrived{kind: kind}
			if err := json.Unmarshal([]byte(value), &e); err != nil {
				t.Fatalf("%s: %v", record, err)
			}
			events = append(events, e)
		}
		out = append(out, events)
	}
	return out
}

// TestDutchNetwork plays the whole network into 1, 4 and 12 partitions and counts
// it again from the log, naively: events, operators, windows; and that no event
// comes after a time that would make it late.
func TestDutchNetwork(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int32{1, 4, 12} {
		t.Run(fmt.Sprint(partitions, " partitions"), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, partitions)
			r.cfg.Feed, r.cfg.Emit = "nl", gtfsrt.Arrivals
			report := r.replay(r.open(), ingest.Options{Paths: []string{dutch}, Close: true})
			if report.Events() != 57_021 || report.Failed != 0 || report.CloseMarkers != int(partitions) {
				t.Fatalf("report %+v", report)
			}
			operators, windows := map[string]int{}, map[string][]int{}
			total, closed := 0, 0
			for p, events := range readArrivals(t, r) {
				n := len(events)
				if events[n-2].kind != "<heartbeat>" || events[n-1].kind != "<close>" {
					t.Fatalf("partition %d ends with %s and %s", p, events[n-2].kind, events[n-1].kind)
				}
				if got := events[n-2].Time.Format(time.TimeOnly) + " " + events[n-1].Time.Format(time.TimeOnly); got != "22:46:23 22:50:00" {
					t.Errorf("partition %d: heartbeat and close at %s", p, got)
				}
				if !slices.IsSortedFunc(events, func(a, b arrived) int { return cmp.Compare(a.Time.Unix(), b.Time.Unix()) }) {
					t.Errorf("partition %d is not in order, so events would be late", p)
				}
				for _, e := range events[:n-2] {
					if e.Operator == "" || !strings.HasPrefix(e.Line, e.Operator+":") {
						t.Fatalf("line %s of operator %s", e.Line, e.Operator)
					}
					start := e.Time.Truncate(5 * time.Minute)
					window := start.Format("15:04")
					operators[e.Operator]++
					windows[window] = append(windows[window], e.Delay)
					if total++; !start.Add(5 * time.Minute).After(events[n-2].Time.Add(-2 * time.Minute)) {
						closed++
					}
				}
			}
			if total != 57_021 || closed != 53_057 {
				t.Errorf("%d events, %d in windows that the header alone closes", total, closed)
			}
			if diff := gocmp.Diff(map[string]int{
				"nl:CXX": 16_611, "nl:VTN": 8_582, "nl:ARR": 8_402, "nl:QBUZZ": 7_358, "nl:RET": 5_474, "nl:HTM": 5_104, "nl:SYNTUS": 4_492, "nl:EBS": 998,
			}, operators); diff != "" {
				t.Errorf("operators (-want +got):\n%s", diff)
			}
			for window, want := range map[string]string{
				"10:05": "8 1102.375 1212 1212 1000",
				"20:25": "30 -183.53333333333333 99 115 -3241",
				"22:00": "3606 24.418191902384915 158 2125 -1991",
				"22:35": "3357 2.070598748882931 128 683 -2169",
			} {
				if got := summary(windows[window]); got != want {
					t.Errorf("window %s: %s, want %s", window, got, want)
				}
			}
		})
	}
}

// summary gives count, mean, P90, greatest and least.
func summary(delays []int) string {
	if len(delays) == 0 {
		return "nothing"
	}
	slices.Sort(delays)
	sum := 0
	for _, d := range delays {
		sum += d
	}
	rank := int(math.Ceil(0.9 * float64(len(delays))))
	return fmt.Sprint(len(delays), " ", float64(sum)/float64(len(delays)), " ", delays[rank-1], " ", delays[len(delays)-1], " ", delays[0])
}

// TestDutchNetworkInParts kills the replay of the network after every part of it,
// and finds the same log.
func TestDutchNetworkInParts(t *testing.T) {
	t.Parallel()
	whole, parts := newRig(t, 4), newRig(t, 4)
	for _, r := range []*rig{whole, parts} {
		r.cfg.Feed, r.cfg.Emit = "nl", gtfsrt.Arrivals
	}
	whole.replay(whole.open(), ingest.Options{Paths: []string{dutch}})
	parts.cfg.PartEvents = 20_000
	parts.faults = func() int { return 1 } // a part takes effect, then it is killed
	kills := 0
	for {
		report, err := ingest.Replay(t.Context(), parts.open(), ingest.Options{Paths: []string{dutch}})
		if err == nil {
			if report.NotNewer != 1 {
				t.Errorf("the last attempt: %+v", report)
			}
			break
		}
		kills++
	}
	if kills != 3 {
		t.Errorf("%d kills, want one after each of 3 parts", kills)
	}
	want, got := whole.records(arrivals), parts.records(arrivals)
	for p := range want {
		if !slices.Equal(want[p], got[p]) {
			t.Errorf("partition %d: %d records, want %d, the same", p, len(got[p]), len(want[p]))
		}
	}
}
