package testkit

import (
	"context"
	"sync"

	"github.com/peil-stream/peil/internal/stream"
)

// gate lets a number of batches through and holds the rest back.
type gate struct {
	mu     sync.Mutex
	left   int // below zero: no limit
	opened chan struct{}
}

// Let lets only the next n batches of each run through, until OpenGate.
func (r *Rig) Let(n int) {
	r.gate.mu.Lock()
	defer r.gate.mu.Unlock()
	r.gate.left, r.gate.opened = n, make(chan struct{})
}

// OpenGate lets everything through again.
func (r *Rig) OpenGate() {
	r.gate.mu.Lock()
	defer r.gate.mu.Unlock()
	r.gate.left = -1
	close(r.gate.opened)
}

// pass waits until a batch may go through; false: the stay ended before.
func (g *gate) pass(done <-chan struct{}) bool {
	g.mu.Lock()
	if g.left != 0 {
		g.left--
		g.mu.Unlock()
		return true
	}
	opened := g.opened
	g.mu.Unlock()
	select {
	case <-opened:
		return true
	case <-done:
		return false
	}
}

// Consumer puts the gate between the log and the processor.
func (l fussyLog) Consumer(sub stream.Subscription) (stream.Consumer, error) {
	c, err := l.Log.Consumer(sub)
	return gatedConsumer{Consumer: c, gate: &l.rig.gate}, err
}

type gatedConsumer struct {
	stream.Consumer
	gate *gate
}

// Run implements [stream.Consumer].
func (c gatedConsumer) Run(ctx context.Context, h stream.Handler) error {
	gh := &gatedHandler{Handler: h, gate: c.gate, gated: map[*stream.Assignment]*stream.Assignment{}, done: make(chan struct{})}
	err := c.Consumer.Run(ctx, gh)
	gh.pumps.Wait()
	return err
}

// gatedHandler gives the processor assignments of its own, and pumps what the
// gate lets through into them.
type gatedHandler struct {
	stream.Handler
	gate  *gate
	gated map[*stream.Assignment]*stream.Assignment
	done  chan struct{}
	pumps sync.WaitGroup
}

// Assigned implements [stream.Handler].
func (h *gatedHandler) Assigned(ctx context.Context, as []*stream.Assignment) error {
	own := make([]*stream.Assignment, len(as))
	for i, a := range as {
		batches := make(chan stream.Batch)
		own[i] = &stream.Assignment{Partition: a.Partition, TopicID: a.TopicID, Batches: batches, Err: a.Err}
		h.gated[a] = own[i]
		h.pumps.Go(func() { h.pump(a.Batches, batches) })
	}
	if err := h.Handler.Assigned(ctx, own); err != nil {
		return err
	}
	for i, a := range as {
		a.Start = own[i].Start
	}
	return nil
}

func (h *gatedHandler) pump(in <-chan stream.Batch, out chan<- stream.Batch) {
	defer close(out)
	for {
		select {
		case <-h.done:
			return
		case b, ok := <-in:
			if !ok || !h.gate.pass(h.done) {
				return
			}
			select {
			case out <- b:
			case <-h.done:
				return
			}
		}
	}
}

// Revoked implements [stream.Handler].
func (h *gatedHandler) Revoked(ctx context.Context, as []*stream.Assignment) {
	h.Handler.Revoked(ctx, h.own(as))
	close(h.done)
}

// Lost implements [stream.Handler].
func (h *gatedHandler) Lost(as []*stream.Assignment) {
	h.Handler.Lost(h.own(as))
	close(h.done)
}

func (h *gatedHandler) own(as []*stream.Assignment) []*stream.Assignment {
	own := make([]*stream.Assignment, len(as))
	for i, a := range as {
		own[i] = h.gated[a]
	}
	return own
}
