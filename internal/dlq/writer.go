package dlq

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/peil-stream/peil/internal/stream"
)

const (
	// LaneMax is how many unacknowledged dead letters a task may have before it
	// must stop reading.
	LaneMax = 4096
	// batchMax bounds the messages of one append, batchBytesMax their bytes.
	batchMax      = 500
	batchBytesMax = 900_000
	// retryMin and retryMax bound the pause after a refused append.
	retryMin = 50 * time.Millisecond
	retryMax = 5 * time.Second
)

// Appender is what a Writer needs of the log.
type Appender interface {
	Append(ctx context.Context, msgs ...stream.Message) error
}

// Lane is one partition's way into the writer.
type Lane struct {
	partition int32
	sent      atomic.Int64
	acked     atomic.Int64
	wake      chan struct{}
	settled   chan struct{}
}

// Sent is how many entries were enqueued; Acked how many of them are durable.
func (l *Lane) Sent() int64 { return l.sent.Load() }

// Acked is how many entries are durable, in order of Enqueue.
func (l *Lane) Acked() int64 { return l.acked.Load() }

// Full says that the owner must stop reading.
func (l *Lane) Full() bool { return l.sent.Load()-l.acked.Load() >= LaneMax }

// Wake receives after entries were acknowledged. It is for the lane's owner.
func (l *Lane) Wake() <-chan struct{} { return l.wake }

// Settled receives after entries were acknowledged. It is for the one who waits
// to write the owner's snapshot.
func (l *Lane) Settled() <-chan struct{} { return l.settled }

type queued struct {
	lane *Lane
	msg  stream.Message
}

// Writer appends dead letters in the background, in the order of each lane.
type Writer struct {
	log    Appender
	logger *slog.Logger

	mu    sync.Mutex
	queue []queued
	kick  chan struct{}
}

// NewWriter makes a writer; Run must be running for anything to be written.
func NewWriter(log Appender, logger *slog.Logger) *Writer {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Writer{log: log, logger: logger, kick: make(chan struct{}, 1)}
}

// Lane makes a lane that writes to that index of the dead-letter topic.
func (w *Writer) Lane(partition int32) *Lane {
	return &Lane{partition: partition, wake: make(chan struct{}, 1), settled: make(chan struct{}, 1)}
}

// Enqueue hands over one entry; the record may be reused afterwards.
func (w *Writer) Enqueue(l *Lane, e Entry) {
	msg := Message(e, l.partition)
	l.sent.Add(1)
	w.mu.Lock()
	w.queue = append(w.queue, queued{lane: l, msg: msg})
	w.mu.Unlock()
	notify(w.kick)
}

// Run writes until ctx is done. It never gives an entry up: while the log
// refuses, it tries again with growing pauses, and the lanes stay unacknowledged.
func (w *Writer) Run(ctx context.Context) {
	pause := retryMin
	for {
		batch := w.next()
		if len(batch) == 0 {
			select {
			case <-ctx.Done():
				return
			case <-w.kick:
			}
			continue
		}
		msgs := make([]stream.Message, len(batch))
		for i, q := range batch {
			msgs[i] = q.msg
		}
		if err := w.log.Append(ctx, msgs...); err != nil {
			if ctx.Err() != nil {
				return
			}
			w.logger.LogAttrs(ctx, slog.LevelWarn, "dead letters cannot be written, partitions with unwritten ones wait",
				slog.Int("waiting", len(batch)), slog.Duration("retry_in", pause), slog.String("error", err.Error()))
			if !sleep(ctx, pause) {
				return
			}
			pause = min(pause*2, retryMax)
			continue
		}
		pause = retryMin
		w.done(len(batch))
		for _, q := range batch {
			q.lane.acked.Add(1)
			notify(q.lane.wake)
			notify(q.lane.settled)
		}
	}
}

// next returns a copy of the head of the queue and leaves it there.
func (w *Writer) next() []queued {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, size := 0, 0
	for n < len(w.queue) && n < batchMax {
		m := &w.queue[n].msg
		size += len(m.Key) + len(m.Value)
		if n > 0 && size > batchBytesMax {
			break
		}
		n++
	}
	return slices.Clone(w.queue[:n])
}

// done removes the n entries that next returned.
func (w *Writer) done(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.queue[:n])
	w.queue = w.queue[n:]
	if len(w.queue) == 0 {
		w.queue = nil
	}
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
