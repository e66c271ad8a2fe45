package api

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/peil-stream/peil/internal/sink"
	sinksqlite "github.com/peil-stream/peil/internal/sink/sqlite"
	"github.com/peil-stream/peil/internal/sqlitefile"
	"github.com/peil-stream/peil/internal/stream"
	streamsqlite "github.com/peil-stream/peil/internal/stream/sqlite"
)

// busy has partition 0 with three records of which two are held, and partition 1
// which nobody has read.
func busy(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	r.produce(t, 0, noon, noon+6*minute, noon+7*minute, noon+8*minute)
	r.produce(t, 1, noon+minute)
	r.flush(t, 0, sink.Point{Next: 1, Position: 3}, noon+5*minute, noon+5*minute, noon)
	return r
}

func TestPartitionsSaysWhatIsHeldAndWhy(t *testing.T) {
	t.Parallel()
	r := busy(t)
	h := r.handler(Config{WindowSize: 5 * time.Minute})
	answer := get[raw](t, h, "/api/v1/partitions", http.StatusOK)
	list, _ := answer["partitions"].([]any)
	if len(list) != 2 {
		t.Fatalf("answer %v", answer)
	}
	p0, _ := list[0].(raw)
	p1, _ := list[1].(raw)
	if p0["updated_at"] == nil {
		t.Error("updated_at is null")
	}
	delete(p0, "updated_at")
	delete(p1, "updated_at")
	want0 := raw{
		"topic": topic, "partition": 0.0, "group_id": "peil", "topic_id": r.topic.ID, "owner": "test", "epoch": 1.0,
		"next_offset": 1.0, "position": 3.0, "log_start": 0.0, "log_end": 4.0, "lag": 1.0,
		"uncommitted": 2.0, "uncommitted_exact": true, "held_since": "2026-11-30T12:06:01.000Z",
		"held_window": raw{"window_start": "2026-11-30T12:05:00.000Z", "window_end": "2026-11-30T12:10:00.000Z"},
		"watermark":   "2026-11-30T12:05:00.000Z", "final_to": "2026-11-30T12:05:00.000Z", "holds_finality": false,
		"accepted": 3.0, "late": 1.0, "dead": 2.0, "ignored": 3.0, "live": nil,
	}
	if diff := cmp.Diff(want0, p0); diff != "" {
		t.Errorf("partition 0 mismatch (-want +got):\n%s", diff)
	}
	want1 := raw{
		"topic": topic, "partition": 1.0, "group_id": "peil", "topic_id": r.topic.ID, "owner": "", "epoch": 0.0,
		"next_offset": nil, "position": nil, "log_start": 0.0, "log_end": 1.0, "lag": 1.0,
		"uncommitted": 0.0, "uncommitted_exact": true, "held_since": nil, "held_window": nil,
		"watermark": nil, "final_to": nil,
		"holds_finality": true, "hold_reason": "not_read", "hold_explanation": sink.HoldNotRead.Explain(),
		"accepted": 0.0, "late": 0.0, "dead": 0.0, "ignored": 0.0, "live": nil,
	}
	if diff := cmp.Diff(want1, p1); diff != "" {
		t.Errorf("partition 1 mismatch (-want +got):\n%s", diff)
	}
	wantTopics := []any{raw{
		"topic": topic, "topic_id": r.topic.ID, "partitions": 2.0, "windowed": true, "final_to": nil,
		"holders": []any{raw{
			"partition": 1.0, "final_to": nil, "reason": "not_read", "explanation": sink.HoldNotRead.Explain(),
		}},
	}}
	if diff := cmp.Diff(wantTopics, answer["topics"]); diff != "" {
		t.Errorf("topics mismatch (-want +got):\n%s", diff)
	}
}

