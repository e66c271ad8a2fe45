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

// Appender is what a lane needs of the log.
type Appender interface {
	Append(ctx context.Context, msgs ...stream.Message) error
}

// Lane writes the dead letters of one partition in the background, in order. One
// that cannot be written holds nobody but its own partition.
type Lane struct {
	log       Appender
	partition int32
	logger    *slog.Logger

	sent    atomic.Int64
	acked   atomic.Int64
	wake    chan struct{}
	settled chan struct{}

	mu    sync.Mutex
	queue []stream.Message
	kick  chan struct{}
}

// NewLane makes a lane that writes to that index of the dead-letter topic; Run
// must be running for anything to be written. A nil logger discards.
func NewLane(log Appender, partition int32, logger *slog.Logger) *Lane {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Lane{
		log: log, partition: partition, logger: logger,
		wake: make(chan struct{}, 1), settled: make(chan struct{}, 1), kick: make(chan struct{}, 1),
	}
}

// Sent is how many entries were enqueued.
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

// Enqueue hands over one entry; the record may be reused afterwards.
func (l *Lane) Enqueue(e Entry) {
	msg := Message(e, l.partition)
	l.sent.Add(1)
	l.mu.Lock()
	l.queue = append(l.queue, msg)
	l.mu.Unlock()
	notify(l.kick)
}

// Run writes until ctx is done. It never gives an entry up: while the log
// refuses, it tries again with growing pauses, and nothing is acknowledged.
func (l *Lane) Run(ctx context.Context) {
	pause := retryMin
	for {
		batch := l.next()
		if len(batch) == 0 {
			select {
			case <-ctx.Done():
				return
			case <-l.kick:
			}
			continue
		}
		if err := l.log.Append(ctx, batch...); err != nil {
			if ctx.Err() != nil {
				return
			}
			l.logger.LogAttrs(ctx, slog.LevelWarn, "dead letters cannot be written, their partition waits",
				slog.String("topic", batch[0].Topic), slog.Int("partition", int(l.partition)), slog.Int("waiting", len(batch)),
				slog.Duration("retry_in", pause), slog.String("error", err.Error()))
			if !sleep(ctx, pause) {
				return
			}
			pause = min(pause*2, retryMax)
			continue
		}
		pause = retryMin
		l.done(len(batch))
	}
}

// next returns a copy of the head of the queue and leaves it there.
func (l *Lane) next() []stream.Message {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, size := 0, 0
	for n < len(l.queue) && n < batchMax {
		m := &l.queue[n]
		size += len(m.Key) + len(m.Value)
		for _, h := range m.Headers {
			size += len(h.Key) + len(h.Value) + headerFraming
		}
		if n > 0 && size > batchBytesMax {
			break
		}
		n++
	}
	return slices.Clone(l.queue[:n])
}

// done removes the n messages that next returned, and acknowledges them.
func (l *Lane) done(n int) {
	l.mu.Lock()
	clear(l.queue[:n])
	l.queue = l.queue[n:]
	if len(l.queue) == 0 {
		l.queue = nil
	}
	l.mu.Unlock()
	l.acked.Add(int64(n))
	notify(l.wake)
	notify(l.settled)
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
