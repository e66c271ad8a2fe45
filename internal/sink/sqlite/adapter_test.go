package sqlite_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/sink/sinktest"
	"github.com/peil-stream/peil/internal/sink/sqlite"
	"github.com/peil-stream/peil/internal/sqlitefile"
	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/window"
)

func TestNoAddition(t *testing.T) {
	t.Parallel()
	sinktest.NoAddition(t, ".")
}

// TestColumns holds the tables against the design: names and order.
func TestColumns(t *testing.T) {
	t.Parallel()
	_, f := open(t)
	want := map[string]string{
		"delay_aggregates": "window_start window_end dimension dimension_id operator event_count mean_delay_s " +
			"p90_delay_s max_delay_s min_delay_s revision topic computed_at",
		"vehicle_latest": "vehicle_id trip_id line_id operator latitude longitude bearing speed_mps stop_id " +
			"current_status occupancy observed_at tie updated_at",
		"trip_delay_latest": "trip_id start_date line_id operator stop_id station_id stop_sequence delay_s " +
			"predicted_time observed_at tie updated_at",
		"window_segments": "window_start topic partition window_end topic_id first_offset through_offset records " +
			"origin merged_at data",
		"consumer_offsets": "topic partition group_id topic_id next_offset position leader_epoch watermark final_to " +
			"accepted late dead ignored fingerprint epoch owner updated_at",
		"incidents": "id kind topic partition from_offset to_offset detail at",
	}
	got := map[string]string{}
	err := f.Write(t.Context(), func(tx *sql.Tx) (err error) {
		rows, err := tx.QueryContext(t.Context(), `SELECT m.name, c.name FROM sqlite_schema AS m, pragma_table_info(m.name) AS c
			WHERE m.type = 'table' AND m.name <> 'schema_versions' ORDER BY m.name, c.cid`)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, rows.Close()) }()
		for rows.Next() {
			var table, column string
			if err := rows.Scan(&table, &column); err != nil {
				return err
			}
			got[table] = strings.TrimSpace(got[table] + " " + column)
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatalf("read columns: %v", err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("columns mismatch (-want +got):\n%s", diff)
	}
}

func part(index int32) sink.PartitionFlush {
	return sink.PartitionFlush{
		Partition: stream.Partition{Topic: "arrivals", Index: index}, TopicID: "id", Epoch: 1,
		To: sink.Point{Next: 3, Position: 5}, LeaderEpoch: -1, Watermark: sink.NoTime, FinalTo: sink.NoTime,
	}
}

func segment() sink.Segment {
	return sink.Segment{Start: 0, End: 300_000, FirstOffset: 1, ThroughOffset: 2, Origin: sink.OriginLive, Data: []byte{1}}
}

func claimAll(tb testing.TB, s sink.Sink, parts ...sink.PartitionFlush) {
	tb.Helper()
	for _, p := range parts {
		_, err := s.Claim(tb.Context(), sink.ClaimRequest{Partition: p.Partition, TopicID: p.TopicID, Group: "g"})
		if err != nil {
			tb.Fatalf("Claim: %v", err)
		}
	}
}

// TestRefused holds what no correct caller does, and what the database refuses:
// the error says where, and nothing is written.
func TestRefused(t *testing.T) {
	t.Parallel()
	one := func(change func(*sink.PartitionFlush)) []sink.PartitionFlush {
		p := part(0)
		change(&p)
		return []sink.PartitionFlush{part(1), p}
	}
	seg := func(change func(*sink.Segment)) []sink.PartitionFlush {
		return one(func(p *sink.PartitionFlush) {
			g := segment()
			change(&g)
			p.Segments = []sink.Segment{g}
		})
	}
	const place = "partition arrivals/0: "
	const windowPlace = place + "window 1970-01-01T00:00:00.000Z: "
	tests := []struct {
		name  string
		parts []sink.PartitionFlush
		want  string
	}{
		{"a partition twice", []sink.PartitionFlush{part(0), part(1), part(0)}, place + "given twice"},
		{"position back", one(func(p *sink.PartitionFlush) { p.From = &sink.Point{Next: 1, Position: 6} }), place + "position would go back from 6 to 5"},
		{"next above position", one(func(p *sink.PartitionFlush) { p.To.Next = 6 }), place + "next offset 6"},
		{"next below zero", one(func(p *sink.PartitionFlush) { p.To.Next = -1 }), place + "next offset -1"},
		{"two segments of a window", one(func(p *sink.PartitionFlush) { p.Segments = []sink.Segment{segment(), segment()} }), windowPlace + "two segments"},
		{"segment without data", seg(func(g *sink.Segment) { g.Data = nil }), windowPlace + "segment without data"},
		{"segment without a window", seg(func(g *sink.Segment) { g.End = g.Start }), windowPlace + "ends at"},
		{"segment backwards", seg(func(g *sink.Segment) { g.FirstOffset = 3 }), windowPlace + "first offset 3"},
		{"unknown origin", seg(func(g *sink.Segment) { g.Origin = "elsewhere" }), windowPlace},
		{"a number that is none", one(func(p *sink.PartitionFlush) {
			p.State.Vehicles = []sink.Vehicle{{VehicleID: "nl:good"}, {VehicleID: "nl:bad", Latitude: math.NaN()}}
		}), "vehicle nl:bad: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h, f := open(t)
			claimAll(t, h.Sink, part(0), part(1))
			before := mustDump(t, f)
			_, err := h.Sink.Flush(t.Context(), tt.parts)
			if err == nil || !strings.Contains(err.Error(), tt.want) || errors.Is(err, sink.ErrTransient) {
				t.Errorf("Flush: got error %v, want a lasting one with %q", err, tt.want)
			}
			if after := mustDump(t, f); after != before {
				t.Errorf("tables changed:\n%s", cmp.Diff(before, after))
			}
		})
	}
}

