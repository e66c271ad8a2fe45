package window_test

import (
	"bytes"
	"cmp"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/peil-stream/peil/stats"
	"github.com/peil-stream/peil/window"
)

// FuzzEncode makes records of the bytes: what the segment decodes to is their
// exact aggregate, cell by cell and value by value.
func FuzzEncode(f *testing.F) {
	f.Add([]byte("some bytes that make a few records"))
	f.Add([]byte{0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x80, 0, 0, 0x80})
	f.Fuzz(func(t *testing.T, raw []byte) {
		var ops []*op
		for len(raw) >= 4 {
			c, shape := raw[0], raw[1]
			value := int32(int8(raw[2])) << (raw[3] % 25)
			raw = raw[4:]
			n := min(int(shape%8), len(raw))
			name := string(raw[:n])
			raw = raw[n:]
			o := &op{
				kind: event, offset: int64(len(ops)), hasValue: true, value: value, extra: shape&8 != 0,
				cells: []cellKey{{"network", "nl"}, {"line", name}, {string(rune('a' + c%5)), string([]byte{c})}},
			}
			if shape&16 != 0 {
				o.label = name
			}
			ops = append(ops, o)
		}
		if len(ops) == 0 {
			return
		}
		p := newPartition(t, window.Config{Size: time.Second}, window.Resume{Watermark: window.NoTime})
		for _, o := range ops {
			o.run(p)
		}
		p.CloseMarker(int64(len(ops)), 1000)
		closed := p.TakeClosed()
		want := naiveRows(ops)
		if diff := gocmp.Diff(want, rows(t, closed...)); diff != "" {
			t.Fatalf("rows mismatch (-want +got):\n%s", diff)
		}
		i := 0
		for c, err := range window.Decode(closed[0].Data) {
			if err != nil {
				t.Fatalf("Decode: %v", err)
			}
			key := cellKey{c.Dimension, string(c.ID)}
			if key != (cellKey{want[i].Dimension, want[i].ID}) || !bytes.Equal(c.Label, []byte(want[i].Label)) {
				t.Fatalf("cell %d is %v with label %q, want %v", i, key, c.Label, want[i])
			}
			if diff := gocmp.Diff(naiveBins(ops, key), c.Histogram); diff != "" {
				t.Fatalf("histogram of %v mismatch (-want +got):\n%s", key, diff)
			}
			i++
		}
	})
}

// naiveBins counts the values of a cell.
func naiveBins(ops []*op, key cellKey) stats.Histogram {
	counts := map[int32]int64{}
	for _, o := range ops {
		if slices.Contains(o.cells, key) {
			counts[o.value]++
		}
	}
	var bins stats.Histogram
	for v, n := range counts {
		bins = append(bins, stats.Bin{Value: v, Count: n})
	}
	slices.SortFunc(bins, func(a, b stats.Bin) int { return cmp.Compare(a.Value, b.Value) })
	return bins
}
