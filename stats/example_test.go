package stats_test

import (
	"fmt"

	"github.com/peil-stream/peil/stats"
)

func ExampleHistogram_Summary() {
	delays := []int32{0, 60, 90, 120, 120, 150, 180, 200, 220, 300} // ascending
	s := stats.FromSorted(nil, delays).Summary()
	fmt.Println("count", s.Count, "mean", s.Mean(), "p90", s.P90, "max", s.Max, "min", s.Min)
	// Output: count 10 mean 144 p90 220 max 300 min 0
}

func ExampleMerge() {
	a := stats.FromSorted(nil, []int32{-60, 0, 0})
	b := stats.FromSorted(nil, []int32{0, 30})
	fmt.Println(stats.Merge(nil, a, b))
	// Output: [{-60 1} {0 3} {30 1}]
}
