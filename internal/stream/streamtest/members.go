package streamtest

import (
	"context"
	"errors"
	"fmt"

	"github.com/peil-stream/peil/internal/stream"
)

func memberChecks() []Check {
	return []Check{
		{Name: "member/revoked at the end", Run: memberRevoked},
		{Name: "member/assigned fails", Run: memberAssignedFails},
		{Name: "member/no topic", Run: memberNoTopic},
		{Name: "member/hand-over", Run: memberHandOver},
		{Name: "member/hint", Run: memberHint},
	}
}

func memberRevoked(ctx context.Context, h *Harness) error {
	topic, err := h.topic(ctx, "t", 3)
	if err != nil {
		return err
	}
	// Nobody reads the channels, so that a close before Revoked shows in it.
	m, err := join(ctx, h.Log, stream.Subscription{Group: h.name("g"), Topics: []string{topic}}, &member{
		hold: func(stream.Partition) bool { return true },
	})
	if err != nil {
		return err
	}
	err = m.wait(ctx, "three partitions", func() bool { return len(m.stays) == 3 })
	if err := errors.Join(err, m.stop(ctx)); err != nil {
		return err
	}
	for p, v := range m.stays {
		if !v.closed || v.err != nil {
			return fmt.Errorf("%s: closed is %v, Err is %w after a normal end", p, v.closed, orNone(v.err))
		}
	}
	return nil
}

// refuser is a handler whose Assigned fails.
type refuser struct {
	member

	err error
}

func (r *refuser) Assigned(context.Context, []*stream.Assignment) error { return r.err }

func memberAssignedFails(ctx context.Context, h *Harness) error {
	topic, err := h.topic(ctx, "t", 1)
	if err != nil {
		return err
	}
	c, err := h.Log.Consumer(stream.Subscription{Group: h.name("g"), Topics: []string{topic}})
	if err != nil {
		return fmt.Errorf("make a consumer: %w", err)
	}
	mine := errors.New("mine")
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx, &refuser{err: mine}) }()
	select {
	case err := <-done:
		return want("Run", err, mine)
	case <-ctx.Done():
		return fmt.Errorf("run did not end with the error of Assigned: %w", ctx.Err())
	}
}

func memberNoTopic(ctx context.Context, h *Harness) error {
	c, err := h.Log.Consumer(stream.Subscription{Group: h.name("g"), Topics: []string{h.name("none")}})
	if err != nil {
		return want("Consumer", err, stream.ErrNoTopic)
	}
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx, &member{}) }()
	select {
	case err := <-done:
		return want("Run", err, stream.ErrNoTopic)
	case <-ctx.Done():
		return fmt.Errorf("run did not end without its topic: %w", ctx.Err())
	}
}

// memberHandOver has two members of one group: at no time do both hold a
// partition, and when the first leaves the second gets all.
func memberHandOver(ctx context.Context, h *Harness) error {
	const partitions = 2
	topic, err := h.topic(ctx, "t", partitions)
	if err != nil {
		return err
	}
	sub := stream.Subscription{Group: h.name("g"), Topics: []string{topic}}
	first, err := join(ctx, h.Log, sub, &member{})
	if err != nil {
		return err
	}
	holdsAll := func(m *member) func() bool {
		return func() bool {
			n := 0
			for _, v := range m.stays {
				if !v.revoked {
					n++
				}
			}
			return n == partitions
		}
	}
	if err := first.wait(ctx, "all partitions", holdsAll(first)); err != nil {
		return errors.Join(err, first.stop(ctx))
	}
	second, err := join(ctx, h.Log, sub, &member{start: func(p stream.Partition) int64 {
		first.mu.Lock()
		defer first.mu.Unlock()
		if v := first.stays[p]; v != nil && !v.revoked {
			first.wrong = append(first.wrong, fmt.Errorf("%s was given to the second member before it was revoked", p))
		}
		return 0
	}})
	if err != nil {
		return errors.Join(err, first.stop(ctx))
	}
	// Time for the second member to be given what it must not have. Whatever it
	// was given meanwhile, it has all once it is alone.
	noise, err := h.topic(ctx, "noise", 1)
	for range 20 {
		if err == nil {
			err = h.Log.Append(ctx, texts(noise, 0, "x")...)
		}
	}
	err = errors.Join(err, first.stop(ctx), second.wait(ctx, "all partitions of the first", holdsAll(second)))
	for i := range int32(partitions) {
		p := stream.Partition{Topic: topic, Index: i}
		if err == nil {
			err = errors.Join(h.Log.Append(ctx, texts(topic, i, "x")...), second.waitFor(ctx, p, 1))
		}
	}
	first.mu.Lock()
	wrong := errors.Join(first.wrong...)
	first.mu.Unlock()
	return errors.Join(err, wrong, second.stop(ctx))
}

// memberHint gives a hint that must decide nothing.
func memberHint(ctx context.Context, h *Harness) error {
	topic, err := h.topic(ctx, "t", 1)
	if err != nil {
		return err
	}
	p := stream.Partition{Topic: topic}
	if err := h.Log.Append(ctx, texts(topic, 0, "a", "b", "c")...); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	sub := stream.Subscription{Group: h.name("g"), Topics: []string{topic}}
	for range 2 {
		c, err := h.Log.Consumer(sub)
		if err != nil {
			return fmt.Errorf("make a consumer: %w", err)
		}
		m := &member{}
		m.run(ctx, c)
		err = m.waitFor(ctx, p, 3)
		if err == nil {
			if herr := c.Hint(ctx, map[stream.Partition]int64{p: m.at(p).next}); herr != nil {
				err = fmt.Errorf("hint: %w", herr)
			}
		}
		if err := errors.Join(err, m.stop(ctx), same(p.String(), m.got(p), []string{"a", "b", "c"})); err != nil {
			return err
		}
	}
	return nil
}
