package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/internal/testkit/wire"
)

// guest is a handler that reads everything and writes down what happens.
type guest struct {
	// begin sets where a stay starts, and may wait.
	begin func(ctx context.Context, a *stream.Assignment) error
	// end is called in Revoked.
	end func(ctx context.Context, as []*stream.Assignment)

	// unread is a partition whose batches are not read before it is given back.
	unread stream.Partition
	// age is how old what is known of the topics may get. Zero: as usual.
	age time.Duration

	consumer *consumer
	cancel   context.CancelFunc
	done     chan struct{}
	runErr   error
	reading  sync.WaitGroup

	mu      sync.Mutex
	changed chan struct{}
	events  []string
	values  map[stream.Partition][]string
	next    map[stream.Partition]int64
	errs    map[stream.Partition]error
	ids     map[stream.Partition]string
}

// visit runs a guest of a group over topics until the test or stop ends it.
func (h *harness) visit(t *testing.T, g *guest, group string, topics ...string) *guest {
	t.Helper()
	c, err := h.log.Consumer(stream.Subscription{Group: h.Prefix + group, Topics: topics, BatchBytes: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	g.consumer = c.(*consumer)
	if g.age > 0 {
		g.consumer.age = g.age
	}
	g.changed, g.done = make(chan struct{}), make(chan struct{})
	g.values, g.next = make(map[stream.Partition][]string), make(map[stream.Partition]int64)
	g.errs, g.ids = make(map[stream.Partition]error), make(map[stream.Partition]string)
	ctx, cancel := context.WithCancel(t.Context())
	g.cancel = cancel
	go func() {
		defer close(g.done)
		g.runErr = c.Run(ctx, g)
	}()
	t.Cleanup(func() {
		cancel()
		<-g.done
		g.reading.Wait()
	})
	return g
}

// stop ends the run and returns its error.
func (g *guest) stop() error {
	g.cancel()
	<-g.done
	g.reading.Wait()
	return g.runErr
}

func (g *guest) change(fn func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	fn()
	close(g.changed)
	g.changed = make(chan struct{})
}

func (g *guest) event(what string, a *stream.Assignment) {
	g.change(func() { g.events = append(g.events, fmt.Sprintf("%s %d", what, a.Partition.Index)) })
}

func (g *guest) Assigned(ctx context.Context, as []*stream.Assignment) error {
	for _, a := range as {
		if g.begin != nil {
			if err := g.begin(ctx, a); err != nil {
				return err
			}
		}
	}
	for _, a := range as {
		g.event("assigned", a)
		g.change(func() { g.ids[a.Partition] = a.TopicID })
		if a.Partition != g.unread {
			g.reading.Go(func() { g.read(a) })
		}
	}
	return nil
}

func (g *guest) read(a *stream.Assignment) {
	for b := range a.Batches {
		g.change(func() {
			for _, r := range b.Records {
				g.values[a.Partition] = append(g.values[a.Partition], string(r.Value))
			}
			g.next[a.Partition] = b.Next
		})
		b.Release()
	}
	err := a.Err()
	g.change(func() { g.errs[a.Partition] = err })
	g.event("closed", a)
}

func (g *guest) Revoked(ctx context.Context, as []*stream.Assignment) {
	if g.end != nil {
		g.end(ctx, as)
	}
	for _, a := range as {
		g.event("revoked", a)
	}
}

func (g *guest) Lost(as []*stream.Assignment) {
	for _, a := range as {
		g.event("lost", a)
	}
}

// wait returns once ok, which runs under the lock, says yes.
func (g *guest) wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit := time.NewTimer(20 * time.Second)
	defer limit.Stop()
	g.waitUntil(t, limit.C, what, ok)
}

func (g *guest) waitUntil(t *testing.T, limit <-chan time.Time, what string, ok func() bool) {
	t.Helper()
	for {
		g.mu.Lock()
		fine, changed, events := ok(), g.changed, slices.Clone(g.events)
		g.mu.Unlock()
		if fine {
			return
		}
		select {
		case <-changed:
		case <-g.done:
			t.Fatalf("waiting for %s: the run has ended: %v; %q", what, g.runErr, events)
		case <-limit:
			t.Fatalf("waiting for %s: %q", what, events)
		}
	}
}

// waitFor waits for values of a partition.
func (g *guest) waitFor(t *testing.T, p stream.Partition, want ...string) {
	t.Helper()
	g.wait(t, fmt.Sprintf("%q of %s", want, p), func() bool { return len(g.values[p]) >= len(want) })
	g.mu.Lock()
	defer g.mu.Unlock()
	if got := g.values[p]; !slices.Equal(got, want) {
		t.Fatalf("%s delivered %q, want %q", p, got, want)
	}
}

// happened says how often an event is written down; the guest is locked or ended.
func (g *guest) happened(event string) int {
	n := 0
	for _, e := range g.events {
		if e == event {
			n++
		}
	}
	return n
}

// virtual opens a log on brokers in memory behind a network in memory, for a
// bubble of fake time.
func virtual(t *testing.T) (*kfake.Cluster, *harness) {
	t.Helper()
	network := new(kfake.VirtualNetwork)
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(9092), kfake.ListenFn(network.Listen))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	h := &harness{wire: &wire.Wire{Dialer: network.DialContext}}
	h.opts = Options{Brokers: cluster.ListenAddrs(), Dial: h.wire.Dial}
	if _, err := h.reopen(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.log.Close(); err != nil {
			t.Error(err)
		}
	})
	return cluster, h
}

// write appends values to a partition.
func (h *harness) write(t *testing.T, p stream.Partition, values ...string) {
	t.Helper()
	msgs := make([]stream.Message, len(values))
	for i, v := range values {
		msgs[i] = stream.Message{Topic: p.Topic, Partition: p.Index, Value: []byte(v)}
	}
	if err := h.log.Append(t.Context(), msgs...); err != nil {
		t.Fatal(err)
	}
}

// committed are the offsets that the brokers hold for a group.
func (h *harness) committed(t *testing.T, group string) map[stream.Partition]int64 {
	t.Helper()
	resp, err := h.log.admin.FetchOffsets(t.Context(), h.Prefix+group)
	if err := errors.Join(err, resp.Error()); err != nil {
		t.Fatal(err)
	}
	at := make(map[stream.Partition]int64)
	for topic, partitions := range resp {
		for i, o := range partitions {
			at[stream.Partition{Topic: topic, Index: i}] = o.At
			if o.Metadata != "" || o.LeaderEpoch > 0 {
				t.Errorf("%s/%d was committed with %q and epoch %d", topic, i, o.Metadata, o.LeaderEpoch)
			}
		}
	}
	return at
}

// addPartitions adds n partitions to a topic; the log that writes is a new one,
// which knows them.
func (h *harness) addPartitions(t *testing.T, topic string, n int) {
	t.Helper()
	if _, err := h.log.admin.CreatePartitions(t.Context(), n, topic); err != nil {
		t.Fatal(err)
	}
}
