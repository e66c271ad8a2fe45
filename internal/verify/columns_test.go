package verify_test

import (
	"cmp"
	"database/sql"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/peil-stream/peil/internal/verify"
)

func TestTownIsClean(t *testing.T) {
	t.Parallel()
	got := town(t).clean()
	want := verify.Report{
		Records: 27, Partitions: 3, Segments: 3, Windows: 1, Rows: 7, StateRows: 7,
		Differences: []verify.Difference{},
		Pending: []verify.Pending{{
			Topic: arrivals, WindowStart: "2026-09-21T14:20:00.000Z", WindowEnd: "2026-09-21T14:25:00.000Z",
			Partitions: []int32{1}, Reason: "held by arrival-predictions/0 (final_to 2026-09-21T14:20:15.000Z)",
		}},
		PendingCount: 1,
		ToBeRevised:  []verify.Revision{},
		Unjudged:     []verify.Unjudged{},
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Fatalf("report of the town mismatch (-want +got):\n%s", diff)
	}
}

// notCompared lists the columns that no log decides.
var notCompared = map[string][]string{
	"delay_aggregates":  {"revision", "computed_at"},
	"trip_delay_latest": {"updated_at"},
	"vehicle_latest":    {"updated_at"},
	// merged_at is compared as whether, not when; data by what it is merged to.
	"window_segments":  {"data"},
	"consumer_offsets": {"group_id", "leader_epoch", "fingerprint", "epoch", "owner", "updated_at"},
}

// alteration is a change behind the sink's back and the difference that it must
// make.
type alteration struct {
	table, column, value, where string
	// blames is the column that the report names, if it is another one, with the
	// table if that is another one.
	blames string
}

const whole = verify.WholeRow