func mustDump(t *testing.T, f *sqlitefile.File) string {
	t.Helper()
	text, err := dump(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestFinalRefuses(t *testing.T) {
	t.Parallel()
	h, _ := open(t)
	if _, err := h.Sink.Final(t.Context(), sink.FinalRequest{Topic: "arrivals"}); err == nil {
		t.Error("Final without a limit: no error")
	}
	f, err := h.Sink.Final(t.Context(), sink.FinalRequest{Topic: "arrivals", Limit: 1})
	if err != nil {
		t.Fatalf("Final: %v", err)
	}
	rows := []window.Row{{Dimension: "line", ID: "a"}, {Dimension: "line", ID: "b"}, {Dimension: "line", ID: "a"}}
	_, err = f.Apply(t.Context(), sink.PendingWindow{End: 300_000}, rows)
	if err == nil || !strings.Contains(err.Error(), "window 1970-01-01T00:00:00.000Z: two rows for line \"a\"") {
		t.Errorf("Apply with a key twice: got error %v", err)
	}
	if err := f.Rollback(t.Context()); err != nil {
		t.Errorf("Rollback: %v", err)
	}
}

// TestDiskFull lets the file reach its largest size in the middle of a flush.
// The error is one that may pass, nothing of the flush is there, and the same
// flush succeeds once there is room.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	h, f := open(t)
	p := part(0)
	claimAll(t, h.Sink, p)
	limit := func(pages int) {
		t.Helper()
		err := f.Write(t.Context(), func(tx *sql.Tx) error {
			_, err := tx.ExecContext(t.Context(), fmt.Sprintf("PRAGMA max_page_count = %d", pages))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	g := segment()
	g.Data = bytes.Repeat([]byte{7}, 1<<20)
	p.Segments = []sink.Segment{g}
	before := mustDump(t, f)
	limit(1) // SQLite makes this the present size
	if _, err := h.Sink.Flush(t.Context(), []sink.PartitionFlush{p}); !errors.Is(err, sink.ErrTransient) {
		t.Fatalf("Flush to a full disk: got error %v", err)
	}
	if after := mustDump(t, f); after != before {
		t.Errorf("tables changed:\n%s", cmp.Diff(before, after))
	}
	limit(1 << 20)
	if _, err := h.Sink.Flush(t.Context(), []sink.PartitionFlush{p}); err != nil {
		t.Errorf("Flush with room: %v", err)
	}
}

func TestViewerOfReadOnlyFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "peil.db")
	writer, err := sqlitefile.Open(t.Context(), path, sqlitefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := writer.Close(); err != nil {
			t.Error(err)
		}
	}()
	reader, err := sqlitefile.OpenReadOnly(t.Context(), path, sqlitefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := reader.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := sqlite.NewViewer(t.Context(), reader); !errors.Is(err, sqlitefile.ErrOlder) {
		t.Errorf("NewViewer of a file without tables: got error %v", err)
	}
	if _, err := sqlite.New(t.Context(), reader, sqlite.Options{}); !errors.Is(err, sqlitefile.ErrReadOnly) {
		t.Errorf("New of a read-only file: got error %v", err)
	}
	s, err := sqlite.New(t.Context(), writer, sqlite.Options{})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	viewer, err := sqlite.NewViewer(t.Context(), reader)
	if err != nil {
		t.Fatalf("NewViewer: %v", err)
	}
	claimAll(t, s, part(0))
	v, err := viewer.View(t.Context())
	if err != nil {
		t.Fatalf("View: %v", err)
	}
	offsets, err := v.Offsets(t.Context())
	if err != nil || len(offsets) != 1 || offsets[0].Epoch != 1 {
		t.Errorf("Offsets = %+v, %v; want one of epoch 1", offsets, err)
	}
	for range 2 {
		if err := v.Close(); err != nil {
			t.Errorf("close view: %v", err)
		}
	}
}

// TestIncidentsAreLogged wants one line for the incidents of a call, and none
// for a redo that records nothing.
func TestIncidentsAreLogged(t *testing.T) {
	t.Parallel()
	f, err := sqlitefile.Open(t.Context(), filepath.Join(t.TempDir(), "peil.db"), sqlitefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}()
	var log bytes.Buffer
	s, err := sqlite.New(t.Context(), f, sqlite.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	p := part(0)
	claimAll(t, s, p)
	p.Incidents = []sink.Incident{{Kind: "lost", Topic: "arrivals", FromOffset: 1}, {Kind: "lost", Topic: "arrivals", FromOffset: 2}}
	for range 2 {
		if _, err := s.Flush(t.Context(), []sink.PartitionFlush{p}); err != nil {
			t.Fatal(err)
		}
	}
	text := log.String()
	if strings.Count(text, "\n") != 1 || !strings.Contains(text, "count=2 kind=lost topic=arrivals") {
		t.Errorf("log is %q", text)
	}
}

// fading is a context that ends after so many looks at it.
type fading struct {
	context.Context //nolint:containedctx // it is a context
	looks           int
}

func (c *fading) Err() error {
	if c.looks--; c.looks < 0 {
		return context.Canceled
	}
	return nil
}

// TestCancelledMidway ends the context at each look that a flush takes at it:
// the flush is there whole or not at all.
func TestCancelledMidway(t *testing.T) {
	t.Parallel()
	cancelled := 0
	for looks := 0; ; looks++ {
		h, f := open(t)
		p := part(0)
		claimAll(t, h.Sink, p)
		for i := range 520 {
			p.State.Trips = append(p.State.Trips, sink.Trip{TripID: strconv.Itoa(i), PredictedTime: sink.NoTime})
		}
		before := mustDump(t, f)
		_, err := h.Sink.Flush(&fading{Context: t.Context(), looks: looks}, []sink.PartitionFlush{p})
		if err == nil {
			break
		}
		cancelled++
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("Flush after %d looks: got error %v", looks, err)
		}
		if after := mustDump(t, f); after != before {
			t.Fatalf("after %d looks the tables have changed:\n%s", looks, cmp.Diff(before, after))
		}
	}
	if cancelled < 5 { // one look for every 128 rows
		t.Errorf("the flush looked at its context %d times", cancelled)
	}
}

// TestEmptyFlush needs no transaction.
func TestEmptyFlush(t *testing.T) {
	t.Parallel()
	h, _ := open(t)
	f, err := h.Sink.Final(t.Context(), sink.FinalRequest{Topic: "arrivals", Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	// The finaliser holds the writer, so a transaction would wait for ever.
	if result, err := h.Sink.Flush(t.Context(), nil); err != nil || len(result.Fenced) > 0 {
		t.Errorf("Flush of nothing = %+v, %v", result, err)
	}
	if err := f.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
}
