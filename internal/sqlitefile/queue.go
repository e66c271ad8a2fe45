package sqlitefile

import (
	"context"
	"sync"
)

// queue is a lock that is handed over in order of arrival and whose wait ends
// with a context. The zero value is free.
type queue struct {
	mu      sync.Mutex
	held    bool
	closed  bool
	waiting []*waiter
	drained chan struct{} // made by close, closed when the holder leaves
}

type waiter struct {
	ready   chan struct{}
	granted bool // set before ready is closed
}

// lock waits for its turn.
func (q *queue) lock(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return ErrClosed
	}
	if !q.held {
		q.held = true
		q.mu.Unlock()
		return nil
	}
	w := &waiter{ready: make(chan struct{})}
	q.waiting = append(q.waiting, w)
	q.mu.Unlock()

	select {
	case <-w.ready:
		if !w.granted {
			return ErrClosed
		}
		return nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	for i, other := range q.waiting {
		if other == w {
			q.waiting = append(q.waiting[:i], q.waiting[i+1:]...)
			q.mu.Unlock()
			return context.Cause(ctx)
		}
	}
	granted := w.granted
	q.mu.Unlock()
	if granted {
		// The turn came in the same moment: pass it on.
		q.unlock()
	}
	return context.Cause(ctx)
}

// unlock hands the lock to the one that waits longest.
func (q *queue) unlock() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) > 0 {
		w := q.waiting[0]
		q.waiting = q.waiting[1:]
		w.granted = true
		close(w.ready)
		return
	}
	q.held = false
	if q.drained != nil {
		close(q.drained)
		q.drained = nil
	}
}

// close turns away who waits and who comes, and waits for the holder.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	for _, w := range q.waiting {
		close(w.ready)
	}
	q.waiting = nil
	if !q.held {
		q.mu.Unlock()
		return
	}
	drained := make(chan struct{})
	q.drained = drained
	q.mu.Unlock()
	<-drained
}
