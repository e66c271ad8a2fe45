package kafka

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/peil-stream/peil/internal/stream"
)

func TestBadSubscriptions(t *testing.T) {
	t.Parallel()
	h := openHarness(t, fakeBrokers(t).ListenAddrs()...)
	for _, sub := range []stream.Subscription{{}, {Group: "g"}, {Topics: []string{"t"}}} {
		if _, err := h.log.Consumer(sub); err == nil {
			t.Errorf("Consumer(%+v) gave no error", sub)
		}
	}
}

// TestOnlyTheHintMovesCommittedOffsets reads, rebalances, gives back, loses and
// leaves: the brokers hold what was hinted, and nothing else ever.
func TestOnlyTheHintMovesCommittedOffsets(t *testing.T) {
	t.Parallel()
	cluster := fakeBrokers(t)
	h := openHarness(t, cluster.ListenAddrs()...)
	p := h.topic(t, "t", 4)
	for i := range int32(4) {
		h.write(t, stream.Partition{Topic: p.Topic, Index: i}, "a", "b", "c")
	}
	check := func(when string, want map[stream.Partition]int64) {
		t.Helper()
		if got := h.committed(t, "g"); !maps.Equal(got, want) {
			t.Fatalf("%s: committed %v, want %v", when, got, want)
		}
	}
	all := func(g *guest) func() bool {
		return func() bool {
			n := 0
			for _, vs := range g.values {
				n += len(vs)
			}
			return n == 12
		}
	}
	none := map[stream.Partition]int64{}
	first := h.visit(t, &guest{}, "g", p.Topic)
	first.wait(t, "all records", all(first))
	check("read", none)
	second := h.visit(t, &guest{}, "g", p.Topic)
	second.wait(t, "a rebalance", func() bool { return len(second.values) == 2 })
	check("rebalanced", none)
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Err: kerr.UnknownMemberID, Count: 2})
	second.wait(t, "a loss", func() bool {
		return slices.ContainsFunc(second.events, func(e string) bool { return strings.HasPrefix(e, "lost") })
	})
	check("lost", none)
	if err := errors.Join(first.stop(), second.stop()); err != nil {
		t.Fatal(err)
	}
	check("left", none)

	third := h.visit(t, &guest{}, "g", p.Topic)
	third.wait(t, "all records", all(third))
	held := stream.Partition{Topic: p.Topic, Index: 1}
	unheld := stream.Partition{Topic: p.Topic, Index: 9}
	for _, next := range []int64{2, 1, 0} { // it does not go back
		if err := third.consumer.Hint(t.Context(), map[stream.Partition]int64{held: next, unheld: 1}); err != nil {
			t.Fatal(err)
		}
		check("hinted", map[stream.Partition]int64{held: 2})
	}
	if err := third.stop(); err != nil {
		t.Fatal(err)
	}
	if err := third.consumer.Hint(t.Context(), map[stream.Partition]int64{held: 3}); err != nil {
		t.Fatal(err)
	}
	check("left", map[stream.Partition]int64{held: 2})

	// A hint in Revoked is the last one.
	fourth := new(guest)
	fourth.end = func(ctx context.Context, as []*stream.Assignment) {
		for _, a := range as {
			if err := fourth.consumer.Hint(ctx, map[stream.Partition]int64{a.Partition: 3}); err != nil {
				t.Error(err)
			}
		}
	}
	h.visit(t, fourth, "g", p.Topic)
	fourth.wait(t, "all records", all(fourth))
	if err := fourth.stop(); err != nil {
		t.Fatal(err)
	}
	want := make(map[stream.Partition]int64)
	for i := range int32(4) {
		want[stream.Partition{Topic: p.Topic, Index: i}] = 3
	}
	check("revoked", want)
}

