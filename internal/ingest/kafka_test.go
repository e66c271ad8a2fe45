package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kfake"
	"pgregory.net/rapid"

	"github.com/peil-stream/peil/internal/ingest"
	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/internal/stream/kafka"
	"github.com/peil-stream/peil/internal/testkit/wire"
	"github.com/peil-stream/peil/internal/transit/gtfsrt/pb"
)

// brokers are Kafka in memory, on a network whose time is the test's.
type brokers struct {
	tb    testing.TB
	seeds []string
	stack kfake.VirtualNetwork
}

// onBrokers runs a test in a bubble, with a rig whose own log has a sound wire.
func onBrokers(t *testing.T, test func(t *testing.T, b *brokers, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &brokers{tb: t}
		c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(9092), kfake.ListenFn(b.stack.Listen))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		b.seeds = c.ListenAddrs()
		test(t, b, newRigOn(t, b.log(&wire.Wire{}), 1))
	})
}

// log opens a log behind a wire; it is closed with the test.
func (b *brokers) log(w *wire.Wire) stream.Log {
	b.tb.Helper()
	w.Dialer = b.stack.DialContext
	l, err := kafka.Open(b.tb.Context(), kafka.Options{Brokers: b.seeds, Dial: w.Dial})
	if err != nil {
		b.tb.Fatal(err)
	}
	b.tb.Cleanup(func() {
		if err := l.Close(); err != nil {
			b.tb.Error(err)
		}
	})
	return l
}

// process is an ingester of a rig's feed with a connection of its own, as another
// process has it.
type process struct {
	*ingest.Ingester

	wire *wire.Wire
}

func (b *brokers) start(r *rig) *process {
	b.tb.Helper()
	p := &process{wire: &wire.Wire{}}
	own := *r
	own.log = b.log(p.wire)
	p.Ingester = own.open()
	return p
}

// publish publishes a message; when the process is killed meanwhile, what it was
// about is left as it is, and the error is errKilled.
func (p *process) publish(tb testing.TB, m *pb.FeedMessage) error {
	tb.Helper()
	ctx, kill := context.WithCancel(tb.Context())
	defer kill()
	done := make(chan error, 1)
	go func() {
		_, err := p.Publish(ctx, decode(tb, m), now())
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-p.wire.Down():
		return errKilled
	}
}

// wantAsCalm compares the topics of a rig with those of one that nobody disturbed.
func wantAsCalm(calm, other *rig) error {
	for i, topic := range calm.topics() {
		if diff := cmp.Diff(calm.records(topic), other.records(other.topics()[i])); diff != "" {
			return fmt.Errorf("%s mismatch (-calm +disturbed):\n%s", topic, diff)
		}
	}
	return nil
}

// poll is a snapshot and what happens while it is published.
type poll struct {
	message *pb.FeedMessage
	kills   []kill
	steps   []step
}

// kill cuts the wire of a process at a request.
type kill struct {
	key  wire.Key
	nth  int
	when wire.When
}

// step is a replica that starts anew or publishes.
type step struct {
	replica int
	anew    bool
}

// checkPolls draws polls and the most events of a part, and runs each case in a
// bubble of its own.
func checkPolls(t *testing.T, run func(b *brokers, calm, disturbed *rig, polls []poll) error) {
	t.Helper()
	kills := rapid.Custom(func(rt *rapid.T) kill {
		return kill{
			rapid.SampledFrom([]wire.Key{wire.Produce, wire.EndTxn}).Draw(rt, "request"),
			rapid.IntRange(1, 3).Draw(rt, "nth"),
			rapid.SampledFrom([]wire.When{wire.Before, wire.After}).Draw(rt, "when"),
		}
	})
	steps := rapid.Custom(func(rt *rapid.T) step {
		return step{rapid.IntRange(0, 1).Draw(rt, "replica"), rapid.IntRange(0, 3).Draw(rt, "anew") == 0}
	})
	rapid.Check(t, func(rt *rapid.T) {
		part := rapid.IntRange(1, 3).Draw(rt, "part")
		polls := make([]poll, rapid.IntRange(1, 4).Draw(rt, "polls"))
		header := int64(0)
		for i := range polls {
			header += rapid.Int64Range(1, 30).Draw(rt, "step")
			polls[i] = poll{
				drawMessage(rt, header),
				rapid.SliceOfN(kills, 0, 2).Draw(rt, "kills"),
				rapid.SliceOfN(steps, 0, 8).Draw(rt, "steps"),
			}
		}
		var failed error
		onBrokers(t, func(_ *testing.T, b *brokers, r *rig) {
			calm, disturbed := r.sibling("calm", 2), r.sibling("disturbed", 2)
			disturbed.cfg.PartEvents = part
			failed = run(b, calm, disturbed, polls)
		})
		if failed != nil {
			rt.Fatal(failed)
		}
	})
}

