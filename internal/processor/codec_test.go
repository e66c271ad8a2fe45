package processor

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/peil-stream/peil/window"
)

// segment is the data of a window of 43,000 records over 300 lines and 3,000
// stations.
func segment(tb testing.TB) []byte {
	tb.Helper()
	p, err := window.NewPartition(window.Config{}, window.Resume{Watermark: window.NoTime})
	if err != nil {
		tb.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 43_000 {
		p.Add(&window.Record{
			Offset: int64(i), Time: int64(i) * 6, LogTime: int64(i) * 6, HasValue: true, Value: int32(rng.NormFloat64() * 120),
			Group: []window.Cell{{Dimension: "line", ID: fmt.Appendf(nil, "nl:%d", rng.IntN(300))}, {Dimension: "network", ID: []byte("nl")}},
			Extra: window.Cell{Dimension: "station", ID: fmt.Appendf(nil, "nl:%d", rng.IntN(3000))},
		})
	}
	p.CloseMarker(43_000, 300_000)
	return p.TakeClosed()[0].Data
}

func TestASegmentLargerThanTheWindowOfTheCompressor(t *testing.T) {
	t.Parallel()
	c, err := newCodec()
	if err != nil {
		t.Fatal(err)
	}
	data := bytes.Repeat(segment(t), 1+4*zstdWindow/len(segment(t)))
	back, err := c.decompress(c.compress(data))
	if err != nil || !bytes.Equal(back, data) {
		t.Errorf("%d bytes came back as %d: %v", len(data), len(back), err)
	}
}

func BenchmarkCompress(b *testing.B) {
	c, err := newCodec()
	if err != nil {
		b.Fatal(err)
	}
	data := segment(b)
	size := 0
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		size = len(c.compress(data))
	}
	b.ReportMetric(float64(size), "B/segment")
}

func BenchmarkDecompress(b *testing.B) {
	c, err := newCodec()
	if err != nil {
		b.Fatal(err)
	}
	data := c.compress(segment(b))
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.decompress(data); err != nil {
			b.Fatal(err)
		}
	}
}
