package window

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
)

// digitBits is the largest digit of the radix sort: 2^11 counters stay in the
// first-level cache.
const digitBits = 11

// noLabel ranks after every label.
const noLabel uint32 = math.MaxUint32

// folder turns the log of a window into segment data. It holds only scratch
// memory, which the windows of a partition share.
type folder struct {
	log, spare []entry
	values     []int32
	cells      []tally
	groups     []memberList
	members    []uint32
	ranks      []uint32 // by cell number, of labels
	labels     []uint32 // cell numbers of labels, by rank
	order      []uint32
	buf        []byte
}

// tally is what the folder knows of a cell.
type tally struct {
	count int
	at    int // where its next value goes
	label uint32
}

// memberList is the cells that a record of the group counts in, as
// members[at:at+size].
type memberList struct {
	at, size int
	count    int
	label    uint32 // rank
}

// encode returns the data of a window and memory for another log. It takes the log
// over, as a copy of a long one would cost as much memory again.
func (f *folder) encode(in *interner, log []entry) (data []byte, free []entry) {
	f.log = log
	f.spare = slices.Grow(f.spare[:0], len(log))[:len(log)]
	f.rankLabels(in)
	f.listMembers(in)
	f.count(in)
	f.log, f.spare = sortByValue(f.log, f.spare)
	f.deal()
	f.sortCells(in)
	f.write(in)
	free, f.log = f.log[:0], nil
	return bytes.Clone(f.buf), free
}

// trim gives back scratch memory that only a peak needs.
func (f *folder) trim() {
	if entryBytes*cap(f.spare)+4*cap(f.values)+cap(f.buf) > scratchBytes {
		*f = folder{}
	}
}

// rankLabels numbers the labels in their order, so that the smaller of two is
// found without comparing bytes.
func (f *folder) rankLabels(in *interner) {
	f.labels = f.labels[:0]
	for g := range in.groups {
		if label := in.tuple(uint32(g))[0]; label != 0 {
			f.labels = append(f.labels, label)
		}
	}
	slices.SortFunc(f.labels, func(a, b uint32) int { return bytes.Compare(in.id(a), in.id(b)) })
	f.labels = slices.Compact(f.labels)

	f.ranks = slices.Grow(f.ranks[:0], len(in.cells))[:len(in.cells)]
	f.ranks[0] = noLabel
	for rank, label := range f.labels {
		f.ranks[label] = uint32(rank)
	}
}

// listMembers finds the cells of each group: real ones, each once.
func (f *folder) listMembers(in *interner) {
	f.groups, f.members = f.groups[:0], f.members[:0]
	for g := range in.groups {
		tuple := in.tuple(uint32(g))
		m := memberList{at: len(f.members), label: f.ranks[tuple[0]]}
		for _, c := range tuple[1:] {
			if in.cells[c].dim != 0 && !slices.Contains(f.members[m.at:], c) {
				f.members = append(f.members, c)
			}
		}
		m.size = len(f.members) - m.at
		f.groups = append(f.groups, m)
	}
}

// count finds how many values each cell gets, its label, and so where its values
// go. An extra cell that is in its record's group too is struck out.
func (f *folder) count(in *interner) {
	f.cells = f.cells[:0]
	for range in.cells {
		f.cells = append(f.cells, tally{label: noLabel})
	}
	for i := range f.log {
		e := &f.log[i]
		g := &f.groups[e.group]
		g.count++
		if e.extra == 0 {
			continue
		}
		if slices.Contains(f.members[g.at:g.at+g.size], e.extra) {
			e.extra = 0
			continue
		}
		c := &f.cells[e.extra]
		c.count++
		c.label = min(c.label, g.label)
	}
	for _, g := range f.groups {
		for _, n := range f.members[g.at : g.at+g.size] {
			c := &f.cells[n]
			c.count += g.count
			c.label = min(c.label, g.label)
		}
	}
	at := 0
	for i := range f.cells {
		f.cells[i].at = at
		at += f.cells[i].count
	}
	f.values = slices.Grow(f.values[:0], at)[:at]
}

// deal hands the values of the sorted log to the cells, each of which so gets its
// own in ascending order.
func (f *folder) deal() {
	for _, e := range f.log {
		g := &f.groups[e.group]
		for _, n := range f.members[g.at : g.at+g.size] {
			c := &f.cells[n]
			f.values[c.at] = e.value
			c.at++
		}
		if e.extra != 0 {
			c := &f.cells[e.extra]
			f.values[c.at] = e.value
			c.at++
		}
	}
}

// sortCells lists the cells that have a value by dimension, then id.
func (f *folder) sortCells(in *interner) {
	f.order = f.order[:0]
	for n := range f.cells {
		if f.cells[n].count > 0 {
			f.order = append(f.order, uint32(n))
		}
	}
	slices.SortFunc(f.order, func(a, b uint32) int {
		if da, db := in.cells[a].dim, in.cells[b].dim; da != db {
			return cmp.Compare(in.dims[da], in.dims[db])
		}
		return bytes.Compare(in.id(a), in.id(b))
	})
}

// write encodes the cells in their order.
func (f *folder) write(in *interner) {
	f.buf = append(f.buf[:0], formatVersion)
	buf := f.buf
	dims, last := 0, uint32(0)
	for _, n := range f.order {
		if d := in.cells[n].dim; d != last {
			dims, last = dims+1, d
		}
	}
	buf = binary.AppendUvarint(buf, uint64(dims))
	last = 0
	for _, n := range f.order {
		if d := in.cells[n].dim; d != last {
			buf = appendText(buf, in.dims[d])
			last = d
		}
	}
	buf = binary.AppendUvarint(buf, uint64(len(f.order)))
	dim, last := -1, uint32(0)
	for _, n := range f.order {
		if d := in.cells[n].dim; d != last {
			dim, last = dim+1, d
		}
		c := f.cells[n]
		var label []byte
		if c.label != noLabel {
			label = in.id(f.labels[c.label])
		}
		buf = appendCell(buf, dim, in.id(n), label, f.values[c.at-c.count:c.at])
	}
	f.buf = buf
}

// sortByValue sorts log by value, exactly and over the whole range of int32, by
// radix. It returns the sorted entries and the memory that is now free.
func sortByValue(log, free []entry) (sorted, spare []entry) {
	if len(log) == 0 {
		return log, free
	}
	low, high := log[0].value, log[0].value
	for i := range log {
		low, high = min(low, log[i].value), max(high, log[i].value)
	}
	// The difference fits into 32 bits without a sign, however far apart they are.
	width := bits.Len32(uint32(high) - uint32(low))
	if width == 0 {
		return log, free
	}
	passes := (width + digitBits - 1) / digitBits
	digit := (width + passes - 1) / passes
	mask := uint32(1)<<digit - 1

	var at [1 << digitBits]int
	for pass := range passes {
		shift := pass * digit
		clear(at[:])
		for i := range log {
			at[(uint32(log[i].value)-uint32(low))>>shift&mask]++
		}
		sum := 0
		for i := range at {
			at[i], sum = sum, sum+at[i]
		}
		for _, e := range log {
			d := (uint32(e.value) - uint32(low)) >> shift & mask
			free[at[d]] = e
			at[d]++
		}
		log, free = free, log
	}
	return log, free
}