// alterations has every compared column of every table at least once.
var alterations = []alteration{
	{"delay_aggregates", "window_start", ts(-300), "dimension_id = 'nl:A'", whole},
	{"delay_aggregates", "window_end", ts(600), "dimension_id = 'nl:A'", ""},
	{"delay_aggregates", "dimension", "'station'", "dimension_id = 'nl:A'", whole},
	{"delay_aggregates", "dimension_id", "'nl:B'", "dimension_id = 'nl:A'", whole},
	{"delay_aggregates", "operator", "'nl:O2'", "dimension_id = 'nl:A'", ""},
	{"delay_aggregates", "operator", "NULL", "dimension = 'network'", ""},
	{"delay_aggregates", "operator", "'nl:O1'", "dimension_id = 'nl:C'", ""},
	{"delay_aggregates", "event_count", "12", "dimension_id = 'nl:A'", ""},
	{"delay_aggregates", "mean_delay_s", "5.454545454545455", "dimension_id = 'nl:A'", ""}, // one bit
	{"delay_aggregates", "p90_delay_s", "-66", "dimension_id = 'nl:C'", ""},                // interpolated
	{"delay_aggregates", "p90_delay_s", "60", "dimension_id = 'nl:A'", ""},
	{"delay_aggregates", "max_delay_s", "0", "dimension_id = 'nl:C'", ""}, // seeded with 0
	{"delay_aggregates", "min_delay_s", "-1", "dimension_id = 'nl:A'", ""},
	{"delay_aggregates", "topic", "'other'", "dimension_id = 'nl:A'", ""},
	{"delay_aggregates", "topic", "'vehicle-positions'", "dimension_id = 'nl:A'", ""},

	{"window_segments", "window_start", ts(-300), "first_offset = 3", whole},
	{"window_segments", "window_end", ts(900), "first_offset = 3", ""},
	{"window_segments", "topic", "'other'", "first_offset = 3", whole},
	{"window_segments", "partition", "0", "first_offset = 3", whole},
	{"window_segments", "partition", "2", "first_offset = 3", whole},
	{"window_segments", "topic_id", "'id-0'", "first_offset = 3", ""},
	{"window_segments", "first_offset", "2", "first_offset = 3", ""},
	{"window_segments", "through_offset", "5", "first_offset = 3", ""},
	{"window_segments", "records", "2", "first_offset = 3", ""},
	{"window_segments", "origin", "'backfill'", "first_offset = 3", ""},

	{"consumer_offsets", "topic", "'other'", "position = 6", "window_segments." + whole},
	{"consumer_offsets", "partition", "2", "position = 6", whole},
	{"consumer_offsets", "topic_id", "'id-0'", "position = 6", ""},
	{"consumer_offsets", "next_offset", "14", "position = 16", ""},
	{"consumer_offsets", "next_offset", "12", "position = 16", ""},
	{"consumer_offsets", "next_offset", "16", "position = 16", ""},
	{"consumer_offsets", "next_offset", "0", "position = 6", ""},
	{"consumer_offsets", "next_offset", "4", "position = 5", ""},
	{"consumer_offsets", "position", "7", "position = 6", ""},       // past the end
	{"consumer_offsets", "position", "5", "position = 6", "dead"},   // a record less
	{"consumer_offsets", "position", "14", "position = 16", "late"}, // the heartbeat too
	{"consumer_offsets", "watermark", ts(314), "position = 16", ""},
	{"consumer_offsets", "watermark", ts(316), "position = 16", ""},
	{"consumer_offsets", "watermark", "NULL", "position = 16", ""},
	{"consumer_offsets", "watermark", ts(-109), "position = 5", ""},
	{"consumer_offsets", "watermark", ts(0), "position IS NULL", ""},
	{"consumer_offsets", "final_to", ts(400), "position = 16", ""},
	{"consumer_offsets", "final_to", infinity, "position = 16", ""},
	{"consumer_offsets", "final_to", "NULL", "position = 16", ""},
	{"consumer_offsets", "final_to", infinity, "position IS NULL", ""},
	{"consumer_offsets", "accepted", "13", "position = 16", ""},
	{"consumer_offsets", "accepted", "4", "position = 6", ""},
	{"consumer_offsets", "accepted", "1", "position IS NULL", ""},
	{"consumer_offsets", "late", "0", "position = 16", ""},
	{"consumer_offsets", "dead", "2", "position = 16", ""},
	{"consumer_offsets", "dead", "0", "position = 5", ""},
	{"consumer_offsets", "ignored", "0", "position = 16", ""},

	{"trip_delay_latest", "trip_id", "'nl:t9'", "trip_id = 'nl:t1'", whole},
	{"trip_delay_latest", "start_date", "''", "trip_id = 'nl:t1'", whole},
	{"trip_delay_latest", "line_id", "'nl:B'", "trip_id = 'nl:t1'", ""},
	{"trip_delay_latest", "operator", "NULL", "trip_id = 'nl:t1'", ""},
	{"trip_delay_latest", "operator", "'nl:O1'", "trip_id = 'nl:t3'", ""},
	{"trip_delay_latest", "stop_id", "'nl:s1'", "trip_id = 'nl:t1'", ""},
	{"trip_delay_latest", "station_id", "'nl:S1'", "trip_id = 'nl:t1'", ""},
	{"trip_delay_latest", "stop_sequence", "4", "trip_id = 'nl:t1'", ""},
	{"trip_delay_latest", "stop_sequence", "0", "trip_id = 'nl:t3'", ""},
	{"trip_delay_latest", "delay_s", "60", "trip_id = 'nl:t1'", ""},
	{"trip_delay_latest", "predicted_time", ts(401), "trip_id = 'nl:t1'", ""},
	{"trip_delay_latest", "predicted_time", "NULL", "trip_id = 'nl:t1'", ""},
	{"trip_delay_latest", "observed_at", ts(429), "trip_id = 'nl:t1'", ""},
	{"trip_delay_latest", "tie", "6", "trip_id = 'nl:t1'", ""},

	{"vehicle_latest", "vehicle_id", "'nl:v9'", "vehicle_id = 'nl:v1'", whole},
	{"vehicle_latest", "trip_id", "'nl:t2'", "vehicle_id = 'nl:v1'", ""},
	{"vehicle_latest", "line_id", "NULL", "vehicle_id = 'nl:v1'", ""},
	{"vehicle_latest", "operator", "'nl:O2'", "vehicle_id = 'nl:v1'", ""},
	{"vehicle_latest", "latitude", "52.2", "vehicle_id = 'nl:v1'", ""},
	{"vehicle_latest", "longitude", "4.8", "vehicle_id = 'nl:v1'", ""},
	{"vehicle_latest", "bearing", "90.50000000000001", "vehicle_id = 'nl:v1'", ""},
	{"vehicle_latest", "bearing", "0", "vehicle_id = 'nl:v2'", ""},
	{"vehicle_latest", "speed_mps", "NULL", "vehicle_id = 'nl:v1'", ""},
	{"vehicle_latest", "stop_id", "'nl:s2'", "vehicle_id = 'nl:v1'", ""},
	{"vehicle_latest", "current_status", "'STOPPED_AT'", "vehicle_id = 'nl:v1'", ""},
	{"vehicle_latest", "occupancy", "'FULL'", "vehicle_id = 'nl:v1'", ""},
	{"vehicle_latest", "observed_at", ts(5), "vehicle_id = 'nl:v1'", ""},
	{"vehicle_latest", "tie", "1", "vehicle_id = 'nl:v1'", ""},
}

