package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/peil-stream/peil/internal/stream"
)

// describe asks for topics until the brokers answer.
func (m *member) describe(ctx context.Context, names []string) ([]stream.Topic, error) {
	for {
		topics, err := m.admin.Describe(ctx, names...)
		if err == nil || !errors.Is(err, stream.ErrUnavailable) {
			return topics, err
		}
		m.warn(ctx, err)
		if err := pause(ctx, time.Second); err != nil {
			return nil, err
		}
	}
}

// watch stops the partitions of topics that are gone or were made again. The client
// does not say so: it asks for them for ever.
func (m *member) watch(ctx context.Context) {
	missing := make(map[string]bool)
	for pause(ctx, m.age) == nil {
		m.look(ctx, missing)
	}
}

// look asks for the topics once. A topic is gone if it was missing before: the
// brokers do not learn of it at the same time.
func (m *member) look(ctx context.Context, missing map[string]bool) {
	found, err := m.admin.admin.ListTopics(ctx, m.sub.Topics...)
	if err != nil {
		if ctx.Err() == nil {
			m.warn(ctx, fmt.Errorf("look up topics: %w", err))
		}
		return
	}
	for _, name := range m.sub.Topics {
		d, err := detail(found, name)
		gone := errors.Is(kindOf(err), stream.ErrNoTopic)
		if err == nil || gone && missing[name] {
			m.compare(name, d.ID.String(), gone)
		}
		missing[name] = gone
	}
}

// compare stops the partitions of a topic that is gone or has another id.
func (m *member) compare(name, id string, gone bool) {
	for _, s := range m.of(name) {
		switch {
		case gone:
			s.abandon(fmt.Errorf("%w: it was deleted", stream.ErrNoTopic))
		case s.TopicID != id:
			s.abandon(fmt.Errorf("%w: it was deleted and made again, with the id %s instead of %s", stream.ErrNoTopic, id, s.TopicID))
		}
	}
}
