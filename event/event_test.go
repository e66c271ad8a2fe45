package event_test

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/peil-stream/peil/event"
)

func TestStatusString(t *testing.T) {
	t.Parallel()
	want := []string{"none", "skipped", "no_data", "canceled", "unmatched", "unknown", "invalid"}
	for i, w := range want {
		if got := event.Status(i).String(); got != w {
			t.Errorf("Status(%d) = %s, want %s", i, got, w)
		}
	}
	if p := (event.Prediction{}); !p.HasDelay() {
		t.Error("a prediction without a status has no delay")
	}
	if p := (event.Prediction{Status: event.Unmatched}); p.HasDelay() {
		t.Error("a prediction with a status has a delay")
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	p := event.Prediction{Feed: []byte("nl"), TripID: []byte("nl:t")}
	if got := string(event.PredictionKey([]byte("x"), &p)); got != "xnl|nl:t|" {
		t.Errorf("PredictionKey = %s", got)
	}
	v := event.Position{Feed: []byte("nl"), VehicleID: []byte("nl:v")}
	if got := string(event.PositionKey([]byte("x"), &v)); got != "xnl|nl:v" {
		t.Errorf("PositionKey = %s", got)
	}
}

func stop(seq, predicted int64) event.Prediction {
	return event.Prediction{
		StopSequence: seq, HasStopSequence: seq >= 0, PredictedTime: predicted, Timestamp: 1_000,
	}
}

func TestTieNumbers(t *testing.T) {
	t.Parallel()
	const ahead = 1 << 62
	for _, tt := range []struct {
		name string
		p    event.Prediction
		want int64
	}{
		{"ahead, stop 7", stop(7, 1_001), ahead - 7},
		{"now is passed", stop(7, 1_000), 7},
		{"passed, stop 7", stop(7, 10), 7},
		{"no predicted time counts as passed", stop(7, event.NoTime), 7},
		{"ahead by 5 ms", stop(-1, 1_005), ahead - 5},
		{"passed for 5 ms", stop(-1, 995), -5},
		{"neither", stop(-1, event.NoTime), -(1 << 60) - 1},
		{"greatest stop", stop(math.MaxInt32, 2_000), ahead - math.MaxInt32},
	} {
		if got := tt.p.Tie(); got != tt.want {
			t.Errorf("%s: Tie = %d, want %d", tt.name, got, tt.want)
		}
	}
}

// TestTieOrders is R10 in words, for trips whose stops all have a sequence, and
// for trips whose stops all have none.
func TestTieOrders(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		withSequence := rapid.Bool().Draw(t, "sequence")
		times := rapid.SliceOfNDistinct(rapid.Int64Range(-50, 2_050), 2, 8, rapid.ID[int64]).Draw(t, "times")
		slices.Sort(times)
		var stops []event.Prediction
		for i, at := range times {
			if withSequence {
				stops = append(stops, stop(int64(i), at))
			} else {
				stops = append(stops, stop(-1, at))
			}
		}
		newest := slices.MaxFunc(stops, func(a, b event.Prediction) int { return cmp.Compare(a.Tie(), b.Tie()) })
		// The earliest stop not yet passed, else the last one.
		want := times[len(times)-1]
		for _, at := range times {
			if at > 1_000 {
				want = at
				break
			}
		}
		if newest.PredictedTime != want {
			t.Fatalf("newest of %v is the stop at %d, want %d", times, newest.PredictedTime, want)
		}
	})
}

// TestTieNeverOverflows draws records that no decoder would give.
func TestTieNeverOverflows(t *testing.T) {
	t.Parallel()
	extreme := []int64{math.MinInt64, math.MinInt64 + 1, -1, 0, 1, 1_000, math.MaxInt64 - 1, math.MaxInt64}
	for _, timestamp := range extreme {
		for _, predicted := range extreme {
			for _, sequence := range extreme {
				for _, has := range []bool{false, true} {
					p := event.Prediction{
						StopSequence: sequence, HasStopSequence: has,
						PredictedTime: predicted, Timestamp: timestamp,
					}
					ahead := predicted != event.NoTime && predicted > timestamp
					if got := p.Tie(); (got > 1<<61) != ahead || got > 1<<62 || got < -(1<<60)-1 {
						t.Fatalf("Tie of %+v = %d", p, got)
					}
				}
			}
		}
	}
}
