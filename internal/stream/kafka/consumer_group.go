package kafka

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/peil-stream/peil/internal/stream"
)

// assigned is called by the client with new partitions and what the group has
// committed for them, which decides nothing: reading begins where the handler
// says. ctx ends when the next rebalance begins; what was not begun by then comes
// again. It never returns another error than that of ctx: the client would give
// up all partitions.
func (m *member) assigned(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	<-m.made
	stays, err := m.newStays(ctx, offsets)
	if err == nil {
		err = m.start(ctx, stays)
	}
	if err != nil {
		if ctx.Err() == nil {
			m.end(err)
			<-ctx.Done() // the run ends now, and that ends the session
		}
		return nil, ctx.Err()
	}
	m.mu.Lock()
	for _, s := range stays {
		s.next = s.Start
		m.stays[s.Partition] = s
		offsets[s.Partition.Topic][s.Partition.Index] = kgo.NewOffset().At(s.Start).WithEpoch(s.StartEpoch)
		go s.feed()
	}
	m.mu.Unlock()
	notify(m.room)
	m.log.LogAttrs(ctx, slog.LevelInfo, "partitions assigned", slog.Int("partitions", len(stays)))
	return offsets, nil
}

// newStays makes a stay of each partition, in order.
func (m *member) newStays(ctx context.Context, offsets map[string]map[int32]kgo.Offset) ([]*stay, error) {
	names := make([]string, 0, len(offsets))
	for name, partitions := range offsets {
		if len(partitions) > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	topics, err := m.describe(ctx, names)
	if err != nil {
		return nil, err
	}
	var stays []*stay
	for _, t := range topics {
		for i := range offsets[t.Name] {
			stays = append(stays, m.newStay(stream.Partition{Topic: t.Name, Index: i}, t.ID))
		}
	}
	slices.SortFunc(stays, func(a, b *stay) int {
		return cmp.Or(cmp.Compare(a.Partition.Topic, b.Partition.Topic), cmp.Compare(a.Partition.Index, b.Partition.Index))
	})
	return stays, nil
}

// start asks the handler where to begin. After an error the stays never were.
func (m *member) start(ctx context.Context, stays []*stay) error {
	if len(stays) == 0 {
		return nil
	}
	err := m.handler.Assigned(ctx, assignments(stays))
	for _, s := range stays {
		if err == nil && s.Start < 0 {
			err = fmt.Errorf("partition %s: there is no offset %d to start at", s.Partition, s.Start)
		}
	}
	if err != nil {
		for _, s := range stays {
			close(s.out)
		}
	}
	return err
}

// revoked is called by the client before others may get the partitions, also when
// the group is left.
func (m *member) revoked(ctx context.Context, _ *kgo.Client, partitions map[string][]int32) {
	stays := m.held(partitions)
	if len(stays) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.opts.RevokeTimeout)
	defer cancel()
	m.handler.Revoked(ctx, assignments(stays))
	m.finish(stays)
	m.log.LogAttrs(ctx, slog.LevelInfo, "partitions given back", slog.Int("partitions", len(stays)))
}

// lost is called by the client when others may already have the partitions.
func (m *member) lost(ctx context.Context, _ *kgo.Client, partitions map[string][]int32) {
	stays := m.held(partitions)
	if len(stays) == 0 {
		return
	}
	m.log.LogAttrs(ctx, slog.LevelWarn, "partitions lost", slog.Int("partitions", len(stays)))
	m.handler.Lost(assignments(stays))
	m.finish(stays)
}

// held are the stays among the partitions. A partition whose assignment was never
// begun has none.
func (m *member) held(partitions map[string][]int32) []*stay {
	m.mu.Lock()
	defer m.mu.Unlock()
	var stays []*stay
	for topic, indexes := range partitions {
		for _, i := range indexes {
			if s := m.stays[stream.Partition{Topic: topic, Index: i}]; s != nil {
				stays = append(stays, s)
			}
		}
	}
	return stays
}

// of are the stays of a topic.
func (m *member) of(topic string) []*stay {
	m.mu.Lock()
	defer m.mu.Unlock()
	var stays []*stay
	for p, s := range m.stays {
		if p.Topic == topic {
			stays = append(stays, s)
		}
	}
	return stays
}

func (m *member) finish(stays []*stay) {
	m.mu.Lock()
	for _, s := range stays {
		delete(m.stays, s.Partition)
	}
	m.mu.Unlock()
	for _, s := range stays {
		s.finish()
	}
	notify(m.room)
}

func assignments(stays []*stay) []*stream.Assignment {
	as := make([]*stream.Assignment, len(stays))
	for i, s := range stays {
		as[i] = &s.Assignment
	}
	return as
}
