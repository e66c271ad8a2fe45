package cli

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	_ "modernc.org/sqlite" // the tests change the tables behind the sink's back

	"github.com/peil-stream/peil/internal/config"
	"github.com/peil-stream/peil/internal/processor"
	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/internal/testkit"
	"github.com/peil-stream/peil/internal/verify"
)

// verifyData is a data folder whose log closes one window of three delays and has
// a fourth in the next one; it was processed or not.
func verifyData(t *testing.T, processed bool) (dir string, rig *testkit.Rig) {
	t.Helper()
	dir = t.TempDir()
	rig = testkit.New(t, testkit.Options{Path: filepath.Join(dir, "peil.db")})
	rig.Put(0, 10, rig.Delay(10, 60), rig.Delay(20, 0), rig.Delay(30, 600))
	rig.Put(0, 430, rig.Delay(430, 5))
	if processed {
		run := rig.Start(func(c *processor.Config) { c.Fingerprint = config.Config{}.Fingerprint() })
		run.MustDrain()
		run.Stop()
	}
	return dir, rig
}

// alter changes the tables of a folder whose rig is closed.
func alter(t *testing.T, dir, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(dir, "peil.db"))
	if err != nil {
		t.Fatal(err)
	}
	res, err := db.ExecContext(t.Context(), statement)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	if n, err := res.RowsAffected(); n == 0 || err != nil {
		t.Fatalf("%s: changed %d rows, %v", statement, n, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// peilVerify runs the command and returns what it prints; it must exit with code.
func peilVerify(t *testing.T, code int, environ []string, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	got := Main(context.Background(), append([]string{"verify"}, args...), strings.NewReader(""), &out, &errs, environ)
	if got != code {
		t.Fatalf("peil verify %s: exit %d, want %d\n%s%s", strings.Join(args, " "), got, code, &out, &errs)
	}
	return out.String(), errs.String()
}

// TestVerifyBesideTheWriter: the file stays open for writing while it is verified.
func TestVerifyBesideTheWriter(t *testing.T) {
	t.Parallel()
	dir, _ := verifyData(t, true)
	stdout, stderr := peilVerify(t, ExitOK, nil, "--data-dir", dir)
	want := "read 4 records; compared 2 stored positions, 1 segment, 1 window, 4 rows and 4 newest rows\nno differences\n"
	if stdout != want || stderr != "" {
		t.Fatalf("stdout %q, stderr %q, want %q", stdout, stderr, want)
	}
}

func TestVerifyFindsDifferences(t *testing.T) {
	t.Parallel()
	dir, rig := verifyData(t, true)
	rig.Close()
	alter(t, dir, "UPDATE delay_aggregates SET event_count = 4 WHERE dimension = 'network'")
	want := verify.Difference{
		Table: "delay_aggregates", Key: "2026-09-21T14:15:00.000Z network nl", Column: "event_count", Stored: "4", Expected: "3",
	}

	stdout, stderr := peilVerify(t, ExitFindings, nil, "--data-dir", dir)
	for _, line := range []string{
		"1 difference\n\nTABLE ",
		"delay_aggregates  2026-09-21T14:15:00.000Z network nl  event_count  4       3\n",
	} {
		if !strings.Contains(stdout, line) {
			t.Errorf("table lacks %q:\n%s", line, stdout)
		}
	}
	if stderr != "" {
		t.Errorf("stderr %q", stderr)
	}

	stdout, stderr = peilVerify(t, ExitFindings, nil, "--data-dir", dir, "-o", "csv")
	if got := "table,key,column,stored,expected\ndelay_aggregates,2026-09-21T14:15:00.000Z network nl,event_count,4,3\n"; stdout != got {
		t.Errorf("csv %q, want %q", stdout, got)
	}
	if !strings.HasSuffix(stderr, "\n1 difference\n") {
		t.Errorf("stderr beside csv %q", stderr)
	}

	stdout, _ = peilVerify(t, ExitFindings, nil, "--data-dir", dir, "-o", "json")
	var report verify.Report
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		t.Fatalf("json: %v\n%s", err, stdout)
	}
	if diff := gocmp.Diff([]verify.Difference{want}, report.Differences); diff != "" || report.Windows != 1 || report.DifferenceCount != 1 {
		t.Errorf("json report of %d windows mismatch (-want +got):\n%s", report.Windows, diff)
	}
	if !strings.Contains(stdout, `"pending": []`) {
		t.Errorf("an empty list is no list:\n%s", stdout)
	}
}

// TestVerifyExitsThree deletes, adds and shifts.
func TestVerifyExitsThree(t *testing.T) {
	t.Parallel()
	for name, statement := range map[string]string{
		"row deleted":        "DELETE FROM delay_aggregates WHERE dimension = 'line'",
		"table emptied":      "DELETE FROM delay_aggregates",
		"row added":          "INSERT INTO delay_aggregates SELECT window_start, window_end, dimension, 'nl:other', operator, event_count, mean_delay_s, p90_delay_s, max_delay_s, min_delay_s, revision, topic, computed_at FROM delay_aggregates LIMIT 1",
		"offset shifted":     "UPDATE consumer_offsets SET next_offset = 2 WHERE topic = 'arrival-predictions'",
		"state changed":      "UPDATE trip_delay_latest SET delay_s = delay_s + 1",
		"segments forgotten": "DELETE FROM window_segments",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, rig := verifyData(t, true)
			rig.Close()
			alter(t, dir, statement)
			peilVerify(t, ExitFindings, nil, "--data-dir", dir)
		})
	}
}

