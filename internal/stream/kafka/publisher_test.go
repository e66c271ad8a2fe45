package kafka

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/internal/testkit/wire"
)

// TestLargestPoll publishes as much as a poll may bring in one part, more records
// than the client keeps at a time, in order within each partition.
func TestLargestPoll(t *testing.T) {
	t.Parallel()
	const events, partitions, size = 100_000, 12, 64 << 20 / 100_000
	h := openHarness(t, fakeBrokers(t).ListenAddrs()...)
	p := h.topic(t, "t", partitions)
	pub := h.publisher(t, "pub", p.Topic)
	msgs := make([]stream.Message, events)
	for i := range msgs {
		value := bytes.Repeat([]byte{byte(i), byte(i >> 8)}, size/2)
		binary.BigEndian.PutUint32(value, uint32(i))
		msgs[i] = stream.Message{Topic: p.Topic, Partition: stream.ByKey, Key: fmt.Appendf(nil, "nl|%d|20261207", i%7000), Value: value}
	}
	if err := pub.Publish(t.Context(), msgs, []stream.Change{{Key: "k", Value: []byte("v")}}); err != nil {
		t.Fatal(err)
	}
	n := 0
	for i := range int32(partitions) {
		last := -1
		for r, err := range h.log.Read(t.Context(), stream.Partition{Topic: p.Topic, Index: i}, 0, math.MaxInt64) {
			if err != nil {
				t.Fatal(err)
			}
			id := int(binary.BigEndian.Uint32(r.Value))
			if id <= last || stream.PartitionFor(msgs[id].Key, partitions) != i || !bytes.Equal(r.Value, msgs[id].Value) {
				t.Fatalf("partition %d: event %d after %d", i, id, last)
			}
			last = id
			n++
		}
	}
	if n != events {
		t.Errorf("%d events, want %d", n, events)
	}
}

// TestMemoryBehindOpenTransaction opens a publisher whose memory lies behind an
// open transaction of another one on the same topic: it waits for what it has
// committed.
func TestMemoryBehindOpenTransaction(t *testing.T) {
	t.Parallel()
	c := fakeBrokers(t)
	h := openHarness(t, c.ListenAddrs()...)
	p := h.topic(t, "t", 1)
	pub := h.publisher(t, "pub", p.Topic)
	other, err := h.openTransaction(t.Context(), h.Prefix+"other", stream.Partition{Topic: p.Topic + memorySuffix})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := pub.Publish(t.Context(), nil, []stream.Change{{Key: "k", Value: []byte("v")}}); err != nil {
		t.Fatal(err)
	}
	ending := make(chan error, 1)
	c.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		go func() { ending <- other.EndTransaction(context.WithoutCancel(t.Context()), kgo.TryAbort) }()
		return nil, nil, false // the fetch goes its way
	})
	again := h.publisher(t, "pub", p.Topic)
	if got := maps.Collect(again.Memory()); len(got) != 1 || string(got["k"]) != "v" {
		t.Errorf("memory %q", got)
	}
	if err := <-ending; err != nil {
		t.Error(err)
	}
}

// TestMemoryCompacted reads a memory from which the brokers have removed what was
// written again.
func TestMemoryCompacted(t *testing.T) {
	t.Parallel()
	c := fakeBrokers(t)
	h := openHarness(t, c.ListenAddrs()...)
	p := h.topic(t, "t", 1)
	pub := h.publisher(t, "pub", p.Topic)
	want := make(map[string]string)
	for round := range 5 {
		var changes []stream.Change
		for i := range 50 {
			key := strconv.Itoa(i)
			if i%5 == round {
				changes = append(changes, stream.Change{Key: key})
				delete(want, key)
			} else {
				want[key] = fmt.Sprint(round, "-", i)
				changes = append(changes, stream.Change{Key: key, Value: []byte(want[key])})
			}
		}
		if err := pub.Publish(t.Context(), nil, changes); err != nil {
			t.Fatal(err)
		}
		c.Compact()
	}
	got := make(map[string]string)
	for key, value := range h.publisher(t, "pub", p.Topic).Memory() {
		got[key] = string(value)
	}
	if !maps.Equal(got, want) {
		t.Errorf("memory %v, want %v", got, want)
	}
}

// TestPublishWithoutBrokers holds that a publish whose brokers are gone ends: with
// the caller's context, and else before the transaction's time is over.
func TestPublishWithoutBrokers(t *testing.T) {
	t.Parallel()
	for _, patience := range []time.Duration{time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			h := bubble(t)
			p := h.topic(t, "t", 1)
			pub := h.publisher(t, "pub", p.Topic)
			h.wire.CutAt(wire.Produce, 1, wire.Before)
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			err := pub.Publish(ctx, []stream.Message{{Topic: p.Topic, Value: []byte("a")}}, nil)
			spent := time.Since(began)
			want, within := stream.ErrUnavailable, transactionTimeout
			if patience < transactionTimeout {
				want, within = context.DeadlineExceeded, patience+abortTimeout
			}
			if !errors.Is(err, want) || errors.Is(err, stream.ErrFenced) || spent > within {
				t.Errorf("after %v: %v, want %v within %v", spent, err, want, within)
			}
			h.wire.Mend()
			h.publisher(t, "pub", p.Topic)
			if got := h.values(t, p); len(got) != 0 {
				t.Errorf("the log holds %q", got)
			}
		})
	}
}

