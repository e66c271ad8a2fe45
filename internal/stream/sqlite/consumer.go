package sqlite

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/peil-stream/peil/internal/stream"
)

const (
	// batchesBuffered is the bound of an assignment's channel.
	batchesBuffered = 2
	// revokeTimeout bounds Revoked at the end of a run.
	revokeTimeout = 12 * time.Second
)

// consumer is the one running member of its group.
type consumer struct {
	log *Log
	sub stream.Subscription
}

// stay is an assignment with the sending side of its channel.
type stay struct {
	stream.Assignment

	number  int64
	batches chan stream.Batch
	err     error // why the partition failed; set before batches is closed
}

// Run waits until no other consumer of the group runs, takes all partitions of
// the topics, and delivers until ctx is done.
func (c *consumer) Run(ctx context.Context, h stream.Handler) error {
	place := c.log.group(c.sub.Group)
	select {
	case place <- struct{}{}:
	case <-ctx.Done():
		return nil
	}
	defer func() { <-place }()

	stays, err := c.stays(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("join group %s: %w", c.sub.Group, err)
	}
	as := make([]*stream.Assignment, len(stays))
	for i, s := range stays {
		as[i] = &s.Assignment
	}
	if err := h.Assigned(ctx, as); err != nil {
		for _, s := range stays {
			close(s.batches)
		}
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	c.log.log.Info("partitions assigned", slog.String("group", c.sub.Group), slog.Int("partitions", len(as)))

	var readers sync.WaitGroup
	for _, s := range stays {
		readers.Go(func() { c.deliver(ctx, s) })
	}
	<-ctx.Done() // partitions that failed do not end the run
	readers.Wait()

	// The handler gets a bounded time of its own to flush
	// what it has, and only then is the group free for the next consumer.
	rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), revokeTimeout)
	defer cancel()
	h.Revoked(rctx, as)
	for _, s := range stays {
		if s.err == nil {
			close(s.batches)
		}
	}
	return nil
}

// stays makes an assignment of each partition of the topics.
func (c *consumer) stays(ctx context.Context) ([]*stay, error) {
	topics, err := c.log.Describe(ctx, c.sub.Topics...)
	if err != nil {
		return nil, err
	}
	var stays []*stay
	for _, t := range topics {
		for i := range t.Partitions {
			p := stream.Partition{Topic: t.Name, Index: i}
			at, err := c.log.find(ctx, p)
			if err != nil {
				return nil, err
			}
			s := &stay{number: at.number, batches: make(chan stream.Batch, batchesBuffered)}
			s.Assignment = stream.Assignment{
				Partition:  p,
				TopicID:    t.ID,
				StartEpoch: -1,
				Batches:    s.batches,
				Err:        func() error { return s.err },
			}
			stays = append(stays, s)
		}
	}
	return stays, nil
}

// deliver reads one partition until ctx is done, and leaves the channel open for
// Run to close. If the partition fails it says why and closes the channel, so
// that the handler learns of it at once.
func (c *consumer) deliver(ctx context.Context, s *stay) {
	for pos := s.Start; ; {
		wake := c.log.waker.next()
		f := c.log.pool.Get().(*fetched) // the pool holds nothing else
		next, err := c.log.fetch(ctx, s.number, pos, math.MaxInt64, c.sub.BatchBytes, f)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			s.err = fmt.Errorf("read %s: %w", s.Partition, err)
			close(s.batches)
			return
		}
		if next == pos {
			c.log.pool.Put(f)
			select {
			case <-wake:
				continue
			case <-ctx.Done():
				return
			}
		}
		b := stream.NewBatch(f.records, next, -1, func() { c.log.pool.Put(f) })
		select {
		case s.batches <- b:
			pos = next
		case <-ctx.Done():
			return
		}
	}
}

// Hint does nothing: nobody asks this log how far a group has come; the tables
// say it.
func (c *consumer) Hint(context.Context, map[stream.Partition]int64) error { return nil }
