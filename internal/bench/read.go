package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/peil-stream/peil/internal/job"
	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/internal/transit"
	"github.com/peil-stream/peil/ledger"
	"github.com/peil-stream/peil/window"
)

const (
	maxSkew    = 5 * time.Minute
	windowSize = window.DefaultSize
)

// jobs makes the decoders as the product does.
func jobs() job.Factory {
	return transit.Jobs(transit.Config{
		Windowed: func(string) bool { return true }, MaxSkew: maxSkew, WindowSize: windowSize,
	})
}

// reader reads the partitions, each in a goroutine, up to the stage of its spec.
type reader struct {
	spec  *Spec
	clock meter

	left    atomic.Int64 // messages
	bytes   atomic.Int64
	done    chan struct{} // closed when none is left
	failed  func(error)
	workers sync.WaitGroup
}

// read runs one of the stages between the bare client and the whole job.
func read(ctx context.Context, log stream.Log, s *Spec) (Measure, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := &reader{spec: s, done: make(chan struct{}), failed: cancel}
	r.left.Store(s.Messages)
	consumer, err := log.Consumer(s.subscription())
	if err != nil {
		return Measure{}, err
	}
	ended := make(chan error, 1)
	go func() { ended <- consumer.Run(ctx, r) }()
	var m Measure
	select {
	case <-r.done:
		m = r.clock.stop()
		m.Records, m.Bytes = s.Messages, r.bytes.Load()
		cancel(nil)
		err = <-ended
	case err = <-ended:
		if err == nil {
			err = context.Cause(ctx)
		}
	}
	return m, err
}

// Assigned begins every partition at its first offset.
func (r *reader) Assigned(_ context.Context, as []*stream.Assignment) error {
	if len(as) == 0 {
		return nil
	}
	r.clock.start()
	for _, a := range as {
		w, err := newWorker(r.spec.Stage, a)
		if err != nil {
			return err
		}
		r.workers.Go(func() {
			for b := range a.Batches {
				size, err := w.take(&b)
				n := int64(len(b.Records))
				b.Release()
				if err != nil {
					r.failed(fmt.Errorf("partition %s: %w", a.Partition, err))
					return
				}
				r.bytes.Add(size)
				if n > 0 && r.left.Add(-n) == 0 {
					close(r.done)
				}
			}
			if err := a.Err(); err != nil {
				r.failed(err)
			}
		})
	}
	return nil
}

// Revoked does nothing: the channels end by themselves.
func (*reader) Revoked(context.Context, []*stream.Assignment) {}

// Lost does nothing.
func (*reader) Lost([]*stream.Assignment) {}

// worker does with the records of a partition what a task of the processor does,
// up to a stage.
type worker struct {
	stage   string
	job     job.Job
	decoded job.Decoded
	windows *window.Partition
	ledger  *ledger.Ledger
	ends    []int64
}

func newWorker(stage string, a *stream.Assignment) (*worker, error) {
	w := &worker{stage: stage, ledger: ledger.New(0)}
	w.job, _ = jobs()(a.Partition.Topic)
	var err error
	w.windows, err = window.NewPartition(window.Config{}, window.Resume{Watermark: window.NoTime})
	return w, err
}

// take goes through a batch and returns the bytes of its keys and values.
func (w *worker) take(b *stream.Batch) (size int64, err error) {
	for i := range b.Records {
		rec := &b.Records[i]
		size += int64(len(rec.Key) + len(rec.Value))
		if w.stage == StageBatches {
			continue
		}
		w.job.Decode(rec, &w.decoded)
		if w.decoded.Kind == job.Dead {
			return size, fmt.Errorf("offset %d: %s", rec.Offset, w.decoded.Detail)
		}
		if w.stage == StageWindows {
			w.add(rec)
		}
	}
	if w.stage == StageWindows {
		w.close()
	}
	return size, nil
}

// add is the work of a record on windows and ledger.
func (w *worker) add(rec *stream.Record) {
	r := &w.decoded.Record
	r.Offset, r.LogTime = rec.Offset, rec.Timestamp
	if w.decoded.Kind == job.Close {
		w.windows.CloseMarker(rec.Offset, r.Time)
		w.ledger.Other(rec.Offset)
		return
	}
	w.windows.Add(r)
	w.ledger.Window(rec.Offset, window.Start(r.Time, windowMS)+windowMS)
}

// close drops the segments that have closed and moves the ledger on.
func (w *worker) close() {
	w.ends = w.ends[:0]
	for _, s := range w.windows.TakeClosed() {
		w.ends = append(w.ends, s.End)
	}
	if len(w.ends) > 0 {
		w.ledger.Mark(w.ends)
		w.ledger.Release()
	}
}
