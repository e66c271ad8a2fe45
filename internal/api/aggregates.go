package api

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/peil-stream/peil/event"
	"github.com/peil-stream/peil/internal/sink"
)

// Rows in an answer of /api/v1/aggregates.
const (
	rowsDefault = 1000
	rowsMax     = 10_000
)

// dimensions are the values of the parameter dimension.
func dimensions() []string { return []string{"line", "station", "operator", "network"} }

// Aggregates is the answer of /api/v1/aggregates.
type Aggregates struct {
	Rows []AggregateRow `json:"rows"`
	// Next is the path of the rows that follow, or null if these are all.
	Next *string `json:"next"`
}

// AggregateRow is a row of the table delay_aggregates, with its column names.
type AggregateRow struct {
	WindowStart Instant `json:"window_start"`
	WindowEnd   Instant `json:"window_end"`
	Dimension   string  `json:"dimension"`
	DimensionID string  `json:"dimension_id"`
	Operator    *string `json:"operator"`
	EventCount  int64   `json:"event_count"`
	MeanDelayS  float64 `json:"mean_delay_s"`
	P90DelayS   float64 `json:"p90_delay_s"`
	MaxDelayS   int32   `json:"max_delay_s"`
	MinDelayS   int32   `json:"min_delay_s"`
	Revision    int64   `json:"revision"`
	Topic       string  `json:"topic"`
	ComputedAt  Instant `json:"computed_at"`
}

func aggregateRow(a *sink.Aggregate) AggregateRow {
	row := AggregateRow{
		WindowStart: Instant(a.Start), WindowEnd: Instant(a.End),
		Dimension: a.Dimension, DimensionID: a.DimensionID,
		EventCount: a.Count, MeanDelayS: a.Mean, P90DelayS: a.P90, MaxDelayS: a.Max, MinDelayS: a.Min,
		Revision: a.Revision, Topic: a.Topic, ComputedAt: Instant(a.ComputedAt),
	}
	if a.Operator != "" {
		row.Operator = &a.Operator
	}
	return row
}

func (s *server) aggregates(r *http.Request, query url.Values) (any, error) {
	q, after, err := aggregatesQuery(query)
	if err != nil {
		return nil, err
	}
	rows, err := s.page(r.Context(), q, after)
	if err != nil {
		return nil, err
	}
	out := Aggregates{Rows: make([]AggregateRow, 0, min(len(rows), q.Limit))}
	for i := range rows[:min(len(rows), q.Limit)] {
		out.Rows = append(out.Rows, aggregateRow(&rows[i]))
	}
	if len(rows) > q.Limit {
		query.Set("after", cursorAt(&rows[q.Limit-1]).String())
		next := r.URL.Path + "?" + query.Encode()
		out.Next = &next
	}
	return out, nil
}

// aggregatesQuery judges the parameters.
func aggregatesQuery(query url.Values) (q sink.AggregateQuery, after *cursor, err error) {
	q = sink.AggregateQuery{
		Dimension: query.Get("dimension"), DimensionID: query.Get("id"),
		From: sink.NoTime, To: sink.NoTime, Newest: true,
	}
	if query.Has("dimension") && !slices.Contains(dimensions(), q.Dimension) {
		return q, nil, failure(http.StatusBadRequest, "unknown dimension", "one of "+strings.Join(dimensions(), ", "))
	}
	if query.Has("id") && !isID(q.DimensionID) {
		return q, nil, failure(http.StatusBadRequest, "no id looks like this",
			"an id has 1 to "+strconv.Itoa(event.IDMax)+" bytes of UTF-8 and no control characters")
	}
	if q.From, err = instantParam(query, "from"); err != nil {
		return q, nil, err
	}
	if q.To, err = instantParam(query, "to"); err != nil {
		return q, nil, err
	}
	if q.From != sink.NoTime && q.To != sink.NoTime && q.From >= q.To {
		return q, nil, failure(http.StatusBadRequest, "from is not before to", "rows have from <= window_start < to")
	}
	if q.Limit, err = limitParam(query, rowsDefault, rowsMax); err != nil {
		return q, nil, err
	}
	switch order := query.Get("order"); {
	case !query.Has("order") || order == "newest":
	case order == "oldest":
		q.Newest = false
	default:
		return q, nil, failure(http.StatusBadRequest, "unknown order", "newest or oldest, by window_start")
	}
	if query.Has("after") {
		if after, err = parseCursor(query.Get("after")); err != nil {
			return q, nil, err
		}
	}
	return q, after, nil
}

