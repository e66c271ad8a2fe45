package testkit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peil-stream/peil/event"
	"github.com/peil-stream/peil/internal/dlq"
	"github.com/peil-stream/peil/internal/processor"
	"github.com/peil-stream/peil/internal/sink"
	sinksqlite "github.com/peil-stream/peil/internal/sink/sqlite"
	"github.com/peil-stream/peil/internal/sqlitefile"
	"github.com/peil-stream/peil/internal/stream"
	streamsqlite "github.com/peil-stream/peil/internal/stream/sqlite"
	"github.com/peil-stream/peil/internal/telemetry"
	"github.com/peil-stream/peil/internal/transit"
	"github.com/peil-stream/peil/internal/verify"
	"github.com/peil-stream/peil/window"
)

// T0 is 2026-09-21T14:15:00Z in Unix milliseconds, the start of a window.
const T0 int64 = 1790000100_000

// The topics of a rig.
const (
	Arrivals  = "arrival-predictions"
	Positions = "vehicle-positions"
)

// ErrBroken is what a broken sink answers.
var ErrBroken = errors.New("the test broke the sink")

// Options of a rig.
type Options struct {
	// Partitions of each topic. Defaults to 1.
	Partitions int32
	// Path of the file. Defaults to one in a temporary folder.
	Path string
}

// Rig is one file with log and tables.
type Rig struct {
	tb         testing.TB
	Partitions int32
	File       *sqlitefile.File
	Log        *streamsqlite.Log
	Sink       *sinksqlite.Sink
	now        atomic.Int64
	refuseDead atomic.Bool
	gate       gate
	trips      int
}

// New opens a rig; it is closed with the test.
func New(tb testing.TB, o Options) *Rig {
	tb.Helper()
	if o.Partitions == 0 {
		o.Partitions = 1
	}
	if o.Path == "" {
		o.Path = filepath.Join(tb.TempDir(), "peil.db")
	}
	r := &Rig{tb: tb, Partitions: o.Partitions}
	r.now.Store(T0)
	r.gate.left = -1
	ctx := tb.Context()
	r.File = must(sqlitefile.Open(ctx, o.Path, sqlitefile.Options{}))(tb)
	tb.Cleanup(func() { r.Close() })
	r.Log = must(streamsqlite.New(ctx, r.File, streamsqlite.Options{Now: r.clock}))(tb)
	r.Sink = must(sinksqlite.New(ctx, r.File, sinksqlite.Options{Now: r.clock}))(tb)
	check(tb, r.Log.Create(ctx,
		stream.TopicSpec{Name: Arrivals, Partitions: o.Partitions},
		stream.TopicSpec{Name: Positions, Partitions: o.Partitions},
		stream.TopicSpec{Name: dlq.Topic(Arrivals), Partitions: o.Partitions},
		stream.TopicSpec{Name: dlq.Topic(Positions), Partitions: o.Partitions}))
	return r
}

// Close closes the rig early. Idempotent.
func (r *Rig) Close() {
	for _, c := range []interface{ Close() error }{r.Log, r.Sink, r.File} {
		check(r.tb, c.Close())
	}
}

func (r *Rig) clock() time.Time { return time.UnixMilli(r.now.Load()) }

// SetNow sets the clock of log and sink.
func (r *Rig) SetNow(ms int64) { r.now.Store(ms) }

// At is T0 plus seconds, in Unix milliseconds.
func At(seconds float64) int64 { return T0 + int64(seconds*1000) }

// Delay is an arrival prediction of a trip of its own, made at T0+at seconds.
func (r *Rig) Delay(at float64, delay int32) []byte {
	p := r.Prediction(at, delay)
	return event.AppendPrediction(nil, &p)
}

// Status is a prediction without a delay.
func (r *Rig) Status(at float64, s event.Status) []byte {
	p := r.Prediction(at, 0)
	p.Status = s
	return event.AppendPrediction(nil, &p)
}

// Prediction is a complete prediction of a trip of its own, to be changed.
func (r *Rig) Prediction(at float64, delay int32) event.Prediction {
	r.trips++
	return event.Prediction{
		DelayS: delay,
		Feed:   []byte("nl"), TripID: fmt.Appendf(nil, "nl:t%d", r.trips), StartDate: []byte("20260921"),
		StopID: []byte("nl:s1"), StationID: []byte("nl:st1"), LineID: []byte("nl:CXX:1"), Operator: []byte("nl:CXX"),
		StopSequence: 7, HasStopSequence: true, Timestamp: At(at), PredictedTime: At(at + 60),
	}
}

// Put appends values to a partition, each stamped by the log with T0+at seconds.
func (r *Rig) Put(partition int32, at float64, values ...[]byte) {
	r.tb.Helper()
	msgs := make([]stream.Message, len(values))
	for i, v := range values {
		msgs[i] = stream.Message{Topic: Arrivals, Partition: partition, Timestamp: At(at), Value: v}
	}
	check(r.tb, r.Log.Append(r.tb.Context(), msgs...))
}