// TestHintRefused: what the brokers say against a hint is returned, and the hint
// may be given again.
func TestHintRefused(t *testing.T) {
	t.Parallel()
	cluster := fakeBrokers(t)
	h := openHarness(t, cluster.ListenAddrs()...)
	p := h.topic(t, "t", 1)
	h.write(t, p, "a")
	g := h.visit(t, &guest{}, "g", p.Topic)
	g.waitFor(t, p, "a")
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.InvalidCommitOffsetSize})
	next := map[stream.Partition]int64{p: 1}
	if err := g.consumer.Hint(t.Context(), next); !errors.Is(err, kerr.InvalidCommitOffsetSize) {
		t.Errorf("the hint gave %v", err)
	}
	if got := h.committed(t, "g"); len(got) > 0 {
		t.Errorf("committed %v", got)
	}
	if err := g.consumer.Hint(t.Context(), next); err != nil {
		t.Error(err)
	}
	if got := h.committed(t, "g"); got[p] != 1 {
		t.Errorf("committed %v", got)
	}
}

// TestNewPartitions: partitions that are added are found, and begin where the
// handler says.
func TestNewPartitions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, h := virtual(t)
		p := h.topic(t, "t", 1)
		h.write(t, p, "a")
		g := h.visit(t, &guest{}, "g", p.Topic)
		g.waitFor(t, p, "a")
		h.addPartitions(t, p.Topic, 2)
		added := stream.Partition{Topic: p.Topic, Index: 2}
		h.write(t, added, "b", "c")
		began := time.Now()
		g.waitFor(t, added, "b", "c")
		if spent := time.Since(began); spent > 2*partitionsAge {
			t.Errorf("it took %v", spent)
		}
		h.write(t, p, "d")
		g.waitFor(t, p, "a", "d")
		if err := g.stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestAssignedMayTakeLong: while the handler waits in Assigned for an hour, the
// membership is kept and what is held flows.
func TestAssignedMayTakeLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, h := virtual(t)
		p := h.topic(t, "t", 1)
		h.write(t, p, "a")
		added := stream.Partition{Topic: p.Topic, Index: 1}
		asked := make(chan time.Time, 10)
		g := h.visit(t, &guest{begin: func(ctx context.Context, a *stream.Assignment) error {
			if a.Partition != added {
				return nil
			}
			asked <- time.Now()
			return pause(ctx, time.Hour)
		}}, "g", p.Topic)
		g.waitFor(t, p, "a")
		h.addPartitions(t, p.Topic, 1)
		h.write(t, added, "b")
		began := <-asked
		if err := pause(t.Context(), 30*time.Minute); err != nil {
			t.Fatal(err)
		}
		h.write(t, p, "c")
		g.waitFor(t, p, "a", "c")
		g.waitUntil(t, time.After(time.Hour), "the added partition", func() bool { return len(g.values[added]) == 1 })
		if spent := time.Since(began); spent < time.Hour || len(asked) > 0 {
			t.Errorf("after %v, asked %d times more", spent, len(asked))
		}
		if err := g.stop(); err != nil {
			t.Error(err)
		}
		if want := []string{"assigned 0", "assigned 1"}; !slices.Equal(g.events[:2], want) || g.happened("lost 0")+g.happened("lost 1") > 0 {
			t.Errorf("what happened: %q", g.events)
		}
	})
}

// TestBrokersAway: short of the session timeout nothing is lost; beyond it the
// partitions are lost, and come back as new stays when the brokers do.
func TestBrokersAway(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		away time.Duration
		lost int
	}{"shortly": {20 * time.Second, 0}, "for long": {5 * time.Minute, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				_, h := virtual(t)
				p := h.topic(t, "t", 1)
				h.write(t, p, "a", "b")
				g := new(guest)
				g.begin = func(_ context.Context, a *stream.Assignment) error {
					g.mu.Lock()
					defer g.mu.Unlock()
					a.Start = g.next[a.Partition]
					return nil
				}
				h.visit(t, g, "g", p.Topic)
				g.waitFor(t, p, "a", "b")
				h.wire.Cut()
				if err := pause(t.Context(), c.away); err != nil {
					t.Fatal(err)
				}
				h.wire.Mend()
				h.write(t, p, "c")
				g.waitUntil(t, time.After(time.Minute), "the record behind it", func() bool { return len(g.values[p]) == 3 })
				if err := g.stop(); err != nil {
					t.Error(err)
				}
				if g.happened("lost 0") != c.lost || g.happened("assigned 0") != 1+c.lost || g.happened("revoked 0") != 1 {
					t.Errorf("what happened: %q", g.events)
				}
			})
		})
	}
}

