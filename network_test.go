package peil_test

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/peil-stream/peil/internal/sqlitefile"
	"github.com/peil-stream/peil/internal/testkit"
)

// dutchNetwork is the capture of the whole Dutch network, 30 November 2014.
const dutchNetwork = "testdata/nl-ovapi-tripupdates-2014"

// networkRow is what the batch job over the capture gives for one window.
type networkRow struct {
	window    string
	count     int64
	mean, p90 float64
	max, min  int64
}

func replayDutch(t *testing.T, partitions int, closed bool) (dir, out string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "data")
	args := []string{
		"run", "--data-dir", dir, "--partitions", strconv.Itoa(partitions),
		"--replay", dutchNetwork, "--feed", "nl", "--emit", "arrivals", "--until-done",
	}
	if closed {
		args = append(args, "--close")
	}
	out = run(t, 0, args...)
	if verified := run(t, 0, "verify", "--data-dir", dir); !strings.Contains(verified, "no differences") {
		t.Fatalf("verify: %s", verified)
	}
	return dir, out
}

func TestDutchNetwork(t *testing.T) {
	t.Parallel()
	var first string
	for _, partitions := range []int{1, 4, 12} {
		dir, _ := replayDutch(t, partitions, true)
		checkDutch(t, dir)
		rows := readRows(t, dir, "SELECT window_start, dimension, dimension_id, operator, event_count, mean_delay_s, p90_delay_s, max_delay_s, min_delay_s, revision FROM delay_aggregates ORDER BY 1, 2, 3")
		if first == "" {
			first = rows
		}
		if rows != first {
			t.Fatalf("the rows depend on the number of partitions:\n%s", firstDifference(first, rows))
		}
	}
}

func checkDutch(t *testing.T, dir string) {
	t.Helper()
	const sums = "SELECT sum(accepted) || ' ' || sum(late) || ' ' || sum(dead) || ' ' || sum(ignored) FROM consumer_offsets"
	if got := strings.TrimSpace(readRows(t, dir, sums)); !strings.HasSuffix(got, "=57021 0 0 0") {
		t.Fatalf("accepted, late, dead, ignored: %s, want 57021 0 0 0", got)
	}
	for _, w := range []networkRow{
		{"2014-11-30T10:05:00.000Z", 8, 1102.375, 1212, 1212, 1000},
		{"2014-11-30T20:25:00.000Z", 30, -5506.0 / 30, 99, 115, -3241},
		{"2014-11-30T22:00:00.000Z", 3606, 24.418191902384915, 158, 2125, -1991},
		{"2014-11-30T22:35:00.000Z", 3357, 2.070598748882931, 128, 683, -2169},
	} {
		var got networkRow
		scanRow(t, dir, fmt.Sprintf("SELECT event_count, mean_delay_s, p90_delay_s, max_delay_s, min_delay_s FROM delay_aggregates WHERE dimension = 'network' AND dimension_id = 'nl' AND window_start = '%s'", w.window),
			&got.count, &got.mean, &got.p90, &got.max, &got.min)
		got.window = w.window
		if math.Abs(got.mean-w.mean) < 1e-12 {
			got.mean = w.mean
		}
		if got != w {
			t.Errorf("network row %+v, want %+v", got, w)
		}
	}
	for operator, want := range map[string]int64{
		"CXX": 16611, "VTN": 8582, "ARR": 8402, "QBUZZ": 7358, "RET": 5474, "HTM": 5104, "SYNTUS": 4492, "EBS": 998,
	} {
		var got int64
		scanRow(t, dir, fmt.Sprintf("SELECT sum(event_count) FROM delay_aggregates WHERE dimension = 'operator' AND dimension_id = 'nl:%s'", operator), &got)
		if got != want {
			t.Errorf("operator %s: %d events, want %d", operator, got, want)
		}
	}
}

func TestDutchNetworkWithoutClosingIt(t *testing.T) {
	t.Parallel()
	dir, out := replayDutch(t, 4, false)
	var final int64
	var newest string
	scanRow(t, dir, "SELECT sum(event_count), max(window_start) FROM delay_aggregates WHERE dimension = 'network'", &final, &newest)
	if final != 53_057 || newest != "2014-11-30T22:35:00.000Z" {
		t.Fatalf("%d events in final rows up to %s, want 53057 up to 22:35", final, newest)
	}
	for _, open := range []string{"2014-11-30T22:40:00.000Z", "2014-11-30T22:45:00.000Z"} {
		if !strings.Contains(out, open) {
			t.Errorf("the open window %s is not listed:\n%s", open, out)
		}
	}
	// The capture is complete after all: the same command with --close goes on.
	run(t, 0, "run", "--data-dir", dir, "--replay", dutchNetwork, "--feed", "nl", "--emit", "arrivals", "--close", "--until-done")
	checkDutch(t, dir)
}

// TestIngestThenProcess plays the capture by the two commands apart: ingest ends
// when everything is published, process works until it is stopped.
func TestIngestThenProcess(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	ingest := []string{"ingest", "--data-dir", dir, "--replay", dutchNetwork, "--feed", "nl", "--emit", "arrivals", "--close"}
	run(t, 0, ingest...)
	end := logEnd(t, dir)
	// Empty tables are no right result for a log that closes windows.
	if out := run(t, 3, "verify", "--data-dir", dir); !strings.Contains(out, "nothing of the log was processed") {
		t.Fatalf("verify: %s", out)
	}
	run(t, 0, ingest...)
	if again := logEnd(t, dir); again != end {
		t.Fatalf("the log holds %d offsets, and %d after the same command again", end, again)
	}
	stop(t, os.Interrupt, func() bool {
		return query(t, dir, "SELECT sum(event_count) FROM delay_aggregates WHERE dimension = 'network'") == 57_021
	}, "process", "--data-dir", dir, "--listen", "127.0.0.1:0")
	checkDutch(t, dir)
	if out := run(t, 0, "status", "--data-dir", dir); !strings.Contains(out, "arrival-predictions") {
		t.Fatalf("status: %s", out)
	}
}

// readRows gives the rows of a query as text.
func readRows(t *testing.T, dir, q string) string {
	t.Helper()
	var b strings.Builder
	inTables(t, dir, func(_ context.Context, tx *sql.Tx) { testkit.WriteRows(t, &b, tx, q) })
	return b.String()
}

func scanRow(t *testing.T, dir, q string, into ...any) {
	t.Helper()
	if !inTables(t, dir, func(ctx context.Context, tx *sql.Tx) {
		if err := tx.QueryRowContext(ctx, q).Scan(into...); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}) {
		t.Fatalf("%s cannot be read", dir)
	}
}

// inTables runs a function in a read transaction of a data folder; false: there
// is nothing to read yet.
func inTables(t *testing.T, dir string, fn func(context.Context, *sql.Tx)) bool {
	t.Helper()
	return withFile(t, dir, func(ctx context.Context, f *sqlitefile.File) {
		tx, end, err := f.BeginRead(ctx)
		if err != nil {
			t.Fatal(err)
		}
		fn(ctx, tx)
		if err := end(); err != nil {
			t.Fatal(err)
		}
	})
}
