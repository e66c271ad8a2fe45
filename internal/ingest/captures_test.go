//go:build captures

package ingest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/peil-stream/peil/internal/ingest"
	"github.com/peil-stream/peil/internal/transit/gtfsrt"
)

func captures(t *testing.T, path string) string {
	t.Helper()
	root := os.Getenv("PEIL_CAPTURES")
	if root == "" {
		root = filepath.Join("..", "..", "..", "shared", "data")
	}
	full := filepath.Join(root, filepath.FromSlash(path))
	if _, err := os.Stat(full); err != nil {
		t.Fatalf("no capture %s (%v): set PEIL_CAPTURES to their folder", path, err)
	}
	return full
}

// TestCapturesThroughTheLog plays whole folders, as they lie there, and counts
// what is in the log. The figures of predictions are those that the recount of
// package gtfsrt finds, event by event, and its comment tells which differ from
// earlier ones and why.
func TestCapturesThroughTheLog(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		folder            string
		emit              gtfsrt.Emit
		arrivals, delays  int
		positions, failed int
		windows           map[string]int
	}{
		{"us-nyct-subway-2024/ace-rush-80min", gtfsrt.Predictions, 69_570, 0, 0, 0, nil},
		{"nz-auckland-2016", gtfsrt.Predictions, 1_713, 1_713, 0, 0, nil},
		{"nz-auckland-2016", gtfsrt.Arrivals, 1_635, 1_635, 0, 0, map[string]int{"19:55": 150, "20:00": 739, "20:05": 746}},
		{"us-soundtransit-2023", gtfsrt.Predictions, 1_294, 168, 82, 0, nil},
		{"be-nmbs-2015", gtfsrt.Predictions, 5_879, 5_747, 0, 0, nil},
		{"us-caltrain-2023", gtfsrt.Predictions, 208, 0, 14, 0, nil},
	} {
		t.Run(test.folder+" "+test.emit.String(), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, 2)
			r.cfg.Emit = test.emit
			report := r.replay(r.open(), ingest.Options{Paths: []string{captures(t, test.folder)}})
			total, delays, windows := 0, 0, map[string]int{}
			for _, records := range r.records(arrivals) {
				for _, record := range records {
					if strings.HasPrefix(record, "<") {
						continue
					}
					total++
					if strings.Contains(record, `"delay_s"`) {
						delays++
					}
					_, stamp, _ := strings.Cut(record, `"timestamp":"`)
					at, err := time.Parse(time.RFC3339, strings.TrimSuffix(stamp, `"}`))
					if err != nil {
						t.Fatal(err)
					}
					windows[at.Truncate(5*time.Minute).Format("15:04")]++
				}
			}
			if total != test.arrivals || delays != test.delays || report.Predictions != total || report.Positions != test.positions {
				t.Errorf("%d events, %d with a delay, %d positions, want %d, %d and %d", total, delays, report.Positions, test.arrivals, test.delays, test.positions)
			}
			if report.Failed != test.failed {
				t.Errorf("%d files failed: %v", report.Failed, report.Failures)
			}
			if test.windows != nil {
				if diff := cmp.Diff(test.windows, windows); diff != "" {
					t.Errorf("windows (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// TestTinyAndBroken is the table of what each of these files gives: events, what
// is said about it, and the exit code of a replay of it alone.
func TestTinyAndBroken(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		file   string
		events int
		says   string
		exit   int
	}{
		{"alerts-only.pb", 0, "alerts_only", 0},
		{"canceled-only_trip_updates.pb", 6, "", 0},
		{"duplicate-entity-ids_trip_updates.pb", 16, "", 0},
		{"header-only_15bytes.pb", 0, "", 0},
		{"not_valid_pb_data.pb", 0, `not_gtfs_rt: it is plain text, it begins with "not valid pb data"`, 1},
		{"zero-bytes.pb", 0, "empty: the body is empty", 1},
	} {
		t.Run(test.file, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, 1)
			report := r.replay(r.open(), ingest.Options{Paths: []string{captures(t, "misc-tiny-and-broken/"+test.file)}})
			says := []string{}
			for _, s := range report.Skipped {
				says = append(says, string(s.Reason))
			}
			for _, f := range report.Failures {
				says = append(says, f.Err.Error())
			}
			if got := fmt.Sprint(report.Events(), " ", strings.Join(says, "; "), " ", min(report.Failed, 1)); got != fmt.Sprint(test.events, " ", test.says, " ", test.exit) {
				t.Errorf("got %s, want %d %s %d", got, test.events, test.says, test.exit)
			}
			events := 0
			for _, record := range r.records(arrivals)[0] {
				if !strings.HasPrefix(record, "<") {
					events++
				}
			}
			if events != test.events {
				t.Errorf("%d events in the log", events)
			}
		})
	}
	r := newRig(t, 1)
	report := r.replay(r.open(), ingest.Options{Paths: []string{captures(t, "misc-tiny-and-broken")}})
	if report.Events() != 22 || report.Failed != 2 || report.Snapshots != 3 || len(report.Skipped) != 2 {
		t.Errorf("all of them: %+v", report)
	}
}
