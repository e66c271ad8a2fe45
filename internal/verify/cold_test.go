package verify_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/internal/verify"
)

// cold is a log whose processor began at offset 2, at log time +100: every window
// that ends at or before +600 may have begun before.
func cold(t *testing.T) *scene {
	t.Helper()
	s := one(t, sample(10, 1), sample(50, 2), sample(100, 5), sample(610, 7), sample(1020, 9))
	s.exec(
		offsets(arrivals, 0, 4, 5, ts(900), ts(900), 2, 1, 0, 0),
		segment(600, 0, 3, 4, 1, true), trip(1020, 9),
		`INSERT INTO incidents VALUES (5, 'cold_start', 'arrival-predictions', 0, 2, NULL,
			'reading began here; windows that end at or before 2026-09-21T14:25:00.000Z are not written', `+ts(0)+`)`)
	s.exec(both(600, 1, "7", 7, 7, 7)...)
	return s
}

// whole log: the same processed from its beginning.
func warm(t *testing.T) *scene {
	t.Helper()
	s := one(t, sample(10, 1), sample(50, 2), sample(100, 5), sample(610, 7), sample(1020, 9))
	s.exec(
		offsets(arrivals, 0, 4, 5, ts(900), ts(900), 5, 0, 0, 0),
		segment(0, 0, 0, 3, 3, true), segment(600, 0, 3, 4, 1, true), trip(1020, 9))
	s.exec(both(0, 3, "8 / 3.0", 5, 5, 1)...)
	s.exec(both(600, 1, "7", 7, 7, 7)...)
	return s
}

func reasons(r verify.Report) string {
	var b strings.Builder
	for _, u := range r.Unjudged {
		fmt.Fprintf(&b, "%s %s: %s\n", u.Table, u.Key, u.Reason)
	}
	return b.String()
}

// TestM18ColdStart begins where the processor's incident says that it began.
func TestM18ColdStart(t *testing.T) {
	t.Parallel()
	s := cold(t)
	if r := s.clean(); r.Windows != 1 || r.UnjudgedCount != 0 || r.Records != 3 {
		t.Fatalf("%d windows, %d records; unjudged:\n%s", r.Windows, r.Records, lines(r.Unjudged))
	}
	s.exec(`INSERT INTO incidents VALUES (4, 'cold_start', 'arrival-predictions', 0, 4, NULL, 'an older one', ` + ts(0) + `)`)
	s.clean()
	for _, test := range []struct {
		name, statement string
		want            string
	}{
		{"no incident", "DELETE FROM incidents", "consumer_offsets.accepted consumer_offsets.late window_segments.(row) delay_aggregates.(row) delay_aggregates.(row)"},
		{"window that may have begun before", segment(0, 0, 2, 3, 1, false), "window_segments.(row)"},
		{"count", "UPDATE consumer_offsets SET accepted = 3", "consumer_offsets.accepted"},
		{"began too early", "UPDATE incidents SET detail = replace(detail, '14:25', '14:20')", "incidents.detail"},
		{"watermark", "UPDATE consumer_offsets SET watermark = " + ts(901), "consumer_offsets.watermark"},
		{"state", "UPDATE trip_delay_latest SET delay_s = 8", "trip_delay_latest.delay_s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := cold(t)
			s.exec(test.statement)
			wantDifferences(t, s.verify(), strings.Fields(test.want)...)
		})
	}
}

// TestColdStartOfAQuietPartition: the processor began at the end of the log, and
// nothing has come since.
func TestColdStartOfAQuietPartition(t *testing.T) {
	t.Parallel()
	s := one(t, sample(10, 1), sample(430, 2))
	s.exec(offsets(arrivals, 0, 2, 2, "NULL", infinity, 0, 0, 0, 0))
	if r := s.clean(); !strings.Contains(reasons(r), "nothing was read yet: reading begins at offset 2") {
		t.Fatalf("unjudged:\n%s", reasons(r))
	}
	s.exec("UPDATE consumer_offsets SET next_offset = 1")
	wantDifferences(t, s.verify(), "consumer_offsets.next_offset")
	// A partition that has written something has read something.
	s.exec("UPDATE consumer_offsets SET next_offset = 2", segment(0, 0, 0, 1, 1, false))
	if r := s.verify(); r.Clean() {
		t.Fatal("clean with a segment of records that were never counted")
	}
}