// TestLeaveWithoutBrokers: a run ends though nobody answers.
func TestLeaveWithoutBrokers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, h := virtual(t)
		p := h.topic(t, "t", 1)
		h.write(t, p, "a")
		g := h.visit(t, &guest{}, "g", p.Topic)
		g.waitFor(t, p, "a")
		h.wire.Cut()
		if err := pause(t.Context(), 10*time.Second); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := g.stop(); err != nil {
			t.Error(err)
		}
		if spent := time.Since(began); spent > h.log.opts.RevokeTimeout+leaveTimeout+5*time.Second {
			t.Errorf("it took %v", spent)
		}
		if g.happened("revoked 0") != 1 || g.happened("lost 0") != 0 {
			t.Errorf("what happened: %q", g.events)
		}
	})
}

// TestBrokersNotThereYet: a consumer waits for brokers that do not answer.
func TestBrokersNotThereYet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, h := virtual(t)
		p := h.topic(t, "t", 1)
		h.write(t, p, "a")
		h.wire.Cut()
		g := h.visit(t, &guest{}, "g", p.Topic)
		if err := pause(t.Context(), 10*time.Minute); err != nil {
			t.Fatal(err)
		}
		h.wire.Mend()
		g.waitUntil(t, time.After(time.Minute), "the record", func() bool { return len(g.values[p]) == 1 })
		if err := g.stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestPartitionFails: a partition that cannot be read on stops with the reason,
// once, and the others go on.
func TestPartitionFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault func(cluster *kfake.Cluster, h *harness, bad stream.Partition) error
		want  []error
		named []string
	}{
		"the log was cut and written anew": {
			fault: func(cluster *kfake.Cluster, _ *harness, bad stream.Partition) error {
				cluster.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(r kmsg.Request) (kmsg.Response, error, bool) {
					cluster.KeepControl()
					return truncated(r.(*kmsg.OffsetForLeaderEpochRequest), bad, 1)
				})
				return nil
			},
			want:  []error{stream.ErrOutOfRange, errTruncated},
			named: []string{"offset 3", "up to 1"},
		},
		"nobody knows the topic": {
			fault: func(cluster *kfake.Cluster, _ *harness, bad stream.Partition) error {
				cluster.Fault(kfake.Fault{
					Keys: []kmsg.Key{kmsg.Fetch}, Topic: bad.Topic, Partitions: []int32{bad.Index}, Err: kerr.UnknownTopicID, Count: -1,
				})
				return nil
			},
			want: []error{stream.ErrNoTopic, kerr.UnknownTopicID},
		},
		"an error that nobody has thought of": {
			fault: func(cluster *kfake.Cluster, _ *harness, bad stream.Partition) error {
				cluster.Fault(kfake.Fault{
					Keys: []kmsg.Key{kmsg.Fetch}, Topic: bad.Topic, Partitions: []int32{bad.Index}, Err: kerr.InvalidRecord, Count: 1,
				})
				return nil
			},
			want: []error{kerr.InvalidRecord},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := fakeBrokers(t)
			h := openHarness(t, cluster.ListenAddrs()...)
			good := h.topic(t, "t", 2)
			bad := stream.Partition{Topic: good.Topic, Index: 1}
			h.write(t, good, "a")
			h.write(t, bad, "v", "w", "x", "y", "z")
			if err := c.fault(cluster, h, bad); err != nil {
				t.Fatal(err)
			}
			g := h.visit(t, &guest{begin: func(_ context.Context, a *stream.Assignment) error {
				if a.Partition == bad {
					a.Start, a.StartEpoch = 3, 0
				}
				return nil
			}}, "g", good.Topic)
			g.wait(t, "the failure", func() bool { return g.happened("closed 1") > 0 })
			h.write(t, bad, "more")
			h.write(t, good, "b")
			g.waitFor(t, good, "a", "b")
			if err := g.stop(); err != nil {
				t.Error(err)
			}
			for _, want := range c.want {
				if err := g.errs[bad]; !errors.Is(err, want) || !strings.Contains(err.Error(), bad.String()) {
					t.Errorf("the partition ended with %v, want %v", err, want)
				}
			}
			for _, name := range c.named {
				if err := g.errs[bad].Error(); !strings.Contains(err, name) {
					t.Errorf("%q does not name %q", err, name)
				}
			}
			if len(g.values[bad]) > 0 || g.happened("revoked 1") != 1 {
				t.Errorf("%s delivered %q; %q", bad, g.values[bad], g.events)
			}
		})
	}
}

