package city

import (
	"strings"
	"testing"
	"time"

	"github.com/peil-stream/peil/event"
	"github.com/peil-stream/peil/internal/transit/gtfsrt"
)

// How: from all times of the day, six minutes of polls go through the real decoder
// and differ; the first whole window must be rich enough to show.
func TestFirstWindowIsRichAtAnyTimeOfDay(t *testing.T) {
	t.Parallel()
	c := newCity(t, Config{})
	const size = 5 * time.Minute
	statuses := map[event.Status]int{}
	for hour := 0; hour < 24; hour += 3 {
		now := monday.Add(time.Duration(hour)*time.Hour + 17*time.Minute + 41*time.Second)
		first := FirstPoll(now, time.Hour, size, 30*time.Second)
		differ, err := gtfsrt.NewDiffer(gtfsrt.Config{Feed: "city"}, func(func(string, []byte) bool) {})
		if err != nil {
			t.Fatal(err)
		}
		events, lines := map[int64]int{}, map[int64]map[string]bool{}
		for n := range 12 {
			at := first.Add(time.Duration(n) * 30 * time.Second)
			s, err := gtfsrt.Decode(encode(t, c.Message(at)))
			if err != nil {
				t.Fatal(err)
			}
			delta := differ.Diff(s, now.UnixMilli())
			for reason, count := range delta.Stats.Tally.All() {
				t.Errorf("%v: %d %s", at, count, reason)
			}
			for _, e := range delta.Events {
				p := e.Prediction
				if p == nil {
					checkPosition(t, e.Position)
					continue
				}
				statuses[p.Status]++
				if !strings.HasPrefix(string(p.LineID), string(p.Operator)+":") {
					t.Fatalf("line %q of operator %q", p.LineID, p.Operator)
				}
				if p.HasDelay() {
					start := e.Time - e.Time%size.Milliseconds()
					events[start]++
					if lines[start] == nil {
						lines[start] = map[string]bool{}
					}
					lines[start][string(p.LineID)] = true
				}
			}
		}
		start := first.Truncate(size)
		if len(events) == 0 || events[start.UnixMilli()] < 1000 || len(lines[start.UnixMilli()]) < 10 {
			t.Errorf("the window of %v has %d events of %d lines", start, events[start.UnixMilli()], len(lines[start.UnixMilli()]))
		}
		for other := range events {
			if other < start.UnixMilli() {
				t.Errorf("events before the first window, in that of %v", time.UnixMilli(other).UTC())
			}
		}
	}
	for _, s := range []event.Status{event.Skipped, event.NoData, event.Canceled} {
		if statuses[s] == 0 {
			t.Errorf("no event has the status %v: %v", s, statuses)
		}
	}
	if statuses[event.Unmatched]+statuses[event.Unknown] > 0 {
		t.Errorf("statuses %v", statuses)
	}
}

func checkPosition(t *testing.T, p *event.Position) {
	t.Helper()
	if !strings.HasPrefix(string(p.LineID), string(p.Operator)+":") || len(p.TripID) == 0 || len(p.StopID) == 0 ||
		len(p.CurrentStatus) == 0 || !p.HasBearing || !p.HasSpeed {
		t.Fatalf("position %+v", p)
	}
}