// TestColdStartAfterAnEarlierStay: rows from before the cold start are named and
// left alone, and counts may include what came before.
func TestColdStartAfterAnEarlierStay(t *testing.T) {
	t.Parallel()
	s := cold(t)
	s.exec(segment(0, 0, 0, 1, 2, true), "UPDATE consumer_offsets SET accepted = 4",
		`INSERT INTO trip_delay_latest SELECT 'nl:old', start_date, line_id, operator, stop_id, station_id, stop_sequence,
			delay_s, predicted_time, observed_at, tie, updated_at FROM trip_delay_latest`)
	s.exec(both(0, 2, "1.5", 2, 2, 1)...)
	r := s.clean()
	for _, want := range []string{
		"consumer_offsets arrival-predictions/0: counts include records before offset 2",
		"window_segments 2026-09-21T14:15:00.000Z arrival-predictions/0: arrival-predictions/0: written before the cold start at offset 2",
		"delay_aggregates 2026-09-21T14:15:00.000Z arrival-predictions: arrival-predictions/0: written before the cold start",
		"trip_delay_latest nl:old",
	} {
		if !strings.Contains(reasons(r), want) {
			t.Errorf("unjudged does not say %q:\n%s", want, reasons(r))
		}
	}
	s.exec("UPDATE consumer_offsets SET accepted = 1")
	wantDifferences(t, s.verify(), "consumer_offsets.accepted")
}

// TestTrimmedLog: what began before the log does is named and not compared; the
// rest is.
func TestTrimmedLog(t *testing.T) {
	t.Parallel()
	warm(t).clean()
	trimmed := func(t *testing.T) *scene {
		t.Helper()
		s := warm(t)
		s.log.trim(onlyPartition, 2)
		return s
	}
	r := trimmed(t).clean()
	if r.Windows != 1 || r.Records != 3 {
		t.Fatalf("%d windows, %d records", r.Windows, r.Records)
	}
	for _, want := range []string{
		"window_segments 2026-09-21T14:15:00.000Z arrival-predictions/0: arrival-predictions/0: the log begins at offset 2 now",
		"delay_aggregates 2026-09-21T14:15:00.000Z arrival-predictions",
		"consumer_offsets arrival-predictions/0: counts include records before offset 2",
	} {
		if !strings.Contains(reasons(r), want) {
			t.Errorf("unjudged does not say %q:\n%s", want, reasons(r))
		}
	}
	for _, test := range []struct{ name, statement, want string }{
		{"row of a whole window", "UPDATE delay_aggregates SET max_delay_s = 8 WHERE window_start = " + ts(600) + " AND dimension = 'line'", "delay_aggregates.max_delay_s"},
		{"row of a cut window", "UPDATE delay_aggregates SET max_delay_s = 8 WHERE window_start = " + ts(0), ""},
		{"segment of a whole window", "UPDATE window_segments SET records = 2 WHERE window_start = " + ts(600), "window_segments.records"},
		{"counts below what is left", "UPDATE consumer_offsets SET accepted = 2", "consumer_offsets.accepted"},
		{"watermark below", "UPDATE consumer_offsets SET watermark = " + ts(899) + ", final_to = " + ts(899), "consumer_offsets.watermark"},
		{"watermark above", "UPDATE consumer_offsets SET watermark = " + ts(901) + ", final_to = " + ts(901), "consumer_offsets.watermark"},
		{"next offset", "UPDATE consumer_offsets SET next_offset = 3", "consumer_offsets.next_offset"},
		{"older state", "UPDATE trip_delay_latest SET observed_at = " + ts(610), "trip_delay_latest.observed_at"},
		{"newer state", "UPDATE trip_delay_latest SET observed_at = " + ts(1021), ""},
		{"state of a key that is gone", "UPDATE trip_delay_latest SET trip_id = 'nl:old'", "trip_delay_latest.(row)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := trimmed(t)
			s.exec(test.statement)
			wantDifferences(t, s.verify(), strings.Fields(test.want)...)
		})
	}
}