// truncated answers that the leader's log agrees up to an offset only.
func truncated(r *kmsg.OffsetForLeaderEpochRequest, p stream.Partition, end int64) (kmsg.Response, error, bool) {
	for _, t := range r.Topics {
		if t.Topic != p.Topic {
			return nil, nil, false
		}
	}
	resp := r.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
	for _, t := range r.Topics {
		topic := kmsg.NewOffsetForLeaderEpochResponseTopic()
		topic.Topic = t.Topic
		for _, q := range t.Partitions {
			partition := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			partition.Partition, partition.LeaderEpoch, partition.EndOffset = q.Partition, 0, 100
			if q.Partition == p.Index {
				partition.EndOffset = end
			}
			topic.Partitions = append(topic.Partitions, partition)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp, nil, true
}

// TestUnreadPartitionIsPaused: of a partition that nobody reads a few fetches are
// held, however often others are polled.
func TestUnreadPartitionIsPaused(t *testing.T) {
	t.Parallel()
	h := openHarness(t, fakeBrokers(t).ListenAddrs()...)
	read := h.topic(t, "t", 2)
	unread := stream.Partition{Topic: read.Topic, Index: 1}
	for range 60 {
		noise := make([]byte, 50_000)
		if _, err := rand.Read(noise); err != nil {
			t.Fatal(err)
		}
		h.write(t, unread, string(noise))
	}
	g := &guest{unread: unread}
	h.visit(t, g, "g", read.Topic)
	var want []string
	for i := range 60 {
		want = append(want, strconv.Itoa(i))
		h.write(t, read, want[i])
		g.waitFor(t, read, want...)
	}
	m := g.consumer.running.Load()
	s := m.stay(unread)
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.queue); n == 0 || n > fetchesMost || !s.paused {
		t.Errorf("%d fetches wait, paused %t", n, s.paused)
	}
}

// TestFailedPartitionComesBack: the next stay of a partition that failed flows.
func TestFailedPartitionComesBack(t *testing.T) {
	t.Parallel()
	cluster := fakeBrokers(t)
	h := openHarness(t, cluster.ListenAddrs()...)
	p := h.topic(t, "t", 1)
	h.write(t, p, "a", "b")
	starts := make(chan int64, 2)
	starts <- 100
	starts <- 1
	g := h.visit(t, &guest{begin: func(_ context.Context, a *stream.Assignment) error {
		a.Start = <-starts
		return nil
	}}, "g", p.Topic)
	g.wait(t, "the failure", func() bool { return errors.Is(g.errs[p], stream.ErrOutOfRange) })
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Err: kerr.UnknownMemberID})
	g.waitFor(t, p, "b")
	if err := g.stop(); err != nil || g.errs[p] != nil {
		t.Errorf("the run ended with %v, the partition with %v", err, g.errs[p])
	}
	if want := []string{"assigned 0", "closed 0", "lost 0", "assigned 0", "revoked 0", "closed 0"}; !slices.Equal(g.events, want) {
		t.Errorf("what happened: %q", g.events)
	}
}

// TestTopicGone: the partitions of a topic that is deleted, or made again, stop;
// those of others go on.
func TestTopicGone(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]bool{"deleted": false, "made again": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := openHarness(t, fakeBrokers(t).ListenAddrs()...)
			p := h.topic(t, "t", 1)
			kept := h.topic(t, "u", 1)
			h.write(t, p, "a")
			g := h.visit(t, &guest{age: 200 * time.Millisecond}, "g", p.Topic, kept.Topic)
			g.waitFor(t, p, "a")
			if err := h.remove(t.Context(), p.Topic); err != nil {
				t.Fatal(err)
			}
			if again {
				h.topic(t, "t", 1)
				h.write(t, p, "of another topic", "another")
			}
			g.wait(t, "the failure", func() bool { return g.errs[p] != nil })
			h.write(t, kept, "b")
			g.waitFor(t, kept, "b")
			if err := g.stop(); err != nil {
				t.Error(err)
			}
			if !errors.Is(g.errs[p], stream.ErrNoTopic) || !slices.Equal(g.values[p], []string{"a"}) {
				t.Errorf("%s delivered %q and ended with %v", p, g.values[p], g.errs[p])
			}
		})
	}
}

