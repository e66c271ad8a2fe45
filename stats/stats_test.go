package stats_test

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/peil-stream/peil/stats"
)

// histogram makes a histogram of values in any order.
func histogram(values ...int32) stats.Histogram {
	return stats.FromSorted(nil, slices.Sorted(slices.Values(values)))
}

// naive computes a summary by the definition: sort, add up with big numbers, and
// take the ceil(0.9 n)-th smallest.
func naive(values []int32) stats.Summary {
	if len(values) == 0 {
		return stats.Summary{}
	}
	sorted := slices.Sorted(slices.Values(values))
	sum := new(big.Int)
	for _, v := range sorted {
		sum.Add(sum, big.NewInt(int64(v)))
	}
	n := len(sorted)
	rank := (9*n + 9) / 10
	return stats.Summary{
		Count: int64(n), Sum: sum.Int64(), Min: sorted[0], Max: sorted[n-1], P90: sorted[rank-1],
	}
}

func TestSummary(t *testing.T) {
	t.Parallel()
	upTo := func(n int32) []int32 {
		var values []int32
		for v := int32(1); v <= n; v++ {
			values = append(values, v)
		}
		return values
	}
	tests := []struct {
		name   string
		values []int32
		want   stats.Summary
		mean   float64
	}{
		{"empty", nil, stats.Summary{}, 0},
		{"one", []int32{7}, stats.Summary{Count: 1, Sum: 7, Min: 7, Max: 7, P90: 7}, 7},
		{"one zero", []int32{0}, stats.Summary{Count: 1}, 0},
		{
			"ten delays",
			[]int32{0, 60, 90, 120, 120, 150, 180, 200, 220, 300},
			stats.Summary{Count: 10, Sum: 1440, Min: 0, Max: 300, P90: 220},
			144,
		},
		{"nine", upTo(9), stats.Summary{Count: 9, Sum: 45, Min: 1, Max: 9, P90: 9}, 5},
		{"ten", upTo(10), stats.Summary{Count: 10, Sum: 55, Min: 1, Max: 10, P90: 9}, 5.5},
		{"eleven", upTo(11), stats.Summary{Count: 11, Sum: 66, Min: 1, Max: 11, P90: 10}, 6},
		{"twenty", upTo(20), stats.Summary{Count: 20, Sum: 210, Min: 1, Max: 20, P90: 18}, 10.5},
		{"hundred", upTo(100), stats.Summary{Count: 100, Sum: 5050, Min: 1, Max: 100, P90: 90}, 50.5},
		{
			"ends of the range",
			[]int32{math.MinInt32, math.MaxInt32, math.MaxInt32},
			stats.Summary{Count: 3, Sum: math.MaxInt32 - 1, Min: math.MinInt32, Max: math.MaxInt32, P90: math.MaxInt32},
			float64(math.MaxInt32-1) / 3,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := histogram(tt.values...).Summary()
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Fatalf("Summary(%v) mismatch (-want +got):\n%s", tt.values, diff)
			}
			if got.Mean() != tt.mean {
				t.Fatalf("Mean(%v) = %v, want %v", tt.values, got.Mean(), tt.mean)
			}
		})
	}
}

// All values below zero: nothing may be seeded with 0 or -1.
func TestK38NoSentinel(t *testing.T) {
	t.Parallel()
	got := histogram(-120, -60).Summary()
	want := stats.Summary{Count: 2, Sum: -180, Min: -120, Max: -60, P90: -60}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("Summary mismatch (-want +got):\n%s", diff)
	}
	if got.Mean() != -90 {
		t.Fatalf("Mean = %v, want -90", got.Mean())
	}
}

func TestSummaryOfTheLargestHistogram(t *testing.T) {
	t.Parallel()
	for _, v := range []int32{math.MinInt32, math.MaxInt32} {
		h := stats.Histogram{{Value: v, Count: stats.CountMax}}
		want := new(big.Int).Mul(big.NewInt(int64(v)), big.NewInt(stats.CountMax))
		if got := h.Summary(); !want.IsInt64() || got.Sum != want.Int64() || got.P90 != v {
			t.Fatalf("Summary(%v) = %+v, want sum %v", h, got, want)
		}
	}
}

func TestFromSorted(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		dst    stats.Histogram
		values []int32
		want   stats.Histogram
	}{
		{"nothing", nil, nil, nil},
		{"runs", nil, []int32{-2, -2, 0, 5, 5, 5}, stats.Histogram{{-2, 2}, {0, 1}, {5, 3}}},
		{"joins the last bin", stats.Histogram{{1, 1}, {5, 2}}, []int32{5, 6}, stats.Histogram{{1, 1}, {5, 3}, {6, 1}}},
		{"after the last bin", stats.Histogram{{1, 1}}, []int32{2}, stats.Histogram{{1, 1}, {2, 1}}},
		{"nothing more", stats.Histogram{{1, 1}}, nil, stats.Histogram{{1, 1}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, stats.FromSorted(tt.dst, tt.values)); diff != "" {
				t.Fatalf("FromSorted mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFromSortedRefusesDisorder(t *testing.T) {
	t.Parallel()
	for _, values := range [][]int32{{2, 1}, {1, 1, 3, 2}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("FromSorted(%v) did not panic", values)
				}
			}()
			stats.FromSorted(nil, values)
		}()
	}
}