// PutUnstamped appends values to a partition without a log timestamp.
func (r *Rig) PutUnstamped(partition int32, values ...[]byte) {
	r.tb.Helper()
	for _, v := range values {
		check(r.tb, r.Log.Append(r.tb.Context(), stream.Message{
			Topic: Arrivals, Partition: partition, Timestamp: stream.NoTimestamp, Value: v,
		}))
	}
}

// Heartbeat appends a heartbeat of T0+at seconds.
func (r *Rig) Heartbeat(partition int32, at float64) {
	r.tb.Helper()
	r.marker(partition, at, at, event.HeartbeatType)
}

// CloseMarker appends a close marker of T0+at, stamped by the log at T0+logAt.
func (r *Rig) CloseMarker(partition int32, at, logAt float64) {
	r.tb.Helper()
	r.marker(partition, at, logAt, event.CloseType)
}

func (r *Rig) marker(partition int32, at, logAt float64, kind string) {
	r.tb.Helper()
	check(r.tb, r.Log.Append(r.tb.Context(), stream.Message{
		Topic: Arrivals, Partition: partition, Timestamp: At(logAt),
		Value:   event.AppendMarker(nil, &event.Marker{Feed: []byte("nl"), Timestamp: At(at)}),
		Headers: []stream.Header{{Key: event.MarkerHeader, Value: []byte(kind)}},
	}))
}

// Gap makes the partition's next n offsets carry no record, as transaction
// markers and compaction do.
func (r *Rig) Gap(partition int32, n int) {
	r.tb.Helper()
	r.Exec("UPDATE log_partitions SET log_end = log_end + ? WHERE partition = ? AND topic_id = (SELECT id FROM log_topics WHERE name = ?)",
		n, partition, Arrivals)
}

// Recreate deletes the arrivals topic and creates it again, empty.
func (r *Rig) Recreate() {
	r.tb.Helper()
	check(r.tb, r.Log.Delete(r.tb.Context(), Arrivals))
	check(r.tb, r.Log.Create(r.tb.Context(), stream.TopicSpec{Name: Arrivals, Partitions: r.Partitions}))
}

// Trim removes the records below an offset from the log.
func (r *Rig) Trim(partition int32, before int64) {
	r.tb.Helper()
	check(r.tb, r.Log.Trim(r.tb.Context(), stream.Partition{Topic: Arrivals, Index: partition}, before))
}

// Exec runs one statement on the file.
func (r *Rig) Exec(query string, args ...any) {
	r.tb.Helper()
	ctx := r.tb.Context()
	check(r.tb, r.File.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, query, args...)
		return err
	}))
}

// RefuseDead makes the log refuse to append dead letters, or take them again.
func (r *Rig) RefuseDead(refuse bool) { r.refuseDead.Store(refuse) }

// fussyLog refuses dead letters when the rig says so.
type fussyLog struct {
	*streamsqlite.Log
	rig *Rig
}

func (l fussyLog) Append(ctx context.Context, msgs ...stream.Message) error {
	if l.rig.refuseDead.Load() {
		return errors.New("no leader for the dead-letter topic")
	}
	return l.Log.Append(ctx, msgs...)
}

// Run is a processor that is running.
type Run struct {
	*processor.Processor
	Metrics *telemetry.Metrics
	Sink    *Sink
	tb      testing.TB
	cancel  context.CancelFunc
	done    chan error
	stopped sync.Once
	err     error
}

// flushInterval of a rig's processors, in the fake time of a bubble.
const flushInterval = 5 * time.Second

func (r *Rig) config() processor.Config {
	return processor.Config{
		Group: "peil", Owner: "test", Topics: []string{Arrivals, Positions},
		Job: transit.Jobs(transit.Config{
			Windowed: func(topic string) bool { return topic != Positions }, MaxSkew: 5 * time.Minute, WindowSize: 5 * time.Minute,
		}),
		Window:        window.Config{Size: 5 * time.Minute, Lateness: 2 * time.Minute},
		Fingerprint:   "size=5m lateness=2m max_skew=5m",
		FlushInterval: flushInterval,
		Now:           r.clock,
		Logger:        slog.New(slog.DiscardHandler),
	}
}

// Start starts a processor; change, if not nil, adapts its configuration. It is
// stopped with the test.
func (r *Rig) Start(change func(*processor.Config)) *Run {
	r.tb.Helper()
	cfg := r.config()
	if change != nil {
		change(&cfg)
	}
	m := telemetry.New("test")
	s := &Sink{Sink: r.Sink}
	p := must(processor.New(fussyLog{Log: r.Log, rig: r}, s, cfg, m))(r.tb)
	ctx, cancel := context.WithCancel(r.tb.Context())
	run := &Run{Processor: p, Metrics: m, Sink: s, tb: r.tb, cancel: cancel, done: make(chan error, 1)}
	go func() { run.done <- p.Run(ctx) }()
	r.tb.Cleanup(func() { _ = run.Wait() })
	return run
}

