//go:build captures

package peil_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// capture is the path of a capture beside the repository.
func capture(t *testing.T, path string) string {
	t.Helper()
	root := os.Getenv("PEIL_CAPTURES")
	if root == "" {
		root = filepath.Join("..", "shared", "data")
	}
	full := filepath.Join(root, filepath.FromSlash(path))
	if _, err := os.Stat(full); err != nil {
		t.Fatalf("no capture %s (%v): set PEIL_CAPTURES to their folder", path, err)
	}
	return full
}

// TestCapturesEndToEnd plays whole captures by the command, and has every row
// recomputed. Package gtfsrt recounts their events independently.
func TestCapturesEndToEnd(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		folder, emit        string
		accepted, withDelay int64
		windows             map[string]int64
	}{
		{folder: "nl-ovapi-tripupdates-2014/tripUpdates.pb", emit: "arrivals", accepted: 57_021, withDelay: 57_021},
		{folder: "us-nyct-subway-2024/ace-rush-80min", emit: "predictions", accepted: 69_570},
		{folder: "nz-auckland-2016", emit: "predictions", accepted: 1_713, withDelay: 1_713},
		{folder: "nz-auckland-2016", emit: "arrivals", accepted: 1_635, withDelay: 1_635, windows: map[string]int64{
			"2016-05-18T19:55": 150, "2016-05-18T20:00": 739, "2016-05-18T20:05": 746,
		}},
		{folder: "us-soundtransit-2023", emit: "predictions", accepted: 1_294, withDelay: 168},
		{folder: "be-nmbs-2015", emit: "predictions", accepted: 5_879, withDelay: 5_747},
	} {
		t.Run(test.folder+" "+test.emit, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			run(t, 0, "run", "--data-dir", dir, "--replay", capture(t, test.folder), "--feed", "x", "--emit", test.emit, "--close", "--until-done")
			if out := run(t, 0, "verify", "--data-dir", dir); !strings.Contains(out, "no differences") {
				t.Fatalf("verify: %s", out)
			}
			var accepted, late, dead, counted int64
			scanRow(t, dir, "SELECT sum(accepted), sum(late), sum(dead) FROM consumer_offsets WHERE topic = 'arrival-predictions'", &accepted, &late, &dead)
			scanRow(t, dir, "SELECT coalesce(sum(event_count), 0) FROM delay_aggregates WHERE dimension = 'network'", &counted)
			if accepted != test.accepted || late != 0 || dead != 0 || counted != test.withDelay {
				t.Errorf("accepted %d, late %d, dead %d, in final rows %d; want %d, 0, 0, %d", accepted, late, dead, counted, test.accepted, test.withDelay)
			}
			for window, want := range test.windows {
				var got int64
				scanRow(t, dir, fmt.Sprintf("SELECT event_count FROM delay_aggregates WHERE dimension = 'network' AND window_start = '%s:00.000Z'", window), &got)
				if got != want {
					t.Errorf("window %s: %d events, want %d", window, got, want)
				}
			}
		})
	}
}

// TestTinyAndBrokenByTheCommand holds the exit code of each file played alone: 1 if
// it could not be decoded, after the rest was done.
func TestTinyAndBrokenByTheCommand(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]struct {
		exit int
		says string
	}{
		"alerts-only.pb":                       {0, "alerts only"},
		"canceled-only_trip_updates.pb":        {0, "published 6 predictions"},
		"duplicate-entity-ids_trip_updates.pb": {0, "published 16 predictions"},
		"header-only_15bytes.pb":               {0, "published 0 predictions and 0 positions of 1 snapshot"},
		"not_valid_pb_data.pb":                 {1, "not_gtfs_rt"},
		"zero-bytes.pb":                        {1, "the body is empty"},
	} {
		out := run(t, want.exit, "ingest", "--data-dir", filepath.Join(t.TempDir(), "data"),
			"--replay", capture(t, "misc-tiny-and-broken/"+file), "--feed", "x")
		if !strings.Contains(out, want.says) {
			t.Errorf("%s: it does not say %q:\n%s", file, want.says, out)
		}
	}
}
