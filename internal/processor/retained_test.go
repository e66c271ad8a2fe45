package processor_test

import (
	"runtime"
	"testing"
	"weak"

	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/testkit"
)

// TestADurableSnapshotIsForgotten: what was written must not be held by what is
// written next, or a process grows with every flush.
func TestADurableSnapshotIsForgotten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{})
		u := r.Start(nil)
		var rows []weak.Pointer[sink.Trip]
		u.Sink.Break(func(op string, parts []sink.PartitionFlush) error {
			for _, p := range parts {
				if op == "flush" && len(p.State.Trips) > 0 {
					rows = append(rows, weak.Make(&p.State.Trips[0]))
				}
			}
			return nil
		})
		const flushes = 5
		for i := range flushes {
			r.Put(0, float64(10+i), r.Delay(float64(10+i), 1))
			u.Flush()
		}
		runtime.GC()
		held := 0
		for _, row := range rows {
			if row.Value() != nil {
				held++
			}
		}
		// The newest may still be on somebody's stack.
		if len(rows) != flushes || held > 1 {
			t.Errorf("%d of %d snapshots are held after they were written", held, len(rows))
		}
		u.Stop()
	})
}
