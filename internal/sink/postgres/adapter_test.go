//go:build integration

package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/sink/postgres"
	"github.com/peil-stream/peil/internal/testkit/services"
	"github.com/peil-stream/peil/window"
)

// TestRefused gives flushes that no correct caller makes: the error names what is
// wrong and where, and nothing is written.
func TestRefused(t *testing.T) {
	t.Parallel()
	database := services.Postgres(t)
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
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h, pool := open(t, schema(t, database))
			claimAll(t, h.Sink, part(0), part(1))
			before := mustDump(t, pool)
			_, err := h.Sink.Flush(t.Context(), tt.parts)
			if err == nil || !strings.Contains(err.Error(), tt.want) || errors.Is(err, sink.ErrTransient) {
				t.Errorf("Flush: got error %v, want a lasting one with %q", err, tt.want)
			}
			if diff := cmp.Diff(before, mustDump(t, pool)); diff != "" {
				t.Errorf("tables changed:\n%s", diff)
			}
		})
	}
}

func TestFinalRefuses(t *testing.T) {
	t.Parallel()
	h, _ := open(t, services.Postgres(t))
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
	if err := f.Commit(t.Context()); err == nil {
		t.Error("Commit after Rollback: no error")
	}
}

// TestIncidentsAreLogged wants one line for the incidents of a call, and none
// for a redo that records nothing. No line and no error has the password.
func TestIncidentsAreLogged(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := openSink(t, postgres.Options{URL: services.Postgres(t), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	p := part(0)
	claimAll(t, s, p)
	p.Incidents = []sink.Incident{{Kind: "lost", Topic: "arrivals", FromOffset: 1}, {Kind: "lost", Topic: "arrivals", FromOffset: 2}}
	for range 2 {
		mustFlush(t, s, p)
	}
	text := log.String()
	if strings.Count(text, "\n") != 1 || !strings.Contains(text, "count=2 kind=lost topic=arrivals") {
		t.Errorf("log is %q", text)
	}
}

// TestLargeFlush crosses the bounds of a statement in rows and in bytes.
func TestLargeFlush(t *testing.T) {
	t.Parallel()
	address := services.Postgres(t)
	s, pool := openSink(t, postgres.Options{URL: address}), openPool(t, address)
	p := part(0)
	claimAll(t, s, p)
	for i := range int64(25) {
		g := segment()
		g.Start, g.End, g.Data = i*300_000, (i+1)*300_000, bytes.Repeat([]byte{byte(i)}, 1<<20)
		p.Segments = append(p.Segments, g)
	}
	for i := range int64(25_001) {
		p.State.Trips = append(p.State.Trips, sink.Trip{TripID: strings.Repeat("x", int(i%7)) + string(rune('a'+i%26)), StartDate: string(rune(0x4e00 + i%20_000)), Tie: i})
	}
	mustFlush(t, s, p)
	wantCounts(t, pool, "SELECT count(*) FROM window_segments WHERE length(data) = 1048576", 25)
	keys := map[[2]string]bool{}
	for _, r := range p.State.Trips {
		keys[[2]string{r.TripID, r.StartDate}] = true
	}
	wantCounts(t, pool, "SELECT count(*) FROM trip_delay_latest", int64(len(keys)))
	mustFlush(t, s, p)
}

// TestCancelledMidway ends the context of a flush while it waits for a lock: it is
// not there, the error is the context's own, and it can be made again.
func TestCancelledMidway(t *testing.T) {
	t.Parallel()
	address := services.Postgres(t)
	s, pool := openSink(t, postgres.Options{URL: address}), openPool(t, address)
	p := part(0)
	claimAll(t, s, p)
	p.State.Vehicles = []sink.Vehicle{{VehicleID: "v"}}
	mustFlush(t, s, p)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT FROM vehicle_latest FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	p.State.Vehicles[0].Tie, p.From, p.To = 1, &sink.Point{Next: 1, Position: 5}, sink.Point{Next: 6, Position: 6}
	ctx, cancel := context.WithCancel(t.Context())
	flushed := make(chan error, 1)
	go func() {
		_, err := s.Flush(ctx, []sink.PartitionFlush{p})
		flushed <- err
	}()
	waitUntil(t, pool, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')")
	cancel()
	if err := <-flushed; !errors.Is(err, context.Canceled) || errors.Is(err, sink.ErrTransient) {
		t.Errorf("Flush: got %v", err)
	}
	wantCounts(t, pool, "SELECT position FROM consumer_offsets", 5)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustFlush(t, s, p)
	wantCounts(t, pool, "SELECT position FROM consumer_offsets", 6)
}
