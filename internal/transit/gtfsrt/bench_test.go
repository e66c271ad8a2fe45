package gtfsrt_test

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/peil-stream/peil/internal/transit/gtfsrt"
)

// dutch is the snapshot of the Dutch network: 2,847 trips, 60,074 stops.
func dutch(b *testing.B) []byte {
	b.Helper()
	f, err := os.Open(filepath.Join("..", "..", "..", "testdata", "nl-ovapi-tripupdates-2014", "tripUpdates.pb.gz"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		b.Fatal(err)
	}
	body, err := io.ReadAll(r)
	if err != nil {
		b.Fatal(err)
	}
	return body
}

func BenchmarkDecode(b *testing.B) {
	body := dutch(b)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := gtfsrt.Decode(body); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPeek(b *testing.B) {
	body := dutch(b)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if _, err := gtfsrt.Peek(body); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDiff measures a snapshot that is all news, and one that brings nothing.
func BenchmarkDiff(b *testing.B) {
	s, err := gtfsrt.Decode(dutch(b))
	if err != nil {
		b.Fatal(err)
	}
	now := s.Header + 1<<40
	for _, emit := range []gtfsrt.Emit{gtfsrt.Predictions, gtfsrt.Arrivals} {
		b.Run(emit.String()+"/first", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				bench := newBench(b, emit)
				delta := bench.differ.Diff(s, now)
				delta.Changes(0, len(delta.Events))
			}
		})
		b.Run(emit.String()+"/unchanged", func(b *testing.B) {
			bench := newBench(b, emit)
			bench.differ.Diff(s, now)
			again := *s
			b.ReportAllocs()
			for b.Loop() {
				again.Header++
				delta := bench.differ.Diff(&again, now)
				if n := len(delta.Events); n > 0 {
					b.Fatalf("%d events", n)
				}
			}
		})
	}
}
