package window

import (
	"bytes"
	"hash/maphash"
	"slices"
)

// slotsMin is the size of a new hash table, a power of two.
const slotsMin = 16

// interner gives the cells and groups of one window small numbers. It keeps its
// own copy of what it is given.
//
// Cell 0 is always the cell of the empty dimension with the empty id. It stands
// for "no cell" and for "no label"; labels are cells of the empty dimension.
type interner struct {
	seed  maphash.Seed
	text  []byte   // the ids, one after the other
	dims  []string // dims[0] is the empty dimension
	cells []cell
	slots []slot // of cells

	tuples     []uint32 // of every group: its label, then its cells
	groups     []group
	groupSlots []slot
	scratch    []uint32
}

type cell struct {
	at, size int    // its id in text
	dim      uint32 // index in dims
	// group is 1 + the last group that began with this cell, or 0. Cells that
	// occur together mostly do so always, so this saves looking up the others.
	group uint32
}

// group is a label and the cells of a Group as they were given, as tuples[at:at+size].
type group struct {
	at, size int
}

// slot is a place of a hash table: ref is 1 + the index, or 0 if it is free.
type slot struct {
	hash, ref uint32
}

// reset forgets everything and keeps the memory.
func (in *interner) reset() {
	in.text = in.text[:0]
	in.dims = append(in.dims[:0], "")
	in.cells = in.cells[:0]
	in.tuples = in.tuples[:0]
	in.groups = in.groups[:0]
	if in.slots == nil {
		in.slots = make([]slot, slotsMin)
		in.groupSlots = make([]slot, slotsMin)
	}
	clear(in.slots)
	clear(in.groupSlots)
	in.cell("", nil)
}

// bytes is about the memory held.
func (in *interner) bytes() int {
	const cellBytes, groupBytes, slotBytes, numberBytes = 24, 16, 8, 4
	return cap(in.text) + cellBytes*cap(in.cells) + groupBytes*cap(in.groups) +
		slotBytes*(len(in.slots)+len(in.groupSlots)) + numberBytes*cap(in.tuples)
}

// entry turns a record into its log entry.
func (in *interner) entry(r *Record) entry {
	e := entry{group: in.group(r), value: r.Value}
	if r.Extra.Dimension != "" {
		e.extra = in.cell(r.Extra.Dimension, r.Extra.ID)
	}
	return e
}

// cell returns the number of a cell.
func (in *interner) cell(dim string, id []byte) uint32 {
	hash := uint32(maphash.Bytes(in.seed, id))
	mask := len(in.slots) - 1
	i := int(hash) & mask
	for ; in.slots[i].ref != 0; i = (i + 1) & mask {
		if s := in.slots[i]; s.hash == hash && in.is(s.ref-1, dim, id) {
			return s.ref - 1
		}
	}
	n := uint32(len(in.cells))
	in.cells = append(in.cells, cell{at: len(in.text), size: len(id), dim: in.dim(dim)})
	in.text = append(in.text, id...)
	in.slots[i] = slot{hash: hash, ref: n + 1}
	in.slots = grown(in.slots, len(in.cells))
	return n
}

// is says whether a cell is the one with that dimension and id.
func (in *interner) is(n uint32, dim string, id []byte) bool {
	c := &in.cells[n]
	return c.size == len(id) && bytes.Equal(in.text[c.at:c.at+c.size], id) && in.dims[c.dim] == dim
}

// id returns the id of a cell, a view.
func (in *interner) id(n uint32) []byte {
	c := &in.cells[n]
	return in.text[c.at : c.at+c.size]
}

// dim returns the number of a dimension. There are only a few.
func (in *interner) dim(name string) uint32 {
	for i, d := range in.dims {
		if d == name {
			return uint32(i)
		}
	}
	in.dims = append(in.dims, name)
	return uint32(len(in.dims) - 1)
}

// group returns the number of the record's group. It tries the one that the first
// cell had last before it looks all parts up.
func (in *interner) group(r *Record) uint32 {
	if len(r.Group) == 0 {
		return in.lookUp(r)
	}
	first := in.cell(r.Group[0].Dimension, r.Group[0].ID)
	if g := in.cells[first].group; g != 0 && in.isRest(g-1, r) {
		return g - 1
	}
	g := in.lookUp(r)
	in.cells[first].group = g + 1
	return g
}

// isRest says whether a group, which begins with the right cell, is the record's.
func (in *interner) isRest(g uint32, r *Record) bool {
	tuple := in.tuple(g)
	if len(tuple) != 1+len(r.Group) || !in.is(tuple[0], "", r.Label) {
		return false
	}
	for i := 1; i < len(r.Group); i++ {
		if !in.is(tuple[1+i], r.Group[i].Dimension, r.Group[i].ID) {
			return false
		}
	}
	return true
}

// tuple returns the label and the cells of a group.
func (in *interner) tuple(g uint32) []uint32 {
	at := in.groups[g]
	return in.tuples[at.at : at.at+at.size]
}

// lookUp finds the group of a record by all its parts.
func (in *interner) lookUp(r *Record) uint32 {
	in.scratch = append(in.scratch[:0], in.cell("", r.Label))
	for i := range r.Group {
		in.scratch = append(in.scratch, in.cell(r.Group[i].Dimension, r.Group[i].ID))
	}
	tuple := in.scratch
	hash := hashTuple(tuple)
	mask := len(in.groupSlots) - 1
	i := int(hash) & mask
	for ; in.groupSlots[i].ref != 0; i = (i + 1) & mask {
		if s := in.groupSlots[i]; s.hash == hash && slices.Equal(in.tuple(s.ref-1), tuple) {
			return s.ref - 1
		}
	}
	n := uint32(len(in.groups))
	in.groups = append(in.groups, group{at: len(in.tuples), size: len(tuple)})
	in.tuples = append(in.tuples, tuple...)
	in.groupSlots[i] = slot{hash: hash, ref: n + 1}
	in.groupSlots = grown(in.groupSlots, len(in.groups))
	return n
}

func hashTuple(tuple []uint32) uint32 {
	h := uint64(len(tuple))
	for _, n := range tuple {
		h = (h ^ uint64(n)) * 0x9e3779b97f4a7c15
		h ^= h >> 32
	}
	return uint32(h)
}

// grown doubles a hash table that is more than half full.
func grown(slots []slot, used int) []slot {
	if used <= len(slots)/2 {
		return slots
	}
	next := make([]slot, 2*len(slots))
	mask := len(next) - 1
	for _, s := range slots {
		if s.ref == 0 {
			continue
		}
		i := int(s.hash) & mask
		for next[i].ref != 0 {
			i = (i + 1) & mask
		}
		next[i] = s
	}
	return next
}
