package verify_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the tests change the tables behind the sink's back

	"github.com/peil-stream/peil/event"
	sinksqlite "github.com/peil-stream/peil/internal/sink/sqlite"
	"github.com/peil-stream/peil/internal/sqlitefile"
	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/internal/verify"
)

// emptyTables is a file with the tables and no row, made once.
var emptyTables = sync.OnceValues(func() (file []byte, err error) {
	dir, err := os.MkdirTemp("", "peil-verify")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "peil.db")
	f, err := sqlitefile.Open(context.Background(), path, sqlitefile.Options{})
	if err != nil {
		return nil, err
	}
	if _, err := sinksqlite.New(context.Background(), f, sinksqlite.Options{}); err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// scene is a log and a file of tables.
type scene struct {
	t    *testing.T
	log  *memoryLog
	path string
}

// newScene has no topic and no row.
func newScene(t *testing.T) *scene {
	t.Helper()
	file, err := emptyTables()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "peil.db")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	return &scene{t: t, log: newLog(), path: path}
}

// exec runs statements on the tables and fails if one that changes rows hits none.
func (s *scene) exec(statements ...string) {
	s.t.Helper()
	db, err := sql.Open("sqlite", s.path)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, statement := range statements {
		res, err := db.ExecContext(s.t.Context(), statement)
		if err != nil {
			s.t.Fatalf("%s: %v", statement, err)
		}
		n, err := res.RowsAffected()
		if err != nil || n == 0 {
			s.t.Fatalf("%s: changed %d rows, %v", statement, n, err)
		}
	}
	if err := db.Close(); err != nil {
		s.t.Fatal(err)
	}
}

// run verifies the scene with windows of 5 min, 2 min of lateness and 5 min of
// skew.
func (s *scene) run(change func(*verify.Options)) (verify.Report, error) {
	s.t.Helper()
	return s.runWith(s.t.Context(), change)
}

func (s *scene) runWith(ctx context.Context, change func(*verify.Options)) (verify.Report, error) {
	s.t.Helper()
	f, err := sqlitefile.OpenReadOnly(ctx, s.path, sqlitefile.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { closeAll(s.t, f) })
	viewer, err := sinksqlite.NewViewer(ctx, f)
	if err != nil {
		s.t.Fatal(err)
	}
	o := verify.Options{
		Viewer: viewer, Reader: s.log,
		ArrivalsTopics: []string{arrivals}, PositionsTopics: []string{positions},
		WindowSize: 5 * time.Minute, Lateness: 2 * time.Minute, MaxSkew: 5 * time.Minute,
	}
	if change != nil {
		change(&o)
	}
	return verify.Run(ctx, o)
}

// verify is run without an error.
func (s *scene) verify() verify.Report {
	s.t.Helper()
	r, err := s.run(nil)
	if err != nil {
		s.t.Fatalf("verify: %v", err)
	}
	return r
}

// clean verifies and fails on a difference.
func (s *scene) clean() verify.Report {
	s.t.Helper()
	r := s.verify()
	if !r.Clean() {
		s.t.Fatalf("differences in right tables:\n%s", lines(r.Differences))
	}
	return r
}

func lines[T any](all []T) string {
	var b strings.Builder
	for _, x := range all {
		fmt.Fprintf(&b, "%+v\n", x)
	}
	return b.String()
}

// ts is T0 plus seconds as the tables hold it.
func ts(seconds float64) string {
	return "'" + time.UnixMilli(at(seconds)).UTC().Format("2006-01-02T15:04:05.000Z") + "'"
}

// onlyPartition is the partition of arrivals in scenes that have one.
var onlyPartition = stream.Partition{Topic: arrivals}

const infinity = "'9999-12-31T23:59:59.999Z'"

// offsets is a row of consumer_offsets.
func offsets(topic string, partition int, next, position int64, watermark, finalTo string, accepted, late, dead, ignored int) string {
	return fmt.Sprintf(`INSERT INTO consumer_offsets VALUES ('%s', %d, 'peil', '%s', %d, %d, -1, %s, %s, %d, %d, %d, %d, 'f', 1, 'me', %s)`,
		topic, partition, topicID, next, position, watermark, finalTo, accepted, late, dead, ignored, ts(0))
}

