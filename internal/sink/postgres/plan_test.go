//go:build integration

package postgres

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/testkit/services"
)

// TestPlans wants every statement that runs often to be able to find its rows by
// an index. The tables are empty, so the planner is kept from reading them whole.
func TestPlans(t *testing.T) {
	t.Parallel()
	address := services.Postgres(t)
	if _, _, err := Migrate(t.Context(), Options{URL: address}); err != nil {
		t.Fatal(err)
	}
	query := func(q sink.AggregateQuery) string {
		text, _ := aggregatesQuery(q)
		return text
	}
	tests := []struct {
		name, text string
		want       []string
	}{
		{"fence", fence, []string{"consumer_offsets_pkey"}},
		{"claim", selectClaim, []string{"consumer_offsets_pkey"}},
		{"pending", selectPending, []string{"window_segments_unmerged", "window_segments_pkey"}},
		{"windows", selectWindows, []string{"window_segments_pkey"}},
		{"sealed", selectSealed, []string{"window_segments_pkey"}},
		{"identities", selectIdentities, []string{"window_segments_pkey"}},
		{"mark", markMerged, []string{"window_segments_pkey"}},
		{"retain", emptySegments, []string{"window_segments_kept", "window_segments_pkey"}},
		{"keys", selectKeys, []string{"delay_aggregates_pkey"}},
		{"delete", deleteAggregates, []string{"delay_aggregates_"}},
		{"incident once", insertIncidentsOnce, []string{"incidents_by_place"}},
		{"newest incidents", selectIncidents, []string{"incidents_pkey"}},
		{
			"one row over time", query(sink.AggregateQuery{Dimension: "line", DimensionID: "a", From: 1, To: 2}),
			[]string{"delay_aggregates_by_id"},
		},
		{"newest windows", query(sink.AggregateQuery{From: 1, To: 2, Newest: true, Limit: 10}), []string{"delay_aggregates_"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			plan := explain(t, address, tt.text)
			for _, want := range tt.want {
				if !strings.Contains(plan, want) {
					t.Errorf("plan lacks %q:\n%s", want, plan)
				}
			}
			if strings.Contains(plan, "Seq Scan") {
				t.Errorf("plan reads a whole table:\n%s", plan)
			}
		})
	}
}

func explain(t *testing.T, address, text string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := conn.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	prepared, err := conn.Prepare(t.Context(), "", text)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, statement := range []string{
		"SET enable_seqscan = off", "SET enable_bitmapscan = off", "SET plan_cache_mode = force_generic_plan", "PREPARE p AS " + text,
	} {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	nulls := strings.TrimSuffix(strings.Repeat("NULL, ", len(prepared.ParamOIDs)), ", ")
	rows, err := conn.Query(t.Context(), "EXPLAIN EXECUTE p ("+nulls+")")
	if err == nil {
		lines, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}
