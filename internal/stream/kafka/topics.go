package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/peil-stream/peil/internal/stream"
)

// Special timestamps and levels of a ListOffsets request.
const (
	askStart = -2
	askEnd   = -1

	uncommitted = 0 // the end is the high watermark
	committed   = 1 // the end is the last stable offset
)

// settings are the configuration of a topic that is made.
type settings map[string]string

// Describe asks the brokers.
func (l *Log) Describe(ctx context.Context, names ...string) ([]stream.Topic, error) {
	if len(names) == 0 {
		return nil, nil // the brokers take no names for all of them
	}
	found, err := l.admin.ListTopics(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("describe topics: %w", classify(ctx, err))
	}
	topics := make([]stream.Topic, len(names))
	for i, name := range names {
		d, err := detail(found, name)
		if err != nil {
			return nil, fmt.Errorf("describe topic %s: %w", name, classify(ctx, err))
		}
		topics[i] = stream.Topic{Name: name, ID: d.ID.String(), Partitions: int32(len(d.Partitions))}
	}
	return topics, nil
}

func detail(found kadm.TopicDetails, name string) (kadm.TopicDetail, error) {
	d, ok := found[name]
	if !ok {
		return d, kerr.UnknownTopicOrPartition
	}
	return d, d.Err
}

// Topics lists the topics that are not the brokers' own.
func (l *Log) Topics(ctx context.Context) ([]string, error) {
	found, err := l.admin.ListTopics(ctx)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", classify(ctx, err))
	}
	return found.Names(), nil
}

// Bounds asks the leaders of the partitions; the end is the high watermark.
func (l *Log) Bounds(ctx context.Context, ps ...stream.Partition) ([]stream.Bounds, error) {
	// The start first: the other way round, what is trimmed in between could put
	// it after the end.
	starts, err := l.offsets(ctx, ps, askStart, uncommitted)
	if err != nil {
		return nil, err
	}
	ends, err := l.offsets(ctx, ps, askEnd, uncommitted)
	if err != nil {
		return nil, err
	}
	bs := make([]stream.Bounds, len(ps))
	for i, p := range ps {
		bs[i] = stream.Bounds{Start: starts[p], End: ends[p]}
	}
	return bs, nil
}

// offsets asks for one kind of offset of each partition. All are answered, or
// there is an error.
func (l *Log) offsets(ctx context.Context, ps []stream.Partition, timestamp int64, isolation int8) (map[stream.Partition]int64, error) {
	answers := make(map[stream.Partition]int64, len(ps))
	if len(ps) == 0 {
		return answers, nil
	}
	var errs []error
	for _, shard := range l.client.RequestSharded(ctx, offsetsRequest(ps, timestamp, isolation)) {
		if shard.Err != nil {
			errs = append(errs, shard.Err)
			continue
		}
		for _, t := range shard.Resp.(*kmsg.ListOffsetsResponse).Topics {
			for _, p := range t.Partitions {
				at := stream.Partition{Topic: t.Topic, Index: p.Partition}
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					errs = append(errs, fmt.Errorf("%s: %w", at, err))
					continue
				}
				answers[at] = p.Offset
			}
		}
	}
	for _, p := range ps {
		if _, ok := answers[p]; !ok && len(errs) == 0 {
			errs = append(errs, fmt.Errorf("%s: %w: not answered", p, stream.ErrUnavailable))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("ask for offsets: %w", classify(ctx, err))
	}
	return answers, nil
}

func offsetsRequest(ps []stream.Partition, timestamp int64, isolation int8) *kmsg.ListOffsetsRequest {
	req := kmsg.NewPtrListOffsetsRequest()
	req.IsolationLevel = isolation
	at := make(map[string]int) // index of each topic
	for _, p := range ps {
		i, ok := at[p.Topic]
		if !ok {
			i = len(req.Topics)
			at[p.Topic] = i
			topic := kmsg.NewListOffsetsRequestTopic()
			topic.Topic = p.Topic
			req.Topics = append(req.Topics, topic)
		}
		t := &req.Topics[i]
		if slices.ContainsFunc(t.Partitions, func(q kmsg.ListOffsetsRequestTopicPartition) bool { return q.Partition == p.Index }) {
			continue
		}
		partition := kmsg.NewListOffsetsRequestTopicPartition()
		partition.Partition = p.Index
		partition.Timestamp = timestamp
		t.Partitions = append(t.Partitions, partition)
	}
	return req
}

