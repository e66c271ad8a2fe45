package streamtest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/peil-stream/peil/internal/stream"
)

// book is what the members of a group have read, as the tables of a sink would
// hold it: a partition begins where the member before it came to.
type book struct {
	mu      sync.Mutex
	changed chan struct{} // closed and replaced at each change
	holder  map[stream.Partition]*member
	next    map[stream.Partition]int64
	values  map[stream.Partition][]string
	stays   map[stream.Partition]int
	wrong   []error
}

func newBook() *book {
	return &book{
		changed: make(chan struct{}),
		holder:  make(map[stream.Partition]*member),
		next:    make(map[stream.Partition]int64),
		values:  make(map[stream.Partition][]string),
		stays:   make(map[stream.Partition]int),
	}
}

func (b *book) change(fn func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fn()
	close(b.changed)
	b.changed = make(chan struct{})
}

// take gives a partition to a member and says where it begins.
func (b *book) take(m *member, p stream.Partition) (next int64) {
	b.change(func() {
		if b.holder[p] != nil {
			b.wrong = append(b.wrong, fmt.Errorf("%s was assigned before the member that had it was asked to give it back", p))
		}
		b.holder[p] = m
		b.stays[p]++
		next = b.next[p]
	})
	return next
}

func (b *book) read(p stream.Partition, values []string, next int64) {
	b.change(func() {
		b.values[p] = append(b.values[p], values...)
		b.next[p] = next
	})
}

func (b *book) give(p stream.Partition) {
	b.change(func() { b.holder[p] = nil })
}

// wait returns once ok, which runs under the lock, says yes.
func (b *book) wait(ctx context.Context, what string, ok func() bool) error {
	for {
		b.mu.Lock()
		fine, changed, wrong := ok(), b.changed, errors.Join(b.wrong...)
		b.mu.Unlock()
		if wrong != nil || fine {
			return wrong
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, ctx.Err())
		}
	}
}

// spread waits until each of the members holds something and together they hold
// all partitions.
func (b *book) spread(ctx context.Context, partitions int, members ...*member) error {
	return b.wait(ctx, fmt.Sprintf("%d partitions with %d members", partitions, len(members)), func() bool {
		held, has := 0, make(map[*member]bool)
		for _, m := range b.holder {
			if m != nil {
				held++
				has[m] = true
			}
		}
		for _, m := range members {
			if !has[m] {
				return false
			}
		}
		return held == partitions && len(has) == len(members)
	})
}

// group is a topic, what was written to it, and the members that read it.
type group struct {
	*book

	h          *Harness
	topic      string
	partitions int
	sub        stream.Subscription
	wanted     []string // in each partition
	members    []*member
}

func newGroup(ctx context.Context, h *Harness, partitions int32) (*group, error) {
	topic, err := h.topic(ctx, "t", partitions)
	if err != nil {
		return nil, err
	}
	return &group{
		book: newBook(), h: h, topic: topic, partitions: int(partitions),
		sub: stream.Subscription{Group: h.name("g"), Topics: []string{topic}, BatchBytes: 2000},
	}, nil
}

// join adds a member and waits until the partitions are spread over all.
func (g *group) join(ctx context.Context) error {
	m, err := join(ctx, g.h.Log, g.sub, &member{book: g.book})
	if err != nil {
		return err
	}
	g.members = append(g.members, m)
	return g.spread(ctx, g.partitions, g.members...)
}

// leave stops the oldest member and waits until the others have its partitions.
func (g *group) leave(ctx context.Context) error {
	m := g.members[0]
	g.members = g.members[1:]
	return errors.Join(m.stop(ctx), g.spread(ctx, g.partitions, g.members...))
}

// write appends to every partition.
func (g *group) write(ctx context.Context, prefix string, n int) error {
	vs := numbered(prefix, n)
	g.wanted = append(g.wanted, vs...)
	for i := range int32(g.partitions) {
		if err := g.h.Log.Append(ctx, texts(g.topic, i, vs...)...); err != nil {
			return fmt.Errorf("append: %w", err)
		}
	}
	return nil
}

// check waits until everything was read, and says whether it came once and in
// order over all stays.
func (g *group) check(ctx context.Context) error {
	err := g.wait(ctx, "everything to be read", func() bool {
		for i := range int32(g.partitions) {
			if len(g.values[stream.Partition{Topic: g.topic, Index: i}]) < len(g.wanted) {
				return false
			}
		}
		return true
	})
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range int32(g.partitions) {
		p := stream.Partition{Topic: g.topic, Index: i}
		if serr := same(fmt.Sprintf("%s over %d stays", p, g.stays[p]), g.values[p], g.wanted); serr != nil {
			return errors.Join(serr, err)
		}
	}
	return err
}

func (g *group) stop(ctx context.Context) error {
	var errs []error
	for _, m := range g.members {
		errs = append(errs, m.stop(ctx))
	}
	return errors.Join(errs...)
}
