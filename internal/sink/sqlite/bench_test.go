package sqlite_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/sink/sqlite"
	"github.com/peil-stream/peil/internal/sqlitefile"
	"github.com/peil-stream/peil/stats"
	"github.com/peil-stream/peil/window"
)

const (
	benchPartitions   = 12
	benchSegments     = 4 // of each partition in a flush
	benchSegmentBytes = 100_000
	benchTrips        = 5_000
	benchRows         = 7_000
	benchWindow       = 300_000
)

func benchSink(b *testing.B) sink.Sink {
	b.Helper()
	f, err := sqlitefile.Open(b.Context(), filepath.Join(b.TempDir(), "peil.db"), sqlitefile.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := f.Close(); err != nil {
			b.Error(err)
		}
	})
	s, err := sqlite.New(b.Context(), f, sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// benchFlushes claims the partitions and returns what makes their n-th flush.
func benchFlushes(b *testing.B, s sink.Sink, trips int) func(n int64) []sink.PartitionFlush {
	b.Helper()
	data := make([]byte, benchSegmentBytes)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	parts := make([]sink.PartitionFlush, benchPartitions)
	for i := range parts {
		parts[i] = part(int32(i))
		claimAll(b, s, parts[i])
	}
	return func(n int64) []sink.PartitionFlush {
		for i := range parts {
			p := &parts[i]
			if n > 0 {
				p.From = &sink.Point{Next: n * 1000, Position: n * 1000}
			}
			p.To = sink.Point{Next: (n + 1) * 1000, Position: (n + 1) * 1000}
			p.Watermark = (n + 1) * benchSegments * benchWindow
			p.FinalTo = p.Watermark
			p.Segments = nil
			for j := range int64(benchSegments) {
				start := (n*benchSegments + j) * benchWindow
				p.Segments = append(p.Segments, sink.Segment{
					Start: start, End: start + benchWindow, FirstOffset: n * 1000, ThroughOffset: n*1000 + 999,
					Records: 1000, Origin: sink.OriginLive, Data: data,
				})
			}
			p.State.Trips = nil
			for j := range trips / benchPartitions {
				p.State.Trips = append(p.State.Trips, sink.Trip{
					TripID: fmt.Sprintf("nl:GVB_7_%d", (i*7919+j*104729)%1_000_000), StartDate: "20261130", LineID: "nl:GVB_7",
					Operator: "nl:GVB", StopID: "nl:30000731", StationID: "nl:stop_area_amstel", DelayS: 143,
					PredictedTime: p.Watermark, ObservedAt: p.Watermark, Tie: n,
				})
			}
		}
		return parts
	}
}

// BenchmarkFlush writes 12 partitions with 48 segments of 100 kB and 5,000 trip
// rows, which are new in the first flush and updated in the others.
func BenchmarkFlush(b *testing.B) {
	for _, trips := range []int{0, benchTrips} {
		b.Run(fmt.Sprintf("trips=%d", trips), func(b *testing.B) {
			s := benchSink(b)
			flush := benchFlushes(b, s, trips)
			n := int64(0)
			for b.Loop() {
				result, err := s.Flush(b.Context(), flush(n))
				if err != nil || len(result.Fenced) > 0 {
					b.Fatal(result, err)
				}
				n++
			}
		})
	}
}

// BenchmarkFinal merges a window of 12 segments into 7,000 rows: reads the
// segments, writes the rows, marks. New rows, then equal ones, then revised ones.
func BenchmarkFinal(b *testing.B) {
	for _, kind := range []string{"new", "equal", "revised"} {
		b.Run(kind, func(b *testing.B) {
			s := benchSink(b)
			flush := benchFlushes(b, s, 0)
			if _, err := s.Flush(b.Context(), flush(0)); err != nil {
				b.Fatal(err)
			}
			rows := make([]window.Row, benchRows)
			for i := range rows {
				rows[i] = window.Row{
					Dimension: "station", ID: fmt.Sprintf("nl:stop_area_%06d", i), Label: "nl:GVB",
					Summary: stats.Summary{Count: 10, Sum: 1440, P90: 300, Max: 300},
				}
			}
			n := int64(0)
			for b.Loop() {
				f, err := s.Final(b.Context(), sink.FinalRequest{Topic: "arrivals", TopicID: "id", Limit: 1})
				if err != nil {
					b.Fatal(err)
				}
				windows, err := f.Pending(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				w := windows[0]
				if len(w.Segments) != benchPartitions {
					b.Fatalf("%d segments", len(w.Segments))
				}
				if kind == "new" {
					w.Start += n * benchWindow
				}
				if kind == "revised" {
					for i := range rows {
						rows[i].Sum++
					}
				}
				// No identity matches, so the window stays pending for the next
				// round; the statements do the same work.
				for i := range w.Segments {
					w.Segments[i].ThroughOffset++
				}
				if _, err := f.Apply(b.Context(), w, rows); err != nil {
					b.Fatal(err)
				}
				if err := f.Commit(b.Context()); err != nil {
					b.Fatal(err)
				}
				n++
			}
		})
	}
}

// BenchmarkNothingToDo is the tick of an idle processor on a full table: an
// empty flush, no pending window and nothing to retain.
func BenchmarkNothingToDo(b *testing.B) {
	s := benchSink(b)
	flush := benchFlushes(b, s, 0)
	const flushes = 50
	for n := range int64(flushes) {
		if _, err := s.Flush(b.Context(), flush(n)); err != nil {
			b.Fatal(err)
		}
	}
	mergeAll(b, s)
	parts := flush(flushes)
	for i := range parts {
		parts[i].Segments = nil
		parts[i].To = *parts[i].From
	}
	for b.Loop() {
		if _, err := s.Flush(b.Context(), parts); err != nil {
			b.Fatal(err)
		}
		f, err := s.Final(b.Context(), sink.FinalRequest{Topic: "arrivals", TopicID: "id", Limit: 100})
		if err != nil {
			b.Fatal(err)
		}
		if windows, err := f.Pending(b.Context()); err != nil || len(windows) > 0 {
			b.Fatal(len(windows), err)
		}
		if err := f.Rollback(b.Context()); err != nil {
			b.Fatal(err)
		}
		if n, err := s.Retain(b.Context(), 0); err != nil || n > 0 {
			b.Fatal(n, err)
		}
	}
}

func mergeAll(b *testing.B, s sink.Sink) {
	b.Helper()
	f, err := s.Final(b.Context(), sink.FinalRequest{Topic: "arrivals", TopicID: "id", Limit: 1_000_000})
	if err != nil {
		b.Fatal(err)
	}
	windows, err := f.Pending(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	for _, w := range windows {
		if _, err := f.Apply(b.Context(), w, nil); err != nil {
			b.Fatal(err)
		}
	}
	if err := f.Commit(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkRetain empties 2,400 segments of 100 kB.
func BenchmarkRetain(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		s := benchSink(b)
		flush := benchFlushes(b, s, 0)
		for n := range int64(50) {
			if _, err := s.Flush(b.Context(), flush(n)); err != nil {
				b.Fatal(err)
			}
		}
		mergeAll(b, s)
		b.StartTimer()
		if n, err := s.Retain(b.Context(), sink.Infinity); err != nil || n != 50*benchPartitions*benchSegments {
			b.Fatal(n, err)
		}
	}
}