// Create makes the topics that are missing with the brokers' own replication
// factor, stamped by the brokers, and waits until their partitions have leaders.
func (l *Log) Create(ctx context.Context, specs ...stream.TopicSpec) error {
	req := kmsg.NewPtrCreateTopicsRequest()
	for _, s := range specs {
		retention := s.Retention
		if retention == 0 {
			retention = stream.RetentionDefault
		}
		addTopic(req, s.Name, s.Partitions, settings{
			"cleanup.policy":         "delete",
			"message.timestamp.type": "LogAppendTime",
			"retention.ms":           strconv.FormatInt(retention.Milliseconds(), 10),
		})
	}
	return l.create(ctx, req)
}

func addTopic(req *kmsg.CreateTopicsRequest, name string, partitions int32, s settings) {
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic = name
	topic.NumPartitions = partitions
	topic.ReplicationFactor = -1
	for key, value := range s {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = key, &value
		topic.Configs = append(topic.Configs, c)
	}
	req.Topics = append(req.Topics, topic)
}

// create makes what is missing of the topics of a request.
func (l *Log) create(ctx context.Context, req *kmsg.CreateTopicsRequest) error {
	if len(req.Topics) == 0 {
		return nil
	}
	names := make([]string, len(req.Topics))
	for i, t := range req.Topics {
		names[i] = t.Topic
	}
	found, err := l.admin.ListTopics(ctx, names...)
	if err != nil {
		return fmt.Errorf("create topics: %w", classify(ctx, err))
	}
	req.Topics = slices.DeleteFunc(req.Topics, func(t kmsg.CreateTopicsRequestTopic) bool {
		_, err := detail(found, t.Topic)
		return err == nil
	})
	if len(req.Topics) == 0 {
		return nil
	}
	req.TimeoutMillis = int32(l.opts.RequestTimeout.Milliseconds())
	resp, err := req.RequestWith(ctx, l.client)
	if err != nil {
		return fmt.Errorf("create topics: %w", classify(ctx, err))
	}
	for _, t := range resp.Topics {
		err := kerr.ErrorForCode(t.ErrorCode)
		// Another process may have made it at the same time.
		if err == nil || errors.Is(err, kerr.TopicAlreadyExists) {
			continue
		}
		if t.ErrorMessage != nil {
			err = fmt.Errorf("%w (%s)", err, *t.ErrorMessage)
		}
		return fmt.Errorf("create topic %s: %w", t.Topic, classify(ctx, err))
	}
	return l.awaitLeaders(ctx, names)
}

// awaitLeaders returns once every partition of the topics has a leader, so that
// what is asked next does not fail.
func (l *Log) awaitLeaders(ctx context.Context, names []string) error {
	waiting, cancel := context.WithTimeout(ctx, l.opts.RequestTimeout)
	defer cancel()
	for {
		found, err := l.admin.ListTopics(waiting, names...)
		if err == nil {
			if err = led(found, names); err == nil {
				return nil
			}
		}
		if pause(waiting, metadataAge/4) != nil {
			return fmt.Errorf("wait for the leaders of new topics: %w: %w", stream.ErrUnavailable, classify(ctx, err))
		}
	}
}

// led is nil if all partitions of the topics have leaders.
func led(found kadm.TopicDetails, names []string) error {
	for _, name := range names {
		d, err := detail(found, name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		for _, p := range d.Partitions {
			if p.Err != nil || p.Leader < 0 {
				return fmt.Errorf("%s/%d: %w", name, p.Partition, errors.Join(kerr.LeaderNotAvailable, p.Err))
			}
		}
	}
	return nil
}

// pause waits for a while; its error is that of the context.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// partitioner takes the partition that a record names, and that of its key for
// [stream.ByKey].
func partitioner() kgo.Partitioner {
	return kgo.BasicConsistentPartitioner(func(string) func(*kgo.Record, int) int {
		return func(r *kgo.Record, partitions int) int {
			if r.Partition == stream.ByKey {
				return int(stream.PartitionFor(r.Key, int32(partitions)))
			}
			return int(r.Partition)
		}
	})
}