func TestPartitionsTakesWhatTheProcessorKnows(t *testing.T) {
	t.Parallel()
	r := busy(t)
	h := r.handler(Config{Live: func() Live {
		return Live{Partitions: []LivePartition{{
			Partition: stream.Partition{Topic: topic, Index: 0}, Position: 4, Committed: 1, Pending: 3,
			Watermark: noon + 6*minute, OldestHeldSince: noon + 6*minute + 1000,
			OpenWindows: []LiveWindow{{Start: noon + 5*minute, End: noon + 10*minute, Records: 3}},
		}}}
	}})
	list, _ := get[raw](t, h, "/api/v1/partitions", http.StatusOK)["partitions"].([]any)
	p0, _ := list[0].(raw)
	want := raw{
		"position": 4.0, "committed": 1.0, "pending": 3.0, "open_windows": 1.0,
		"watermark": "2026-11-30T12:06:00.000Z", "held_since": "2026-11-30T12:06:01.000Z",
	}
	if diff := cmp.Diff(want, p0["live"]); diff != "" {
		t.Errorf("live mismatch (-want +got):\n%s", diff)
	}
	if p0["uncommitted"] != 3.0 || p0["uncommitted_exact"] != true {
		t.Errorf("uncommitted %v, exact %v", p0["uncommitted"], p0["uncommitted_exact"])
	}
	p1, _ := list[1].(raw)
	if p1["live"] != nil {
		t.Errorf("partition 1 is not owned here: %v", p1["live"])
	}
}

func TestStatusCountsUpToItsBound(t *testing.T) {
	t.Parallel()
	r := busy(t)
	for _, tt := range []struct {
		name  string
		max   int64
		want  *int64
		exact bool
	}{
		{"default", 0, new(int64(2)), true},
		{"below", 1, new(int64(1)), false},
		{"just", 2, new(int64(2)), true},
		{"none", -1, nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, err := ReadStatus(t.Context(), r.sink, r.log, StatusOptions{CountMax: tt.max})
			check(t, err)
			p := s.Partitions[0]
			if diff := cmp.Diff(tt.want, p.Uncommitted); diff != "" || p.UncommittedExact != tt.exact {
				t.Errorf("exact %v, uncommitted mismatch (-want +got):\n%s", p.UncommittedExact, diff)
			}
			if !p.HeldSince.Known() {
				t.Error("held_since is not known")
			}
		})
	}
}

func TestStatusOfATopicWithoutWindowsHoldsNothing(t *testing.T) {
	t.Parallel()
	s, err := ReadStatus(t.Context(), busy(t).sink, busy(t).log, StatusOptions{
		Windowed: func(string) bool { return false },
	})
	check(t, err)
	if len(s.Topics) != 1 || len(s.Topics[0].Holders) != 0 || s.Partitions[1].HoldsFinality {
		t.Errorf("status %+v", s)
	}
}

func TestStatusFindsWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	first := stream.Partition{Topic: topic, Index: 0}
	for _, tt := range []struct {
		name   string
		damage func(t *testing.T, r *rig)
		reader func(r *rig) stream.Reader
		detail bool
		want   string
	}{
		{
			name:   "lost records",
			damage: func(t *testing.T, r *rig) { t.Helper(); check(t, r.log.Trim(t.Context(), first, 2)) },
			want:   "no longer holds next_offset",
		},
		{
			name: "truncated log",
			damage: func(t *testing.T, r *rig) {
				t.Helper()
				r.flush(t, 0, sink.Point{Next: 1, Position: 9}, noon+5*minute, noon+5*minute)
			},
			want: "below the stored position",
		},
		{
			name: "topic created again",
			damage: func(t *testing.T, r *rig) {
				t.Helper()
				check(t, r.log.Delete(t.Context(), topic))
				check(t, r.log.Create(t.Context(), stream.TopicSpec{Name: topic, Partitions: 2}))
			},
			want: "earlier topic of the same name",
		},
		{
			name:   "topic deleted",
			damage: func(t *testing.T, r *rig) { t.Helper(); check(t, r.log.Delete(t.Context(), topic)) },
			want:   "no such topic",
		},
		{
			name:   "log away",
			reader: func(*rig) stream.Reader { return brokenReader{} },
			want:   "could not ask the log for its bounds",
		},
		{
			name:   "log away, on a terminal",
			reader: func(*rig) stream.Reader { return brokenReader{} },
			detail: true,
			want:   "SECRET",
		},
		{
			name:   "log away while reading",
			reader: func(r *rig) stream.Reader { return halfBrokenReader{r.log} },
			want:   "could not read the held records",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := busy(t)
			if tt.damage != nil {
				tt.damage(t, r)
			}
			var reader stream.Reader = r.log
			if tt.reader != nil {
				reader = tt.reader(r)
			}
			s, err := ReadStatus(t.Context(), r.sink, reader, StatusOptions{Detail: tt.detail})
			check(t, err)
			p := s.Partitions[0]
			if !strings.Contains(p.Problem, tt.want) || !tt.detail && strings.Contains(p.Problem, "SECRET") {
				t.Errorf("problem %q, want %q", p.Problem, tt.want)
			}
		})
	}
}

