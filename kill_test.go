package peil_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/peil-stream/peil/event"
	"github.com/peil-stream/peil/internal/cli"
	"github.com/peil-stream/peil/internal/sqlitefile"
	"github.com/peil-stream/peil/internal/stream"
	streamsqlite "github.com/peil-stream/peil/internal/stream/sqlite"
	"github.com/peil-stream/peil/internal/testkit"
)

// TestMain lets the test binary be peil itself, so that a test can kill a real
// process without building another one.
func TestMain(m *testing.M) {
	if os.Getenv("PEIL_TEST_AS_MAIN") == "1" {
		os.Exit(cli.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
	}
	os.Exit(m.Run())
}

// peilCommand is a peil process.
func peilCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), "PEIL_TEST_AS_MAIN=1", "PEIL_FLUSH_INTERVAL=100ms", "PEIL_LOG_LEVEL=warn")
	return cmd
}

// run runs peil to its end and returns what it printed; it must exit with code.
func run(t *testing.T, code int, args ...string) string {
	t.Helper()
	cmd := peilCommand(t.Context(), args...)
	out, err := cmd.CombinedOutput()
	if got := exitCode(err); got != code {
		t.Fatalf("peil %s: exit %d (%v), want %d\n%s", strings.Join(args, " "), got, err, code, out)
	}
	return string(out)
}

