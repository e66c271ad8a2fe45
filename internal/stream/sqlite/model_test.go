package sqlite_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/peil-stream/peil/internal/sqlitefile"
	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/internal/stream/sqlite"
)

// model is a partition as a plain list.
type model struct {
	start, end int64
	records    []modelRecord
}

type modelRecord struct {
	offset, timestamp int64
	value             string
}

func (m *model) add(timestamp int64, value string) {
	m.records = append(m.records, modelRecord{m.end, timestamp, value})
	m.end++
}

func (m *model) trim(before int64) {
	m.start = max(m.start, before)
	m.records = slices.DeleteFunc(m.records, func(r modelRecord) bool { return r.offset < m.start })
}

// run is where the leading run of old records below the limit ends.
func (m *model) run(before, limit int64) int64 {
	limit = max(m.start, min(limit, m.end))
	for _, r := range m.records {
		if r.timestamp >= before {
			return min(limit, r.offset)
		}
	}
	return limit
}

func (m *model) from(from, to int64) []string {
	var lines []string
	for _, r := range m.records {
		if r.offset >= from && r.offset < to {
			lines = append(lines, fmt.Sprintf("%d@%d %d %.8s", r.offset, r.timestamp, len(r.value), r.value))
		}
	}
	return lines
}

// TestModel does random things to a partition and to a list, and reads random
// ranges of both.
func TestModel(t *testing.T) {
	t.Parallel()
	h := openHarness(t)
	now := int64(1_000)
	l, err := sqlite.New(t.Context(), h.file, sqlite.Options{Now: func() time.Time { return time.UnixMilli(now) }})
	if err != nil {
		t.Fatal(err)
	}
	reader := openReader(t, h)
	topics := 0
	rapid.Check(t, func(rt *rapid.T) {
		ctx := t.Context()
		topics++
		topic := fmt.Sprintf("t%d", topics)
		p := stream.Partition{Topic: topic, Index: 1}
		if err := l.Create(ctx, stream.TopicSpec{Name: topic, Partitions: 2}); err != nil {
			rt.Fatal(err)
		}
		defer func() {
			if err := l.Delete(ctx, topic); err != nil {
				rt.Error(err)
			}
		}()
		m := &model{}
		must := func(err error) {
			if err != nil {
				rt.Fatal(err)
			}
		}
		near := func(rt *rapid.T, what string) int64 {
			return rapid.Int64Range(max(0, m.start-3), m.end+3).Draw(rt, what)
		}
		rt.Repeat(map[string]func(*rapid.T){
			"append": func(rt *rapid.T) {
				var msgs []stream.Message
				for i := range rapid.IntRange(0, 12).Draw(rt, "n") {
					// Large ones too, so that an append makes several chunks.
					size := rapid.SampledFrom([]int{0, 10, 100, 5_000, 5_000, 5_000, 70_000}).Draw(rt, "size")
					value := strings.Repeat(string(rune('a'+i%26)), size)
					timestamp := rapid.SampledFrom([]int64{0, 500, 900, 1_500}).Draw(rt, "timestamp")
					msgs = append(msgs, stream.Message{Topic: topic, Partition: 1, Timestamp: timestamp, Value: []byte(value)})
					if timestamp == 0 {
						timestamp = now
					}
					m.add(timestamp, value)
				}
				now += 10
				for i := range msgs {
					if msgs[i].Timestamp == 0 {
						m.records[len(m.records)-len(msgs)+i].timestamp = now
					}
				}
				must(l.Append(ctx, msgs...))
			},
			"gap": func(*rapid.T) {
				must(h.gap(ctx, p))
				m.end += 3
			},
			"trim": func(rt *rapid.T) {
				before := rapid.Int64Range(0, m.end).Draw(rt, "before")
				must(l.Trim(ctx, p, before))
				m.trim(before)
			},
			"trim older": func(rt *rapid.T) {
				before := rapid.SampledFrom([]int64{400, 600, 1_000, 1_100, 2_000}).Draw(rt, "before")
				limit := near(rt, "limit")
				must(l.TrimOlder(ctx, p, before, limit))
				m.trim(m.run(before, limit))
			},
			"": func(rt *rapid.T) {
				for _, r := range []stream.Reader{l, reader} {
					b, err := stream.BoundsOf(ctx, r, p)
					must(err)
					if b != (stream.Bounds{Start: m.start, End: m.end}) {
						rt.Fatalf("Bounds = %+v, want %d to %d", b, m.start, m.end)
					}
				}
				from, to := near(rt, "from"), near(rt, "to")
				if rapid.Bool().Draw(rt, "to the end") {
					to = math.MaxInt64
				}
				var got []string
				var failed error
				for r, err := range reader.Read(ctx, p, from, to) {
					if failed = err; err == nil {
						got = append(got, fmt.Sprintf("%d@%d %d %.8s", r.Offset, r.Timestamp, len(r.Value), r.Value))
					}
				}
				if below := from < m.start && from < min(to, m.end); below != (failed != nil) {
					rt.Fatalf("Read(%d, %d) of %d to %d: error %v", from, to, m.start, m.end, failed)
				}
				if want := m.from(from, to); failed == nil && !slices.Equal(got, want) {
					rt.Fatalf("Read(%d, %d)\n got %q\nwant %q", from, to, got, want)
				}
			},
		})
	})
}

func openReader(t *testing.T, h *harness) *sqlite.Reader {
	t.Helper()
	f, err := sqlitefile.OpenReadOnly(t.Context(), h.path, sqlitefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	r, err := sqlite.NewReader(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
