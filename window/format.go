package window

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/peil-stream/peil/stats"
)

// formatVersion is the first byte of segment data. The rest of version 1, where
// every number is an unsigned varint in its shortest form:
//
//	dimensions  number; of each: length, name. Sorted, each of them used.
//	cells       number; of each, sorted by dimension and id:
//	            index of the dimension, length and bytes of the id, length and
//	            bytes of the label, number of bins, of the first bin the value as
//	            zigzag and the count, of the others the distance from the value
//	            before and the count.
const formatVersion = 1

// DecodedCell is one cell of a segment.
type DecodedCell struct {
	Dimension string
	// ID and Label are views of the segment's data. Label is empty if there is
	// none.
	ID, Label []byte
	// Histogram is valid until the next cell is asked for.
	Histogram stats.Histogram
}

// appendText appends a length and the bytes.
func appendText[T string | []byte](buf []byte, text T) []byte {
	buf = binary.AppendUvarint(buf, uint64(len(text)))
	return append(buf, text...)
}

// appendCell appends a cell with its values, which must ascend.
func appendCell(buf []byte, dim int, id, label []byte, values []int32) []byte {
	buf = binary.AppendUvarint(buf, uint64(dim))
	buf = appendText(buf, id)
	buf = appendText(buf, label)
	bins := 1
	for i := 1; i < len(values); i++ {
		if values[i] != values[i-1] {
			bins++
		}
	}
	buf = binary.AppendUvarint(buf, uint64(bins))
	buf = binary.AppendVarint(buf, int64(values[0]))
	for i := 0; i < len(values); {
		n := i + 1
		for n < len(values) && values[n] == values[i] {
			n++
		}
		buf = binary.AppendUvarint(buf, uint64(n-i))
		if n < len(values) {
			buf = binary.AppendUvarint(buf, uint64(int64(values[n])-int64(values[i])))
		}
		i = n
	}
	return buf
}

// Decode yields the cells of a segment's data by dimension and id. It is strict:
// what [Partition.TakeClosed] cannot have made is an error, after which the
// sequence ends. The last thing to be judged is the end of the data, so cells
// that were yielded before an error must not be used.
func Decode(data []byte) iter.Seq2[DecodedCell, error] {
	return func(yield func(DecodedCell, error) bool) {
		d, err := newDecoder(data)
		for err == nil {
			var ok bool
			if ok, err = d.next(); !ok {
				break
			}
			if !yield(d.cell, nil) {
				return
			}
		}
		if err != nil {
			yield(DecodedCell{}, err)
		}
	}
}

// decoder goes through the cells of a segment.
type decoder struct {
	data []byte
	at   int
	dims []string
	left uint64
	dim  int // of the last cell, -1 before the first
	cell DecodedCell
}

// newDecoder reads up to the first cell.
func newDecoder(data []byte) (*decoder, error) {
	d := &decoder{data: data, dim: -1}
	if len(data) == 0 {
		return nil, d.fail("it is empty")
	}
	if data[0] != formatVersion {
		return nil, d.fail(fmt.Sprintf("unknown version %d", data[0]))
	}
	d.at = 1
	n, err := d.number()
	if err != nil {
		return nil, err
	}
	for range n {
		name, err := d.bytes()
		if err != nil {
			return nil, err
		}
		if len(name) == 0 {
			return nil, d.fail("a dimension has no name")
		}
		if len(d.dims) > 0 && d.dims[len(d.dims)-1] >= string(name) {
			return nil, d.fail("dimensions are not sorted")
		}
		d.dims = append(d.dims, string(name))
	}
	d.left, err = d.number()
	return d, err
}

// next reads a cell into d.cell; at the end it returns false.
func (d *decoder) next() (bool, error) {
	if d.left == 0 {
		switch {
		case d.dim+1 != len(d.dims):
			return false, d.fail("a dimension has no cell")
		case d.at != len(d.data):
			return false, d.fail("bytes follow the last cell")
		default:
			return false, nil
		}
	}
	d.left--
	dim, err := d.number()
	if err != nil {
		return false, err
	}
	id, err := d.bytes()
	if err != nil {
		return false, err
	}
	switch {
	case dim >= uint64(len(d.dims)):
		return false, d.fail("a cell has no dimension")
	case d.dim >= 0 && dim == uint64(d.dim):
		if bytes.Compare(d.cell.ID, id) >= 0 {
			return false, d.fail("cells are not sorted")
		}
	case dim == uint64(d.dim+1):
		d.dim++
	default:
		return false, d.fail("cells are not sorted")
	}
	label, err := d.bytes()
	if err != nil {
		return false, err
	}
	d.cell.Dimension, d.cell.ID, d.cell.Label = d.dims[dim], id, label
	return true, d.bins()
}

// bins reads the histogram of a cell.
func (d *decoder) bins() error {
	d.cell.Histogram = d.cell.Histogram[:0]
	n, err := d.number()
	if err != nil {
		return err
	}
	if n == 0 {
		return d.fail("a cell has no value")
	}
	var value, total int64
	for i := range n {
		u, err := d.number()
		if err != nil {
			return err
		}
		if i == 0 {
			value = int64(u>>1) ^ -int64(u&1)
		} else {
			if u == 0 || u > math.MaxUint32 {
				return d.fail("values do not rise")
			}
			value += int64(u)
		}
		if value < math.MinInt32 || value > math.MaxInt32 {
			return d.fail("a value does not fit into 32 bits")
		}
		count, err := d.number()
		if err != nil {
			return err
		}
		if count == 0 || count > uint64(stats.CountMax) {
			return d.fail("a count is out of range")
		}
		if total += int64(count); total > stats.CountMax {
			return d.fail("a cell has too many values")
		}
		d.cell.Histogram = append(d.cell.Histogram, stats.Bin{Value: int32(value), Count: int64(count)})
	}
	return nil
}

// number reads an unsigned varint in its shortest form.
func (d *decoder) number() (uint64, error) {
	n, size := binary.Uvarint(d.data[d.at:])
	switch {
	case size == 0:
		return 0, d.fail("it ends too soon")
	case size < 0:
		return 0, d.fail("a number does not fit into 64 bits")
	case size > 1 && d.data[d.at+size-1] == 0:
		return 0, d.fail("a number is longer than need be")
	}
	d.at += size
	return n, nil
}

// bytes reads a length and that many bytes, as a view.
func (d *decoder) bytes() ([]byte, error) {
	n, err := d.number()
	if err != nil {
		return nil, err
	}
	if n > uint64(len(d.data)-d.at) {
		return nil, d.fail("it ends too soon")
	}
	view := d.data[d.at : d.at+int(n) : d.at+int(n)]
	d.at += int(n)
	return view, nil
}

func (d *decoder) fail(what string) error {
	return fmt.Errorf("decode segment: byte %d: %w", d.at, errors.New(what))
}
