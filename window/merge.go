package window

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/peil-stream/peil/stats"
)

// Merge computes the rows of a window from the data of its segments, in any order,
// one for each cell that occurs in any of them, sorted by dimension, then id. The
// label of a row is the smallest that is not empty. Damaged data is an error.
func Merge(data ...[]byte) ([]Row, error) {
	var (
		heads       []*decoder
		rows        []Row
		sum, merged stats.Histogram
	)
	for _, segment := range data {
		d, err := newDecoder(segment)
		if err != nil {
			return nil, err
		}
		ok, err := d.next()
		if err != nil {
			return nil, err
		}
		if ok {
			heads = append(heads, d)
		}
	}
	for len(heads) > 0 {
		first := slices.MinFunc(heads, compareHeads)
		key := DecodedCell{Dimension: first.cell.Dimension, ID: first.cell.ID}
		var label []byte
		sum = sum[:0]
		left := heads[:0]
		for _, d := range heads {
			ok := true
			if d.cell.Dimension == key.Dimension && bytes.Equal(d.cell.ID, key.ID) {
				label = smallest(label, d.cell.Label)
				merged = stats.Merge(merged, sum, d.cell.Histogram)
				sum, merged = merged, sum
				var err error
				if ok, err = d.next(); err != nil {
					return nil, err
				}
			}
			if ok {
				left = append(left, d)
			}
		}
		heads = left
		if sum.Count() > stats.CountMax {
			return nil, fmt.Errorf("merge segments: %s %q: too many values", key.Dimension, key.ID)
		}
		rows = append(rows, Row{
			Dimension: key.Dimension, ID: string(key.ID), Label: string(label), Summary: sum.Summary(),
		})
	}
	return rows, nil
}

func compareHeads(a, b *decoder) int {
	return cmp.Or(cmp.Compare(a.cell.Dimension, b.cell.Dimension), bytes.Compare(a.cell.ID, b.cell.ID))
}

// smallest returns the smaller of two labels, where empty is none.
func smallest(a, b []byte) []byte {
	if len(a) == 0 || len(b) > 0 && bytes.Compare(b, a) < 0 {
		return b
	}
	return a
}
