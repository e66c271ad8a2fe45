//go:build integration

package postgres_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/sink/postgres"
	"github.com/peil-stream/peil/internal/sink/sinktest"
	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/internal/testkit/services"
	"github.com/peil-stream/peil/window"
)

// TestM01SegmentBetweenReadAndMerge: A finalises W0 with p0's segment; B writes
// p1's segment of W0 meanwhile. The row ends with both.
func TestM01SegmentBetweenReadAndMerge(t *testing.T) {
	t.Parallel()
	h, _ := open(t, services.Postgres(t))
	runCheck(t, "M01 a segment", h)
}

// TestM01SideBySide: two instances close and finalise 60 windows at once.
func TestM01SideBySide(t *testing.T) {
	t.Parallel()
	h, _ := open(t, services.Postgres(t))
	runCheck(t, "M01 instances", h)
}

// TestM02BothCloseAtOnce: A and B close W0 at once, each sees the other's old
// watermark. The next tick, an empty one, finalises W0.
func TestM02BothCloseAtOnce(t *testing.T) {
	t.Parallel()
	h, _ := open(t, services.Postgres(t))
	runCheck(t, "M02", h)
}

// TestM03LateSegmentOfASealedWindow: p1 wakes after retention has emptied W0. The
// row keeps its 1,000 records, and there is an incident.
func TestM03LateSegmentOfASealedWindow(t *testing.T) {
	t.Parallel()
	h, _ := open(t, services.Postgres(t))
	runCheck(t, "M03", h)
}

// TestM13EqualContentKeepsTheRevision: a window is finalised again, by a redo or
// a takeover, with equal content.
func TestM13EqualContentKeepsTheRevision(t *testing.T) {
	t.Parallel()
	h, _ := open(t, services.Postgres(t))
	runCheck(t, "M13", h)
}

// TestM19ReplacedBetweenReadAndMark: another process replaces segments after the
// finaliser has read them. They stay unmerged and are merged at the next tick.
func TestM19ReplacedBetweenReadAndMark(t *testing.T) {
	t.Parallel()
	h, _ := open(t, services.Postgres(t))
	runCheck(t, "M19", h)
}

// TestK27MergeOfTwoInstances: the row of the network has records of both.
func TestK27MergeOfTwoInstances(t *testing.T) {
	t.Parallel()
	h, _ := open(t, services.Postgres(t))
	runCheck(t, "K27", h)
}

// TestK22OppositeOrder: two instances write the same keys in opposite order a
// thousand times, and both finalise. Nothing is lost.
func TestK22OppositeOrder(t *testing.T) {
	t.Parallel()
	h, _ := open(t, services.Postgres(t))
	if err := sinktest.OppositeOrder(1000).Run(t.Context(), h); err != nil {
		t.Error(err)
	}
}

// TestK22Deadlock makes a flush the victim of a deadlock with a session that
// locks in another order. It may be tried again, nothing of it is there, and
// then it succeeds.
func TestK22Deadlock(t *testing.T) {
	t.Parallel()
	url := services.Postgres(t)
	// Its own wait is looked at first, so it is the victim.
	s := openSink(t, postgres.Options{URL: url + "&options=-cdeadlock_timeout%3D1s"})
	pool := openPool(t, url+"&options=-cdeadlock_timeout%3D60s")
	p := part(0)
	claimAll(t, s, p)
	p.State.Vehicles = []sink.Vehicle{{VehicleID: "a"}, {VehicleID: "b"}}
	mustFlush(t, s, p)
	before := mustDump(t, pool)
	p.From = &p.To
	p.State.Vehicles = []sink.Vehicle{{VehicleID: "a", Tie: 1}, {VehicleID: "b", Tie: 1}}

	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "UPDATE vehicle_latest SET tie = 0 WHERE vehicle_id = 'b'"); err != nil {
		t.Fatal(err)
	}
	flushed := make(chan error, 1)
	go func() {
		_, err := s.Flush(t.Context(), []sink.PartitionFlush{p})
		flushed <- err
	}()
	waitUntil(t, pool, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'peil' "+
		"AND datname = current_database() AND wait_event_type = 'Lock')")
	if _, err := tx.Exec(t.Context(), "UPDATE vehicle_latest SET tie = 0 WHERE vehicle_id = 'a'"); err != nil {
		t.Fatalf("the other session is the victim: %v", err)
	}
	if err := <-flushed; !errors.Is(err, sink.ErrTransient) || !strings.Contains(err.Error(), "40P01") {
		t.Errorf("Flush: got %v, want a deadlock that may pass", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, mustDump(t, pool)); diff != "" {
		t.Errorf("tables changed:\n%s", diff)
	}
	mustFlush(t, s, p)
}

