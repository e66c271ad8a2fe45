package sqlite

import (
	"database/sql"
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/sqlitefile"
)

// TestPlans wants every statement that runs often to find its rows by an index,
// without a sort where the order is that of the index.
func TestPlans(t *testing.T) {
	t.Parallel()
	f, err := sqlitefile.Open(t.Context(), filepath.Join(t.TempDir(), "peil.db"), sqlitefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := New(t.Context(), f, Options{}); err != nil {
		t.Fatal(err)
	}
	query := func(q sink.AggregateQuery) string {
		text, _ := aggregatesQuery(q)
		return text
	}
	const primary = "USING PRIMARY KEY"
	tests := []struct {
		name, text string
		want       []string
	}{
		{"fence", fence, []string{primary}},
		{"pending", selectPending, []string{"INDEX window_segments_unmerged", "INDEX sqlite_autoindex_window_segments_1"}},
		{"window", selectWindow, []string{"INDEX sqlite_autoindex_window_segments_1"}},
		{"sealed", selectSealed, []string{"INDEX sqlite_autoindex_window_segments_1"}},
		{"identity", selectIdentity, []string{"INDEX sqlite_autoindex_window_segments_1"}},
		{"mark", markMerged, []string{"INDEX sqlite_autoindex_window_segments_1"}},
		{"retain", emptySegments, []string{"INDEX window_segments_kept", "INDEX window_segments_unmerged (topic=? AND topic_id=? AND window_start=?)"}},
		{"keys", selectKeys, []string{primary}},
		{"delete", deleteAggregate, []string{primary}},
		{"incident once", insertIncidentOnce, []string{"INDEX incidents_by_place"}},
		{"trim incidents", deleteIncidents, []string{"INTEGER PRIMARY KEY"}},
		{"newest incidents", selectIncidents, nil},
		{
			"one row over time", query(sink.AggregateQuery{Dimension: "line", DimensionID: "a", From: 1, To: 2}),
			[]string{"INDEX delay_aggregates_by_id (dimension=? AND dimension_id=? AND window_start>? AND window_start<?)"},
		},
		{
			"one row over time, newest", query(sink.AggregateQuery{Dimension: "line", DimensionID: "a", From: sink.NoTime, To: sink.NoTime, Newest: true}),
			[]string{"INDEX delay_aggregates_by_id (dimension=? AND dimension_id=?)"},
		},
		{"windows", query(sink.AggregateQuery{From: 1, To: 2}), []string{primary}},
		{
			"a dimension over time", query(sink.AggregateQuery{Dimension: "line", From: 1, To: sink.NoTime}),
			[]string{primary + " (window_start>?)"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			plan := explain(t, f, tt.text)
			for _, want := range tt.want {
				if !strings.Contains(plan, want) {
					t.Errorf("plan lacks %q:\n%s", want, plan)
				}
			}
			if strings.Contains(plan, "USE TEMP B-TREE FOR ORDER BY") {
				t.Errorf("plan sorts everything:\n%s", plan)
			}
			t.Log(plan)
		})
	}
}

func explain(t *testing.T, f *sqlitefile.File, text string) string {
	t.Helper()
	var plan strings.Builder
	err := f.Write(t.Context(), func(tx *sql.Tx) (err error) {
		n := strings.Count(text, "?")
		if strings.Contains(text, "?1") {
			for n = 1; strings.Contains(text, "?"+strconv.Itoa(n+1)); n++ {
			}
		}
		args := make([]any, n)
		rows, err := tx.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+text, args...)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, rows.Close()) }()
		for rows.Next() {
			var id, parent, unused int64
			var detail string
			if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
				return err
			}
			plan.WriteString(detail + "\n")
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatalf("explain: %v", err)
	}
	return plan.String()
}
