package streamtest_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"

	"github.com/peil-stream/peil/internal/stream"
)

func appendOneByOne(ctx context.Context, l stream.Log, msgs []stream.Message) error {
	for _, m := range msgs {
		if err := l.Append(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

func appendReversed(ctx context.Context, l stream.Log, msgs []stream.Message) error {
	msgs = slices.Clone(msgs)
	slices.Reverse(msgs)
	return l.Append(ctx, msgs...)
}

func appendEmptyAsNull(ctx context.Context, l stream.Log, msgs []stream.Message) error {
	msgs = slices.Clone(msgs)
	for i := range msgs {
		if len(msgs[i].Value) == 0 {
			msgs[i].Value = nil
		}
	}
	return l.Append(ctx, msgs...)
}

func appendHeadersOnce(ctx context.Context, l stream.Log, msgs []stream.Message) error {
	msgs = slices.Clone(msgs)
	for i := range msgs {
		seen := map[string]bool{}
		msgs[i].Headers = slices.DeleteFunc(slices.Clone(msgs[i].Headers), func(h stream.Header) bool {
			again := seen[h.Key]
			seen[h.Key] = true
			return again
		})
	}
	return l.Append(ctx, msgs...)
}

func appendToFirst(ctx context.Context, l stream.Log, msgs []stream.Message) error {
	msgs = slices.Clone(msgs)
	for i := range msgs {
		msgs[i].Partition = max(msgs[i].Partition, 0)
	}
	return l.Append(ctx, msgs...)
}

func publishOneByOne(ctx context.Context, p *mutantPublisher, msgs []stream.Message, changes []stream.Change) error {
	for _, m := range msgs {
		if err := p.Publisher.Publish(ctx, []stream.Message{m}, nil); err != nil {
			return err
		}
	}
	return p.Publisher.Publish(ctx, nil, changes)
}

func publishMemoryFirst(ctx context.Context, p *mutantPublisher, msgs []stream.Message, changes []stream.Change) error {
	if err := p.Publisher.Publish(ctx, nil, changes); err != nil {
		// The lost answer hit the memory; the messages go out all the same.
		return errors.Join(err, p.log.Append(ctx, msgs...))
	}
	return p.Publisher.Publish(ctx, msgs, nil)
}

func publishMessagesFirst(ctx context.Context, p *mutantPublisher, msgs []stream.Message, changes []stream.Change) error {
	if err := p.log.Append(ctx, msgs...); err != nil {
		q, oerr := p.log.OpenPublisher(ctx, p.spec)
		if oerr != nil {
			return oerr
		}
		return errors.Join(err, q.Publish(ctx, nil, changes))
	}
	return p.Publisher.Publish(ctx, nil, changes)
}

func publishUnfenced(ctx context.Context, p *mutantPublisher, msgs []stream.Message, changes []stream.Change) error {
	err := p.Publisher.Publish(ctx, msgs, changes)
	if !errors.Is(err, stream.ErrFenced) {
		return err
	}
	if p.Publisher, err = p.log.OpenPublisher(ctx, p.spec); err != nil {
		return err
	}
	return p.Publisher.Publish(ctx, msgs, changes)
}

func publishThenFenced(ctx context.Context, p *mutantPublisher, msgs []stream.Message, changes []stream.Change) error {
	err := p.Publisher.Publish(ctx, msgs, changes)
	if errors.Is(err, stream.ErrFenced) {
		return errors.Join(err, p.log.Append(ctx, msgs...))
	}
	return err
}

func publishWithoutDeletes(ctx context.Context, p *mutantPublisher, msgs []stream.Message, changes []stream.Change) error {
	changes = slices.DeleteFunc(slices.Clone(changes), func(c stream.Change) bool { return c.Value == nil })
	return p.Publisher.Publish(ctx, msgs, changes)
}

func publishReopened(ctx context.Context, p *mutantPublisher, msgs []stream.Message, changes []stream.Change) error {
	err := p.Publisher.Publish(ctx, msgs, changes)
	if err != nil && !errors.Is(err, stream.ErrFenced) {
		q, oerr := p.log.OpenPublisher(ctx, p.spec)
		if oerr != nil {
			return errors.Join(err, oerr)
		}
		p.Publisher = q
	}
	return err
}

func publishUncancelled(ctx context.Context, p *mutantPublisher, msgs []stream.Message, changes []stream.Change) error {
	return errors.Join(p.Publisher.Publish(context.WithoutCancel(ctx), msgs, changes), ctx.Err())
}

func publishBounded(ctx context.Context, p *mutantPublisher, msgs []stream.Message, changes []stream.Change) error {
	return p.Publisher.Publish(ctx, msgs, changes[:min(len(changes), 9_999)])
}

func dieAfterwards(ctx context.Context, l stream.Log, p stream.Partition) error {
	return l.Append(ctx, stream.Message{Topic: p.Topic, Partition: p.Index, Value: []byte("undead")})
}

func readNullAsEmpty(seq iter.Seq2[stream.Record, error]) iter.Seq2[stream.Record, error] {
	return func(yield func(stream.Record, error) bool) {
		for r, err := range seq {
			if r.Value == nil {
				r.Value = []byte{}
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

func readWithoutErrors(seq iter.Seq2[stream.Record, error]) iter.Seq2[stream.Record, error] {
	return func(yield func(stream.Record, error) bool) {
		for r, err := range seq {
			if err != nil || !yield(r, nil) {
				return
			}
		}
	}
}

func describeByName(topics []stream.Topic) []stream.Topic {
	topics = slices.Clone(topics)
	for i := range topics {
		topics[i].ID = "id of " + topics[i].Name
	}
	return topics
}

func resetSilently(l stream.Log, h stream.Handler) stream.Handler {
	return &mutantHandler{Handler: h, assigned: func(ctx context.Context, as []*stream.Assignment) {
		for _, a := range as {
			if b, err := stream.BoundsOf(ctx, l, a.Partition); err == nil && (a.Start < b.Start || a.Start > b.End) {
				a.Start = b.Start
			}
		}
	}}
}

func startAtZero(_ stream.Log, h stream.Handler) stream.Handler {
	return &mutantHandler{Handler: h, assigned: func(_ context.Context, as []*stream.Assignment) {
		for _, a := range as {
			a.Start = 0
		}
	}}
}

func deliverTwice(_ stream.Log, h stream.Handler) stream.Handler {
	return relayed(h, func(_ context.Context, from <-chan stream.Batch, to chan<- stream.Batch) {
		for b := range from {
			to <- stream.NewBatch(b.Records, b.Next, b.LeaderEpoch, nil)
			to <- b
		}
	})
}

func deliverSome(_ stream.Log, h stream.Handler) stream.Handler {
	return relayed(h, func(_ context.Context, from <-chan stream.Batch, to chan<- stream.Batch) {
		for b := range from {
			if len(b.Records) != 1 {
				to <- b
			}
		}
	})
}

// deliverInTurn sends the batches of all partitions one after the other.
func deliverInTurn(_ stream.Log, h stream.Handler) stream.Handler {
	turn := make(chan struct{}, 1)
	return relayed(h, func(ctx context.Context, from <-chan stream.Batch, to chan<- stream.Batch) {
		for b := range from {
			select {
			case turn <- struct{}{}:
			case <-ctx.Done():
				return
			}
			select {
			case to <- b:
			case <-ctx.Done():
			}
			<-turn
		}
	})
}

func releaseEarly(_ stream.Log, h stream.Handler) stream.Handler {
	return relayed(h, func(ctx context.Context, from <-chan stream.Batch, to chan<- stream.Batch) {
		for b := range from {
			early := stream.NewBatch(slices.Clone(b.Records), b.Next, b.LeaderEpoch, nil)
			b.Release()
			select {
			case to <- early:
			case <-ctx.Done():
				return
			}
		}
	})
}

func neverRevoked(_ stream.Log, h stream.Handler) stream.Handler {
	return &mutantHandler{Handler: h, revoked: func(context.Context, stream.Handler, []*stream.Assignment) {}}
}

func revokedUnbounded(_ stream.Log, h stream.Handler) stream.Handler {
	return &mutantHandler{Handler: h, revoked: func(ctx context.Context, next stream.Handler, as []*stream.Assignment) {
		next.Revoked(context.WithoutCancel(ctx), as)
	}}
}

// ownGroup gives each consumer a group of its own.
func ownGroup() func(*stream.Subscription) {
	var n atomic.Int64
	return func(s *stream.Subscription) { s.Group = fmt.Sprintf("%s-%d", s.Group, n.Add(1)) }
}
