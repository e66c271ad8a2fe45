package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/peil-stream/peil/event"
	"github.com/peil-stream/peil/internal/sink"
	sinksqlite "github.com/peil-stream/peil/internal/sink/sqlite"
	"github.com/peil-stream/peil/internal/sqlitefile"
	"github.com/peil-stream/peil/internal/stream"
	streamsqlite "github.com/peil-stream/peil/internal/stream/sqlite"
	"github.com/peil-stream/peil/stats"
	"github.com/peil-stream/peil/window"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	topic  = "arrival-predictions"
	minute = int64(60_000)
)

// noon is 2026-11-30T12:00:00Z.
var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC).UnixMilli()

// rig is one SQLite file with a log of two partitions and the tables.
type rig struct {
	path   string
	log    *streamsqlite.Log
	sink   *sinksqlite.Sink
	topic  stream.Topic
	claims map[int32]sink.Claim
	stored map[int32]sink.Point
}

func newRig(t *testing.T) *rig {
	t.Helper()
	ctx := t.Context()
	r := &rig{
		path: filepath.Join(t.TempDir(), "peil.db"), claims: map[int32]sink.Claim{}, stored: map[int32]sink.Point{},
	}
	file, err := sqlitefile.Open(ctx, r.path, sqlitefile.Options{ReadConns: 2})
	check(t, err)
	t.Cleanup(func() { check(t, file.Close()) })
	r.log, err = streamsqlite.New(ctx, file, streamsqlite.Options{})
	check(t, err)
	t.Cleanup(func() { check(t, r.log.Close()) })
	r.sink, err = sinksqlite.New(ctx, file, sinksqlite.Options{})
	check(t, err)
	check(t, r.log.Create(ctx, stream.TopicSpec{Name: topic, Partitions: 2}))
	topics, err := r.log.Describe(ctx, topic)
	check(t, err)
	r.topic = topics[0]
	check(t, r.sink.Register(ctx, r.topic, "peil"))
	return r
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// produce appends predictions with these event times to a partition; the log's
// timestamp is a second after the event.
func (r *rig) produce(t *testing.T, partition int32, times ...int64) {
	t.Helper()
	var msgs []stream.Message
	for _, at := range times {
		p := event.Prediction{
			Feed: []byte("nl"), TripID: []byte("nl:1"), DelayS: 60, PredictedTime: event.NoTime, Timestamp: at,
		}
		msgs = append(msgs, stream.Message{
			Topic: topic, Partition: partition, Timestamp: at + 1000,
			Key: event.PredictionKey(nil, &p), Value: event.AppendPrediction(nil, &p),
		})
	}
	check(t, r.log.Append(t.Context(), msgs...))
}

// flush writes a partition's point, watermark and the segments of the windows
// that start at these instants.
func (r *rig) flush(t *testing.T, partition int32, to sink.Point, watermark, finalTo int64, starts ...int64) {
	t.Helper()
	ctx := t.Context()
	p := stream.Partition{Topic: topic, Index: partition}
	if _, ok := r.claims[partition]; !ok {
		claim, err := r.sink.Claim(ctx, sink.ClaimRequest{
			Partition: p, TopicID: r.topic.ID, Group: "peil", Owner: "test", Fingerprint: "f",
		})
		check(t, err)
		r.claims[partition] = claim
	}
	f := sink.PartitionFlush{
		Partition: p, TopicID: r.topic.ID, Epoch: r.claims[partition].Epoch, To: to, LeaderEpoch: -1,
		Watermark: watermark, FinalTo: finalTo, Counts: sink.Counts{Accepted: to.Position, Late: 1, Dead: 2, Ignored: 3},
	}
	if from, ok := r.stored[partition]; ok {
		f.From = &from
	}
	for _, start := range starts {
		f.Segments = append(f.Segments, sink.Segment{
			Start: start, End: start + 5*minute, FirstOffset: 0, ThroughOffset: to.Position, Records: 10,
			Origin: sink.OriginLive, Data: []byte("cells"),
		})
	}
	result, err := r.sink.Flush(ctx, []sink.PartitionFlush{f})
	check(t, err)
	if len(result.Fenced)+len(result.Refused) > 0 {
		t.Fatalf("flush: %+v", result)
	}
	r.stored[partition] = to
}

// finalise writes the rows of every window that is final.
func (r *rig) finalise(t *testing.T, rows ...window.Row) {
	t.Helper()
	ctx := t.Context()
	fin, err := r.sink.Final(ctx, sink.FinalRequest{Topic: topic, TopicID: r.topic.ID, Limit: 1000})
	check(t, err)
	windows, err := fin.Pending(ctx)
	check(t, err)
	for _, w := range windows {
		_, err := fin.Apply(ctx, w, rows)
		check(t, err)
	}
	check(t, fin.Commit(ctx))
}

func row(dimension, id, operator string, delay int32) window.Row {
	return window.Row{Dimension: dimension, ID: id, Label: operator, Summary: stats.Summary{
		Count: 3, Sum: 3*int64(delay) + 1, Min: delay - 5, Max: delay + 6, P90: delay + 6,
	}}
}

// filled has final windows from noon on, each with the given lines and a network row.
func filled(t *testing.T, windows, lines int) *rig {
	t.Helper()
	r := newRig(t)
	var starts []int64
	for n := range windows {
		starts = append(starts, noon+int64(n)*5*minute)
	}
	end := noon + int64(windows)*5*minute
	for p := range int32(2) {
		r.produce(t, p, noon)
		r.flush(t, p, sink.Point{Next: 1, Position: 1}, end, end, starts...)
	}
	rows := make([]window.Row, 0, lines+1)
	for n := range lines {
		rows = append(rows, row("line", "nl:GVB:"+strconv.Itoa(100+n), "nl:GVB", int32(n)))
	}
	rows = append(rows, row("network", "nl", "", 60))
	r.finalise(t, rows...)
	return r
}

func (r *rig) handler(cfg Config) http.Handler {
	if cfg.Viewer == nil {
		cfg.Viewer = r.sink
	}
	if cfg.Reader == nil {
		cfg.Reader = r.log
	}
	return New(cfg)
}

// get asks for a path and decodes the answer.
func get[T any](t *testing.T, h http.Handler, path string, wantStatus int) T {
	t.Helper()
	var out T
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	if w.Code != wantStatus {
		t.Fatalf("GET %s: status %d, want %d: %s", path, w.Code, wantStatus, w.Body)
	}
	if got := w.Header().Get("Content-Type"); got != "application/json" {
		t.Fatalf("GET %s: content type %q", path, got)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
		t.Fatalf("GET %s: %v: %s", path, err, w.Body)
	}
	return out
}

// errSecret stands for what a database says.
var errSecret = errors.New("dial postgres://peil:SECRET123@db: refused")

// brokenViewer cannot open views.
type brokenViewer struct{ err error }

func (b brokenViewer) View(context.Context) (sink.View, error) { return nil, b.err }
