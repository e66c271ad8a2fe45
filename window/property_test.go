package window_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/peil-stream/peil/ledger"
	"github.com/peil-stream/peil/window"
)

// drawConfig draws small windows, so that their edges are met often.
func drawConfig(t *rapid.T) window.Config {
	return window.Config{
		Size:     time.Duration(rapid.Int64Range(1, 20).Draw(t, "size")) * time.Millisecond,
		Lateness: time.Duration(rapid.Int64Range(0, 25).Draw(t, "lateness")) * time.Millisecond,
	}
}

func drawCells(t *rapid.T) []cellKey {
	cell := rapid.Custom(func(t *rapid.T) cellKey {
		return cellKey{
			dimension: rapid.SampledFrom([]string{"line", "network", "operator", "station", ""}).Draw(t, "dimension"),
			id:        rapid.SampledFrom([]string{"a", "b", "ab", "", "\x00", "a\xff"}).Draw(t, "id"),
		}
	})
	return rapid.SliceOfN(cell, 0, 5).Draw(t, "cells")
}

func drawEvent(t *rapid.T, offset, at int64) *op {
	value := rapid.OneOf(rapid.Int32(), rapid.Int32Range(-3, 3), rapid.Int32Range(-90_000, 90_000))
	return &op{
		kind: event, offset: offset, time: at,
		logTime:  at + rapid.Int64Range(-20, 20).Draw(t, "log"),
		hasValue: rapid.IntRange(0, 4).Draw(t, "has value") > 0,
		value:    value.Draw(t, "value"),
		label:    rapid.SampledFrom([]string{"", "x", "y", "xy"}).Draw(t, "label"),
		cells:    drawCells(t),
		extra:    rapid.Bool().Draw(t, "extra"),
	}
}

// drawOps draws operations with rising offsets and times that roughly rise.
func drawOps(t *rapid.T) []*op {
	var ops []*op
	var offset int64
	base := rapid.Int64Range(-60, 60).Draw(t, "base")
	pace := rapid.Int64Range(0, 6).Draw(t, "pace")
	for range rapid.IntRange(0, 60).Draw(t, "operations") {
		at := base + rapid.Int64Range(-30, 30).Draw(t, "jitter")
		base += pace
		switch rapid.IntRange(0, 9).Draw(t, "kind") {
		case 0:
			ops = append(ops, &op{kind: marker, offset: offset, time: at - 15})
		case 1, 2:
			ops = append(ops, &op{
				kind: heartbeat, offset: offset, time: at,
				logTime: at + rapid.Int64Range(-20, 20).Draw(t, "log"),
			})
		default:
			ops = append(ops, drawEvent(t, offset, at))
		}
		offset += rapid.SampledFrom([]int64{1, 1, 1, 4}).Draw(t, "gap")
	}
	return ops
}

// identity is a segment without its data.
var identity = cmpopts.IgnoreFields(window.Segment{}, "Data")

// checkSegment compares a segment with the records of the naive window.
func checkSegment(t *rapid.T, want *naiveWindow, got window.Segment) {
	wantID := window.Segment{
		Start: want.start, End: want.end, FirstOffset: want.first,
		ThroughOffset: want.through, Records: int64(len(want.ops)),
	}
	if diff := cmp.Diff(wantID, got, identity); diff != "" {
		t.Fatalf("segment mismatch (-want +got):\n%s", diff)
	}
	merged, err := window.Merge(got.Data)
	if err != nil {
		t.Fatalf("Merge: %v", err)
	}
	if diff := cmp.Diff(naiveRows(want.ops), merged); diff != "" {
		t.Fatalf("rows of window %d mismatch (-want +got):\n%s", want.start, diff)
	}
}

// A partition fed with events, heartbeats and markers in any order equals the
// batch job that keeps everything and sorts.
func TestPartitionEqualsJob(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cfg := drawConfig(t)
		p := newPartition(t, cfg, window.Resume{Watermark: window.NoTime})
		j := newJob(cfg.Size.Milliseconds(), cfg.Lateness.Milliseconds())
		var segments []window.Segment
		for i, o := range drawOps(t) {
			want := window.Accepted
			if j.run(o) {
				want = window.Late
			}
			if got := o.run(p); got != want {
				t.Fatalf("operation %d: verdict %v, want %v", i, got, want)
			}
			if p.Watermark() != j.watermark {
				t.Fatalf("operation %d: watermark %d, want %d", i, p.Watermark(), j.watermark)
			}
			open := j.open()
			if diff := cmp.Diff(open, p.Open()); diff != "" {
				t.Fatalf("operation %d: open windows mismatch (-want +got):\n%s", i, diff)
			}
			checkOpen(t, p, open)
			if rapid.Bool().Draw(t, "take") {
				segments = append(segments, p.TakeClosed()...)
			}
		}
		segments = append(segments, p.TakeClosed()...)
		want := j.segments()
		if len(want) != len(segments) {
			t.Fatalf("%d segments, want %d", len(segments), len(want))
		}
		for i := range want {
			checkSegment(t, want[i], segments[i])
		}
	})
}

