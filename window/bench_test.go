package window_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/peil-stream/peil/window"
)

// The window of the benchmarks: about what the Dutch network yields in 5 minutes.
const (
	benchRecords   = 43_000
	benchLines     = 300
	benchStations  = 3_000
	benchOperators = 12
	minute         = int64(60_000)
	windowSize     = 5 * minute
)

// source yields the records of one window into one reused record, as a decoder
// does, in an order in which the stops of one trip follow each other.
type source struct {
	lines    [][]window.Cell
	stations [][]byte
	picks    []pick
	rec      window.Record
}

type pick struct {
	line, station uint16
	value         int32
}

func newSource() *source {
	rng := rand.New(rand.NewPCG(1, 2))
	s := &source{rec: window.Record{HasValue: true, Extra: window.Cell{Dimension: "station"}}}
	for i := range benchLines {
		operator := fmt.Appendf(nil, "nl:OP%02d", i%benchOperators)
		s.lines = append(s.lines, []window.Cell{
			{Dimension: "line", ID: fmt.Appendf(nil, "nl:OP%02d:%d", i%benchOperators, i)},
			{Dimension: "operator", ID: operator},
			{Dimension: "network", ID: []byte("nl")},
		})
	}
	for i := range benchStations {
		s.stations = append(s.stations, fmt.Appendf(nil, "nl:stop_area_%d", i))
	}
	for len(s.picks) < benchRecords {
		line := rng.IntN(benchLines)
		delay := rng.NormFloat64() * 120
		for range 1 + rng.IntN(20) {
			s.picks = append(s.picks, pick{
				line: uint16(line), station: uint16(rng.IntN(benchStations)),
				value: int32(delay + rng.NormFloat64()*30),
			})
		}
	}
	s.picks = s.picks[:benchRecords]
	return s
}

// at returns record i of the window that begins at start.
func (s *source) at(i int, start int64) *window.Record {
	p := s.picks[i]
	r := &s.rec
	r.Offset = int64(i)
	r.Time = start + int64(i)*windowSize/int64(len(s.picks))
	r.LogTime = r.Time + 1500
	r.Value = p.value
	r.Group = s.lines[p.line]
	r.Label = r.Group[1].ID
	r.Extra.ID = s.stations[p.station]
	return r
}

// fataler is what *testing.T, *testing.B and *rapid.T have in common.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func newPartition(tb fataler, cfg window.Config, r window.Resume) *window.Partition {
	tb.Helper()
	p, err := window.NewPartition(cfg, r)
	if err != nil {
		tb.Fatalf("NewPartition(%v, %v): %v", cfg, r, err)
	}
	return p
}

// perRecord reports the time of one record where an iteration handles n.
func perRecord(b *testing.B, n int) {
	b.Helper()
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/record")
}

// BenchmarkAdd adds one record an iteration; windows close beside the clock.
func BenchmarkAdd(b *testing.B) {
	s := newSource()
	p := newPartition(b, window.Config{}, window.Resume{Watermark: window.NoTime})
	var shift int64
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		p.Add(s.at(i, shift))
		if i++; i == benchRecords {
			i = 0
			shift += windowSize
			b.StopTimer()
			p.CloseMarker(0, shift)
			p.TakeClosed()
			b.StartTimer()
		}
	}
}

// BenchmarkWindow adds and closes one whole window an iteration.
func BenchmarkWindow(b *testing.B) {
	s := newSource()
	p := newPartition(b, window.Config{}, window.Resume{Watermark: window.NoTime})
	var shift int64
	var size int
	b.ReportAllocs()
	for b.Loop() {
		for i := range benchRecords {
			p.Add(s.at(i, shift))
		}
		shift += windowSize
		p.CloseMarker(0, shift)
		for _, segment := range p.TakeClosed() {
			size = len(segment.Data)
		}
	}
	perRecord(b, benchRecords)
	b.ReportMetric(float64(size), "B/segment")
}

// BenchmarkClose closes one window an iteration and leaves the adding out.
func BenchmarkClose(b *testing.B) {
	s := newSource()
	p := newPartition(b, window.Config{}, window.Resume{Watermark: window.NoTime})
	var shift int64
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		for i := range benchRecords {
			p.Add(s.at(i, shift))
		}
		shift += windowSize
		b.StartTimer()
		p.CloseMarker(0, shift)
		p.TakeClosed()
	}
	perRecord(b, benchRecords)
}

// BenchmarkMerge merges four segments of one window an iteration.
func BenchmarkMerge(b *testing.B) {
	s := newSource()
	var data [][]byte
	for part := range 4 {
		p := newPartition(b, window.Config{}, window.Resume{Watermark: window.NoTime})
		for i := part; i < benchRecords; i += 4 {
			p.Add(s.at(i, 0))
		}
		p.CloseMarker(benchRecords, windowSize)
		for _, segment := range p.TakeClosed() {
			data = append(data, segment.Data)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := window.Merge(data...); err != nil {
			b.Fatal(err)
		}
	}
}

// Not parallel: it counts allocations.
func TestAddDoesNotAllocate(t *testing.T) {
	s := newSource()
	p := newPartition(t, window.Config{}, window.Resume{Watermark: window.NoTime})
	add := func(start int64) {
		for i := range benchRecords {
			p.Add(s.at(i, start))
		}
	}
	// The first windows grow the memory that later ones reuse.
	var start int64
	for range 3 {
		add(start)
		start += windowSize
		p.CloseMarker(0, start)
	}
	closing := p.TakeClosed()
	if n := testing.AllocsPerRun(1, func() {
		add(start)
		start += windowSize
		p.CloseMarker(0, start)
		closing = p.TakeClosed()
	}); n > 4 {
		t.Fatalf("adding %d records and closing their window allocates %v times, want at most 4", benchRecords, n)
	}
	if len(closing) != 1 || closing[0].Records != benchRecords {
		t.Fatalf("closed %d segments", len(closing))
	}
	add(start)
	r := s.at(0, start)
	if n := testing.AllocsPerRun(1000, func() { p.Heartbeat(0, start, start) }); n != 0 {
		t.Fatalf("a heartbeat allocates %v times", n)
	}
	r.HasValue = false
	if n := testing.AllocsPerRun(1000, func() { p.Add(r) }); n != 0 {
		t.Fatalf("a record without a value allocates %v times", n)
	}
}