// isID says whether a text can be an id of the tables at all. Postgres refuses
// what has a NUL or is no UTF-8.
func isID(id string) bool {
	if len(id) == 0 || len(id) > event.IDMax || !utf8.ValidString(id) {
		return false
	}
	return strings.IndexFunc(id, func(r rune) bool { return r < ' ' || r >= 0x7f && r <= 0x9f }) < 0
}

// instantParam reads an instant of RFC 3339, rounded up to the millisecond, which
// bounds the same windows.
func instantParam(query url.Values, name string) (int64, error) {
	if !query.Has(name) {
		return sink.NoTime, nil
	}
	text := query.Get(name)
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		hint := "RFC 3339, as in 2026-11-30T12:00:00Z"
		if strings.Contains(text, " ") {
			hint += "; write a + as %2B"
		}
		return 0, failure(http.StatusBadRequest, name+" is no instant", hint)
	}
	ms := t.Add(time.Millisecond - time.Nanosecond).UnixMilli()
	// An offset can carry the year out of what the tables can write.
	return min(max(ms, yearFirst), sink.Infinity), nil
}

// yearFirst is 0001-01-01T00:00:00Z.
const yearFirst int64 = -62_135_596_800_000

func limitParam(query url.Values, fallback, most int) (int, error) {
	if !query.Has("limit") {
		return fallback, nil
	}
	n, err := strconv.Atoi(query.Get("limit"))
	if err != nil || n < 1 || n > most {
		return 0, failure(http.StatusBadRequest, "limit is no number from 1 to "+strconv.Itoa(most), "")
	}
	return n, nil
}

// cursor is the last row that a client has.
type cursor struct {
	Start     int64  `json:"s"`
	Dimension string `json:"d"`
	ID        string `json:"i"`
}

func cursorAt(a *sink.Aggregate) cursor {
	return cursor{Start: a.Start, Dimension: a.Dimension, ID: a.DimensionID}
}

func (c cursor) String() string {
	text, err := json.Marshal(c)
	if err != nil {
		return "" // a number and two strings always have a form
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

func parseCursor(text string) (*cursor, error) {
	bad := failure(http.StatusBadRequest, "after is no mark of a page", "take it from next as it is")
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil, bad
	}
	var c cursor
	if json.Unmarshal(raw, &c) != nil || c.Start < yearFirst || c.Start >= sink.Infinity {
		return nil, bad
	}
	return &c, nil
}

// page reads one row more than the limit, so that the caller knows whether there
// are more. After a mark it first reads the rest of the mark's window, finding
// the mark by its key and not by comparing, because databases order texts in
// their own ways.
func (s *server) page(ctx context.Context, q sink.AggregateQuery, after *cursor) (rows []sink.Aggregate, err error) {
	view, err := s.Viewer.View(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, view.Close()) }()
	most := q.Limit + 1
	if after != nil {
		if rows, err = restOfWindow(ctx, view, q, after, most); err != nil {
			return nil, err
		}
		switch {
		case !q.Newest:
			q.From = max(q.From, after.Start+1) // NoTime is the least number
		case q.To == sink.NoTime || after.Start < q.To:
			q.To = after.Start
		}
	}
	if len(rows) == most {
		return rows, nil
	}
	q.Limit = most - len(rows)
	for a, err := range view.Aggregates(ctx, q) {
		if err != nil {
			return nil, err
		}
		rows = append(rows, a)
	}
	return rows, nil
}

func restOfWindow(
	ctx context.Context, view sink.View, q sink.AggregateQuery, after *cursor, most int,
) ([]sink.Aggregate, error) {
	q.From, q.To, q.Limit = after.Start, after.Start+1, 0
	var rows []sink.Aggregate
	found := false
	for a, err := range view.Aggregates(ctx, q) {
		if err != nil {
			return nil, err
		}
		if found {
			if rows = append(rows, a); len(rows) == most {
				break
			}
		}
		found = found || cursorAt(&a) == *after
	}
	if !found {
		return nil, failure(http.StatusGone, "the row that the page follows is gone", "start again without after")
	}
	return rows, nil
}
