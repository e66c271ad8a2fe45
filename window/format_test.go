package window

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/peil-stream/peil/stats"
)

// Numbers of the format, in their shortest form.
func uv(n uint64) []byte { return binary.AppendUvarint(nil, n) }
func zz(n int64) []byte  { return binary.AppendVarint(nil, n) }
func tx(s string) []byte { return appendText(nil, s) }

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// valid is two cells of two dimensions: line "a" with label "op" and the values
// -1, -1, 300; network "" with the value 7.
func valid() []byte {
	return join([]byte{1}, uv(2), tx("line"), tx("network"), uv(2),
		uv(0), tx("a"), tx("op"), uv(2), zz(-1), uv(2), uv(301), uv(1),
		uv(1), tx(""), tx(""), uv(1), zz(7), uv(1))
}

// decodeAll collects copies of the cells.
func decodeAll(data []byte) ([]DecodedCell, error) {
	var cells []DecodedCell
	for c, err := range Decode(data) {
		if err != nil {
			return nil, err
		}
		c.ID, c.Label, c.Histogram = bytes.Clone(c.ID), bytes.Clone(c.Label), slices.Clone(c.Histogram)
		cells = append(cells, c)
	}
	return cells, nil
}

func TestDecode(t *testing.T) {
	t.Parallel()
	got, err := decodeAll(valid())
	if err != nil {
		t.Fatalf("Decode: %v", err)
	}
	want := []DecodedCell{
		{"line", []byte("a"), []byte("op"), stats.Histogram{{Value: -1, Count: 2}, {Value: 300, Count: 1}}},
		{"network", []byte{}, []byte{}, stats.Histogram{{Value: 7, Count: 1}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("Decode mismatch (-want +got):\n%s", diff)
	}
}

func TestDecodeStopsWhenAsked(t *testing.T) {
	t.Parallel()
	n := 0
	for _, err := range Decode(valid()) {
		if err != nil {
			t.Fatalf("Decode: %v", err)
		}
		n++
		break
	}
	if n != 1 {
		t.Fatalf("%d cells, want 1", n)
	}
}

func TestDecodeEmptySegment(t *testing.T) {
	t.Parallel()
	got, err := decodeAll([]byte{1, 0, 0})
	if err != nil || len(got) != 0 {
		t.Fatalf("Decode = %v, %v, want nothing", got, err)
	}
	rows, err := Merge([]byte{1, 0, 0}, valid())
	if err != nil || len(rows) != 2 {
		t.Fatalf("Merge = %v, %v, want 2 rows", rows, err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	// one wraps a cell of the only dimension.
	one := func(cell ...[]byte) []byte { return join([]byte{1}, uv(1), tx("d"), uv(1), join(cell...)) }
	cell := func(dim uint64, id string) []byte {
		return join(uv(dim), tx(id), tx(""), uv(1), zz(0), uv(1))
	}
	tests := []struct {
		name string
		data []byte
		want string
	}{
		{"nothing", nil, "it is empty"},
		{"version 0", []byte{0, 0, 0}, "unknown version 0"},
		{"version 2", []byte{2, 0, 0}, "unknown version 2"},
		{"trailing byte", append(valid(), 0), "bytes follow the last cell"},
		{"trailing byte after nothing", []byte{1, 0, 0, 0}, "bytes follow the last cell"},
		{"dimensions without end", join([]byte{1}, uv(math.MaxUint64)), "it ends too soon"},
		{"cells without end", join([]byte{1}, uv(0), uv(math.MaxUint64)), "it ends too soon"},
		{"bins without end", one(uv(0), tx("a"), tx(""), uv(math.MaxUint64)), "it ends too soon"},
		{"a text without end", join([]byte{1}, uv(1), uv(math.MaxUint64), []byte("d")), "it ends too soon"},
		{"an id without end", one(uv(0), uv(1<<40), []byte("a")), "it ends too soon"},
		{"a dimension without a name", join([]byte{1}, uv(1), tx(""), uv(1), cell(0, "a")), "a dimension has no name"},
		{"a dimension without a cell", join([]byte{1}, uv(1), tx("d"), uv(0)), "a dimension has no cell"},
		{
			"the last dimension without a cell",
			join([]byte{1}, uv(2), tx("d"), tx("e"), uv(1), cell(0, "a")), "a dimension has no cell",
		},
		{
			"the first dimension without a cell",
			join([]byte{1}, uv(2), tx("d"), tx("e"), uv(1), cell(1, "a")), "cells are not sorted",
		},
		{"dimensions twice", join([]byte{1}, uv(2), tx("d"), tx("d"), uv(0)), "dimensions are not sorted"},
		{"dimensions not sorted", join([]byte{1}, uv(2), tx("e"), tx("d"), uv(0)), "dimensions are not sorted"},
		{"a cell of no dimension", one(cell(1, "a")), "a cell has no dimension"},
		{"a cell of a huge dimension", one(cell(math.MaxUint64, "a")), "a cell has no dimension"},
		{"a cell twice", join([]byte{1}, uv(1), tx("d"), uv(2), cell(0, "a"), cell(0, "a")), "cells are not sorted"},
		{"ids not sorted", join([]byte{1}, uv(1), tx("d"), uv(2), cell(0, "b"), cell(0, "a")), "cells are not sorted"},
		{
			"dimensions of cells not sorted",
			join([]byte{1}, uv(2), tx("d"), tx("e"), uv(3), cell(0, "a"), cell(1, "a"), cell(0, "b")), "cells are not sorted",
		},
		{"a cell without a value", one(uv(0), tx("a"), tx(""), uv(0)), "a cell has no value"},
		{"a count of 0", one(uv(0), tx("a"), tx(""), uv(1), zz(0), uv(0)), "a count is out of range"},
		{"a huge count", one(uv(0), tx("a"), tx(""), uv(1), zz(0), uv(math.MaxUint64)), "a count is out of range"},
		{"a count of -1", one(uv(0), tx("a"), tx(""), uv(1), zz(0), uv(1<<63)), "a count is out of range"},
		{"a count too many", one(uv(0), tx("a"), tx(""), uv(1), zz(0), uv(1<<32)), "a count is out of range"},
		{
			"counts that add up to too many",
			one(uv(0), tx("a"), tx(""), uv(2), zz(0), uv(1<<32-1), uv(1), uv(1)), "a cell has too many values",
		},
		{"values equal", one(uv(0), tx("a"), tx(""), uv(2), zz(0), uv(1), uv(0), uv(1)), "values do not rise"},
		{
			"values that wrap round",
			one(uv(0), tx("a"), tx(""), uv(2), zz(0), uv(1), uv(math.MaxUint64), uv(1)), "values do not rise",
		},
		{"a value too large", one(uv(0), tx("a"), tx(""), uv(1), zz(1<<31), uv(1)), "does not fit into 32 bits"},
		{"a value too small", one(uv(0), tx("a"), tx(""), uv(1), zz(-1<<31-1), uv(1)), "does not fit into 32 bits"},
		{
			"a later value too large",
			one(uv(0), tx("a"), tx(""), uv(2), zz(math.MaxInt32), uv(1), uv(1), uv(1)), "does not fit into 32 bits",
		},
		{"a number longer than need be", []byte{1, 0x80, 0x00, 0x00}, "a number is longer than need be"},
		{"a number of 11 bytes", append([]byte{1}, bytes.Repeat([]byte{0xff}, 11)...), "does not fit into 64 bits"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := decodeAll(tt.data)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("Decode(%x) = %v, want %q", tt.data, err, tt.want)
			}
			if rows, mergeErr := Merge(valid(), tt.data); mergeErr == nil || rows != nil {
				t.Fatalf("Merge(%x) = %v, want %v", tt.data, rows, err)
			}
		})
	}
}

// Every proper prefix of a segment is an error.
func TestDecodeTruncated(t *testing.T) {
	t.Parallel()
	data := valid()
	for n := range data {
		if cells, err := decodeAll(data[:n]); err == nil {
			t.Errorf("the first %d of %d bytes decode to %v", n, len(data), cells)
		}
	}
}

// Counts within bounds in each segment, but not together.
func TestMergeRefusesTooMany(t *testing.T) {
	t.Parallel()
	most := join([]byte{1}, uv(1), tx("d"), uv(1), uv(0), tx("a"), tx(""), uv(1), zz(-1<<31), uv(uint64(stats.CountMax)))
	rows, err := Merge(most)
	if err != nil || rows[0].Sum != -1<<31*stats.CountMax {
		t.Fatalf("Merge of the largest cell = %v, %v", rows, err)
	}
	if rows, err := Merge(most, most); err == nil {
		t.Fatalf("Merge of too many values = %v, want an error", rows)
	}
}

func TestMergeOfNothing(t *testing.T) {
	t.Parallel()
	if rows, err := Merge(); err != nil || len(rows) != 0 {
		t.Fatalf("Merge() = %v, %v, want nothing", rows, err)
	}
}

func TestMergeKeepsTheSmallestLabel(t *testing.T) {
	t.Parallel()
	labelled := func(label string) []byte {
		return join([]byte{1}, uv(1), tx("d"), uv(1), uv(0), tx("a"), tx(label), uv(1), zz(0), uv(1))
	}
	tests := []struct {
		labels []string
		want   string
	}{
		{[]string{""}, ""},
		{[]string{"", ""}, ""},
		{[]string{"b", ""}, "b"},
		{[]string{"", "b"}, "b"},
		{[]string{"b", "a", "c"}, "a"},
		{[]string{"ab", "a"}, "a"},
	}
	for _, tt := range tests {
		var data [][]byte
		for _, label := range tt.labels {
			data = append(data, labelled(label))
		}
		rows, err := Merge(data...)
		if err != nil || len(rows) != 1 || rows[0].Label != tt.want {
			t.Errorf("Merge of labels %q = %v, %v, want label %q", tt.labels, rows, err, tt.want)
		}
	}
}

// A few bytes that promise much must not make the decoder allocate much. Not
// parallel: it measures allocation.
func TestDecodeAllocatesInProportion(t *testing.T) {
	promise := [][]byte{
		join([]byte{1}, uv(1<<40)),
		join([]byte{1}, uv(0), uv(1<<40)),
		join([]byte{1}, uv(1), uv(1<<40)),
		join([]byte{1}, uv(1), tx("d"), uv(1<<40), uv(0), tx("a"), tx(""), uv(1<<40), zz(0), uv(1)),
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, data := range promise {
		if _, err := decodeAll(data); err == nil {
			t.Fatalf("Decode(%x) is no error", data)
		}
		if _, err := Merge(data); err == nil {
			t.Fatalf("Merge(%x) is no error", data)
		}
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
		t.Fatalf("the decoder allocated %d bytes", got)
	}
}

func TestSortByValue(t *testing.T) {
	t.Parallel()
	tests := map[string][]int32{
		"nothing":           {},
		"one":               {5},
		"equal":             {5, 5, 5},
		"whole range":       {math.MaxInt32, 0, math.MinInt32, -1, 1, math.MaxInt32, math.MinInt32},
		"around zero":       {1, -1, 0},
		"two digits":        {5000, -5000, 2047, 2048, 2049, 0},
		"around the middle": {1 << 30, -1 << 30, 1<<30 + 1, -1<<30 - 1},
	}
	for name, values := range tests {
		var log []entry
		for i, v := range values {
			log = append(log, entry{group: uint32(i), value: v})
		}
		sorted, spare := sortByValue(log, make([]entry, len(log)))
		if len(spare) != len(log) {
			t.Errorf("%s: %d entries of spare memory, want %d", name, len(spare), len(log))
		}
		want := slices.Sorted(slices.Values(values))
		for i, e := range sorted {
			if e.value != want[i] || values[e.group] != e.value {
				t.Fatalf("%s: entry %d is %v, want value %d", name, i, e, want[i])
			}
		}
	}
}

// One peak of a window must not be held for ever, neither by the windows that are
// kept for the next ones nor by the memory that closing needs.
func TestSpareMemoryIsBounded(t *testing.T) {
	t.Parallel()
	p, err := NewPartition(Config{}, Resume{Watermark: NoTime})
	if err != nil {
		t.Fatalf("NewPartition: %v", err)
	}
	const peak = 2 * spareBytes / entryBytes
	fill := func(window int64, records int32) {
		for i := range records {
			r := Record{Time: window * p.size, HasValue: true, Value: i}
			p.Add(&r)
		}
	}
	fill(0, peak)
	fill(1, 10)
	fill(2, 10)
	fill(3, 10)
	for closed := range int64(4) {
		p.CloseMarker(0, (closed+1)*p.size)
		if got := len(p.TakeClosed()); got != 1 {
			t.Fatalf("%d segments, want 1", got)
		}
		if got := cap(p.fold.spare); got >= peak {
			t.Fatalf("after window %d scratch memory for %d records is kept", closed, got)
		}
	}
	if len(p.spare) != spareWindows {
		t.Fatalf("%d spare windows, want %d", len(p.spare), spareWindows)
	}
	for _, w := range p.spare {
		if cap(w.log) >= peak {
			t.Fatalf("a spare window keeps memory for %d records", cap(w.log))
		}
	}
}

// Closing and opening windows leaves nothing of the old ids behind.
func TestIDsDieWithTheirWindow(t *testing.T) {
	t.Parallel()
	p, err := NewPartition(Config{}, Resume{Watermark: NoTime})
	if err != nil {
		t.Fatalf("NewPartition: %v", err)
	}
	for w := range int64(200) {
		for i := range 50 {
			r := Record{
				Time: w * p.size, LogTime: w * p.size, HasValue: true,
				Group: []Cell{{Dimension: "line", ID: fmt.Appendf(nil, "line %d of window %d", i, w)}},
			}
			p.Add(&r)
		}
		p.CloseMarker(0, (w+1)*p.size)
		p.TakeClosed()
	}
	for _, w := range p.spare {
		if got := w.names.bytes(); got > 64<<10 {
			t.Fatalf("a window keeps %d bytes of names", got)
		}
	}
}

// FuzzDecode: whatever the bytes, no panic; and what is accepted is the only
// encoding of its content.
func FuzzDecode(f *testing.F) {
	f.Add(valid())
	f.Add([]byte{1, 0, 0})
	f.Add(join([]byte{1}, uv(1), tx("d"), uv(1), uv(0), tx("a"), tx("b"), uv(2), zz(-5), uv(9), uv(7), uv(300)))
	f.Fuzz(func(t *testing.T, data []byte) {
		cells, err := decodeAll(data)
		rows, mergeErr := Merge(data)
		if (err == nil) != (mergeErr == nil) {
			t.Fatalf("Decode says %v, Merge says %v", err, mergeErr)
		}
		if err != nil {
			return
		}
		if len(rows) != len(cells) {
			t.Fatalf("%d rows of %d cells", len(rows), len(cells))
		}
		for i, c := range cells {
			want := Row{Dimension: c.Dimension, ID: string(c.ID), Label: string(c.Label), Summary: c.Histogram.Summary()}
			if diff := cmp.Diff(want, rows[i]); diff != "" {
				t.Fatalf("row %d mismatch (-want +got):\n%s", i, diff)
			}
		}
		if again := reencode(cells); !bytes.Equal(again, data) {
			t.Fatalf("decoded and encoded again:\n%x\n%x", data, again)
		}
	})
}

// reencode writes cells by the description of the format, apart from the encoder.
func reencode(cells []DecodedCell) []byte {
	var dims []string
	for _, c := range cells {
		if !slices.Contains(dims, c.Dimension) {
			dims = append(dims, c.Dimension)
		}
	}
	out := append([]byte{1}, uv(uint64(len(dims)))...)
	for _, d := range dims {
		out = append(out, tx(d)...)
	}
	out = append(out, uv(uint64(len(cells)))...)
	for _, c := range cells {
		out = append(out, join(uv(uint64(slices.Index(dims, c.Dimension))), tx(string(c.ID)), tx(string(c.Label)))...)
		out = append(out, uv(uint64(len(c.Histogram)))...)
		for i, b := range c.Histogram {
			if i == 0 {
				out = append(out, zz(int64(b.Value))...)
			} else {
				out = append(out, uv(uint64(int64(b.Value)-int64(c.Histogram[i-1].Value)))...)
			}
			out = append(out, uv(uint64(b.Count))...)
		}
	}
	return out
}
