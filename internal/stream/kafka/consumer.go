package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/peil-stream/peil/internal/stream"
)

const (
	// batchBytesDefault is the bound of a batch if the subscription has none.
	batchBytesDefault = 1 << 20
	// fetchPartitionLeast and fetchPartitionMost bound what one fetch brings of a
	// partition: below it the questions cost more than the answers, and above it
	// nothing gets faster.
	fetchPartitionLeast = 64 << 10
	fetchPartitionMost  = 2 << 20
	// fetchBrokerBytes bounds what one fetch brings from a broker.
	fetchBrokerBytes = 16 << 20
	// partitionsAge is how old metadata may get: by then partitions that were added
	// to a topic are found, and that a topic is gone.
	partitionsAge = 10 * time.Second
	// leaveTimeout bounds how long the brokers may take to let a member go, once
	// its handler has given everything back.
	leaveTimeout = 10 * time.Second
	// heartbeatMost is the longest silence of a member that is well.
	heartbeatMost = 3 * time.Second
	// rebalanceLeast is the least time that members get to come back in a
	// rebalance; their last flush lies in it.
	rebalanceLeast = time.Minute
)

// Consumer makes a member of a group. Its topics must exist when it runs.
func (l *Log) Consumer(sub stream.Subscription) (stream.Consumer, error) {
	if sub.Group == "" || len(sub.Topics) == 0 {
		return nil, errors.New("make consumer: a subscription has a group and at least one topic")
	}
	if sub.BatchBytes <= 0 {
		sub.BatchBytes = batchBytesDefault
	}
	sub.Topics = slices.Clone(sub.Topics)
	slices.Sort(sub.Topics)
	sub.Topics = slices.Compact(sub.Topics)
	return &consumer{opts: l.opts, sub: sub, age: partitionsAge, log: l.log.With(slog.String("group", sub.Group))}, nil
}

// consumer is a member of a group while it runs.
type consumer struct {
	opts    Options
	sub     stream.Subscription
	age     time.Duration // of what is known of the topics, at most
	log     *slog.Logger
	running atomic.Pointer[member]
}

// Run joins the group and delivers until ctx is done or something fails that
// waiting does not mend.
func (c *consumer) Run(ctx context.Context, h stream.Handler) error {
	rctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	m, err := c.join(rctx, h, end)
	if err != nil {
		return fmt.Errorf("join group %s: %w", c.sub.Group, err)
	}
	c.running.Store(m)
	_, err = m.describe(rctx, m.sub.Topics)
	if err == nil {
		var watching sync.WaitGroup
		watching.Go(func() { m.watch(rctx) })
		m.poll(rctx)
		watching.Wait()
		err = context.Cause(rctx)
	}
	m.leave(rctx)
	c.running.Store(nil)
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("group %s: %w", c.sub.Group, err)
}

// member is one run of a consumer.
//
// Callbacks of the client come one at a time and never while the poll loop has
// records in hand (BlockRebalanceOnPoll), except that a handler may be blocked in
// Assigned while polling goes on. Order of locks: hinting, then mu, then that of
// a stay, then those inside the client (pausing). None of mu and the stays' locks
// is held while the handler or the client's group is called.
type member struct {
	*consumer

	handler stream.Handler
	made    chan struct{} // closed once client and admin are set: the client calls before
	client  *kgo.Client
	admin   *Log // asks by the client of the member

	end  context.CancelCauseFunc // ends the run with an error
	cut  context.CancelFunc      // ends every request of the client
	pool *sync.Pool              // of *buffer
	room chan struct{}           // a stay has room, or stays came or went

	hinting chan struct{} // one hint at a time

	mu     sync.Mutex
	stays  map[stream.Partition]*stay
	warned map[string]time.Time
}

func newMember(c *consumer, h stream.Handler, end context.CancelCauseFunc) *member {
	return &member{
		consumer: c, handler: h, end: end,
		made:    make(chan struct{}),
		pool:    &sync.Pool{New: func() any { return new(buffer) }},
		room:    make(chan struct{}, 1),
		hinting: make(chan struct{}, 1),
		stays:   make(map[stream.Partition]*stay),
		warned:  make(map[string]time.Time),
	}
}

