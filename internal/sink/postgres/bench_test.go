//go:build integration

package postgres_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/sink/postgres"
	"github.com/peil-stream/peil/internal/testkit/services"
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
	return openSink(b, postgres.Options{URL: services.Postgres(b)})
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
			b.ReportAllocs()
			for b.Loop() {
				mustFlush(b, s, flush(n)...)
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
			mustFlush(b, s, benchFlushes(b, s, 0)(0)...)
			rows := make([]window.Row, benchRows)
			for i := range rows {
				rows[i] = window.Row{
					Dimension: "station", ID: fmt.Sprintf("nl:stop_area_%06d", i), Label: "nl:GVB",
					Summary: stats.Summary{Count: 10, Sum: 1440, P90: 300, Max: 300},
				}
			}
			n := int64(0)
			b.ReportAllocs()
			for b.Loop() {
				f, err := s.Final(b.Context(), sink.FinalRequest{Topic: "arrivals", TopicID: "id", Limit: 1})
				if err != nil {
					b.Fatal(err)
				}
				windows, err := f.Pending(b.Context())
				if err != nil || len(windows) != 1 || len(windows[0].Segments) != benchPartitions {
					b.Fatal(windows, err)
				}
				w := windows[0]
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
	const flushes = 20
	for n := range int64(flushes) {
		mustFlush(b, s, flush(n)...)
	}
	f, err := s.Final(b.Context(), sink.FinalRequest{Topic: "arrivals", TopicID: "id", Limit: 1_000})
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
	parts := flush(flushes)
	for i := range parts {
		parts[i].Segments = nil
		parts[i].To = *parts[i].From
	}
	for b.Loop() {
		mustFlush(b, s, parts...)
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
