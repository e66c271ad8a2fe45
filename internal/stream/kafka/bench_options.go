package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/peil-stream/peil/internal/stream"
)

// Client makes a client with the options that all clients of the log share, and
// more. It is for the bench, which fills topics and reads them without this
// package; the client connects when it is used first, and the caller closes it.
func (l *Log) Client(extra ...kgo.Opt) (*kgo.Client, error) { return l.opts.client(extra...) }

// ConsumerOptions are the options with which a consumer of that subscription
// reads, but for its callbacks: whoever uses them says where reading begins with
// an AdjustFetchOffsetsFn, and calls AllowRebalance after each poll.
func (l *Log) ConsumerOptions(sub stream.Subscription) ([]kgo.Opt, error) {
	c, err := l.Consumer(sub)
	if err != nil {
		return nil, err
	}
	m := &member{consumer: c.(*consumer)} // it makes no other
	none := func(context.Context, *kgo.Client, map[string][]int32) {}
	return append(m.options(),
		kgo.AdjustFetchOffsetsFn(func(_ context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
			return offsets, nil
		}),
		kgo.OnPartitionsRevoked(none), kgo.OnPartitionsLost(none),
	), nil
}
