package ingest_test

import (
	"testing"

	"github.com/peil-stream/peil/internal/ingest"
	"github.com/peil-stream/peil/internal/transit/gtfsrt"
)

// BenchmarkReplay plays the Dutch network into the embedded log: 57,021 events in
// one transaction.
func BenchmarkReplay(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		r := newRig(b, 4)
		r.cfg.Feed, r.cfg.Emit = "nl", gtfsrt.Arrivals
		b.StartTimer()
		if report := r.replay(r.open(), ingest.Options{Paths: []string{dutch}}); report.Events() != 57_021 {
			b.Fatalf("%d events", report.Events())
		}
	}
}
