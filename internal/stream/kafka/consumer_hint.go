package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/peil-stream/peil/internal/stream"
)

// Hint commits to the brokers how far the partitions are that are held now. The
// member's generation is checked by the brokers, the partition by vet: they do
// not know which member has which.
func (c *consumer) Hint(ctx context.Context, next map[stream.Partition]int64) error {
	m := c.running.Load()
	if m == nil {
		return nil // nothing is held
	}
	select {
	case m.hinting <- struct{}{}:
		defer func() { <-m.hinting }()
	case <-ctx.Done():
		return fmt.Errorf("hint to group %s: %w", c.sub.Group, ctx.Err())
	}
	if err := m.commit(ctx, m.ahead(next)); err != nil {
		return fmt.Errorf("hint to group %s: %w", c.sub.Group, classify(ctx, err))
	}
	return nil
}

// ahead are the stays that have come further than was hinted.
func (m *member) ahead(next map[stream.Partition]int64) map[*stay]int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	ahead := make(map[*stay]int64, len(next))
	for p, offset := range next {
		if s := m.stays[p]; s != nil && offset > s.hinted {
			ahead[s] = offset
		}
	}
	return ahead
}

// commit commits these offsets. Those that the brokers took are not committed
// again.
func (m *member) commit(ctx context.Context, ahead map[*stay]int64) error {
	if len(ahead) == 0 {
		return nil
	}
	offsets := make(map[string]map[int32]kgo.EpochOffset)
	for s, offset := range ahead {
		topic := offsets[s.Partition.Topic]
		if topic == nil {
			topic = make(map[int32]kgo.EpochOffset)
			offsets[s.Partition.Topic] = topic
		}
		topic[s.Partition.Index] = kgo.EpochOffset{Epoch: -1, Offset: offset}
	}
	var failed error
	ctx = kgo.PreCommitFnContext(ctx, func(req *kmsg.OffsetCommitRequest) error {
		m.vet(req, ahead)
		return nil
	})
	m.client.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
		if err == nil {
			err = declined(resp)
		}
		failed = err
	})
	if failed != nil {
		return failed
	}
	for s, offset := range ahead {
		s.hinted = offset
	}
	return nil
}

// vet takes out what is no longer held, at the last moment: the request already
// has the generation in which the partitions were held, and the brokers refuse it
// in the next one.
func (m *member) vet(req *kmsg.OffsetCommitRequest, ahead map[*stay]int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range req.Topics {
		t := &req.Topics[i]
		t.Partitions = slices.DeleteFunc(t.Partitions, func(p kmsg.OffsetCommitRequestTopicPartition) bool {
			s := m.stays[stream.Partition{Topic: t.Topic, Index: p.Partition}]
			_, hinted := ahead[s]
			return !hinted
		})
		for j := range t.Partitions {
			t.Partitions[j].Metadata = new(string) // the client puts the member's id there
		}
	}
	req.Topics = slices.DeleteFunc(req.Topics, func(t kmsg.OffsetCommitRequestTopic) bool { return len(t.Partitions) == 0 })
}

// declined is what the brokers said against a commit.
func declined(resp *kmsg.OffsetCommitResponse) error {
	var errs []error
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				errs = append(errs, fmt.Errorf("%s/%d: %w", t.Topic, p.Partition, err))
			}
		}
	}
	return errors.Join(errs...)
}
