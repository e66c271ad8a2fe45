package peil

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"

	"github.com/peil-stream/peil/internal/api"
	"github.com/peil-stream/peil/internal/processor"
	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/stream"
)

// handler is the HTTP API of this instance.
func (i *Instance) handler(b *backend) http.Handler {
	cfg := i.apiConfig(b.sink, b.log)
	if i.cfg.Process {
		cfg.Live = i.live
		cfg.Ready = func(context.Context) error { return i.processor.Load().Ready() }
	}
	return api.New(cfg)
}

// apiConfig is what the API needs in every process.
func (i *Instance) apiConfig(tables sink.Viewer, log stream.Reader) api.Config {
	return api.Config{
		Viewer: tables, Reader: log, Metrics: i.metrics.Handler(), Version: i.cfg.Version,
		WindowSize: i.cfg.Settings.Window.Size.Std(),
		Windowed:   Windowed(i.cfg.Settings),
		Logger:     i.cfg.Logger,
	}
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

// Serve answers HTTP over the tables of a configuration until ctx is done. It
// only reads, so it may run beside the process that writes them.
func Serve(ctx context.Context, settings Settings, version string, logger *slog.Logger) (err error) {
	settings = settings.WithDefaults()
	r, err := OpenReaders(ctx, settings, logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	i, err := New(Config{Settings: settings, Version: version, Logger: logger})
	if err != nil {
		return err
	}
	s, err := api.Serve(ctx, settings.HTTP.Listen, api.New(i.apiConfig(r.Tables, r.Log)), i.cfg.Logger)
	if err != nil {
		return err
	}
	return s.Wait()
}

// Count is a name and how often it occurred.
type Count struct {
	Name string
	N    int64
}

// Late is how many records this process has found too late for their window.
func (i *Instance) Late() int64 {
	var n int64
	for _, c := range i.counts("peil_late_total", "") {
		n += c.N
	}
	return n
}

// DeadLetters counts what this process has sent to dead-letter topics, by reason.
func (i *Instance) DeadLetters() []Count { return i.counts("peil_dead_letters_total", "reason") }

// counts adds up a counter of this process by a label, or as a whole.
func (i *Instance) counts(name, label string) []Count {
	families, err := i.metrics.Registry().Gather()
	if err != nil {
		return nil // the registry is the process's own; /metrics shows its error
	}
	sum := map[string]int64{}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			value := ""
			for _, l := range m.GetLabel() {
				if l.GetName() == label {
					value = l.GetValue()
				}
			}
			sum[value] += int64(m.GetCounter().GetValue())
		}
	}
	counts := make([]Count, 0, len(sum))
	for name, n := range sum {
		counts = append(counts, Count{Name: name, N: n})
	}
	slices.SortFunc(counts, func(a, b Count) int { return cmp.Compare(a.Name, b.Name) })
	return counts
}
