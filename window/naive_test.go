package window_test

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/peil-stream/peil/stats"
	"github.com/peil-stream/peil/window"
)

// kind is the kind of an operation on a partition.
type kind int

const (
	event kind = iota
	heartbeat
	marker
)

// op is one operation on a partition. Its cells are a set.
type op struct {
	kind     kind
	offset   int64
	time     int64
	logTime  int64
	hasValue bool
	value    int32
	label    string
	cells    []cellKey
	// layout says how the cells are handed over: the last one as Extra or not.
	extra bool
}

type cellKey struct{ dimension, id string }

// run applies an operation to a partition; only events have a verdict.
func (o *op) run(p *window.Partition) window.Verdict {
	switch o.kind {
	case heartbeat:
		p.Heartbeat(o.offset, o.time, o.logTime)
	case marker:
		p.CloseMarker(o.offset, o.time)
	case event:
		r := window.Record{
			Offset: o.offset, Time: o.time, LogTime: o.logTime,
			HasValue: o.hasValue, Value: o.value, Label: []byte(o.label),
		}
		for _, c := range o.cells {
			r.Group = append(r.Group, window.Cell{Dimension: c.dimension, ID: []byte(c.id)})
		}
		if n := len(r.Group); o.extra && n > 0 {
			r.Extra = r.Group[n-1]
			r.Group = r.Group[:n-1]
		}
		v := p.Add(&r)
		// What was handed over may be a view: spoil it.
		for _, c := range append(r.Group, r.Extra) {
			clear(c.ID)
		}
		clear(r.Label)
		return v
	}
	return window.Accepted
}

// job is the batch job over the same operations, by the definition: it keeps
// every record and sorts.
type job struct {
	size, lateness int64
	watermark      int64
	windows        map[int64]*naiveWindow // by end
}

type naiveWindow struct {
	start, end int64
	first      int64
	through    int64
	closed     bool
	ops        []*op
}

func newJob(size, lateness int64) *job {
	return &job{size: size, lateness: lateness, watermark: math.MinInt64, windows: map[int64]*naiveWindow{}}
}

func (j *job) run(o *op) (late bool) {
	to := o.time
	if o.kind != marker {
		to = min(o.time, o.logTime) - j.lateness
	}
	if o.kind == event {
		start := int64(math.Floor(float64(o.time)/float64(j.size))) * j.size
		if start+j.size <= j.watermark {
			return true
		}
		if o.hasValue {
			w := j.windows[start]
			if w == nil {
				w = &naiveWindow{start: start, end: start + j.size, first: o.offset}
				j.windows[start] = w
			}
			w.ops = append(w.ops, o)
		}
	}
	j.watermark = max(j.watermark, to)
	for _, w := range j.windows {
		if !w.closed && w.end <= j.watermark {
			w.closed = true
			w.through = o.offset
		}
	}
	return false
}

// segments are the closed windows, by the operation that closed them and start.
func (j *job) segments() []*naiveWindow {
	var out []*naiveWindow
	for _, w := range j.windows {
		if w.closed {
			out = append(out, w)
		}
	}
	slices.SortFunc(out, func(a, b *naiveWindow) int {
		return cmp.Or(cmp.Compare(a.through, b.through), cmp.Compare(a.start, b.start))
	})
	return out
}

// open are the open windows by start.
func (j *job) open() []window.OpenWindow {
	out := []window.OpenWindow{}
	for _, w := range j.windows {
		if !w.closed {
			out = append(out, window.OpenWindow{
				Start: w.start, End: w.end, FirstOffset: w.first, Records: int64(len(w.ops)),
			})
		}
	}
	slices.SortFunc(out, func(a, b window.OpenWindow) int { return cmp.Compare(a.Start, b.Start) })
	return out
}

// naiveRows computes the rows of a window from its records.
func naiveRows(ops []*op) []window.Row {
	values := map[cellKey][]int32{}
	labels := map[cellKey][]string{}
	for _, o := range ops {
		seen := map[cellKey]bool{}
		for _, c := range o.cells {
			if c.dimension == "" || seen[c] {
				continue
			}
			seen[c] = true
			values[c] = append(values[c], o.value)
			if o.label != "" {
				labels[c] = append(labels[c], o.label)
			}
		}
	}
	var out []window.Row
	for c, v := range values {
		row := window.Row{Dimension: c.dimension, ID: c.id, Summary: naiveSummary(v)}
		if len(labels[c]) > 0 {
			row.Label = slices.Min(labels[c])
		}
		out = append(out, row)
	}
	slices.SortFunc(out, func(a, b window.Row) int {
		return cmp.Or(strings.Compare(a.Dimension, b.Dimension), strings.Compare(a.ID, b.ID))
	})
	return out
}

func naiveSummary(values []int32) stats.Summary {
	sorted := slices.Sorted(slices.Values(values))
	s := stats.Summary{Count: int64(len(sorted)), Min: sorted[0], Max: sorted[len(sorted)-1]}
	for _, v := range sorted {
		s.Sum += int64(v)
	}
	s.P90 = sorted[(9*len(sorted)+9)/10-1]
	return s
}