// TestM12KafkaKilledAnywhere kills ingesters at any request of their transactions,
// before it has arrived or after it took effect; the next one starts at once. The
// log of committed records ends as one that nobody disturbed.
func TestM12KafkaKilledAnywhere(t *testing.T) {
	t.Parallel()
	checkPolls(t, func(b *brokers, calm, killed *rig, polls []poll) error {
		one, other := b.start(calm), b.start(killed)
		for _, poll := range polls {
			calm.publish(one.Ingester, poll.message)
			for _, k := range poll.kills {
				other.wire.CutAt(k.key, k.nth, k.when)
				err := other.publish(b.tb, poll.message)
				other.wire.Mend() // of a kill that did not come
				if errors.Is(err, errKilled) {
					other = b.start(killed)
				} else if err != nil {
					return fmt.Errorf("publish: %w", err)
				}
			}
			if err := other.publish(b.tb, poll.message); err != nil {
				return fmt.Errorf("publish: %w", err)
			}
		}
		return wantAsCalm(calm, killed)
	})
}

// TestM12KafkaUnknownOutcome loses the answer to the end of a transaction, with and
// without effect, in a process that lives on: the next ingester's memory tells.
func TestM12KafkaUnknownOutcome(t *testing.T) {
	t.Parallel()
	for _, when := range []wire.When{wire.Before, wire.After} {
		onBrokers(t, func(t *testing.T, b *brokers, r *rig) {
			t.Helper()
			p := b.start(r)
			first, second := feed(10, trip("a", 10, stop(1, 600, 1))), feed(20, trip("a", 20, stop(1, 600, 2)))
			r.publish(p.Ingester, first)
			p.wire.CutAt(wire.EndTxn, 1, when)
			if _, err := p.Publish(t.Context(), decode(t, second), now()); !errors.Is(err, stream.ErrUnavailable) || errors.Is(err, stream.ErrFenced) {
				t.Errorf("publish without an answer: %v", err)
			}
			p = b.start(r)
			result, err := p.Publish(t.Context(), decode(t, second), now())
			if took := result.Skipped == ingest.Unchanged; err != nil || took != (when == wire.After) {
				t.Errorf("publish again: %+v, %v", result, err)
			}
			wantSays(t, r, arrivals, "10 f|f:a| #1 1", "10 <heartbeat>", "20 f|f:a| #1 2", "20 <heartbeat>")
		})
	}
}

// TestM12KafkaTwoReplicas lets two replicas of a feed start and poll in any order,
// so that one takes over after the other's read-back and before its first
// transaction, or in the middle of a poll in parts: whoever is fenced writes
// nothing more, and the log ends as that of one alone.
func TestM12KafkaTwoReplicas(t *testing.T) {
	t.Parallel()
	checkPolls(t, func(b *brokers, calm, shared *rig, polls []poll) error {
		one := b.start(calm)
		var replicas [2]*process
		newest := 0
		for _, poll := range polls {
			calm.publish(one.Ingester, poll.message)
			for _, s := range append(poll.steps, step{newest, true}, step{newest, false}) {
				if s.anew || replicas[s.replica] == nil {
					replicas[s.replica], newest = b.start(shared), s.replica
					continue
				}
				err := replicas[s.replica].publish(b.tb, poll.message)
				switch fenced := s.replica != newest; {
				case err == nil: // a fenced one has nothing to write, and so does not know
				case fenced && errors.Is(err, stream.ErrFenced):
					replicas[s.replica] = nil
				default:
					return fmt.Errorf("replica %d publishes when %d is the newest: %w", s.replica, newest, err)
				}
			}
		}
		return wantAsCalm(calm, shared)
	})
}
