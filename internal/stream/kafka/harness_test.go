package kafka

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/internal/stream/streamtest"
	"github.com/peil-stream/peil/internal/testkit/wire"
)

// shortRequest is the patience of tests in which the wire is cut.
const shortRequest = time.Second

// features of a log on Kafka: topics are stamped by the brokers.
func features() streamtest.Features {
	return streamtest.Features{Trim: true, Delete: true, Gaps: true, LostAnswers: true, Deaths: true, Members: true}
}

// harness is a log on brokers.
type harness struct {
	streamtest.Harness

	opts Options
	wire *wire.Wire
	log  *Log
}

// lossyLog mends the wire when the next publisher is opened.
type lossyLog struct {
	*Log

	wire *wire.Wire
}

func (l lossyLog) OpenPublisher(ctx context.Context, spec stream.PublisherSpec) (stream.Publisher, error) {
	l.wire.Mend()
	return l.Log.OpenPublisher(ctx, spec)
}

// fakeBrokers starts brokers in memory.
func fakeBrokers(tb testing.TB, opts ...kfake.Opt) *kfake.Cluster {
	tb.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}

// openHarness opens a log on the brokers, whose names nobody else uses.
func openHarness(tb testing.TB, brokers ...string) *harness {
	tb.Helper()
	h := &harness{wire: new(wire.Wire)}
	h.opts = Options{Brokers: brokers, Dial: h.wire.Dial, RequestTimeout: shortRequest, SessionTimeout: 6 * time.Second}
	h.Prefix = rand.Text()[:8] + "."
	if _, err := h.reopen(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := errors.Join(h.log.Close(), h.log.Close()); err != nil {
			tb.Error(err)
		}
	})
	h.Reopen = h.reopen
	h.Trim = h.trim
	h.Delete = h.remove
	h.Gap = h.gap
	h.Die = h.die
	h.LoseAnswer = func(afterEffect bool) {
		when := wire.Before
		if afterEffect {
			when = wire.After
		}
		h.wire.CutAt(wire.EndTxn, 1, when)
	}
	return h
}

func (h *harness) reopen(ctx context.Context) (stream.Log, error) {
	if h.log != nil {
		if err := h.log.Close(); err != nil {
			return nil, err
		}
	}
	l, err := Open(ctx, h.opts)
	if err != nil {
		return nil, err
	}
	h.log = l
	h.Log = lossyLog{l, h.wire}
	return h.Log, nil
}

func (h *harness) trim(ctx context.Context, p stream.Partition, before int64) error {
	b, err := stream.BoundsOf(ctx, h.log, p)
	if err != nil || before <= b.Start {
		return err
	}
	offsets := make(kadm.Offsets)
	offsets.AddOffset(p.Topic, p.Index, before, -1)
	resps, err := h.log.admin.DeleteRecords(ctx, offsets)
	return errors.Join(err, resps.Error())
}

// remove deletes a topic and waits until the brokers say so.
func (h *harness) remove(ctx context.Context, topic string) error {
	resp, err := h.log.admin.DeleteTopic(ctx, topic)
	if err := errors.Join(err, resp.Err); err != nil {
		return err
	}
	for {
		_, err := h.log.Describe(ctx, topic)
		if errors.Is(err, stream.ErrNoTopic) {
			return nil
		}
		if err := errors.Join(err, pause(ctx, 10*time.Millisecond)); err != nil {
			return fmt.Errorf("wait for the end of %s: %w", topic, err)
		}
	}
}

// gap aborts a transaction.
func (h *harness) gap(ctx context.Context, p stream.Partition) error {
	client, err := h.openTransaction(ctx, h.Prefix+rand.Text(), p)
	if err != nil {
		return err
	}
	defer client.Close()
	return client.EndTransaction(ctx, kgo.TryAbort)
}

// die leaves a transaction open: a client that is closed does not end it.
func (h *harness) die(ctx context.Context, id string, p stream.Partition) error {
	client, err := h.openTransaction(ctx, id, p)
	if err != nil {
		return err
	}
	client.Close()
	return nil
}

// openTransaction begins a transaction of an id and writes a record in it.
func (h *harness) openTransaction(ctx context.Context, id string, p stream.Partition) (*kgo.Client, error) {
	client, err := h.log.opts.transactional(id)
	if err != nil {
		return nil, err
	}
	err = client.BeginTransaction()
	if err == nil {
		err = produce(ctx, client, []kgo.Record{{Topic: p.Topic, Partition: p.Index, Value: []byte("never committed")}})
	}
	if err != nil {
		client.Close()
		return nil, err
	}
	return client, nil
}

// topic makes a topic and returns its first partition.
func (h *harness) topic(tb testing.TB, name string, partitions int32) stream.Partition {
	tb.Helper()
	name = h.Prefix + name
	if err := h.log.Create(tb.Context(), stream.TopicSpec{Name: name, Partitions: partitions}); err != nil {
		tb.Fatal(err)
	}
	return stream.Partition{Topic: name}
}

// publisher opens a publisher with a memory beside a topic, and closes it with
// the test.
func (h *harness) publisher(tb testing.TB, id, topic string) *publisher {
	tb.Helper()
	pub, err := h.log.OpenPublisher(tb.Context(), stream.PublisherSpec{ID: h.Prefix + id, Topic: topic})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := pub.Close(); err != nil {
			tb.Error(err)
		}
	})
	return pub.(*publisher)
}

// values reads a partition to its end.
func (h *harness) values(tb testing.TB, p stream.Partition) []string {
	tb.Helper()
	var values []string
	for r, err := range h.log.Read(tb.Context(), p, 0, math.MaxInt64) {
		if err != nil {
			tb.Fatal(err)
		}
		values = append(values, string(r.Value))
	}
	return values
}