func exitCode(err error) int {
	if err == nil {
		return 0
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	return -1
}

// batch is how much is killed how often.
type batch struct {
	polls, kills, between int
	observations          int
}

// batchOf is a seeded city of 240 polls, two hours: 24 windows; in short form of
// half an hour.
func batchOf(short bool) batch {
	if short {
		return batch{polls: 60, kills: 4, between: 1, observations: 80_000}
	}
	return batch{polls: 240, kills: 15, between: 5, observations: 500_000}
}

func (b batch) command(dir string) []string {
	return []string{
		"demo", "--data-dir", dir, "--seed", "7", "--from", "2026-03-02T06:00:00Z", "--polls", strconv.Itoa(b.polls),
	}
}

// TestKillAndRestart kills a real process at random moments between the first
// append and the last merge. What it leaves behind must equal an undisturbed run.
func TestKillAndRestart(t *testing.T) {
	t.Parallel()
	b := batchOf(testing.Short())
	whole := filepath.Join(t.TempDir(), "whole")
	run(t, 0, b.command(whole)...)
	want, size := dump(t, whole), logEnd(t, whole)

	dir := filepath.Join(t.TempDir(), "killed")
	random := rand.New(rand.NewPCG(1, 2))
	kills, between := 0, 0
	for try := 0; kills < b.kills || between < b.between; try++ {
		if try == 60 {
			t.Fatalf("only %d kills, %d of them with one window open and another merged", kills, between)
		}
		left := size - logEnd(t, dir)
		finished := b.killOnce(t, dir, random.Int64N(left/int64(max(b.kills-kills, 1)+2)))
		if finished {
			t.Fatalf("the batch ended after %d kills: it must be killed more quickly", kills)
		}
		kills++
		if openAndMerged(t, dir) {
			between++
		}
	}
	run(t, 0, b.command(dir)...)
	t.Logf("%d kills, %d of them with one window open and another merged", kills, between)

	if got := dump(t, dir); got != want {
		t.Fatalf("the tables differ from an undisturbed run:\n%s", firstDifference(want, got))
	}
	for _, d := range []string{whole, dir} {
		out := run(t, 0, "verify", "--data-dir", d)
		t.Log(strings.TrimSpace(out))
		checkBooks(t, d, b.observations)
	}
	// The same command again finds everything done.
	run(t, 0, b.command(dir)...)
	if got := dump(t, dir); got != want {
		t.Fatalf("running the finished batch again changes the tables:\n%s", firstDifference(want, got))
	}
}

// killOnce starts the batch, waits until the log has grown by more than a number
// of records, and kills it, unless it has finished before.
func (b batch) killOnce(t *testing.T, dir string, grow int64) (finished bool) {
	t.Helper()
	before := logEnd(t, dir)
	cmd := peilCommand(t.Context(), b.command(dir)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for {
		select {
		case err := <-done:
			if err != nil {
				t.Fatalf("peil ended by itself: %v\n%s", err, &out)
			}
			return true
		case <-deadline.C:
			t.Fatalf("the log does not grow:\n%s", &out)
		case <-poll.C:
			if logEnd(t, dir) <= before+grow {
				continue
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			return <-done == nil // it may have ended just before
		}
	}
}

// withFile reads a data folder beside a process that may be writing it.
func withFile(t *testing.T, dir string, fn func(ctx context.Context, f *sqlitefile.File)) bool {
	t.Helper()
	path := filepath.Join(dir, "peil.db")
	if _, err := os.Stat(path); err != nil {
		return false
	}
	f, err := sqlitefile.OpenReadOnly(t.Context(), path, sqlitefile.Options{})
	if err != nil {
		return false // the file is being made
	}
	defer func() {
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}()
	fn(t.Context(), f)
	return true
}

// query runs a query that gives one integer; a table or file that is not there
// yet is 0.
func query(t *testing.T, dir, q string) int64 {
	t.Helper()
	var n sql.NullInt64
	inTables(t, dir, func(ctx context.Context, tx *sql.Tx) {
		if err := tx.QueryRowContext(ctx, q).Scan(&n); err != nil && !strings.Contains(err.Error(), "no such table") {
			t.Fatal(err)
		}
	})
	return n.Int64
}

func logEnd(t *testing.T, dir string) int64 {
	t.Helper()
	return query(t, dir, "SELECT sum(log_end) FROM log_partitions")
}

// openAndMerged says whether one window is merged while records of another are
// read but not committed.
func openAndMerged(t *testing.T, dir string) bool {
	t.Helper()
	merged := query(t, dir, "SELECT count(*) FROM window_segments WHERE merged_at IS NOT NULL")
	open := query(t, dir, "SELECT count(*) FROM consumer_offsets WHERE topic = 'arrival-predictions' AND position > next_offset")
	return merged > 0 && open > 0
}

// dump is every table but for the columns that tell when and by whom a row was
// written.
func dump(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	if !inTables(t, dir, func(_ context.Context, tx *sql.Tx) {
		for _, q := range []string{
			"SELECT window_start, window_end, dimension, dimension_id, operator, event_count, mean_delay_s, p90_delay_s, max_delay_s, min_delay_s, topic FROM delay_aggregates ORDER BY 1, 3, 4",
			"SELECT vehicle_id, trip_id, line_id, operator, latitude, longitude, bearing, speed_mps, stop_id, current_status, occupancy, observed_at, tie FROM vehicle_latest ORDER BY 1",
			"SELECT trip_id, start_date, line_id, operator, stop_id, station_id, stop_sequence, delay_s, predicted_time, observed_at, tie FROM trip_delay_latest ORDER BY 1, 2",
			"SELECT window_start, topic, partition, window_end, first_offset, through_offset, records, origin, merged_at IS NOT NULL FROM window_segments ORDER BY 1, 2, 3",
			"SELECT topic, partition, next_offset, position, watermark, final_to, accepted, late, dead, ignored FROM consumer_offsets ORDER BY 1, 2",
		} {
			testkit.WriteRows(t, &out, tx, q)
		}
	}) {
		t.Fatalf("%s cannot be read", dir)
	}
	return out.String()
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			return "want " + w[i] + "\ngot  " + g[i]
		}
	}
	return fmt.Sprintf("want %d lines, got %d", len(w), len(g))
}

// checkBooks holds that every record of the log was judged exactly once, and that
// no observation is in the log twice.
func checkBooks(t *testing.T, dir string, observations int) {
	t.Helper()
	withFile(t, dir, func(ctx context.Context, f *sqlitefile.File) {
		log, err := streamsqlite.NewReader(ctx, f)
		if err != nil {
			t.Fatal(err)
		}
		topics, err := log.Describe(ctx, "arrival-predictions", "vehicle-positions")
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, topic := range topics {
			for i := range topic.Partitions {
				p := stream.Partition{Topic: topic.Name, Index: i}
				records := bookPartition(ctx, t, log, p, seen)
				judged := query(t, dir, fmt.Sprintf(
					"SELECT accepted + late + dead + ignored FROM consumer_offsets WHERE topic = '%s' AND partition = %d", topic.Name, i))
				if judged != records {
					t.Errorf("%s: %d records judged, %d in the log", p, judged, records)
				}
			}
		}
		if len(seen) < observations {
			t.Errorf("only %d observations in the log", len(seen))
		}
	})
}

// bookPartition counts the records that are no markers, and fails on an
// observation that was published before.
func bookPartition(ctx context.Context, t *testing.T, log stream.Reader, p stream.Partition, seen map[string]bool) (records int64) {
	t.Helper()
	b, err := stream.BoundsOf(ctx, log, p)
	if err != nil {
		t.Fatal(err)
	}
	for rec, err := range log.Read(ctx, p, b.Start, b.End) {
		if err != nil {
			t.Fatal(err)
		}
		if _, marker := rec.Header(event.MarkerHeader); marker {
			continue
		}
		records++
		// An event says what was observed and when, so equal bytes are the same
		// observation; bad records of the noise repeat by their nature.
		if rec.Value == nil || !bytes.Contains(rec.Value, []byte(`"timestamp":"20`)) || bytes.Contains(rec.Value, []byte("noise")) {
			continue
		}
		k := p.String() + string(rec.Value)
		if seen[k] {
			t.Fatalf("%s offset %d: published twice: %s", p, rec.Offset, rec.Value)
		}
		seen[k] = true
	}
	return records
}