func drawValues(t *rapid.T, label string) []int32 {
	value := rapid.OneOf(rapid.Int32(), rapid.Int32Range(-3, 3))
	return rapid.SliceOfN(value, 0, 60).Draw(t, label)
}

func TestSummaryEqualsNaive(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		values := drawValues(t, "values")
		h := histogram(values...)
		if diff := cmp.Diff(naive(values), h.Summary()); diff != "" {
			t.Fatalf("Summary mismatch (-want +got):\n%s", diff)
		}
		if h.Count() != int64(len(values)) {
			t.Fatalf("Count = %d, want %d", h.Count(), len(values))
		}
	})
}

// A run given in pieces is the run given at once.
func TestFromSortedInPieces(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		values := drawValues(t, "values")
		slices.Sort(values)
		at := rapid.IntRange(0, len(values)).Draw(t, "at")
		got := stats.FromSorted(stats.FromSorted(nil, values[:at]), values[at:])
		if diff := cmp.Diff(histogram(values...), got); diff != "" {
			t.Fatalf("FromSorted in pieces mismatch (-want +got):\n%s", diff)
		}
	})
}

func TestMergeIsUnion(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		va, vb, vc := drawValues(t, "a"), drawValues(t, "b"), drawValues(t, "c")
		a, b, c := histogram(va...), histogram(vb...), histogram(vc...)
		dirty := stats.Histogram{{Value: 9, Count: 9}, {Value: 10, Count: 1}}

		ab := stats.Merge(slices.Clone(dirty), a, b)
		if diff := cmp.Diff([]stats.Bin(histogram(slices.Concat(va, vb)...)), append([]stats.Bin(nil), ab...)); diff != "" {
			t.Fatalf("Merge is not the union (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(ab, stats.Merge(slices.Clone(dirty), b, a)); diff != "" {
			t.Fatalf("Merge is not commutative (-ab +ba):\n%s", diff)
		}
		left := stats.Merge(stats.Histogram{}, ab, c)
		right := stats.Merge(stats.Histogram{}, a, stats.Merge(nil, b, c))
		if diff := cmp.Diff(left, right); diff != "" {
			t.Fatalf("Merge is not associative (-(ab)c +a(bc)):\n%s", diff)
		}
		if diff := cmp.Diff(stats.Histogram{}, stats.Merge(stats.Histogram{}, nil, nil)); diff != "" {
			t.Fatalf("Merge of nothing (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(append(stats.Histogram{}, a...), stats.Merge(stats.Histogram{}, a, nil)); diff != "" {
			t.Fatalf("the empty histogram is not neutral (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(histogram(va...), a); diff != "" {
			t.Fatalf("Merge changed its argument (-want +got):\n%s", diff)
		}
	})
}

// Not parallel: it counts allocations.
func TestMergeReusesMemory(t *testing.T) {
	a, b := histogram(1, 2, 3), histogram(2, 4)
	dst := make(stats.Histogram, 0, 8)
	if n := testing.AllocsPerRun(100, func() { dst = stats.Merge(dst, a, b) }); n != 0 {
		t.Fatalf("Merge into enough memory allocates %v times", n)
	}
}

// FuzzMerge cuts bytes into two multisets: the union's summary is that of all the
// values together.
func FuzzMerge(f *testing.F) {
	f.Add([]byte{1, 2, 3}, []byte{3, 4})
	f.Add([]byte{}, []byte{0})
	f.Add([]byte{128, 128}, []byte{})
	f.Fuzz(func(t *testing.T, a, b []byte) {
		values := func(raw []byte) []int32 {
			out := make([]int32, len(raw))
			for i, c := range raw {
				out[i] = int32(int8(c)) << 24 >> (c % 25)
			}
			return out
		}
		va, vb := values(a), values(b)
		got := stats.Merge(nil, histogram(va...), histogram(vb...))
		for i := range got {
			if got[i].Count <= 0 || i > 0 && got[i-1].Value >= got[i].Value {
				t.Fatalf("Merge(%v, %v) = %v is not a histogram", va, vb, got)
			}
		}
		if diff := cmp.Diff(naive(slices.Concat(va, vb)), got.Summary()); diff != "" {
			t.Fatalf("Merge(%v, %v) mismatch (-want +got):\n%s", va, vb, diff)
		}
	})
}

func BenchmarkFromSorted(b *testing.B) {
	values := make([]int32, 10_000)
	for i := range values {
		values[i] = int32(i / 4)
	}
	var h stats.Histogram
	b.ReportAllocs()
	for b.Loop() {
		h = stats.FromSorted(h[:0], values)
	}
}

func BenchmarkMerge(b *testing.B) {
	var x, y, dst stats.Histogram
	for i := range int32(2_000) {
		x = append(x, stats.Bin{Value: 2 * i, Count: 3})
		y = append(y, stats.Bin{Value: 3 * i, Count: 1})
	}
	b.ReportAllocs()
	for b.Loop() {
		dst = stats.Merge(dst, x, y)
	}
}

func BenchmarkSummary(b *testing.B) {
	var h stats.Histogram
	for i := range int32(2_000) {
		h = append(h, stats.Bin{Value: i, Count: 3})
	}
	for b.Loop() {
		h.Summary()
	}
}
