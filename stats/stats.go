package stats

import "math"

// CountMax is the largest number of values that a histogram may hold: that many
// int32 values always have a sum that fits into an int64.
const CountMax int64 = math.MaxUint32

// Bin is one value and how often it occurs.
type Bin struct {
	Value int32
	Count int64
}

// Histogram is the bins of a multiset, by rising value, every count positive.
type Histogram []Bin

// FromSorted appends the bins of ascending values to dst and returns it. The
// first value must not lie below the last bin of dst; if it equals it, the two
// become one bin. So a long run may be given in pieces. Values that do not ascend
// are a programmer's error and panic.
func FromSorted(dst Histogram, values []int32) Histogram {
	for len(values) > 0 {
		v := values[0]
		n := 1
		for n < len(values) && values[n] == v {
			n++
		}
		values = values[n:]

		last := len(dst) - 1
		switch {
		case last < 0 || dst[last].Value < v:
			dst = append(dst, Bin{Value: v, Count: int64(n)})
		case dst[last].Value == v:
			dst[last].Count += int64(n)
		default:
			panic("stats: values do not ascend")
		}
	}
	return dst
}

// Merge returns the union of two multisets, in which counts of equal values add
// up. It overwrites dst and uses its memory as far as that goes; dst must not
// share memory with a or b, which stay as they are.
func Merge(dst, a, b Histogram) Histogram {
	dst = dst[:0]
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0].Value < b[0].Value:
			dst = append(dst, a[0])
			a = a[1:]
		case a[0].Value > b[0].Value:
			dst = append(dst, b[0])
			b = b[1:]
		default:
			dst = append(dst, Bin{Value: a[0].Value, Count: a[0].Count + b[0].Count})
			a, b = a[1:], b[1:]
		}
	}
	dst = append(dst, a...)
	return append(dst, b...)
}

// Count is the number of values.
func (h Histogram) Count() int64 {
	var n int64
	for i := range h {
		n += h[i].Count
	}
	return n
}

// Summary computes the aggregate. That of an empty histogram is the zero Summary.
func (h Histogram) Summary() Summary {
	if len(h) == 0 {
		return Summary{}
	}
	s := Summary{Min: h[0].Value, Max: h[len(h)-1].Value}
	for i := range h {
		s.Count += h[i].Count
		s.Sum += int64(h[i].Value) * h[i].Count
	}
	s.P90 = h.fromTop(s.Count / 10)
	return s
}

// fromTop returns the value that has exactly skip values behind it in ascending
// order. The nearest rank ceil(0.9 n) leaves n - ceil(0.9 n) = floor(n/10) values
// behind it, so P90 is never more than a tenth of the way from the top.
func (h Histogram) fromTop(skip int64) int32 {
	i := len(h) - 1
	for skip >= h[i].Count {
		skip -= h[i].Count
		i--
	}
	return h[i].Value
}

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
