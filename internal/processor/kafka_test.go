package processor_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/peil-stream/peil/event"
	"github.com/peil-stream/peil/internal/dlq"
	"github.com/peil-stream/peil/internal/processor"
	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/internal/stream/kafka"
	"github.com/peil-stream/peil/internal/telemetry"
	"github.com/peil-stream/peil/internal/testkit"
	"github.com/peil-stream/peil/internal/transit"
	"github.com/peil-stream/peil/window"
)

// brokers are brokers in memory behind a network in memory, with the topics of a
// rig, whose tables are used. Only in a bubble.
type brokers struct {
	*testkit.Rig

	t       *testing.T
	log     *kafka.Log
	metrics *telemetry.Metrics
}

func newBrokers(t *testing.T, partitions int32) *brokers {
	t.Helper()
	network := new(kfake.VirtualNetwork)
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(9092), kfake.ListenFn(network.Listen))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	l, err := kafka.Open(t.Context(), kafka.Options{Brokers: cluster.ListenAddrs(), Dial: network.DialContext})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	err = l.Create(t.Context(),
		stream.TopicSpec{Name: testkit.Arrivals, Partitions: partitions},
		stream.TopicSpec{Name: dlq.Topic(testkit.Arrivals), Partitions: partitions})
	if err != nil {
		t.Fatal(err)
	}
	return &brokers{Rig: testkit.New(t, testkit.Options{Partitions: partitions}), t: t, log: l, metrics: telemetry.New("test")}
}

// publish writes values to a partition in one transaction, stamped with T0+at
// seconds: a marker follows them.
func (b *brokers) publish(partition int32, at float64, values ...[]byte) {
	b.t.Helper()
	p, err := b.log.OpenPublisher(b.t.Context(), stream.PublisherSpec{ID: "test", Topic: testkit.Arrivals})
	if err != nil {
		b.t.Fatal(err)
	}
	msgs := make([]stream.Message, len(values))
	for i, v := range values {
		msgs[i] = stream.Message{Topic: testkit.Arrivals, Partition: partition, Timestamp: testkit.At(at), Value: v}
	}
	if err := p.Publish(b.t.Context(), msgs, nil); err != nil {
		b.t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		b.t.Fatal(err)
	}
}

// bounds are those of a partition.
func (b *brokers) bounds(partition int32) stream.Bounds {
	b.t.Helper()
	bounds, err := stream.BoundsOf(b.t.Context(), b.log, stream.Partition{Topic: testkit.Arrivals, Index: partition})
	if err != nil {
		b.t.Fatal(err)
	}
	return bounds
}

// start runs a processor from the brokers into the tables of the rig; the returned
// function stops it.
func (b *brokers) start() (*processor.Processor, func()) {
	b.t.Helper()
	p, err := processor.New(b.log, b.Sink, processor.Config{
		Group: "peil", Owner: "test", Topics: []string{testkit.Arrivals},
		Job: transit.Jobs(transit.Config{
			Windowed: func(string) bool { return true }, MaxSkew: 5 * time.Minute, WindowSize: 5 * time.Minute,
		}),
		Window:        window.Config{Size: 5 * time.Minute, Lateness: 2 * time.Minute},
		Fingerprint:   "size=5m lateness=2m max_skew=5m",
		FlushInterval: 5 * time.Second,
		Logger:        slog.New(slog.DiscardHandler),
	}, b.metrics)
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	stop := func() {
		cancel()
		if err := <-done; err != nil {
			b.t.Error(err)
		}
		done <- nil // once more
	}
	b.t.Cleanup(stop)
	return p, stop
}

// pass lets time go by.
func (b *brokers) pass(d time.Duration) {
	b.t.Helper()
	select {
	case <-time.After(d):
	case <-b.t.Context().Done():
	}
}

// drain waits until everything is read and flushed.
func (b *brokers) drain(p *processor.Processor) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 10*time.Minute)
	defer cancel()
	if _, err := p.Drain(ctx); err != nil {
		b.t.Fatal(err)
	}
}

// lag is what the metrics say of a partition.
func (b *brokers) lag() (lag float64) {
	b.t.Helper()
	families, err := b.metrics.Registry().Gather()
	if err != nil {
		b.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "peil_consumer_lag" {
			for _, m := range f.GetMetric() {
				lag += m.GetGauge().GetValue()
			}
		}
	}
	return lag
}

func TestK02AMarkerAtTheEndOfTheLogIsCaughtUpWith(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBrokers(t, 1)
		b.publish(0, 50, b.Delay(10, 1), b.Delay(20, 2), b.Delay(30, 3), b.Delay(40, 4), b.Delay(50, 5))
		if got := b.bounds(0); got != (stream.Bounds{End: 6}) {
			t.Fatalf("the log holds %+v, want 5 records and a marker", got)
		}
		p, stop := b.start()
		b.pass(30 * time.Second)
		if err := p.Ready(); err != nil {
			t.Fatalf("not ready after 30 s: %v", err)
		}
		b.drain(p)
		wantCounts(t, b.Rig, 0, sink.Counts{Accepted: 5})
		wantPoint(t, b.Rig, 0, 0, 6) // the window is open: all 5 are read again by a restart
		if s := p.Status()[0]; s.Position != 6 || s.Pending != 5 {
			t.Errorf("status %+v", s)
		}
		if lag := b.lag(); lag != 0 {
			t.Errorf("lag %v", lag)
		}
		stop()

		// What is committed lies below the marker, and above it once all is final.
		b.publish(0, 430, b.Delay(430, 9))
		p, stop = b.start()
		b.drain(p)
		stop()
		wantCounts(t, b.Rig, 0, sink.Counts{Accepted: 6})
		wantPoint(t, b.Rig, 0, 6, 8)
		wantNetwork(t, b.Rig, 0, 5, 3, 5, 5, 1)
	})
}

func TestM11APartitionThatEndsWithMarkersBecomesIdle(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBrokers(t, 2)
		// Partition 0 has closed its only window and ends with markers. Partition 1
		// closes the next window too, which partition 0 holds until it is idle.
		b.publish(0, 430, b.Delay(10, 1), b.Delay(20, 2), b.Delay(30, 3), b.Delay(40, 4), b.Status(430, event.Skipped))
		b.publish(1, 720, b.Delay(310, 7), b.Delay(320, 8), b.Status(720, event.Skipped))
		if got := b.bounds(0); got.End != 6 {
			t.Fatalf("the log holds %+v, want 5 records and a marker", got)
		}
		p, stop := b.start()
		b.pass(50 * time.Second)
		b.drain(p)
		wantNetwork(t, b.Rig, 0, 4, 2.5, 4, 4, 1)
		wantNoRow(t, b.Rig, 300)
		if s := p.Status()[0]; s.Position != 6 {
			t.Fatalf("status %+v", s)
		}
		b.pass(30 * time.Second)
		wantNetwork(t, b.Rig, 300, 2, 7.5, 8, 8, 7)
		wantCounts(t, b.Rig, 0, sink.Counts{Accepted: 5})
		stop()
	})
}