// TestCommitIsNotBrokenOff holds that a caller who gives up at the very end gets
// to know whether the transaction took effect.
func TestCommitIsNotBrokenOff(t *testing.T) {
	t.Parallel()
	c := fakeBrokers(t)
	h := openHarness(t, c.ListenAddrs()...)
	p := h.topic(t, "t", 1)
	pub := h.publisher(t, "pub", p.Topic)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c.ControlKey(int16(kmsg.EndTxn), func(kmsg.Request) (kmsg.Response, error, bool) {
		cancel()
		return nil, nil, false
	})
	if err := pub.Publish(ctx, []stream.Message{{Topic: p.Topic, Value: []byte("a")}}, nil); err != nil {
		t.Errorf("publish: %v", err)
	}
	if err := h.publisher(t, "pub2", p.Topic).Publish(t.Context(), []stream.Message{{Topic: p.Topic, Value: []byte("b")}}, nil); err != nil {
		t.Fatal(err)
	}
	if got := h.values(t, p); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("the log holds %q", got)
	}
}

// TestAppendAfterFailure holds that an append that failed harms neither those
// beside it nor those after it.
func TestAppendAfterFailure(t *testing.T) {
	t.Parallel()
	h := openHarness(t, fakeBrokers(t).ListenAddrs()...)
	p := h.topic(t, "t", 1)
	good := func(s string) []stream.Message {
		return []stream.Message{{Topic: p.Topic, Value: []byte(s)}, {Topic: p.Topic, Value: []byte(s)}}
	}
	bad := append(good("bad"), stream.Message{Topic: p.Topic, Partition: 9, Value: []byte("bad")})
	var all sync.WaitGroup
	for range 3 {
		for _, msgs := range [][]stream.Message{good("a"), bad, bad[2:], good("a")[:1]} {
			all.Go(func() {
				err := h.log.Append(t.Context(), msgs...)
				if fails := msgs[len(msgs)-1].Partition == 9; fails != (err != nil) {
					t.Errorf("append of %d messages: %v", len(msgs), err)
				}
			})
		}
	}
	all.Wait()
	if got := h.values(t, p); !slices.Equal(got, slices.Repeat([]string{"a"}, 9)) {
		t.Errorf("the log holds %q", got)
	}
}

// TestAppendLostAnswer holds that an append whose answer is lost says so, and that
// it was written whole or not at all.
func TestAppendLostAnswer(t *testing.T) {
	t.Parallel()
	for when, want := range map[wire.When]int{wire.Before: 0, wire.After: 2} {
		synctest.Test(t, func(t *testing.T) {
			h := bubble(t)
			p := h.topic(t, "t", 1)
			h.wire.CutAt(wire.EndTxn, 1, when)
			err := h.log.Append(t.Context(), stream.Message{Topic: p.Topic, Value: []byte("a")}, stream.Message{Topic: p.Topic, Value: []byte("b")})
			if !errors.Is(err, stream.ErrUnavailable) {
				t.Errorf("append: %v", err)
			}
			h.wire.Mend()
			if err := pause(t.Context(), transactionTimeout+time.Minute); err != nil { // the brokers abort what nobody ends
				t.Fatal(err)
			}
			if got := h.values(t, p); len(got) != want {
				t.Errorf("the log holds %q", got)
			}
		})
	}
}

// TestAppendOfOneGivesUp holds that an append of one message whose brokers are
// gone ends with the caller's context.
func TestAppendOfOneGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := bubble(t)
		p := h.topic(t, "t", 1)
		h.wire.CutAt(wire.Produce, 1, wire.After)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		err := h.log.Append(ctx, stream.Message{Topic: p.Topic, Value: []byte("a")})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 2*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// TestAddedPartitionsAreWrittenTo: an ingest that runs when a topic gets more
// partitions writes its next heartbeats to all of them.
func TestAddedPartitionsAreWrittenTo(t *testing.T) {
	t.Parallel()
	h := openHarness(t, fakeBrokers(t).ListenAddrs()...)
	p := h.topic(t, "t", 1)
	pub := h.publisher(t, "pub", p.Topic)
	beats := func(n int32) []stream.Message {
		msgs := make([]stream.Message, n)
		for i := range msgs {
			msgs[i] = stream.Message{Topic: p.Topic, Partition: int32(i), Value: []byte("beat")}
		}
		return msgs
	}
	write := func(doing string, n int32, writers map[string]func([]stream.Message) error) {
		for name, w := range writers {
			if err := w(beats(n)); err != nil {
				t.Errorf("%s: %s: %v", doing, name, err)
			}
		}
	}
	writers := map[string]func([]stream.Message) error{
		"publish":    func(msgs []stream.Message) error { return pub.Publish(t.Context(), msgs, nil) },
		"append":     func(msgs []stream.Message) error { return h.log.Append(t.Context(), msgs...) },
		"append one": func(msgs []stream.Message) error { return h.log.Append(t.Context(), msgs[len(msgs)-1]) },
	}
	write("one partition", 1, writers)
	for n := int32(2); n <= 5; n++ {
		h.addPartitions(t, p.Topic, 1)
		write(fmt.Sprintf("%d partitions", n), n, writers)
	}
	last := stream.Partition{Topic: p.Topic, Index: 4}
	got := 0
	for _, err := range h.log.Read(t.Context(), last, 0, math.MaxInt64) {
		if err != nil {
			t.Fatal(err)
		}
		got++
	}
	if got != 3 {
		t.Errorf("%d messages in %s, want 3", got, last)
	}
	for name, w := range map[string]func([]stream.Message) error{"append": writers["append"], "publish": writers["publish"]} {
		if err := w(beats(6)); !errors.Is(err, stream.ErrNoTopic) {
			t.Errorf("%s to a partition that is not there: %v", name, err)
		}
	}
}
