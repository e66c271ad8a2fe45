// Package stats computes exact aggregates of whole numbers from sorted values.
package stats

// Bin is one value and how often it occurs.
type Bin struct {
	Value int32
	Count int64
}

// Histogram is the bins of a multiset, by rising value, every count positive.
type Histogram []Bin

// Summary is the exact aggregate of a multiset of whole numbers.
type Summary struct {
	Count int64
	Sum   int64
	Min   int32
	Max   int32
	// P90 is the nearest rank: the ceil(0.9 n)-th smallest value.
	P90 int32
}

// Mean is Sum/Count, or 0 for an empty multiset.
func (s Summary) Mean() float64 {
	if s.Count == 0 {
		return 0
	}
	return float64(s.Sum) / float64(s.Count)
}
