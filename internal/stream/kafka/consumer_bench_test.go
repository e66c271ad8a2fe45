package kafka

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/peil-stream/peil/internal/stream"
)

// counter is a handler that only counts what it is given.
type counter struct {
	guest

	seen chan int
}

func (c *counter) Assigned(_ context.Context, as []*stream.Assignment) error {
	for _, a := range as {
		c.reading.Go(func() {
			for b := range a.Batches {
				c.seen <- len(b.Records)
				b.Release()
			}
		})
	}
	return nil
}

func (*counter) Revoked(context.Context, []*stream.Assignment) {}
func (*counter) Lost([]*stream.Assignment)                     {}

// polled are the records of one fetch: 188 bytes each, as in a backlog.
func polled(n int) []*kgo.Record {
	value, key := bytes.Repeat([]byte("v"), 168), bytes.Repeat([]byte("k"), 20)
	slab := make([]kgo.Record, n)
	records := make([]*kgo.Record, n)
	for i := range slab {
		slab[i] = kgo.Record{Key: key, Value: value, Timestamp: time.UnixMilli(int64(i)), Offset: int64(i)}
		records[i] = &slab[i]
	}
	return records
}

// BenchmarkHandOver is what the way from a poll to the handler costs a record.
func BenchmarkHandOver(b *testing.B) {
	const perFetch = 5000
	log, err := newLog(Options{Brokers: []string{"127.0.0.1:1"}})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := log.Close(); err != nil {
			b.Error(err)
		}
	}()
	c, err := log.Consumer(stream.Subscription{Group: "g", Topics: []string{"t"}})
	if err != nil {
		b.Fatal(err)
	}
	m := newMember(c.(*consumer), nil, nil)
	m.client = log.client
	s := m.newStay(stream.Partition{Topic: "t"}, "")
	go s.feed()
	records := polled(perFetch)
	b.ReportAllocs()
	b.ResetTimer()
	n := 0
	for b.Loop() {
		s.next = 0 // the same again
		s.push(records)
		for got := 0; got < perFetch; {
			batch := <-s.Batches
			got += len(batch.Records)
			batch.Release()
		}
		n += perFetch
	}
	b.StopTimer()
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/record")
	s.finish()
}

// BenchmarkConsume reads a backlog of 4 partitions from brokers in memory: by the
// client alone, and as a member of a group.
func BenchmarkConsume(b *testing.B) {
	const partitions, perPartition = 4, 250_000
	h := openHarness(b, fakeBrokers(b).ListenAddrs()...)
	topic := h.topic(b, "t", partitions).Topic
	value := bytes.Repeat([]byte("v"), 168)
	msgs := make([]stream.Message, 5000)
	for i := range int32(partitions) {
		for j := range msgs {
			msgs[j] = stream.Message{Topic: topic, Partition: i, Key: value[:20], Value: value}
		}
		for range perPartition / len(msgs) {
			if err := h.log.Append(b.Context(), msgs...); err != nil {
				b.Fatal(err)
			}
		}
	}
	report := func(b *testing.B) {
		b.Helper()
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(partitions*perPartition), "ns/record")
	}
	b.Run("client", func(b *testing.B) {
		for b.Loop() {
			client, err := h.log.opts.client(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxPartitionBytes(1<<20))
			if err != nil {
				b.Fatal(err)
			}
			for n := 0; n < partitions*perPartition; {
				client.PollFetches(b.Context()).EachPartition(func(p kgo.FetchTopicPartition) {
					for _, r := range p.Records {
						if !r.Attrs.IsControl() {
							n++
						}
					}
				})
			}
			client.Close()
		}
		report(b)
	})
	b.Run("member", func(b *testing.B) {
		for b.Loop() {
			c, err := h.log.Consumer(stream.Subscription{Group: h.Prefix + "g", Topics: []string{topic}})
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(b.Context())
			handler := &counter{seen: make(chan int, 100)}
			done := make(chan error, 1)
			go func() { done <- c.Run(ctx, handler) }()
			for n := 0; n < partitions*perPartition; {
				n += <-handler.seen
			}
			cancel()
			if err := <-done; err != nil {
				b.Fatal(err)
			}
			handler.reading.Wait()
		}
		report(b)
	})
}
