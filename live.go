package peil

import (
	"context"
	"errors"
	"net/http"

	"github.com/peil-stream/peil/internal/api"
	"github.com/peil-stream/peil/internal/processor"
	"github.com/peil-stream/peil/internal/sink"
)

// handler is the HTTP API of this instance.
func (i *Instance) handler(b *backend) http.Handler {
	cfg := api.Config{
		Viewer: b.sink, Reader: b.log, Metrics: i.metrics.Handler(), Version: i.cfg.Version,
		WindowSize: i.cfg.Settings.Window.Size.Std(),
		Windowed:   func(topic string) bool { return !i.isPositions(topic) },
		Logger:     i.cfg.Logger,
	}
	if i.cfg.Process {
		cfg.Live = i.live
		cfg.Ready = func(context.Context) error { return i.processor.Load().Ready() }
	}
	return api.New(cfg)
}

// live is the processor's state as the API shows it.
func (i *Instance) live() api.Live {
	var l api.Live
	for _, s := range i.Status() {
		p := api.LivePartition{
			Partition: s.Partition, Position: s.Position, Committed: s.Committed, Pending: s.Pending,
			Watermark: s.Watermark, OldestHeldSince: s.HeldSince,
		}
		for _, w := range s.Open {
			p.OpenWindows = append(p.OpenWindows, api.LiveWindow{Start: w.Start, End: w.End, Records: w.Records})
		}
		l.Partitions = append(l.Partitions, p)
	}
	return l
}

// Status is the live state of the partitions that this instance processes.
func (i *Instance) Status() []processor.PartitionStatus {
	if p := i.processor.Load(); p != nil {
		return p.Status()
	}
	return nil
}

// Addr is the address that HTTP is served on, once it is; else it is empty.
func (i *Instance) Addr() string {
	if a := i.addr.Load(); a != nil {
		return *a
	}
	return ""
}

// NewestFinal returns the newest final rows of the network dimension, newest
// first, while the instance runs.
func (i *Instance) NewestFinal(ctx context.Context, limit int) (rows []sink.Aggregate, err error) {
	tables := i.tables()
	if tables == nil {
		return nil, nil
	}
	v, err := tables.View(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, v.Close()) }()
	q := sink.AggregateQuery{Dimension: "network", From: sink.NoTime, To: sink.NoTime, Limit: limit, Newest: true}
	for a, err := range v.Aggregates(ctx, q) {
		if err != nil {
			return nil, err
		}
		rows = append(rows, a)
	}
	return rows, nil
}