// Count is the sum of a counter of the run over its labels.
func (u *Run) Count(name string) (n float64) {
	u.tb.Helper()
	for _, f := range must(u.Metrics.Registry().Gather())(u.tb) {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}

// Gauges lists the labels of a gauge's series that are not zero, sorted.
func (u *Run) Gauges(name string) (series []string) {
	u.tb.Helper()
	for _, f := range must(u.Metrics.Registry().Gather())(u.tb) {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			if m.GetGauge().GetValue() != 0 {
				series = append(series, strings.Join(labels, " "))
			}
		}
	}
	slices.Sort(series)
	return series
}

// Wait stops the run and returns how it ended.
func (u *Run) Wait() error {
	u.stopped.Do(func() {
		u.cancel()
		u.err = <-u.done
	})
	return u.err
}

// Fail waits for the run to end by itself and returns why.
func (u *Run) Fail() error {
	u.stopped.Do(func() {
		u.err = <-u.done
		u.cancel()
	})
	return u.err
}

// Stop ends the run as SIGTERM does; it must end well.
func (u *Run) Stop() {
	u.tb.Helper()
	check(u.tb, u.Wait())
}

// Crash ends the run without another write: the sink refuses everything first.
func (u *Run) Crash() {
	u.tb.Helper()
	u.Sink.Break(nil)
	if err := u.Wait(); err != nil && !errors.Is(err, ErrBroken) {
		u.tb.Fatalf("crashed run ended with %v", err)
	}
}

// MustDrain drains and returns the windows still open.
func (u *Run) MustDrain() []processor.OpenWindow {
	u.tb.Helper()
	return must(u.Drain(u.tb.Context()))(u.tb)
}

// Pass lets that many seconds go by. Only in a bubble.
func (*Run) Pass(seconds float64) {
	<-time.After(time.Duration(seconds * float64(time.Second)))
	synctest.Wait()
}

// Flush lets the time of one flush go by, and all that follows. Only in a bubble.
func (u *Run) Flush() { u.Pass(flushInterval.Seconds()) }

// Process starts a processor, drains it and stops it.
func (r *Rig) Process() []processor.OpenWindow {
	r.tb.Helper()
	u := r.Start(nil)
	open := u.MustDrain()
	u.Stop()
	return open
}

// Sink is a sink that a test can break or watch.
type Sink struct {
	sink.Sink
	mu     sync.Mutex
	before func(op string, parts []sink.PartitionFlush) error
	broken bool
}

// Break makes every later call fail with ErrBroken; with a hook, the hook decides
// before each Flush (op "flush"), after its success ("flushed"), and before
// Final ("final").
func (s *Sink) Break(hook func(op string, parts []sink.PartitionFlush) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.broken = hook, hook == nil
}

func (s *Sink) ask(op string, parts []sink.PartitionFlush) error {
	s.mu.Lock()
	hook, broken := s.before, s.broken
	s.mu.Unlock()
	if broken {
		return ErrBroken
	}
	if hook != nil {
		return hook(op, parts)
	}
	return nil
}

// Flush asks the hook, flushes, and asks it again: an error then stands for a
// process that dies before it learns of the commit.
func (s *Sink) Flush(ctx context.Context, parts []sink.PartitionFlush) (sink.FlushResult, error) {
	if err := s.ask("flush", parts); err != nil {
		return sink.FlushResult{}, err
	}
	res, err := s.Sink.Flush(ctx, parts)
	if err == nil {
		err = s.ask("flushed", parts)
	}
	return res, err
}

// Final asks the hook first.
func (s *Sink) Final(ctx context.Context, req sink.FinalRequest) (sink.Finaliser, error) {
	if err := s.ask("final", nil); err != nil {
		return nil, err
	}
	return s.Sink.Final(ctx, req)
}

func must[V any](v V, err error) func(testing.TB) V {
	return func(tb testing.TB) V {
		tb.Helper()
		check(tb, err)
		return v
	}
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// Verify runs the batch job over log and tables and fails the test on a
// difference.
func (r *Rig) Verify() verify.Report {
	r.tb.Helper()
	rep := must(verify.Run(r.tb.Context(), verify.Options{
		Viewer: r.Sink, Reader: r.Log, ArrivalsTopics: []string{Arrivals}, PositionsTopics: []string{Positions},
		WindowSize: 5 * time.Minute, Lateness: 2 * time.Minute, MaxSkew: 5 * time.Minute,
	}))(r.tb)
	if len(rep.Differences) > 0 {
		var b strings.Builder
		for _, d := range rep.Differences {
			fmt.Fprintf(&b, "%+v\n", d)
		}
		r.tb.Fatalf("verify finds %d differences:\n%s", len(rep.Differences), b.String())
	}
	return rep
}
