package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/peil-stream/peil/event"
	"github.com/peil-stream/peil/internal/dlq"
)

const (
	// adminTimeout bounds what is asked of the brokers beside reading and writing.
	adminTimeout = 20 * time.Second
	// fillBuffered is how many records are on their way while a topic is filled.
	fillBuffered = 100_000
	// slabBytes is the size of the pieces of memory that values are written into.
	slabBytes = 1 << 20
)

// exists says whether there is such a topic.
func (b *brokers) exists(ctx context.Context, topic string) (bool, error) {
	found, err := b.admin.ListTopics(ctx, topic)
	if err == nil {
		err = found[topic].Err
	}
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for topic %s: %w", topic, err)
	}
	return true, nil
}

// create makes the topic and its dead-letter topic. Records keep the time that they
// are given, and none of them is ever too old.
func (b *brokers) create(ctx context.Context, topic string, partitions int32) error {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	stamp, retention := "CreateTime", strconv.Itoa(-1)
	created, err := b.admin.CreateTopics(ctx, partitions, -1,
		map[string]*string{"message.timestamp.type": &stamp, "retention.ms": &retention}, topic, dlq.Topic(topic))
	if err == nil {
		err = created.Error()
	}
	if err != nil {
		return fmt.Errorf("create topic %s: %w", topic, err)
	}
	return b.awaitLeaders(ctx, topic, dlq.Topic(topic))
}

// awaitLeaders returns once all partitions have a leader.
func (b *brokers) awaitLeaders(ctx context.Context, topics ...string) error {
	for {
		found, err := b.admin.ListTopics(ctx, topics...)
		ready := err == nil && found.Error() == nil && len(found) == len(topics)
		for _, t := range found {
			for _, p := range t.Partitions {
				ready = ready && p.Err == nil && p.Leader >= 0
			}
		}
		if ready {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the leaders of %v: %w", topics, errors.Join(err, context.Cause(ctx)))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// remove deletes the topic and its dead-letter topic, also when ctx has ended.
func (b *brokers) remove(ctx context.Context, topic string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), adminTimeout)
	defer cancel()
	deleted, err := b.admin.DeleteTopics(ctx, topic, dlq.Topic(topic))
	for _, d := range deleted {
		if !errors.Is(d.Err, kerr.UnknownTopicOrPartition) {
			err = errors.Join(err, d.Err)
		}
	}
	if err != nil {
		return fmt.Errorf("delete topic %s: %w", topic, err)
	}
	return nil
}

// forget deletes groups, also when ctx has ended. It is for tidiness: brokers forget
// an empty group by themselves.
func (b *brokers) forget(ctx context.Context, groups []string) {
	if len(groups) > 0 {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), adminTimeout)
		defer cancel()
		_, _ = b.admin.DeleteGroups(ctx, groups...)
	}
}

// brokers are the log that is measured.
type brokers struct {
	client *kgo.Client
	admin  *kadm.Client
}

// fill writes the records of a shape and, at the end of each partition, the marker
// that closes its windows. told hears how many are written.
func (b *brokers) fill(ctx context.Context, topic string, s Shape, told func(done int64)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var done atomic.Int64
	promise := func(_ *kgo.Record, err error) {
		if err != nil {
			cancel(err)
			return
		}
		done.Add(1)
	}
	e := newEncoder(s.Partitions)
	var one sample
	var slab []byte
	for g := newGenerator(s); g.draw(&one) && ctx.Err() == nil; {
		if cap(slab)-len(slab) < 512 {
			slab = make([]byte, 0, slabBytes)
		}
		from := len(slab)
		slab = e.value(slab, &one)
		b.client.Produce(ctx, &kgo.Record{ // blocks while too many are on their way
			Topic: topic, Partition: e.partitions[one.trip], Key: e.keys[one.trip],
			Value: slab[from:len(slab):len(slab)], Timestamp: time.UnixMilli(one.logged),
		}, promise)
		if g.next%100_000 == 0 {
			told(done.Load())
		}
	}
	for p := range s.Partitions {
		b.client.Produce(ctx, closing(topic, p), promise)
	}
	err := b.client.Flush(ctx)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if err != nil {
		return fmt.Errorf("fill topic %s: %w", topic, err)
	}
	return nil
}

// closing is the marker that says of a partition that the hour is complete.
func closing(topic string, partition int32) *kgo.Record {
	return &kgo.Record{
		Topic: topic, Partition: partition, Timestamp: time.UnixMilli(begin + spanMS),
		Headers: []kgo.RecordHeader{{Key: event.MarkerHeader, Value: []byte(event.CloseType)}},
		Value:   event.AppendMarker(nil, &event.Marker{Feed: []byte(feed), Timestamp: begin + spanMS}),
	}
}