// checkOpen checks what is derived from the open windows.
func checkOpen(t *rapid.T, p *window.Partition, open []window.OpenWindow) {
	var records int64
	for _, w := range open {
		records += w.Records
		if p.Closed(w.Start) || p.Closed(w.End-1) {
			t.Fatalf("window %d is open and closed", w.Start)
		}
	}
	if p.Records() != records {
		t.Fatalf("Records = %d, want %d", p.Records(), records)
	}
	start, ok := p.OldestOpen()
	if ok != (len(open) > 0) || ok && start != open[0].Start {
		t.Fatalf("OldestOpen = %d, %v, want the first of %v", start, ok, open)
	}
}

// stored is what a flush writes.
type stored struct {
	next, position, watermark int64
	segments                  map[int64]window.Segment
}

// flush stores a partition and what its ledger says may be committed.
func (s *stored) flush(t *rapid.T, p *window.Partition, l *ledger.Ledger) {
	var ends []int64
	for _, got := range p.TakeClosed() {
		if old, ok := s.segments[got.Start]; ok {
			if diff := cmp.Diff(old, got); diff != "" {
				t.Fatalf("a second segment of window %d differs (-first +second):\n%s", got.Start, diff)
			}
		}
		s.segments[got.Start] = got
		ends = append(ends, got.End)
	}
	point := l.Mark(ends)
	l.Release()
	next := point.Position
	for _, w := range p.Open() {
		next = min(next, w.FirstOffset)
	}
	if point.Next != next {
		t.Fatalf("the ledger commits %d, the open windows begin at %d", point.Next, next)
	}
	s.next = next
	s.position = max(s.position, point.Position)
	s.watermark = p.Watermark()
}

// However often a partition is killed and resumed from what its last flush stored,
// or from an offset below it, its segments are those of an
// undisturbed run, byte for byte; and only records below the stored position are
// called replayed or redelivered.
func TestResumeYieldsEqualSegments(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cfg := drawConfig(t)
		ops := drawOps(t)
		whole := newPartition(t, cfg, window.Resume{Watermark: window.NoTime})
		verdicts := make([]window.Verdict, len(ops))
		for i, o := range ops {
			verdicts[i] = o.run(whole)
		}
		want := map[int64]window.Segment{}
		for _, s := range whole.TakeClosed() {
			want[s.Start] = s
		}

		s := stored{watermark: window.NoTime, segments: map[int64]window.Segment{}}
		for range rapid.IntRange(0, 4).Draw(t, "kills") {
			s.resume(t, cfg, ops, verdicts, rapid.IntRange(0, len(ops)).Draw(t, "killed at"), false)
		}
		s.resume(t, cfg, ops, verdicts, len(ops), true)
		if diff := cmp.Diff(want, s.segments); diff != "" {
			t.Fatalf("segments mismatch (-undisturbed +resumed):\n%s", diff)
		}
		if s.watermark != whole.Watermark() {
			t.Fatalf("watermark %d, want %d", s.watermark, whole.Watermark())
		}
	})
}

// resume reads from what is stored up to operation end, with flushes now and then,
// and one more if it was not killed.
func (s *stored) resume(
	t *rapid.T, cfg window.Config, ops []*op, verdicts []window.Verdict, end int, alive bool,
) {
	from := s.next
	if rapid.IntRange(0, 3).Draw(t, "from below") == 0 {
		from = rapid.Int64Range(0, s.next).Draw(t, "from")
	}
	position := s.position
	p := newPartition(t, cfg, window.Resume{Watermark: s.watermark, Position: position})
	l := ledger.New(from)
	for i, o := range ops[:end] {
		if o.offset < from {
			continue
		}
		got, want := o.run(p), verdicts[i]
		if o.kind == event && o.offset < position {
			if got != window.Replayed && got != window.Redelivered {
				t.Fatalf("offset %d below position %d: verdict %v", o.offset, position, got)
			}
			if got == window.Replayed && want != window.Accepted {
				t.Fatalf("offset %d: replayed, but it was %v", o.offset, want)
			}
		} else if got != want {
			t.Fatalf("offset %d at or above position %d: verdict %v, want %v", o.offset, position, got, want)
		}
		if o.kind == event && o.hasValue && (got == window.Accepted || got == window.Replayed) {
			size := cfg.Size.Milliseconds()
			l.Window(o.offset, window.Start(o.time, size)+size)
		} else {
			l.Other(o.offset)
		}
		if rapid.IntRange(0, 9).Draw(t, "flush") == 0 {
			s.flush(t, p, l)
		}
	}
	if alive {
		s.flush(t, p, l)
	}
}