// segment is a row of window_segments of a window that starts at T0+start.
func segment(start float64, partition int, first, through, records int64, merged bool) string {
	at := "NULL"
	if merged {
		at = ts(9000)
	}
	return fmt.Sprintf(`INSERT INTO window_segments VALUES (%s, '%s', %d, %s, '%s', %d, %d, %d, 'live', %s, x'00')`,
		ts(start), arrivals, partition, ts(start+300), topicID, first, through, records, at)
}

// aggregate is a row of delay_aggregates; operator is SQL.
func aggregate(start float64, dimension, id, operator string, count int, mean string, p90, high, low int) string {
	return fmt.Sprintf(`INSERT INTO delay_aggregates VALUES (%s, %s, '%s', '%s', %s, %d, %s, %d, %d, %d, 1, '%s', %s)`,
		ts(start), ts(start+300), dimension, id, operator, count, mean, p90, high, low, arrivals, ts(9000))
}

// both is the two rows that samples of a window make.
func both(start float64, count int, mean string, p90, high, low int) []string {
	return []string{
		aggregate(start, "line", "nl:A", "NULL", count, mean, p90, high, low),
		aggregate(start, "network", "nl", "NULL", count, mean, p90, high, low),
	}
}

// trip is the newest row of the one trip of the samples.
func trip(seconds float64, delay int) string {
	return fmt.Sprintf(`INSERT INTO trip_delay_latest VALUES ('nl:t', '', 'nl:A', NULL, NULL, NULL, NULL, %d, NULL, %s, -1152921504606846977, %s)`,
		delay, ts(seconds), ts(0))
}