// TestEveryColumnIsCompared alters one column of one row at a time.
func TestEveryColumnIsCompared(t *testing.T) {
	t.Parallel()
	for _, a := range alterations {
		t.Run(a.table+"/"+a.column+"="+a.value, func(t *testing.T) {
			t.Parallel()
			s := town(t)
			s.exec("UPDATE " + a.table + " SET " + a.column + " = " + a.value + " WHERE " + a.where)
			r := s.verify()
			blames := cmp.Or(a.blames, a.column)
			if !strings.Contains(blames, ".") {
				blames = a.table + "." + blames
			}
			if !slices.ContainsFunc(r.Differences, func(d verify.Difference) bool {
				return d.Table+"."+d.Column == blames
			}) {
				t.Fatalf("no difference of %s among:\n%s", blames, lines(r.Differences))
			}
			if int64(len(r.Differences)) != r.DifferenceCount {
				t.Fatalf("%d differences listed, %d counted", len(r.Differences), r.DifferenceCount)
			}
		})
	}
}

// TestAlterationsCoverTheSchema holds the list above against the tables
// themselves, so that a new column cannot be forgotten.
func TestAlterationsCoverTheSchema(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("sqlite", newScene(t).path)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(t, db)
	for table, exempt := range notCompared {
		for _, column := range columnsOf(t, db, table) {
			covered := slices.ContainsFunc(alterations, func(a alteration) bool { return a.table == table && a.column == column })
			if column == "merged_at" {
				covered = true // TestMergedAt
			}
			if covered == slices.Contains(exempt, column) {
				t.Errorf("%s.%s: covered by an alteration: %t, exempt: %t", table, column, covered, !covered)
			}
		}
	}
}

func columnsOf(t *testing.T, db *sql.DB, table string) (names []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT name FROM pragma_table_info(?)", table)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := rows.Close(); err != nil {
			t.Error(err)
		}
	}()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	if err := rows.Err(); err != nil || len(names) == 0 {
		t.Fatalf("%s has %d columns, %v", table, len(names), err)
	}
	return names
}

// TestNotCompared alters what no log decides: still clean.
func TestNotCompared(t *testing.T) {
	t.Parallel()
	s := town(t)
	for table, columns := range notCompared {
		for _, c := range columns {
			value := "9"
			switch {
			case strings.HasSuffix(c, "_at"):
				value = ts(77)
			case c == "group_id", c == "fingerprint", c == "owner":
				value = "'x'"
			case c == "data":
				value = "x'ff'"
			}
			s.exec("UPDATE " + table + " SET " + c + " = " + value)
		}
	}
	s.clean()
}

