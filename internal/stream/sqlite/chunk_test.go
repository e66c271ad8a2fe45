package sqlite

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/peil-stream/peil/internal/stream"
)

// readChunk decodes a whole chunk.
func readChunk(first, last int64, data []byte) ([]stream.Record, error) {
	r, err := newChunkReader(first, last, data)
	if err != nil {
		return nil, err
	}
	var records []stream.Record
	var headers []stream.Header
	for {
		var rec stream.Record
		var more bool
		headers, more, err = r.read(&rec, headers)
		if err != nil || !more {
			return records, err
		}
		records = append(records, rec)
	}
}

func TestChunkRoundTrip(t *testing.T) {
	t.Parallel()
	text := rapid.OneOf(rapid.Just[[]byte](nil), rapid.SliceOfN(rapid.Byte(), 0, 300))
	rapid.Check(t, func(t *rapid.T) {
		var w chunkWriter
		offset := rapid.Int64Range(0, 1<<40).Draw(t, "offset")
		var want []stream.Record
		latest := int64(math.MinInt64)
		for range rapid.IntRange(1, 20).Draw(t, "records") {
			offset += rapid.Int64Range(0, 5).Draw(t, "gap")
			m := stream.Message{Key: text.Draw(t, "key"), Value: text.Draw(t, "value")}
			for range rapid.IntRange(0, 3).Draw(t, "headers") {
				m.Headers = append(m.Headers, stream.Header{Key: rapid.String().Draw(t, "header"), Value: text.Draw(t, "header value")})
			}
			timestamp := rapid.Int64().Draw(t, "timestamp")
			latest = max(latest, timestamp)
			w.add(offset, timestamp, &m)
			want = append(want, stream.Record{Offset: offset, Timestamp: timestamp, Key: m.Key, Value: m.Value, Headers: m.Headers})
			offset++
		}
		if w.first != want[0].Offset || w.next != offset || w.records != int64(len(want)) || w.maxTimestamp != latest {
			t.Fatalf("the writer says %d to %d, %d records, latest %d", w.first, w.next, w.records, w.maxTimestamp)
		}
		got, err := readChunk(w.first, w.next-1, w.buf)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("round trip (-want +got)\n%s", diff)
		}
		cut := rapid.IntRange(0, len(w.buf)-1).Draw(t, "cut")
		if _, err := readChunk(w.first, w.next-1, w.buf[:cut]); !errors.Is(err, errCorrupt) {
			t.Fatalf("a chunk cut at %d of %d: %v", cut, len(w.buf), err)
		}
	})
}

func FuzzChunk(f *testing.F) {
	var w chunkWriter
	w.add(7, 1_796_040_000_000, &stream.Message{Key: []byte("k"), Value: []byte{}, Headers: []stream.Header{{Key: "h"}}})
	w.add(9, 5, &stream.Message{Value: []byte("v")})
	f.Add(int64(7), int64(9), bytes.Clone(w.buf))
	f.Add(int64(0), int64(0), []byte{})
	f.Add(int64(0), int64(0), []byte{2, 0})
	f.Add(int64(-1), int64(-1), []byte{1, 0, 0, 0, 0, 0})
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), []byte{1, 0, 0, 0, 0, 0})
	f.Add(int64(0), int64(5), append([]byte{1, 0, 0, 0, 0}, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1))
	f.Fuzz(func(t *testing.T, first, last int64, data []byte) {
		records, err := readChunk(first, last, data)
		if err != nil {
			if !errors.Is(err, errCorrupt) {
				t.Fatal(err)
			}
			return
		}
		next := first
		for _, r := range records {
			if r.Offset < next || r.Offset > last {
				t.Fatalf("offset %d after %d in %d to %d", r.Offset, next, first, last)
			}
			next = r.Offset + 1
		}
		if next != last+1 {
			t.Fatalf("ends at %d of %d", next, last)
		}
	})
}