// drawWindow draws records of one window.
func drawWindow(t *rapid.T) []*op {
	var ops []*op
	for i := range rapid.Int64Range(1, 40).Draw(t, "records") {
		o := drawEvent(t, i, rapid.Int64Range(0, 9).Draw(t, "time"))
		o.hasValue = true
		ops = append(ops, o)
	}
	return ops
}

// segmentOf puts records into the window from 0 to 10 and closes it.
func segmentOf(t *rapid.T, ops []*op) []byte {
	cfg := window.Config{Size: 10 * time.Millisecond, Lateness: time.Hour}
	p := newPartition(t, cfg, window.Resume{Watermark: window.NoTime})
	for _, o := range ops {
		o.run(p)
	}
	p.CloseMarker(1000, 10)
	closed := p.TakeClosed()
	if len(ops) == 0 && len(closed) == 0 {
		return nil
	}
	if len(closed) != 1 {
		t.Fatalf("%d segments, want 1", len(closed))
	}
	return closed[0].Data
}

// However the records of a window are spread over partitions, the merge of their
// segments is the aggregate of all of them.
func TestMergeOfAnyPartitioning(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ops := drawWindow(t)
		parts := make([][]*op, rapid.IntRange(1, 5).Draw(t, "partitions"))
		for _, o := range ops {
			i := rapid.IntRange(0, len(parts)-1).Draw(t, "partition")
			parts[i] = append(parts[i], o)
		}
		var data [][]byte
		for _, part := range parts {
			if d := segmentOf(t, part); d != nil {
				data = append(data, d)
			}
		}
		got, err := window.Merge(data...)
		if err != nil {
			t.Fatalf("Merge: %v", err)
		}
		if diff := cmp.Diff(naiveRows(ops), got); diff != "" {
			t.Fatalf("rows mismatch (-want +got):\n%s", diff)
		}
	})
}

// The data of a segment depends on the set of its records alone: not on their
// order, nor on where in the record a cell stands, nor how often it is named.
func TestDataIgnoresOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ops := drawWindow(t)
		want := segmentOf(t, ops)
		var other []*op
		for _, o := range rapid.Permutation(ops).Draw(t, "order") {
			o := *o
			o.cells = rapid.Permutation(o.cells).Draw(t, "cells")
			if len(o.cells) > 0 && rapid.Bool().Draw(t, "twice") {
				o.cells = append(slices.Clone(o.cells), o.cells[0])
			}
			o.extra = rapid.Bool().Draw(t, "extra")
			other = append(other, &o)
		}
		if got := segmentOf(t, other); !bytes.Equal(want, got) {
			t.Fatalf("data differ:\n%x\n%x", want, got)
		}
	})
}

// Many cells: hash tables grow, and windows reuse the memory of others that had
// other ids.
func TestManyIDsOverManyWindows(t *testing.T) {
	t.Parallel()
	cfg := window.Config{Size: 10 * time.Millisecond}
	p := newPartition(t, cfg, window.Resume{Watermark: window.NoTime})
	for w := range int64(6) {
		var ops []*op
		for i := range int64(2000) {
			id := func(of, n int64) string { return fmt.Sprintf("%d:%d", w%3, i*of%n) }
			o := &op{
				kind: event, offset: w*2000 + i, time: w * 10, logTime: w * 10, hasValue: true,
				value: int32(i * 7919 % 1000), label: id(31, 40), extra: i%2 == 0,
				cells: []cellKey{{"line", id(17, 700)}, {"operator", id(31, 40)}, {"network", "nl"}, {"station", id(13, 999)}},
			}
			o.run(p)
			ops = append(ops, o)
		}
		p.CloseMarker(w*2000+2000, w*10+10)
		closed := p.TakeClosed()
		if diff := cmp.Diff(naiveRows(ops), rows(t, closed...)); diff != "" || len(closed) != 1 {
			t.Fatalf("%d segments of window %d; rows mismatch (-want +got):\n%s", len(closed), w, diff)
		}
	}
}
