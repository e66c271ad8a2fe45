package testkit

import (
	"database/sql"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/stream"
)

// View opens a view that is closed with the test.
func (r *Rig) view() sink.View {
	r.tb.Helper()
	return must(r.Sink.View(r.tb.Context()))(r.tb)
}

// Rows returns the final rows of a dimension, by window and id; "" is all.
func (r *Rig) Rows(dimension string) []sink.Aggregate {
	r.tb.Helper()
	v := r.view()
	defer func() { check(r.tb, v.Close()) }()
	var rows []sink.Aggregate
	for a, err := range v.Aggregates(r.tb.Context(), sink.AggregateQuery{Dimension: dimension, From: sink.NoTime, To: sink.NoTime}) {
		check(r.tb, err)
		rows = append(rows, a)
	}
	return rows
}

// Network returns the network row of the window that starts at T0+start seconds.
func (r *Rig) Network(start float64) (sink.Aggregate, bool) {
	r.tb.Helper()
	for _, a := range r.Rows("network") {
		if a.Start == At(start) {
			return a, true
		}
	}
	return sink.Aggregate{}, false
}

// Offset returns the stored row of a partition of the arrivals topic.
func (r *Rig) Offset(partition int32) sink.Offset {
	r.tb.Helper()
	v := r.view()
	defer func() { check(r.tb, v.Close()) }()
	for _, o := range must(v.Offsets(r.tb.Context()))(r.tb) {
		if o.Partition == (stream.Partition{Topic: Arrivals, Index: partition}) {
			return o
		}
	}
	r.tb.Fatalf("no stored row of partition %d", partition)
	return sink.Offset{}
}

// Segments returns the stored segments of the arrivals topic, with data.
func (r *Rig) Segments() []sink.StoredSegment {
	r.tb.Helper()
	v := r.view()
	defer func() { check(r.tb, v.Close()) }()
	var all []sink.StoredSegment
	for s, err := range v.Segments(r.tb.Context(), Arrivals, true) {
		check(r.tb, err)
		all = append(all, s)
	}
	return all
}

// Incidents returns all incidents, newest first.
func (r *Rig) Incidents() []sink.Incident {
	r.tb.Helper()
	v := r.view()
	defer func() { check(r.tb, v.Close()) }()
	return must(v.Incidents(r.tb.Context(), 0))(r.tb)
}

// Records returns the records of one partition of a topic.
func (r *Rig) Records(topic string, partition int32) []stream.Record {
	r.tb.Helper()
	ctx := r.tb.Context()
	p := stream.Partition{Topic: topic, Index: partition}
	b := must(stream.BoundsOf(ctx, r.Log, p))(r.tb)
	var all []stream.Record
	for rec, err := range r.Log.Read(ctx, p, b.Start, b.End) {
		check(r.tb, err)
		rec.Key, rec.Value = clone(rec.Key), clone(rec.Value)
		all = append(all, rec)
	}
	return all
}

// clone keeps nil and empty apart.
func clone(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append([]byte{}, b...)
}

// Dump writes every table as text, for byte comparison. Columns that tell when
// something was written are left out.
func (r *Rig) Dump() string {
	r.tb.Helper()
	var out strings.Builder
	tx, end, err := r.File.BeginRead(r.tb.Context())
	check(r.tb, err)
	defer func() { check(r.tb, end()) }()
	for _, q := range []struct{ name, sql string }{
		{"delay_aggregates", "SELECT window_start, window_end, dimension, dimension_id, operator, event_count, mean_delay_s, p90_delay_s, max_delay_s, min_delay_s, revision, topic FROM delay_aggregates ORDER BY 1, 3, 4"},
		{"vehicle_latest", "SELECT vehicle_id, trip_id, line_id, operator, latitude, longitude, bearing, speed_mps, stop_id, current_status, occupancy, observed_at, tie FROM vehicle_latest ORDER BY 1"},
		{"trip_delay_latest", "SELECT trip_id, start_date, line_id, operator, stop_id, station_id, stop_sequence, delay_s, predicted_time, observed_at, tie FROM trip_delay_latest ORDER BY 1, 2"},
		{"window_segments", "SELECT window_start, topic, partition, window_end, first_offset, through_offset, records, origin, merged_at IS NULL, hex(data) FROM window_segments ORDER BY 1, 2, 3"},
		{"consumer_offsets", "SELECT topic, partition, group_id, next_offset, position, leader_epoch, watermark, final_to, accepted, late, dead, ignored, fingerprint FROM consumer_offsets ORDER BY 1, 2"},
	} {
		fmt.Fprintf(&out, "== %s\n", q.name)
		WriteRows(r.tb, &out, tx, q.sql)
	}
	return out.String()
}

// WriteRows writes the rows of a query as text, one a line, each cell with the
// name of its column.
func WriteRows(tb testing.TB, out io.Writer, tx *sql.Tx, query string) {
	tb.Helper()
	rows, err := tx.QueryContext(tb.Context(), query)
	check(tb, err)
	defer func() { check(tb, errors.Join(rows.Err(), rows.Close())) }()
	cols, err := rows.Columns()
	check(tb, err)
	for rows.Next() {
		cells := make([]any, len(cols))
		for i := range cells {
			cells[i] = new(any)
		}
		check(tb, rows.Scan(cells...))
		for i := range cells {
			cell, ok := cells[i].(*any)
			if !ok {
				tb.Fatalf("cell %d is a %T", i, cells[i])
			}
			_, err := fmt.Fprintf(out, "%s=%v ", cols[i], *cell)
			check(tb, err)
		}
		_, err := io.WriteString(out, "\n")
		check(tb, err)
	}
}
