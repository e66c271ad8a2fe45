package kafka

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/peil-stream/peil/internal/stream"
)

const (
	// fetchBytes is the size of one fetch of a reader. Up to three are held: one
	// is read, one waits, one is on its way.
	fetchBytes = 4 << 20
	// leaderPause lies between two questions who leads a partition.
	leaderPause = 100 * time.Millisecond
)

// Read fetches from the partition's leader. It ends at the last stable offset as
// of the call: below it every transaction has been decided.
func (l *Log) Read(ctx context.Context, p stream.Partition, from, to int64) iter.Seq2[stream.Record, error] {
	return func(yield func(stream.Record, error) bool) {
		end, err := l.readable(ctx, p, from, to)
		if err != nil {
			yield(stream.Record{}, fmt.Errorf("read %s from %d: %w", p, from, err))
			return
		}
		if from >= end {
			return
		}
		for r, err := range l.scan(ctx, p, from, end, l.opts.RequestTimeout) {
			if err != nil {
				yield(stream.Record{}, fmt.Errorf("read %s from %d: %w", p, from, err))
				return
			}
			if !yield(r, nil) {
				return
			}
		}
	}
}

// readable is the offset at which a read of [from, to) ends.
func (l *Log) readable(ctx context.Context, p stream.Partition, from, to int64) (int64, error) {
	starts, err := l.offsets(ctx, []stream.Partition{p}, askStart, uncommitted)
	if err != nil {
		return 0, err
	}
	if from < starts[p] {
		return 0, fmt.Errorf("%w: the log starts at %d", stream.ErrOutOfRange, starts[p])
	}
	ends, err := l.offsets(ctx, []stream.Partition{p}, askEnd, committed)
	if err != nil {
		return 0, err
	}
	return min(to, ends[p]), nil
}

// scan yields the committed records of [from, to). It waits for what is not yet
// decided, at most patience without getting on. Fetching goes on beside the loop
// over the sequence, and has ended when the sequence has.
func (l *Log) scan(ctx context.Context, p stream.Partition, from, to int64, patience time.Duration) iter.Seq2[stream.Record, error] {
	return func(yield func(stream.Record, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		var fetching sync.WaitGroup
		defer fetching.Wait()
		defer cancel()

		type fetched struct {
			records []*kgo.Record
			err     error
		}
		fetches := make(chan fetched, 1)
		fetching.Go(func() {
			defer close(fetches)
			c := cursor{log: l, p: p, next: from, patience: patience, unpack: kgo.DefaultDecompressor()}
			for c.next < to {
				records, err := c.fetch(ctx)
				select {
				case fetches <- fetched{records, err}:
				case <-ctx.Done():
					return
				}
				if err != nil {
					return
				}
			}
		})
		for f := range fetches {
			if f.err != nil {
				yield(stream.Record{}, f.err)
				return
			}
			for _, r := range f.records {
				if r.Offset >= to {
					return
				}
				if !yield(record(r), nil) {
					return
				}
			}
		}
		// The fetcher also ends early, without a word, when ctx is done.
		if err := ctx.Err(); err != nil {
			yield(stream.Record{}, err)
		}
	}
}

// record converts without copying.
func record(r *kgo.Record) (s stream.Record) {
	convert(&s, r)
	return s
}

// cursor is a position in a partition. The client's own consumer shows records
// only; this one also knows how far it has come where there are none: behind
// transaction markers, aborted records and what was compacted away.
type cursor struct {
	log      *Log
	p        stream.Partition
	next     int64
	patience time.Duration
	unpack   kgo.Decompressor

	located bool
	id      kadm.TopicID // of the topic, once located
	leader  int32
}

// fetch returns the next committed records, perhaps none, and moves the
// position past them. It tries again until patience is at its end.
func (c *cursor) fetch(ctx context.Context) ([]*kgo.Record, error) {
	began := time.Now()
	for {
		at := c.next
		records, err := c.ask(ctx)
		switch {
		case err == nil && c.next > at:
			return records, nil
		case err == nil:
			// The broker has waited for more; what is missing is not yet decided,
			// or a new leader has not yet learnt how far the log reaches.
			err = fmt.Errorf("nothing readable at %d", at)
		case !errors.Is(kindOf(err), stream.ErrUnavailable) || ctx.Err() != nil:
			return nil, classify(ctx, err)
		default:
			c.located = false
			if err := pause(ctx, leaderPause); err != nil {
				return nil, err
			}
		}
		if time.Since(began) > c.patience {
			return nil, fmt.Errorf("%w: %w", stream.ErrUnavailable, err)
		}
	}
}

// ask sends one fetch to the leader.
func (c *cursor) ask(ctx context.Context) ([]*kgo.Record, error) {
	if !c.located {
		if err := c.locate(ctx); err != nil {
			return nil, err
		}
	}
	resp, err := c.request().RequestWith(ctx, c.log.client.Broker(int(c.leader)))
	if err != nil {
		return nil, err
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return nil, fmt.Errorf("a fetch of one partition was answered with %d topics", len(resp.Topics))
	}
	p := &resp.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
		return nil, err
	}
	fetched, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		Offset: c.next, IsolationLevel: kgo.ReadCommitted(), Topic: c.p.Topic, Partition: c.p.Index,
	}, p, c.unpack, nil)
	if fetched.Err != nil {
		return nil, fmt.Errorf("decode records from %d on: %w", c.next, fetched.Err)
	}
	c.next = next
	return fetched.Records, nil
}

// locate finds the leader. A topic that was made anew is another one.
func (c *cursor) locate(ctx context.Context) error {
	found, err := c.log.admin.ListTopics(ctx, c.p.Topic)
	if err != nil {
		return err
	}
	d, err := detail(found, c.p.Topic)
	if err != nil {
		return err
	}
	if c.id != (kadm.TopicID{}) && c.id != d.ID {
		return fmt.Errorf("%w: topic %s was made anew", stream.ErrNoTopic, c.p.Topic)
	}
	p, ok := d.Partitions[c.p.Index]
	switch {
	case !ok:
		return kerr.UnknownTopicOrPartition
	case p.Leader < 0:
		return errors.Join(kerr.LeaderNotAvailable, p.Err)
	}
	c.located, c.id, c.leader = true, d.ID, p.Leader
	return nil
}

// request is the fetch from the position on.
func (c *cursor) request() *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis = int32(fetchWait.Milliseconds())
	req.MinBytes = 1
	req.MaxBytes = fetchBytes
	req.IsolationLevel = committed
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID = c.p.Topic, c.id
	partition := kmsg.NewFetchRequestTopicPartition()
	partition.Partition = c.p.Index
	partition.FetchOffset = c.next
	partition.PartitionMaxBytes = fetchBytes
	topic.Partitions = append(topic.Partitions, partition)
	req.Topics = append(req.Topics, topic)
	return req
}