// TestRowsMissingAndTooMany deletes rows, adds some, and empties tables.
func TestRowsMissingAndTooMany(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name      string
		statement string
		table     string
		count     int64
	}{
		{"aggregate deleted", "DELETE FROM delay_aggregates WHERE dimension = 'network'", "delay_aggregates", 1},
		{"aggregates deleted", "DELETE FROM delay_aggregates", "delay_aggregates", 7},
		{"aggregate of a cell", aggregate(0, "line", "nl:Z", "NULL", 1, "0", 0, 0, 0), "delay_aggregates", 1},
		{"aggregate of an open window", aggregate(600, "line", "nl:C", "NULL", 1, "5", 5, 5, 5), "delay_aggregates", 1},
		{"aggregate of a pending window", aggregate(300, "line", "nl:C", "NULL", 1, "7", 7, 7, 7), "delay_aggregates", 1},
		{"aggregate of a window nobody knows", aggregate(-9000, "line", "nl:C", "NULL", 1, "7", 7, 7, 7), "delay_aggregates", 1},
		{"aggregate between windows", aggregate(1, "line", "nl:C", "NULL", 1, "7", 7, 7, 7), "delay_aggregates", 1},
		{"aggregate of an unknown topic", strings.ReplaceAll(
			aggregate(0, "line", "nl:Z", "NULL", 1, "0", 0, 0, 0), arrivals, "other"), "delay_aggregates", 1},
		{"aggregate of the other topic", strings.ReplaceAll(
			aggregate(0, "line", "nl:Z", "NULL", 1, "0", 0, 0, 0), arrivals, positions), "delay_aggregates", 1},
		{"merged segment deleted", "DELETE FROM window_segments WHERE through_offset = 13", "window_segments", 1},
		{"pending segment deleted", "DELETE FROM window_segments WHERE first_offset = 3", "window_segments", 1},
		{"segments deleted", "DELETE FROM window_segments", "window_segments", 3},
		{"segment of an open window", segment(300, 0, 13, 15, 1, false), "window_segments", 1},
		{"segment of no record", segment(900, 0, 13, 15, 1, false), "window_segments", 1},
		{"trip deleted", "DELETE FROM trip_delay_latest WHERE trip_id = 'nl:t3'", "trip_delay_latest", 1},
		{"trips deleted", "DELETE FROM trip_delay_latest", "trip_delay_latest", 5},
		{"trip too many", trip(0, 0), "trip_delay_latest", 1},
		{"vehicle deleted", "DELETE FROM vehicle_latest WHERE vehicle_id = 'nl:v2'", "vehicle_latest", 1},
		{"vehicle too many", `INSERT INTO vehicle_latest SELECT 'nl:v3', trip_id, line_id, operator, latitude, longitude, bearing,
			speed_mps, stop_id, current_status, occupancy, observed_at, tie, updated_at FROM vehicle_latest LIMIT 1`, "vehicle_latest", 1},
		{"partition too many", offsets(arrivals, 2, 0, 0, "NULL", infinity, 0, 0, 0, 0), "consumer_offsets", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := town(t)
			s.exec(test.statement)
			r := s.verify()
			for _, d := range r.Differences {
				if d.Table != test.table || d.Column != whole {
					t.Errorf("unexpected difference %+v", d)
				}
			}
			if r.DifferenceCount != test.count {
				t.Errorf("%d differences, want %d:\n%s", r.DifferenceCount, test.count, lines(r.Differences))
			}
		})
	}
}

// TestDeletedOffset deletes the row of a partition: what it wrote has no position
// to be judged by.
func TestDeletedOffset(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"position = 6", "position = 16", "position = 5"} {
		s := town(t)
		s.exec("DELETE FROM consumer_offsets WHERE " + where)
		if r := s.verify(); r.Clean() {
			t.Errorf("%s: clean", where)
		}
	}
}

// TestMergedAt: a merged segment's records must be in the rows, and an unmerged
// one's must not.
func TestMergedAt(t *testing.T) {
	t.Parallel()
	s := town(t)
	s.exec("UPDATE window_segments SET merged_at = NULL WHERE through_offset = 13")
	if r := s.verify(); r.Clean() || r.PendingCount != 2 {
		t.Errorf("unmerged but in the rows: %d pending, differences:\n%s", r.PendingCount, lines(r.Differences))
	}
	s = town(t)
	s.exec("UPDATE window_segments SET merged_at = " + ts(1) + " WHERE first_offset = 3")
	r := s.verify()
	if r.PendingCount != 0 || r.DifferenceCount != 2 { // line nl:C and network nl of the second window
		t.Errorf("merged but not in the rows: %d pending, differences:\n%s", r.PendingCount, lines(r.Differences))
	}
}
