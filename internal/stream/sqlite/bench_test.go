package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"sync"
	"testing"

	"github.com/peil-stream/peil/internal/sqlitefile"
	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/internal/stream/sqlite"
)

func openBench(b *testing.B, partitions int32) *sqlite.Log {
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
	l, err := sqlite.New(b.Context(), f, sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	if err := l.Create(b.Context(), stream.TopicSpec{Name: "t", Partitions: partitions}); err != nil {
		b.Fatal(err)
	}
	return l
}

// messages are n messages of size bytes, key and value, by key.
func messages(n, size int) []stream.Message {
	msgs := make([]stream.Message, n)
	for i := range msgs {
		key := fmt.Appendf(nil, "nl|nl:GVB_7_%d|20261130", i%5000)
		msgs[i] = stream.Message{Topic: "t", Partition: stream.ByKey, Key: key, Value: make([]byte, size-len(key))}
	}
	return msgs
}

func BenchmarkAppend57000(b *testing.B) {
	l := openBench(b, 12)
	msgs := messages(57_000, 200)
	for b.Loop() {
		if err := l.Append(b.Context(), msgs...); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPublish1000(b *testing.B) {
	l := openBench(b, 4)
	p, err := l.OpenPublisher(b.Context(), stream.PublisherSpec{ID: "p"})
	if err != nil {
		b.Fatal(err)
	}
	msgs := messages(1000, 200)
	changes := make([]stream.Change, len(msgs))
	for i := range changes {
		changes[i] = stream.Change{Key: string(msgs[i].Key), Value: make([]byte, 100)}
	}
	for b.Loop() {
		if err := p.Publish(b.Context(), msgs, changes); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppend1(b *testing.B) {
	l := openBench(b, 4)
	msgs := messages(1, 200)
	for b.Loop() {
		if err := l.Append(b.Context(), msgs...); err != nil {
			b.Fatal(err)
		}
	}
}

const benchRecords = 1_000_000

func filled(b *testing.B) *sqlite.Log {
	b.Helper()
	l := openBench(b, 4)
	msgs := messages(50_000, 188)
	for range benchRecords / len(msgs) {
		if err := l.Append(b.Context(), msgs...); err != nil {
			b.Fatal(err)
		}
	}
	return l
}

func BenchmarkRead1000000(b *testing.B) {
	l := filled(b)
	for b.Loop() {
		n := 0
		for p := range int32(4) {
			for _, err := range l.Read(b.Context(), stream.Partition{Topic: "t", Index: p}, 0, math.MaxInt64) {
				if err != nil {
					b.Fatal(err)
				}
				n++
			}
		}
		if n != benchRecords {
			b.Fatal(n)
		}
	}
	b.ReportMetric(float64(b.N)*benchRecords/b.Elapsed().Seconds(), "records/s")
}

// counter counts what it is given and stops the run after the last record.
type counter struct {
	all  sync.WaitGroup
	mu   sync.Mutex
	n    int
	stop context.CancelFunc
}

func (c *counter) Assigned(_ context.Context, as []*stream.Assignment) error {
	for _, a := range as {
		c.all.Go(func() {
			for batch := range a.Batches {
				c.mu.Lock()
				c.n += len(batch.Records)
				if c.n == benchRecords {
					c.stop()
				}
				c.mu.Unlock()
				batch.Release()
			}
		})
	}
	return nil
}

func (c *counter) Revoked(context.Context, []*stream.Assignment) {}
func (c *counter) Lost([]*stream.Assignment)                     {}

func BenchmarkConsume1000000(b *testing.B) {
	l := filled(b)
	for b.Loop() {
		consumer, err := l.Consumer(stream.Subscription{Group: "g", Topics: []string{"t"}})
		if err != nil {
			b.Fatal(err)
		}
		ctx, cancel := context.WithCancel(b.Context())
		h := &counter{stop: cancel}
		err = consumer.Run(ctx, h)
		h.all.Wait()
		if err != nil || h.n != benchRecords {
			b.Fatal(errors.Join(err, fmt.Errorf("%d records", h.n)))
		}
	}
	b.ReportMetric(float64(b.N)*benchRecords/b.Elapsed().Seconds(), "records/s")
}
