package streamtest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/peil-stream/peil/internal/stream"
)

// member is a consumer that runs with a handler which writes down what happens.
type member struct {
	start func(stream.Partition) int64
	// hold says that a partition's channel is not read.
	hold func(stream.Partition) bool
	// book is where members of one group write down what they read.
	book *book

	cancel  context.CancelFunc
	done    chan struct{}
	runErr  error // valid once done is closed
	pumping sync.WaitGroup

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at each change
	stays   map[stream.Partition]*visit
	wrong   []error // what must never happen
	revoked int
}

// visit is one stay of a partition with a member.
type visit struct {
	a       *stream.Assignment
	records []stream.Record
	next    int64
	batches int
	largest int // records in one batch
	revoked bool
	closed  bool
	err     error
}

// join runs a consumer. The member must be stopped.
func join(ctx context.Context, log stream.Log, sub stream.Subscription, m *member) (*member, error) {
	c, err := log.Consumer(sub)
	if err != nil {
		return nil, fmt.Errorf("make a consumer: %w", err)
	}
	m.run(ctx, c)
	return m, nil
}

func (m *member) run(ctx context.Context, c stream.Consumer) { m.runAs(ctx, c, m) }

// runAs runs with a handler that stands before the member.
func (m *member) runAs(ctx context.Context, c stream.Consumer, h stream.Handler) {
	m.done = make(chan struct{})
	m.changed = make(chan struct{})
	m.stays = make(map[stream.Partition]*visit)
	rctx, cancel := context.WithCancel(ctx)
	m.cancel = cancel
	go func() {
		defer close(m.done)
		m.runErr = c.Run(rctx, h)
	}()
}

// Assigned sets the starts and begins to read.
func (m *member) Assigned(_ context.Context, as []*stream.Assignment) error {
	m.change(func() {
		for _, a := range as {
			v := &visit{a: a}
			switch {
			case m.book != nil:
				v.next = m.book.take(m, a.Partition)
			case m.start != nil:
				v.next = m.start(a.Partition)
			}
			a.Start = v.next
			if old := m.stays[a.Partition]; old != nil && !old.revoked {
				m.wrong = append(m.wrong, fmt.Errorf("%s was assigned twice", a.Partition))
			}
			m.stays[a.Partition] = v
			if !m.held(a.Partition) {
				m.pumping.Go(func() { m.pump(v) })
			}
		}
	})
	return nil
}

// pump reads the batches of a visit until they end.
func (m *member) pump(v *visit) {
	for b := range v.a.Batches {
		m.change(func() {
			if v.revoked {
				return // it came before, and is read only now
			}
			for _, r := range b.Records {
				if r.Offset < v.next {
					m.wrong = append(m.wrong, fmt.Errorf("%s: offset %d was delivered at position %d", v.a.Partition, r.Offset, v.next))
				}
				v.next = r.Offset + 1
				v.records = append(v.records, clone(r))
			}
			if b.Next < v.next {
				m.wrong = append(m.wrong, fmt.Errorf("%s: Next is %d after offset %d", v.a.Partition, b.Next, v.next-1))
			}
			v.next = max(v.next, b.Next)
			v.batches++
			v.largest = max(v.largest, len(b.Records))
			if m.book != nil {
				m.book.read(v.a.Partition, values(b.Records), v.next)
			}
		})
		b.Release()
	}
	err := v.a.Err()
	m.change(func() { v.closed, v.err = true, err })
}

// Revoked marks the visits.
func (m *member) Revoked(ctx context.Context, as []*stream.Assignment) {
	m.change(func() {
		m.revoked++
		if _, ok := ctx.Deadline(); !ok || ctx.Err() != nil {
			m.wrong = append(m.wrong, errors.New("revoked: the context has no deadline or is done"))
		}
		for _, a := range as {
			v := m.stays[a.Partition]
			if v == nil || v.a != a || v.revoked {
				m.wrong = append(m.wrong, fmt.Errorf("%s was revoked without a stay", a.Partition))
				continue
			}
			if m.held(a.Partition) && ended(a) {
				m.wrong = append(m.wrong, fmt.Errorf("%s: Batches was closed before Revoked", a.Partition))
			}
			v.revoked = true
			if m.book != nil {
				m.book.give(a.Partition)
			}
		}
	})
}