// waitUntil asks until the answer is yes.
func waitUntil(tb testing.TB, pool *pgxpool.Pool, question string) {
	tb.Helper()
	for yes := false; !yes; {
		if err := pool.QueryRow(tb.Context(), question).Scan(&yes); err != nil {
			tb.Fatal(err)
		}
	}
}

// TestK24BadTextNamesItsRow: text that the database refuses ends the flush with
// the table and key of that one row among 20,001. Nothing is written; without it
// the flush succeeds.
func TestK24BadTextNamesItsRow(t *testing.T) {
	t.Parallel()
	database := services.Postgres(t)
	vehicles := func(bad sink.Vehicle) sink.State {
		var st sink.State
		for i := range 20_000 {
			st.Vehicles = append(st.Vehicles, sink.Vehicle{VehicleID: fmt.Sprintf("nl:%05d", i)})
		}
		st.Vehicles = append(st.Vehicles, bad)
		return st
	}
	trip := func(bad sink.Trip) sink.State {
		return sink.State{Trips: []sink.Trip{{TripID: "nl:good"}, bad, {TripID: "nl:zzz"}}}
	}
	tests := []struct {
		name  string
		spoil func(*sink.PartitionFlush)
		want  postgres.DataError
	}{
		{"NUL in a vehicle's stop", func(p *sink.PartitionFlush) {
			p.State = vehicles(sink.Vehicle{VehicleID: "nl:12345x", StopID: "A\x00B"})
		}, postgres.DataError{Table: "vehicle_latest", Key: "vehicle nl:12345x"}},
		{"bad UTF-8 in a vehicle's id", func(p *sink.PartitionFlush) {
			p.State = vehicles(sink.Vehicle{VehicleID: "nl:\xff"})
		}, postgres.DataError{Table: "vehicle_latest", Key: `vehicle "nl:\xff"`}},
		{"NUL in a trip's stop", func(p *sink.PartitionFlush) {
			p.State = trip(sink.Trip{TripID: "nl:t", StartDate: "20261130", StopID: "A\x00B\xff"})
		}, postgres.DataError{Table: "trip_delay_latest", Key: `trip nl:t of "20261130"`}},
		{"not a number", func(p *sink.PartitionFlush) {
			p.State = vehicles(sink.Vehicle{VehicleID: "nl:nan", Latitude: math.NaN()})
		}, postgres.DataError{Table: "vehicle_latest", Key: "vehicle nl:nan"}},
		{"unknown origin", func(p *sink.PartitionFlush) {
			g := segment()
			g.Origin = "elsewhere"
			p.Segments = []sink.Segment{g}
		}, postgres.DataError{Table: "window_segments", Key: "of partition arrivals/0: window 1970-01-01T00:00:00.000Z"}},
		{"NUL in an incident", func(p *sink.PartitionFlush) {
			p.Incidents = []sink.Incident{{Kind: "good"}, {Kind: "bad", Topic: "arrivals", Detail: "\x00"}}
		}, postgres.DataError{Table: "incidents", Key: "incident bad of arrivals"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			url := schema(t, database)
			s, pool := openSink(t, postgres.Options{URL: url, Now: new(sinktest.Clock).Now}), openPool(t, url)
			p := part(0)
			claimAll(t, s, p)
			before := mustDump(t, pool)
			bad := p
			tt.spoil(&bad)
			_, err := s.Flush(t.Context(), []sink.PartitionFlush{bad})
			got, ok := errors.AsType[*postgres.DataError](err)
			if !ok || errors.Is(err, sink.ErrTransient) {
				t.Fatalf("Flush: got %v, want a lasting error that names the row", err)
			}
			if got.Table != tt.want.Table || got.Key != tt.want.Key {
				t.Errorf("the error names %s %s, want %s %s", got.Table, got.Key, tt.want.Table, tt.want.Key)
			}
			if diff := cmp.Diff(before, mustDump(t, pool)); diff != "" {
				t.Errorf("tables changed:\n%s", diff)
			}
			mustFlush(t, s, p)
		})
	}
}