func TestVerifyWithNothingToCompare(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	testkit.New(t, testkit.Options{Path: filepath.Join(dir, "peil.db")})
	stdout, _ := peilVerify(t, ExitOK, nil, "--data-dir", dir)
	if !strings.Contains(stdout, "nothing to compare in delay_aggregates: no window is closed and merged\nno differences\n") {
		t.Errorf("empty log:\n%s", stdout)
	}
	// A log that closes windows and was never processed is not right.
	dir, _ = verifyData(t, false)
	stdout, _ = peilVerify(t, ExitFindings, nil, "--data-dir", dir)
	if !strings.Contains(stdout, "not null: nothing of the log was processed, and it closes windows (1)") {
		t.Errorf("never processed:\n%s", stdout)
	}
}

func TestVerifyShowsWhatWaits(t *testing.T) {
	t.Parallel()
	dir, rig := verifyData(t, true)
	rig.Close()
	alter(t, dir, "UPDATE window_segments SET merged_at = NULL")
	alter(t, dir, "DELETE FROM delay_aggregates")
	stdout, _ := peilVerify(t, ExitOK, nil, "--data-dir", dir)
	for _, want := range []string{
		"nothing to compare in delay_aggregates",
		"1 window closed and not yet merged\n",
		"PENDING WINDOW            TOPIC                PARTITIONS  REASON\n" +
			"2026-09-21T14:15:00.000Z  arrival-predictions  0           final, not merged yet\n",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("lacks %q:\n%s", want, stdout)
		}
	}
}

func TestVerifyCannotCompare(t *testing.T) {
	t.Parallel()
	_, stderr := peilVerify(t, ExitUnreachable, nil, "--data-dir", t.TempDir())
	if !strings.Contains(stderr, "there is no database yet\nhint: ") {
		t.Errorf("no file: %s", stderr)
	}

	broken := t.TempDir()
	if err := os.WriteFile(filepath.Join(broken, "peil.db"), []byte(strings.Repeat("no database", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	peilVerify(t, ExitFailure, nil, "--data-dir", broken)

	dir, _ := verifyData(t, true)
	_, stderr = peilVerify(t, ExitUsage, []string{"PEIL_WINDOW_SIZE=10m"}, "--data-dir", dir)
	if !strings.Contains(stderr, "hint: set window.size, window.lateness and future.max_skew to what the rows were made with") {
		t.Errorf("other settings: %s", stderr)
	}
	peilVerify(t, ExitUsage, nil, "--data-dir", dir, "extra")
	peilVerify(t, ExitUsage, nil, "--data-dir", dir, "-o", "xml")
}

// listedTopics is a log of which only the names are asked.
type listedTopics struct {
	stream.Reader
	names []string
}

func (l listedTopics) Topics(context.Context) ([]string, error) { return l.names, nil }

func TestVerifiedTopics(t *testing.T) {
	t.Parallel()
	log := listedTopics{names: []string{"arrival-predictions", "dlq.nl.arrival-predictions", "fr.arrival-predictions", "nl.arrival-predictions", "nl.vehicle-positions"}}
	own := config.Topics{Arrivals: "<feed>.arrival-predictions", Positions: "<feed>.vehicle-positions"}
	for _, test := range []struct {
		name   string
		config config.Config
		want   []string
	}{
		{"defaults", config.Config{}, []string{"arrival-predictions", "vehicle-positions"}},
		{"one feed", config.Config{Feeds: []config.Feed{{Name: "nl"}}}, []string{"arrival-predictions", "vehicle-positions"}},
		{"feeds, and what else the log has", config.Config{Topics: own, Feeds: []config.Feed{{Name: "nl"}, {Name: "be"}}}, []string{
			"be.arrival-predictions", "fr.arrival-predictions", "nl.arrival-predictions",
			"be.vehicle-positions", "fr.vehicle-positions", "nl.vehicle-positions",
		}},
		{"as the log has them", config.Config{Topics: own}, []string{
			"fr.arrival-predictions", "nl.arrival-predictions", "fr.vehicle-positions", "nl.vehicle-positions",
		}},
	} {
		arrivals, positions, err := verifiedTopics(t.Context(), test.config.WithDefaults(), log)
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Concat(arrivals, positions); !slices.Equal(got, test.want) {
			t.Errorf("%s: topics %q, want %q", test.name, got, test.want)
		}
	}
}