// brokenReader cannot be asked anything.
type brokenReader struct{}

func (brokenReader) Describe(context.Context, ...string) ([]stream.Topic, error) {
	return nil, errSecret
}
func (brokenReader) Topics(context.Context) ([]string, error) { return nil, errSecret }
func (brokenReader) Bounds(context.Context, ...stream.Partition) ([]stream.Bounds, error) {
	return nil, errSecret
}

func (brokenReader) Read(context.Context, stream.Partition, int64, int64) iter.Seq2[stream.Record, error] {
	return func(yield func(stream.Record, error) bool) { yield(stream.Record{}, errSecret) }
}

// halfBrokenReader knows its topics but cannot read them.
type halfBrokenReader struct{ stream.Reader }

func (halfBrokenReader) Read(context.Context, stream.Partition, int64, int64) iter.Seq2[stream.Record, error] {
	return func(yield func(stream.Record, error) bool) { yield(stream.Record{}, errSecret) }
}

func TestStatusEndsWithItsContext(t *testing.T) {
	t.Parallel()
	r := busy(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ReadStatus(ctx, r.sink, r.log, StatusOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestStatusReadsAFileThatAnotherWrites(t *testing.T) {
	t.Parallel()
	r := busy(t)
	ctx := t.Context()
	file, err := sqlitefile.OpenReadOnly(ctx, r.path, sqlitefile.Options{})
	check(t, err)
	defer func() { check(t, file.Close()) }()
	viewer, err := sinksqlite.NewViewer(ctx, file)
	check(t, err)
	reader, err := streamsqlite.NewReader(ctx, file)
	check(t, err)
	before, err := ReadStatus(ctx, viewer, reader, StatusOptions{})
	check(t, err)
	r.flush(t, 0, sink.Point{Next: 4, Position: 4}, noon+15*minute, noon+15*minute, noon+5*minute)
	after, err := ReadStatus(ctx, viewer, reader, StatusOptions{})
	check(t, err)
	if *before.Partitions[0].Position != 3 || *after.Partitions[0].Position != 4 || *after.Partitions[0].Uncommitted != 0 {
		t.Errorf("before %+v, after %+v", before.Partitions[0], after.Partitions[0])
	}
}

func TestWindowsListsFinalPendingAndOpen(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.produce(t, 0, noon)
	r.produce(t, 1, noon)
	// Partition 0 has closed three windows, partition 1 one of them, and both
	// have written the first, whose rows are there.
	r.flush(t, 0, sink.Point{Next: 1, Position: 1}, noon+16*minute, noon+16*minute, noon, noon+5*minute, noon+10*minute)
	r.flush(t, 1, sink.Point{Next: 1, Position: 1}, noon+5*minute, noon+5*minute, noon)
	r.finalise(t, row("network", "nl", "", 60))
	r.flush(t, 1, sink.Point{Next: 1, Position: 1}, noon+11*minute, noon+11*minute, noon+5*minute)
	h := r.handler(Config{Live: func() Live {
		open := func(partition int32, starts ...int64) LivePartition {
			p := LivePartition{Partition: stream.Partition{Topic: topic, Index: partition}}
			for _, s := range starts {
				p.OpenWindows = append(p.OpenWindows, LiveWindow{Start: s, End: s + 5*minute, Records: 7})
			}
			return p
		}
		return Live{Partitions: []LivePartition{open(0, noon+20*minute, noon+15*minute), open(1, noon+15*minute)}}
	}})
	answer := get[raw](t, h, "/api/v1/windows", http.StatusOK)
	final, _ := answer["final"].([]any)
	if len(final) != 1 || final[0].(raw)["window_start"] != "2026-11-30T12:00:00.000Z" || final[0].(raw)["event_count"] != 3.0 {
		t.Errorf("final %v", final)
	}
	wantPending := []any{
		raw{
			"topic": topic, "window_start": "2026-11-30T12:05:00.000Z", "window_end": "2026-11-30T12:10:00.000Z",
			"partitions_closed": 2.0, "partitions": 2.0, "records": 20.0, "state": "merging", "holders": []any{},
		},
		raw{
			"topic": topic, "window_start": "2026-11-30T12:10:00.000Z", "window_end": "2026-11-30T12:15:00.000Z",
			"partitions_closed": 1.0, "partitions": 2.0, "records": 10.0, "state": "waiting",
			"holders": []any{raw{
				"partition": 1.0, "final_to": "2026-11-30T12:11:00.000Z", "reason": "watermark",
				"explanation": sink.HoldWatermark.Explain(),
			}},
		},
	}
	if diff := cmp.Diff(wantPending, answer["pending"]); diff != "" {
		t.Errorf("pending mismatch (-want +got):\n%s", diff)
	}
	wantOpen := []any{
		raw{
			"topic": topic, "window_start": "2026-11-30T12:15:00.000Z", "window_end": "2026-11-30T12:20:00.000Z",
			"partitions": 2.0, "records": 14.0,
		},
		raw{
			"topic": topic, "window_start": "2026-11-30T12:20:00.000Z", "window_end": "2026-11-30T12:25:00.000Z",
			"partitions": 1.0, "records": 7.0,
		},
	}
	if diff := cmp.Diff(wantOpen, answer["open"]); diff != "" {
		t.Errorf("open mismatch (-want +got):\n%s", diff)
	}
	if answer["truncated"] != false {
		t.Error("truncated")
	}
}

func TestWindowsWithoutAProcessorAndOfAnEmptyTable(t *testing.T) {
	t.Parallel()
	answer := get[raw](t, newRig(t).handler(Config{}), "/api/v1/windows", http.StatusOK)
	want := raw{"final": []any{}, "pending": []any{}, "open": nil, "truncated": false}
	if diff := cmp.Diff(want, answer); diff != "" {
		t.Errorf("answer mismatch (-want +got):\n%s", diff)
	}
}

func TestWindowsSkipsTopicsWithoutWindowsAndIsBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.produce(t, 0, noon)
	var starts []int64
	for n := range int64(pendingMax + 3) {
		starts = append(starts, noon+n*5*minute)
	}
	end := starts[len(starts)-1] + 5*minute
	r.flush(t, 0, sink.Point{Next: 1, Position: 1}, end, end, starts...)
	answer := get[windowsAnswer](t, r.handler(Config{}), "/api/v1/windows", http.StatusOK)
	if len(answer.Pending) != pendingMax || !answer.Truncated || !answer.Pending[0].Start.Equal(time.UnixMilli(noon)) {
		t.Errorf("%d pending windows, truncated %v", len(answer.Pending), answer.Truncated)
	}
	none := r.handler(Config{Windowed: func(string) bool { return false }})
	if answer := get[windowsAnswer](t, none, "/api/v1/windows", http.StatusOK); len(answer.Pending) != 0 {
		t.Errorf("%d pending windows of a topic without windows", len(answer.Pending))
	}
	check(t, r.log.Delete(t.Context(), topic))
	check(t, r.log.Create(t.Context(), stream.TopicSpec{Name: topic, Partitions: 2}))
	if answer := get[windowsAnswer](t, r.handler(Config{}), "/api/v1/windows", http.StatusOK); len(answer.Pending) != 0 {
		t.Errorf("%d pending windows of a topic that was deleted", len(answer.Pending))
	}
}

// windowsAnswer reads the answer with standard types.
type windowsAnswer struct {
	Pending []struct {
		Start time.Time `json:"window_start"`
	} `json:"pending"`
	Truncated bool `json:"truncated"`
}

// The file has two read connections: a request that held one while it waited for
// another would wait for ever beside others like it.
func TestRequestsDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	h := busy(t).handler(Config{})
	var wg sync.WaitGroup
	for range 8 {
		for _, path := range []string{"/api/v1/windows", "/api/v1/partitions", "/api/v1/aggregates"} {
			wg.Go(func() {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
				if w.Code != http.StatusOK {
					t.Errorf("GET %s: %d %s", path, w.Code, w.Body)
				}
			})
		}
	}
	wg.Wait()
}
