package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/peil-stream/peil/internal/sink"
)

// raw is an answer as any client sees it.
type raw = map[string]any

func rowsOf(t *testing.T, answer raw) []raw {
	t.Helper()
	list, ok := answer["rows"].([]any)
	if !ok {
		t.Fatalf("no rows in %v", answer)
	}
	rows := make([]raw, 0, len(list))
	for _, r := range list {
		row, _ := r.(raw)
		rows = append(rows, row)
	}
	return rows
}

func TestAggregatesHasTheColumnsOfTheTable(t *testing.T) {
	t.Parallel()
	h := filled(t, 1, 1).handler(Config{})
	answer := get[raw](t, h, "/api/v1/aggregates?order=oldest", http.StatusOK)
	rows := rowsOf(t, answer)
	if len(rows) != 2 || answer["next"] != nil {
		t.Fatalf("answer %v", answer)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/aggregates?limit=1&order=oldest", nil))
	if !strings.Contains(w.Body.String(), "&limit=1&order=oldest\"}") {
		t.Errorf("next cannot be read: %s", w.Body)
	}
	for _, r := range rows {
		if _, err := time.Parse("2006-01-02T15:04:05.000Z", r["computed_at"].(string)); err != nil {
			t.Error(err)
		}
		delete(r, "computed_at")
	}
	want := []raw{
		{
			"window_start": "2026-11-30T12:00:00.000Z", "window_end": "2026-11-30T12:05:00.000Z",
			"dimension": "line", "dimension_id": "nl:GVB:100", "operator": "nl:GVB", "event_count": 3.0,
			"mean_delay_s": 1.0 / 3, "p90_delay_s": 6.0, "max_delay_s": 6.0, "min_delay_s": -5.0,
			"revision": rows[0]["revision"], "topic": topic,
		},
		{
			"window_start": "2026-11-30T12:00:00.000Z", "window_end": "2026-11-30T12:05:00.000Z",
			"dimension": "network", "dimension_id": "nl", "operator": nil, "event_count": 3.0,
			"mean_delay_s": 181.0 / 3, "p90_delay_s": 66.0, "max_delay_s": 66.0, "min_delay_s": 55.0,
			"revision": rows[0]["revision"], "topic": topic,
		},
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("rows mismatch (-want +got):\n%s", diff)
	}
}

func TestAggregatesSelects(t *testing.T) {
	t.Parallel()
	h := filled(t, 4, 3).handler(Config{})
	for _, tt := range []struct {
		name  string
		query string
		want  []string // minutes after noon, dimension_id
	}{
		{"network, newest first", "dimension=network", []string{"15 nl", "10 nl", "5 nl", "0 nl"}},
		{"oldest first", "dimension=network&order=oldest", []string{"0 nl", "5 nl", "10 nl", "15 nl"}},
		{"limit", "dimension=network&limit=2", []string{"15 nl", "10 nl"}},
		{"one line", "dimension=line&id=nl:GVB:101&limit=1", []string{"15 nl:GVB:101"}},
		{"id alone", "id=nl:GVB:102&limit=1", []string{"15 nl:GVB:102"}},
		{"range, half open", "dimension=network&from=2026-11-30T12:05:00Z&to=2026-11-30T12:15:00Z", []string{"10 nl", "5 nl"}},
		{"from within a window", "dimension=network&from=2026-11-30T12:05:00.0001Z", []string{"15 nl", "10 nl"}},
		{"to just after a start", "dimension=network&to=2026-11-30T12:05:00.0001Z", []string{"5 nl", "0 nl"}},
		{"offset", "dimension=network&from=2026-11-30T13:15:00%2B01:00", []string{"15 nl"}},
		{"ten years", "dimension=network&limit=1&from=2020-01-01T00:00:00Z&to=2030-01-01T00:00:00Z", []string{"15 nl"}},
		{"edge of the calendar", "dimension=network&from=0000-01-01T00:00:00%2B14:00&limit=1", []string{"15 nl"}},
		{"nothing there", "dimension=station", []string{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := []string{}
			for _, r := range get[standardAnswer](t, h, "/api/v1/aggregates?"+tt.query, http.StatusOK).Rows {
				got = append(got, strconv.FormatInt((r.WindowStart.UnixMilli()-noon)/minute, 10)+" "+r.DimensionID)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("rows mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

// standardAnswer reads the answer with standard types.
type standardAnswer struct {
	Rows []struct {
		WindowStart time.Time `json:"window_start"`
		DimensionID string    `json:"dimension_id"`
	} `json:"rows"`
	Next *string `json:"next"`
}

func TestAggregatesPagesReachEveryRowOnce(t *testing.T) {
	t.Parallel()
	h := filled(t, 5, 6).handler(Config{}) // 5 windows of 7 rows
	for _, order := range []string{"newest", "oldest"} {
		whole := get[standardAnswer](t, h, "/api/v1/aggregates?order="+order, http.StatusOK)
		if len(whole.Rows) != 35 || whole.Next != nil {
			t.Fatalf("%d rows", len(whole.Rows))
		}
		for _, limit := range []int{1, 2, 3, 6, 7, 8, 14, 34, 35} {
			var paged standardAnswer
			path := "/api/v1/aggregates?order=" + order + "&limit=" + strconv.Itoa(limit)
			for pages := 0; path != ""; pages++ {
				if pages > 40 {
					t.Fatalf("limit %d: the pages do not end", limit)
				}
				answer := get[standardAnswer](t, h, path, http.StatusOK)
				if len(answer.Rows) > limit || len(answer.Rows) == 0 {
					t.Fatalf("limit %d: a page of %d rows", limit, len(answer.Rows))
				}
				paged.Rows = append(paged.Rows, answer.Rows...)
				path = ""
				if answer.Next != nil {
					path = *answer.Next
				}
			}
			if diff := cmp.Diff(whole, paged); diff != "" {
				t.Errorf("order %s, limit %d (-whole +paged):\n%s", order, limit, diff)
			}
		}
	}
}

func TestAggregatesPageAfterARowThatIsGone(t *testing.T) {
	t.Parallel()
	h := filled(t, 2, 2).handler(Config{})
	gone := cursor{Start: noon, Dimension: "line", ID: "nl:GVB:999"}
	get[raw](t, h, "/api/v1/aggregates?after="+gone.String(), http.StatusGone)
}

// O01: whatever a parameter holds is a value, never part of a statement.
func TestAggregatesBindsWhatItIsGiven(t *testing.T) {
	t.Parallel()
	r := filled(t, 2, 2)
	h := r.handler(Config{})
	before := get[raw](t, h, "/api/v1/aggregates", http.StatusOK)
	t.Run("values", func(t *testing.T) {
		t.Parallel()
		bindValues(t, h)
	})
	t.Cleanup(func() {
		if diff := cmp.Diff(before, get[raw](t, h, "/api/v1/aggregates", http.StatusOK)); diff != "" {
			t.Errorf("the tables have changed (-before +after):\n%s", diff)
		}
	})
	for _, path := range []string{
		"/api/v1/aggregates?limit=1&limit=2",
		"/api/v1/aggregates?id=%zz",
		"/api/v1/aggregates?from=2026-11-30T12:00:00Z&to=2026-11-30T12:00:00Z",
		"/api/v1/partitions?topic=x",
		"/api/v1/windows?limit=501",
	} {
		get[raw](t, h, path, http.StatusBadRequest)
	}
}

func bindValues(t *testing.T, h http.Handler) {
	t.Helper()
	long := strings.Repeat("x", 10_000)
	for _, tt := range []struct {
		name, param, value string
		want               int
	}{
		{"quote", "id", `nl' OR true --`, 200},
		{"double quote", "id", `nl" OR "1"="1`, 200},
		{"sleep", "id", `x'; SELECT pg_sleep(10); --`, 200},
		{"statement", "id", `x'; DROP TABLE delay_aggregates; --`, 200},
		{"like", "id", `nl%`, 200},
		{"256 bytes", "id", long[:256], 200},
		{"10 kB", "id", long, 400},
		{"NUL", "id", "nl\x00", 400},
		{"no UTF-8", "id", "nl\xff", 400},
		{"control", "id", "nl\u0085", 400},
		{"empty id", "id", "", 400},
		{"dimension", "dimension", "line' OR '1'='1", 400},
		{"dimension in capitals", "dimension", "LINE", 400},
		{"empty dimension", "dimension", "", 400},
		{"long dimension", "dimension", long, 400},
		{"order", "order", "window_start; DROP TABLE delay_aggregates", 400},
		{"sort", "sort", "dimension_id; DROP TABLE delay_aggregates", 400},
		{"from", "from", "yesterday", 400},
		{"from with a plus", "from", "2026-11-30T13:15:00 01:00", 400},
		{"from of another year", "from", "10000-01-01T00:00:00Z", 400},
		{"to", "to", "2026-11-30", 400},
		{"long to", "to", long, 400},
		{"limit zero", "limit", "0", 400},
		{"limit below", "limit", "-1", 400},
		{"limit above", "limit", "10001", 400},
		{"limit no number", "limit", "1e3", 400},
		{"after", "after", "bm9ub25zZW5zZQ", 400},
		{"after no base64", "after", "%%%", 400},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			path := "/api/v1/aggregates?" + url.Values{tt.param: {tt.value}}.Encode()
			answer := get[raw](t, h, path, tt.want)
			if tt.want == 200 && len(rowsOf(t, answer)) != 0 {
				t.Errorf("rows for %q", tt.value)
			}
			if tt.want == 400 && answer["error"] == "" {
				t.Errorf("no error in %v", answer)
			}
			if took := time.Since(start); took > time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

func TestAggregatesFailsWithoutTellingSecrets(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		err  error
		want int
	}{
		{"fatal", errSecret, http.StatusInternalServerError},
		{"transient", &wrapped{errSecret, sink.ErrTransient}, http.StatusServiceUnavailable},
		{"too slow", &wrapped{errSecret, context.DeadlineExceeded}, http.StatusServiceUnavailable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := New(Config{Viewer: brokenViewer{tt.err}, Reader: newRig(t).log})
			for _, path := range []string{"/api/v1/aggregates", "/api/v1/partitions", "/api/v1/windows"} {
				answer := get[raw](t, h, path, tt.want)
				text, err := json.Marshal(answer)
				check(t, err)
				if strings.Contains(string(text), "SECRET") || answer["error"] == "" {
					t.Errorf("GET %s: %s", path, text)
				}
			}
		})
	}
}

type wrapped struct{ is, as error }

func (w *wrapped) Error() string   { return w.is.Error() }
func (w *wrapped) Unwrap() []error { return []error{w.is, w.as} }

func TestOnlyGetAndHead(t *testing.T) {
	t.Parallel()
	h := filled(t, 1, 1).handler(Config{Metrics: http.NotFoundHandler()})
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "NONSENSE"} {
		for _, path := range []string{"/", "/metrics", "/-/healthy", "/api/v1/aggregates", "/nowhere"} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
			if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" || !json.Valid(w.Body.Bytes()) {
				t.Errorf("%s %s: %d %v %s", method, path, w.Code, w.Header(), w.Body)
			}
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodHead, "/api/v1/aggregates", nil))
	if w.Code != http.StatusOK || w.Body.Len() != 0 {
		t.Errorf("HEAD: %d %q", w.Code, w.Body)
	}
	for name, want := range map[string]string{
		"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "X-Frame-Options": "DENY",
	} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("header %s is %q, want %q", name, got, want)
		}
	}
}
