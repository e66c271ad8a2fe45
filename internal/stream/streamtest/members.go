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
		{Name: "member/assigned waits", Run: memberAssignedWaits},
		{Name: "member/no topic", Run: memberNoTopic},
		{Name: "member/hand-over", Run: memberHandOver},
		{Name: "member/rebalance", Run: memberRebalance, needs: needsMembers},
		{Name: "member/rebalance while one waits", Run: memberRebalanceWaits, needs: needsMembers},
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

// memberRebalance has members come and go over 12 partitions that are written
// meanwhile: each stay goes on where the one before it ended, and no partition has
// two holders.
func memberRebalance(ctx context.Context, h *Harness) error {
	g, err := newGroup(ctx, h, 12)
	if err != nil {
		return err
	}
	for i, move := range []func(context.Context) error{g.join, g.join, g.join, g.leave, g.leave} {
		if err = g.write(ctx, fmt.Sprintf("%d-", i), 100); err != nil {
			break
		}
		if err = move(ctx); err != nil {
			break
		}
	}
	if err == nil {
		err = errors.Join(g.write(ctx, "last-", 10), g.check(ctx))
	}
	return errors.Join(err, g.stop(ctx))
}

// waiter is a handler that waits in Assigned until it is let go.
type waiter struct {
	member

	asked chan struct{} // a value for each call
	let   chan struct{}
}

func newWaiter(b *book) *waiter {
	return &waiter{member: member{book: b}, asked: make(chan struct{}, 100), let: make(chan struct{})}
}

func (w *waiter) Assigned(ctx context.Context, as []*stream.Assignment) error {
	w.asked <- struct{}{}
	select {
	case <-w.let:
		return w.member.Assigned(ctx, as)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// memberAssignedWaits ends a run whose Assigned waits: it is told so, the run ends
// well, and what was never begun is not revoked.
func memberAssignedWaits(ctx context.Context, h *Harness) error {
	topic, err := h.topic(ctx, "t", 1)
	if err != nil {
		return err
	}
	c, err := h.Log.Consumer(stream.Subscription{Group: h.name("g"), Topics: []string{topic}})
	if err != nil {
		return fmt.Errorf("make a consumer: %w", err)
	}
	w := newWaiter(nil)
	w.runAs(ctx, c, w)
	select {
	case <-w.asked:
	case <-ctx.Done():
		return errors.Join(errors.New("nothing was assigned"), w.stop(ctx))
	}
	err = w.stop(ctx)
	if w.revoked > 0 {
		err = errors.Join(err, errors.New("an assignment was revoked that had not begun"))
	}
	return err
}

// memberRebalanceWaits lets the second member wait in Assigned: what the first
// still has flows, and once the second is let go, so does the rest. A third member
// joins meanwhile, so that what waits is withdrawn and comes again.
func memberRebalanceWaits(ctx context.Context, h *Harness) error {
	g, err := newGroup(ctx, h, 4)
	if err != nil {
		return err
	}
	if err := g.write(ctx, "a-", 50); err != nil {
		return err
	}
	if err := errors.Join(g.join(ctx), g.check(ctx)); err != nil {
		return errors.Join(err, g.stop(ctx))
	}
	c, err := h.Log.Consumer(g.sub)
	if err != nil {
		return errors.Join(err, g.stop(ctx))
	}
	w := newWaiter(g.book)
	w.runAs(ctx, c, w)
	first := g.members[0]
	g.members = append(g.members, &w.member)
	err = asked(ctx, w)
	if err == nil {
		err = errors.Join(g.write(ctx, "b-", 50), g.wait(ctx, "what the first member holds to be read", func() bool {
			held := 0
			for p, m := range g.holder {
				if m == first {
					held++
					if len(g.values[p]) < len(g.wanted) {
						return false
					}
				}
			}
			return held > 0
		}))
	}
	if err == nil {
		var m *member
		if m, err = join(ctx, h.Log, g.sub, &member{book: g.book}); err == nil {
			g.members = append(g.members, m)
			err = asked(ctx, w) // again
		}
	}
	close(w.let)
	if err == nil {
		err = errors.Join(g.spread(ctx, g.partitions, g.members...), g.check(ctx))
	}
	return errors.Join(err, g.stop(ctx))
}

func asked(ctx context.Context, w *waiter) error {
	select {
	case <-w.asked:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("nothing was assigned to the member that waits: %w", ctx.Err())
	}
}

// memberHint gives hints that must decide nothing: each run begins where it says,
// before, at and after what was hinted.
func memberHint(ctx context.Context, h *Harness) error {
	topic, err := h.topic(ctx, "t", 1)
	if err != nil {
		return err
	}
	p := stream.Partition{Topic: topic}
	vs := numbered("", 6)
	if err := h.Log.Append(ctx, texts(topic, 0, vs...)...); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	all, err := readAll(ctx, h.Log, p)
	if err != nil {
		return err
	}
	sub := stream.Subscription{Group: h.name("g"), Topics: []string{topic}}
	for _, run := range []struct{ start, hint int }{{0, 3}, {0, 3}, {5, 2}, {4, 5}, {0, 5}} {
		c, err := h.Log.Consumer(sub)
		if err != nil {
			return fmt.Errorf("make a consumer: %w", err)
		}
		m := &member{start: func(stream.Partition) int64 { return all[run.start].Offset }}
		m.run(ctx, c)
		err = m.waitFor(ctx, p, len(vs)-run.start)
		if err == nil {
			for _, hint := range []int64{all[run.hint].Offset, all[0].Offset} { // the second goes back
				if herr := c.Hint(ctx, map[stream.Partition]int64{p: hint, {Topic: topic, Index: 7}: 1}); herr != nil {
					err = errors.Join(err, fmt.Errorf("hint: %w", herr))
				}
			}
		}
		if err := errors.Join(err, m.stop(ctx), same(p.String(), m.got(p), vs[run.start:])); err != nil {
			return err
		}
		if err := c.Hint(ctx, map[stream.Partition]int64{p: all[1].Offset}); err != nil {
			return fmt.Errorf("hint after the run: %w", err)
		}
	}
	return nil
}