// TestK24BadTextInASegment: ids within a segment meet the database only when the
// window is merged.
func TestK24BadTextInASegment(t *testing.T) {
	t.Parallel()
	h, _ := open(t, services.Postgres(t))
	final := func(s sink.Sink, rows ...window.Row) error {
		f, err := s.Final(t.Context(), sink.FinalRequest{Topic: "arrivals", Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.Apply(t.Context(), sink.PendingWindow{End: 300_000}, rows)
		return errors.Join(err, f.Rollback(t.Context()))
	}
	err := final(h.Sink, window.Row{Dimension: "line", ID: "a"}, window.Row{Dimension: "line", ID: "b\x00"}, window.Row{Dimension: "line", ID: "c"})
	got, ok := errors.AsType[*postgres.DataError](err)
	if !ok || got.Table != "delay_aggregates" || got.Key != `line "b\x00"` {
		t.Errorf("Apply: got %v", err)
	}
	if err := final(h.Second, window.Row{Dimension: "line", ID: "a"}); err != nil {
		t.Errorf("Apply after it: %v", err)
	}
}

func streamTopic(partitions int32) stream.Topic {
	return stream.Topic{Name: "arrivals", ID: "id", Partitions: partitions}
}

// part is a flush of a partition that reads five records.
func part(index int32) sink.PartitionFlush {
	return sink.PartitionFlush{
		Partition: stream.Partition{Topic: "arrivals", Index: index}, TopicID: "id", Epoch: 1,
		To: sink.Point{Next: 1, Position: 5}, LeaderEpoch: -1, Watermark: sink.NoTime, FinalTo: sink.NoTime,
	}
}

func segment() sink.Segment {
	return sink.Segment{End: 300_000, FirstOffset: 1, ThroughOffset: 2, Records: 1, Origin: sink.OriginLive, Data: []byte{1}}
}

// claimAll claims the partitions of new flushes.
func claimAll(tb testing.TB, s sink.Sink, parts ...sink.PartitionFlush) {
	tb.Helper()
	for _, p := range parts {
		req := sink.ClaimRequest{Partition: p.Partition, TopicID: p.TopicID, Group: "peil", Owner: "owner", Fingerprint: "5m/2m/5m"}
		if c, err := s.Claim(tb.Context(), req); err != nil || c.Epoch != p.Epoch {
			tb.Fatalf("Claim = %+v, %v; want epoch %d", c, err, p.Epoch)
		}
	}
}

func mustFlush(tb testing.TB, s sink.Sink, parts ...sink.PartitionFlush) {
	tb.Helper()
	if result, err := s.Flush(tb.Context(), parts); err != nil || len(result.Fenced) > 0 {
		tb.Fatalf("Flush = %+v, %v", result, err)
	}
}

func mustDump(tb testing.TB, pool *pgxpool.Pool) string {
	tb.Helper()
	text, err := dump(tb.Context(), pool)
	if err != nil {
		tb.Fatal(err)
	}
	return text
}