// join makes the client of a run, which joins at once.
func (c *consumer) join(ctx context.Context, h stream.Handler, end context.CancelCauseFunc) (*member, error) {
	m := newMember(c, h, end)
	// The client outlives the run: the partitions are given back after it.
	cctx, cut := context.WithCancel(context.WithoutCancel(ctx))
	opts := c.opts
	opts.Dial = opts.patient()
	client, err := opts.client(append(m.options(), kgo.WithContext(cctx))...)
	if err != nil {
		cut()
		return nil, err
	}
	m.client, m.cut = client, cut
	m.admin = &Log{opts: c.opts, client: client, admin: kadm.NewClient(client), log: c.log}
	close(m.made)
	return m, nil
}

func (m *member) options() []kgo.Opt {
	session := m.opts.SessionTimeout
	part := int32(min(max(m.sub.BatchBytes, fetchPartitionLeast), fetchPartitionMost))
	return []kgo.Opt{
		kgo.ConsumerGroup(m.sub.Group),
		kgo.ConsumeTopics(m.sub.Topics...),
		// A takeover takes 0.1 s; with the brokers' own assignment it takes 3 s.
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.AdjustFetchOffsetsFn(m.assigned),
		kgo.OnPartitionsRevoked(m.revoked),
		kgo.OnPartitionsLost(m.lost),
		kgo.SessionTimeout(session),
		kgo.HeartbeatInterval(min(heartbeatMost, session/3)),
		kgo.RebalanceTimeout(max(rebalanceLeast, 2*m.opts.RevokeTimeout)),
		kgo.MetadataMaxAge(m.age),
		kgo.FetchMaxBytes(fetchBrokerBytes),
		kgo.FetchMaxPartitionBytes(part),
		// What the membership hangs on, which is also who leads the group, is tried
		// for as long as the brokers keep it: after an error the client gives up
		// all partitions.
		kgo.RetryTimeoutFn(func(key int16) time.Duration {
			if key == int16(kmsg.OffsetCommit) || key == int16(kmsg.LeaveGroup) {
				return m.opts.RequestTimeout
			}
			return session
		}),
	}
}

// poll hands over what the client fetches until ctx is done.
func (m *member) poll(ctx context.Context) {
	for {
		if !m.awaitRoom(ctx) {
			return
		}
		fetches := m.client.PollFetches(ctx)
		if ctx.Err() != nil {
			return
		}
		m.handOver(ctx, fetches)
		m.client.AllowRebalance()
	}
}

// awaitRoom waits while every partition has records waiting: the client then
// holds what it has fetched and asks for no more. (To pause a partition would
// throw away what is on its way.) It is false once ctx is done.
func (m *member) awaitRoom(ctx context.Context) bool {
	for m.full() {
		select {
		case <-m.room:
		case <-ctx.Done():
			return false
		}
	}
	return ctx.Err() == nil
}

func (m *member) full() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.stays {
		if s.hungry() {
			return false
		}
	}
	return len(m.stays) > 0
}

// handOver gives the records to their stays. It does not block. Errors first:
// behind a loss of records the client goes on somewhere else by itself.
func (m *member) handOver(ctx context.Context, fetches kgo.Fetches) {
	fetches.EachError(func(topic string, partition int32, err error) { m.failed(ctx, topic, partition, err) })
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		if len(p.Records) == 0 {
			return
		}
		if s := m.stay(stream.Partition{Topic: p.Topic, Index: p.Partition}); s != nil {
			s.push(p.Records)
		}
	})
}

func (m *member) stay(p stream.Partition) *stay {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stays[p]
}

// leave gives the partitions back, leaves the group and closes the client. Brokers
// that are away cannot hold it up.
func (m *member) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.opts.RevokeTimeout+leaveTimeout)
	defer cancel()
	m.client.AllowRebalance()
	if err := m.client.LeaveGroupContext(ctx); err != nil {
		// The brokers find out by the session timeout.
		m.warn(ctx, fmt.Errorf("leave the group: %w", err))
		m.cut()
	}
	m.client.CloseAllowingRebalance()
	m.cut()
}