// town is the scene that the table tests alter: two partitions of arrivals with
// the numbers of K14 and K38, one of positions, one row of a partition that was
// only registered. Every number below is worked out by hand.
//
// Partition 0: offset 0 a delay of 60; 1 a day ahead of its log timestamp, dead;
// 2 to 11 ten delays of 0; 12 null; 13 at +430 closes the first window; 14 late;
// 15 a heartbeat at +435. Partition 1: delays of -120 and -60, a skipped stop, a
// delay of 7 in the second window, 5 at +730 which closes both, garbage.
func town(t *testing.T) *scene {
	t.Helper()
	s := newScene(t)
	s.log.create(arrivals, 2)
	s.log.create(positions, 2)
	s.log.put(arrivals, 0, prediction(10, 60, "nl:t1", "nl:A", func(p *event.Prediction) {
		stop(p, 4, "nl:s1", "nl:S1", "nl:O2")
		p.PredictedTime = at(20)
	}), logged(11, prediction(86_400, 0, "nl:t1", "nl:A", nil)))
	for i := range 10 {
		s.log.put(arrivals, 0, prediction(float64(20*(i+1)), 0, "nl:t2", "nl:A", func(p *event.Prediction) {
			stop(p, int64(i+2), "nl:s2", "nl:S2", "nl:O1")
		}))
	}
	s.log.put(arrivals, 0, null(205), prediction(430, 30, "nl:t1", "nl:A", func(p *event.Prediction) {
		stop(p, 5, "nl:s9", "nl:S9", "nl:O1")
		p.PredictedTime = at(400)
	}), prediction(100, 99, "nl:t3", "nl:A", nil), heartbeat(435))
	first := func(p *event.Prediction) { p.StopSequence, p.HasStopSequence = 1, true }
	second := func(p *event.Prediction) { p.StopSequence, p.HasStopSequence = 2, true }
	s.log.put(arrivals, 1,
		prediction(50, -120, "nl:u1", "nl:C", first), prediction(60, -60, "nl:u1", "nl:C", second),
		prediction(70, 0, "nl:u1", "nl:C", func(p *event.Prediction) { p.Status = event.Skipped }),
		prediction(310, 7, "nl:u2", "nl:C", nil), prediction(730, 5, "nl:u2", "nl:C", nil), garbage(731))
	s.log.put(positions, 0, position(10, 52.1, 4.9, "nl:v1", func(p *event.Position) {
		p.TripID, p.LineID, p.Operator, p.StopID = []byte("nl:t1"), []byte("nl:A"), []byte("nl:O1"), []byte("nl:s1")
		p.CurrentStatus, p.Occupancy = []byte("IN_TRANSIT_TO"), []byte("FEW_SEATS")
		p.Bearing, p.SpeedMPS, p.HasBearing, p.HasSpeed = 90.5, 12.25, true, true
	}), position(5, 52.2, 4.8, "nl:v1", nil), position(10, 51, 5, "nl:v2", nil), position(11, 0, 0, "nl:v2", nil), null(12))
	s.exec(
		offsets(arrivals, 0, 13, 16, ts(315), ts(315), 12, 1, 1, 1),
		offsets(arrivals, 1, 4, 6, ts(610), ts(610), 5, 0, 1, 0),
		offsets(positions, 0, 5, 5, ts(-110), ts(-110), 3, 0, 1, 1),
		`INSERT INTO consumer_offsets VALUES ('vehicle-positions', 1, 'peil', 'id-1', NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, '', 0, '', `+ts(0)+`)`,
		segment(0, 0, 0, 13, 11, true),
		segment(0, 1, 0, 4, 2, true),
		segment(300, 1, 3, 4, 1, false),
		aggregate(0, "line", "nl:A", "'nl:O1'", 11, "5.454545454545454", 0, 60, 0),
		aggregate(0, "line", "nl:C", "NULL", 2, "-90", -60, -60, -120),
		aggregate(0, "network", "nl", "'nl:O1'", 13, "-9.23076923076923", 0, 60, -120),
		aggregate(0, "operator", "nl:O1", "'nl:O1'", 10, "0", 0, 0, 0),
		aggregate(0, "operator", "nl:O2", "'nl:O2'", 1, "60", 60, 60, 60),
		aggregate(0, "station", "nl:S1", "'nl:O2'", 1, "60", 60, 60, 60),
		aggregate(0, "station", "nl:S2", "'nl:O1'", 10, "0", 0, 0, 0),
		`INSERT INTO trip_delay_latest VALUES
			('nl:t1', '20260921', 'nl:A', 'nl:O1', 'nl:s9', 'nl:S9', 5, 30, `+ts(400)+`, `+ts(430)+`, 5, `+ts(0)+`),
			('nl:t2', '20260921', 'nl:A', 'nl:O1', 'nl:s2', 'nl:S2', 11, 0, NULL, `+ts(200)+`, 11, `+ts(0)+`),
			('nl:t3', '', 'nl:A', NULL, NULL, NULL, NULL, 99, NULL, `+ts(100)+`, -1152921504606846977, `+ts(0)+`),
			('nl:u1', '', 'nl:C', NULL, NULL, NULL, 2, -60, NULL, `+ts(60)+`, 2, `+ts(0)+`),
			('nl:u2', '', 'nl:C', NULL, NULL, NULL, NULL, 5, NULL, `+ts(730)+`, -1152921504606846977, `+ts(0)+`)`,
		`INSERT INTO vehicle_latest VALUES
			('nl:v1', 'nl:t1', 'nl:A', 'nl:O1', 52.1, 4.9, 90.5, 12.25, 'nl:s1', 'IN_TRANSIT_TO', 'FEW_SEATS', `+ts(10)+`, 0, `+ts(0)+`),
			('nl:v2', NULL, NULL, NULL, 51, 5, NULL, NULL, NULL, NULL, NULL, `+ts(10)+`, 2, `+ts(0)+`)`,
	)
	return s
}

func stop(p *event.Prediction, sequence int64, stopID, station, operator string) {
	p.StartDate = []byte("20260921")
	p.StopSequence, p.HasStopSequence = sequence, true
	p.StopID, p.StationID, p.Operator = []byte(stopID), []byte(station), []byte(operator)
}

func closeAll(t *testing.T, all ...io.Closer) {
	t.Helper()
	for _, c := range all {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}