// TestRunFails: errors that waiting does not mend end the run.
func TestRunFails(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]kfake.Fault{
		"may not read the topic":  {Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.TopicAuthorizationFailed, Count: -1},
		"may not join the group":  {Keys: []kmsg.Key{kmsg.JoinGroup}, TopLevel: true, Err: kerr.GroupAuthorizationFailed, Count: -1},
		"may not ask the offsets": {Keys: []kmsg.Key{kmsg.OffsetFetch}, Err: kerr.TopicAuthorizationFailed, Count: -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := fakeBrokers(t)
			h := openHarness(t, cluster.ListenAddrs()...)
			p := h.topic(t, "t", 1)
			h.write(t, p, "a")
			cluster.Fault(f)
			g := h.visit(t, &guest{}, "g", p.Topic)
			select {
			case <-g.done:
			case <-time.After(20 * time.Second):
				t.Fatal("the run goes on")
			}
			if !errors.Is(g.runErr, f.Err) || !strings.Contains(g.runErr.Error(), h.Prefix+"g") {
				t.Errorf("the run ended with %v", g.runErr)
			}
			g.reading.Wait()
			if g.happened("assigned 0") != g.happened("revoked 0")+g.happened("lost 0") {
				t.Errorf("what happened: %q", g.events)
			}
		})
	}
}

// TestTroubleGoesOn: errors that the brokers get over do not reach the handler.
func TestTroubleGoesOn(t *testing.T) {
	t.Parallel()
	cluster := fakeBrokers(t)
	h := openHarness(t, cluster.ListenAddrs()...)
	p := h.topic(t, "t", 1)
	h.write(t, p, "a")
	for _, key := range []kmsg.Key{kmsg.JoinGroup, kmsg.Fetch, kmsg.OffsetFetch, kmsg.Metadata} {
		cluster.Fault(kfake.Fault{Keys: []kmsg.Key{key}, TopLevel: key == kmsg.JoinGroup, Err: kerr.NotLeaderForPartition, Count: 2})
	}
	g := h.visit(t, &guest{}, "g", p.Topic)
	g.waitFor(t, p, "a")
	if err := g.stop(); err != nil || g.errs[p] != nil {
		t.Errorf("the run ended with %v, the partition with %v", err, g.errs[p])
	}
}

// TestStartIsAnOffset: a handler that names no offset is told so; the client would
// take -1 for the end of the log.
func TestStartIsAnOffset(t *testing.T) {
	t.Parallel()
	h := openHarness(t, fakeBrokers(t).ListenAddrs()...)
	p := h.topic(t, "t", 1)
	g := h.visit(t, &guest{begin: func(_ context.Context, a *stream.Assignment) error {
		a.Start = -1
		return nil
	}}, "g", p.Topic)
	<-g.done
	if g.runErr == nil || !strings.Contains(g.runErr.Error(), p.String()) {
		t.Errorf("the run ended with %v", g.runErr)
	}
}

// TestTopicIDs: an assignment names the topic as Describe does.
func TestTopicIDs(t *testing.T) {
	t.Parallel()
	h := openHarness(t, fakeBrokers(t).ListenAddrs()...)
	p := h.topic(t, "t", 1)
	topics, err := h.log.Describe(t.Context(), p.Topic)
	if err != nil {
		t.Fatal(err)
	}
	g := h.visit(t, &guest{}, "g", p.Topic)
	g.wait(t, "the assignment", func() bool { return g.ids[p] != "" })
	if g.ids[p] != topics[0].ID || topics[0].ID == (kadm.TopicID{}).String() {
		t.Errorf("assigned %q, described %q", g.ids[p], topics[0].ID)
	}
}