// TestTrimmedFurther cuts the log record by record.
func TestTrimmedFurther(t *testing.T) {
	t.Parallel()
	for start, test := range map[int64]struct {
		windows int64
		want    []string
	}{
		1: {1, nil},
		3: {0, nil}, // B is +1200
		4: {0, nil},
		// The record of the open window is gone: no restart can rebuild it.
		5: {0, []string{"consumer_offsets.next_offset"}},
	} {
		s := warm(t)
		s.log.trim(onlyPartition, start)
		r := s.verify()
		wantDifferences(t, r, test.want...)
		if r.Windows != test.windows {
			t.Errorf("from %d: %d windows compared, want %d", start, r.Windows, test.windows)
		}
	}
	s := warm(t)
	s.log.put(arrivals, 0, sample(1030, 1), sample(1040, 1))
	s.log.trim(onlyPartition, 6)
	wantDifferences(t, s.verify(), "consumer_offsets.position", "consumer_offsets.next_offset")
}

// TestTrimmedBySkew: a record that is gone may have been up to max_skew ahead of
// its log timestamp, so the window after the one of the first record is cut too.
func TestTrimmedBySkew(t *testing.T) {
	t.Parallel()
	s := one(t, logged(90, sample(310, 4)), sample(100, 5), sample(320, 6), sample(1020, 9))
	s.exec(offsets(arrivals, 0, 3, 4, ts(900), ts(900), 4, 0, 0, 0),
		segment(0, 0, 1, 3, 1, true), segment(300, 0, 0, 3, 2, true), trip(1020, 9))
	s.exec(both(0, 1, "5", 5, 5, 5)...)
	s.exec(both(300, 2, "5", 6, 6, 4)...)
	if r := s.clean(); r.Windows != 2 {
		t.Fatalf("whole log: %d windows", r.Windows)
	}
	s.log.trim(onlyPartition, 1)
	if r := s.clean(); r.Windows != 0 {
		t.Fatalf("trimmed log: %d windows", r.Windows)
	}
}

// TestTrimmedCloseMarker: a close marker that is gone may have set the watermark.
func TestTrimmedCloseMarker(t *testing.T) {
	t.Parallel()
	s := one(t, sample(10, 1), logged(20, marker(300, "close")), sample(320, 2))
	s.exec(offsets(arrivals, 0, 2, 3, ts(300), ts(300), 2, 0, 0, 0), segment(0, 0, 0, 1, 1, true), trip(320, 2))
	s.exec(both(0, 1, "1", 1, 1, 1)...)
	s.clean()
	s.log.trim(onlyPartition, 2)
	if r := s.clean(); !strings.Contains(reasons(r), "watermark 2026-09-21T14:20:00.000Z was set by records that the log no longer holds") {
		t.Fatalf("unjudged:\n%s", reasons(r))
	}
	s.exec("UPDATE consumer_offsets SET watermark = " + ts(3600) + ", final_to = " + ts(3600))
	wantDifferences(t, s.verify(), "consumer_offsets.watermark", "consumer_offsets.next_offset")
}

// TestTrimmedPositions: state rows may be older than the log.
func TestTrimmedPositions(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.log.create(positions, 1)
	s.log.put(positions, 0, position(10, 51, 4, "nl:a", nil), position(20, 52, 5, "nl:b", nil))
	row := func(vehicle string, seconds, lat, lon float64, tie int) string {
		return fmt.Sprintf("INSERT INTO vehicle_latest VALUES ('%s', NULL, NULL, NULL, %v, %v, NULL, NULL, NULL, NULL, NULL, %s, %d, %s)",
			vehicle, lat, lon, ts(seconds), tie, ts(0))
	}
	s.exec(offsets(positions, 0, 2, 2, ts(-100), ts(-100), 2, 0, 0, 0), row("nl:a", 10, 51, 4, 0), row("nl:b", 20, 52, 5, 1))
	s.clean()
	s.log.trim(stream.Partition{Topic: positions}, 1)
	if r := s.clean(); !strings.Contains(reasons(r), "vehicle_latest nl:a: the log no longer holds records of this key") {
		t.Fatalf("unjudged:\n%s", reasons(r))
	}
	s.exec("DELETE FROM vehicle_latest WHERE vehicle_id = 'nl:b'")
	wantDifferences(t, s.verify(), "vehicle_latest."+whole)
}