func (m *member) held(p stream.Partition) bool { return m.hold != nil && m.hold(p) }

// ended says whether the channel of an assignment that nobody reads, and that
// has delivered nothing, is closed without an error.
func ended(a *stream.Assignment) bool {
	select {
	case _, ok := <-a.Batches:
		return !ok && a.Err() == nil
	default:
		return false
	}
}

// Lost counts as wrong: nothing in the suite takes partitions away by force.
func (m *member) Lost(as []*stream.Assignment) {
	m.change(func() {
		for _, a := range as {
			m.wrong = append(m.wrong, fmt.Errorf("%s was lost", a.Partition))
		}
	})
}

func (m *member) change(fn func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fn()
	close(m.changed)
	m.changed = make(chan struct{})
}

// wait returns once ok, which runs under the lock, says yes. A Run that ends
// meanwhile is an error.
func (m *member) wait(ctx context.Context, what string, ok func() bool) error {
	for {
		m.mu.Lock()
		fine, changed, wrong := ok(), m.changed, errors.Join(m.wrong...)
		m.mu.Unlock()
		if wrong != nil {
			return wrong
		}
		if fine {
			return nil
		}
		select {
		case <-changed:
		case <-m.done:
			return fmt.Errorf("waiting for %s: Run has ended: %w", what, orNone(m.runErr))
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, ctx.Err())
		}
	}
}

// waitFor waits until a partition has delivered n records.
func (m *member) waitFor(ctx context.Context, p stream.Partition, n int) error {
	return m.wait(ctx, fmt.Sprintf("%d records of %s", n, p), func() bool {
		v := m.stays[p]
		return v != nil && len(v.records) >= n
	})
}

// stop ends the run and waits for it; it returns everything that was wrong.
func (m *member) stop(ctx context.Context) error {
	m.cancel()
	select {
	case <-m.done:
	case <-ctx.Done():
		return fmt.Errorf("run did not end: %w", ctx.Err())
	}
	// Channels that the check left unread are read to their end: Run must have
	// closed them.
	var errs []error
	for p, v := range m.stays {
		if m.held(p) && !v.closed {
			v.err = drain(ctx, v.a)
			v.closed = v.err == nil
			errs = append(errs, v.err)
		}
	}
	ended := make(chan struct{})
	go func() {
		m.pumping.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		errs = append(errs, fmt.Errorf("batches was not closed: %w", ctx.Err()))
		return errors.Join(errs...)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	errs = append(errs, m.wrong...)
	for p, v := range m.stays {
		if !v.revoked {
			errs = append(errs, fmt.Errorf("%s was never revoked", p))
		}
	}
	if m.runErr != nil {
		errs = append(errs, fmt.Errorf("run: %w", m.runErr))
	}
	return errors.Join(errs...)
}

// drain reads a channel to its end.
func drain(ctx context.Context, a *stream.Assignment) error {
	for {
		select {
		case b, ok := <-a.Batches:
			if !ok {
				return a.Err()
			}
			b.Release()
		case <-ctx.Done():
			return fmt.Errorf("%s: Batches was not closed: %w", a.Partition, ctx.Err())
		}
	}
}

// at is a copy of the present visit of a partition, or nothing.
func (m *member) at(p stream.Partition) visit {
	m.mu.Lock()
	defer m.mu.Unlock()
	if v := m.stays[p]; v != nil {
		return *v
	}
	return visit{}
}

// got are the values that a partition delivered.
func (m *member) got(p stream.Partition) []string {
	return values(m.at(p).records)
}
