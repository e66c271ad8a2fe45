package verify_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/peil-stream/peil/event"
	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/internal/verify"
)

// one is a scene with one partition of arrivals and these records.
func one(t *testing.T, records ...stream.Record) *scene {
	t.Helper()
	s := newScene(t)
	s.log.create(arrivals, 1)
	s.log.put(arrivals, 0, records...)
	return s
}

// wantDifferences fails unless exactly these columns differ, in this order.
func wantDifferences(t *testing.T, r verify.Report, want ...string) {
	t.Helper()
	var got []string
	for _, d := range r.Differences {
		got = append(got, d.Table+"."+d.Column)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("differences %v, want %v:\n%s", got, want, lines(r.Differences))
	}
}

func TestK14FutureEventDragsNothing(t *testing.T) {
	t.Parallel()
	s := one(t, sample(10, 60), logged(11, sample(86_400, 0)))
	for i := range 10 {
		s.log.put(arrivals, 0, sample(float64(20*(i+1)), 0))
	}
	s.log.put(arrivals, 0, sample(430, 0))
	s.exec(offsets(arrivals, 0, 12, 13, ts(310), ts(310), 12, 0, 1, 0), segment(0, 0, 0, 12, 11, true), trip(430, 0))
	s.exec(both(0, 11, "60.0 / 11", 0, 60, 0)...)
	if r := s.clean(); r.Windows != 1 || r.Rows != 2 {
		t.Fatalf("compared %d windows, %d rows", r.Windows, r.Rows)
	}
}

func TestK20WindowEdges(t *testing.T) {
	t.Parallel()
	s := one(t, sample(299.999, 1), sample(300, 2), sample(370, 3), sample(10, 4), sample(419, 5))
	before := []string{offsets(arrivals, 0, 0, 5, ts(299), ts(299), 5, 0, 0, 0), trip(419, 5)}
	s.exec(before...)
	if r := s.clean(); r.Windows != 0 || r.Partitions != 1 {
		t.Fatalf("at +419: compared %d windows of %d partitions", r.Windows, r.Partitions)
	}
	s.log.put(arrivals, 0, sample(420, 6), sample(299.999, 7), sample(300, 8))
	s.exec("UPDATE consumer_offsets SET next_offset = 1, position = 8, accepted = 7, late = 1, watermark = "+ts(300)+
		", final_to = "+ts(300), "UPDATE trip_delay_latest SET delay_s = 6, observed_at = "+ts(420), segment(0, 0, 0, 5, 2, true))
	s.exec(both(0, 2, "2.5", 4, 4, 1)...)
	if r := s.clean(); r.Windows != 1 {
		t.Fatalf("at +420: compared %d windows", r.Windows)
	}
}

func TestK38NoSentinels(t *testing.T) {
	t.Parallel()
	s := one(t, sample(10, -120), sample(20, -60), heartbeat(420))
	s.exec(offsets(arrivals, 0, 3, 3, ts(300), ts(300), 2, 0, 0, 0), segment(0, 0, 0, 2, 2, true), trip(20, -60))
	s.exec(both(0, 2, "-90", -60, -60, -120)...)
	s.clean()
	for column, wrong := range map[string]string{"p90_delay_s": "-66", "max_delay_s": "0", "min_delay_s": "-121"} {
		s.exec("UPDATE delay_aggregates SET " + column + " = " + wrong + " WHERE dimension = 'line'")
		wantDifferences(t, s.verify(), "delay_aggregates."+column)
		s.exec("UPDATE delay_aggregates SET " + column + " = (SELECT " + column + " FROM delay_aggregates WHERE dimension = 'network')")
	}
}

// TestWatermarkIsTheMinimum: a clock that runs 299 s fast makes nothing late (R1).
func TestWatermarkIsTheMinimum(t *testing.T) {
	t.Parallel()
	s := one(t, logged(100, sample(399, 1)), sample(101, 2))
	// min(399, 100) - 120 = -20, then 101 - 120 = -19.
	s.exec(offsets(arrivals, 0, 0, 2, ts(-19), ts(-19), 2, 0, 0, 0), trip(399, 1))
	s.clean()
	s.exec("UPDATE consumer_offsets SET watermark = " + ts(279))
	wantDifferences(t, s.verify(), "consumer_offsets.watermark")
}

func TestMarkersAndDeadLetters(t *testing.T) {
	t.Parallel()
	unknown := marker(20, "pause")
	broken := marker(20, event.HeartbeatType)
	broken.Value = []byte(`{}`)
	empty := null(20)
	empty.Headers = []stream.Header{{Key: event.MarkerHeader, Value: []byte(event.HeartbeatType)}}
	untimed := sample(30, 1)
	untimed.Timestamp = stream.NoTimestamp
	s := one(t, sample(10, 5),
		unknown, broken, untimed, logged(-291, sample(10, 9)), // 301 s ahead
		logged(100, marker(401, event.HeartbeatType)), // 301 s ahead
		logged(100, marker(401, event.CloseType)),     // the same
		empty, null(21),
		sample(301, 8),
		logged(10, marker(300, event.CloseType)), // 290 s ahead: closes the first window
		sample(20, 7))
	s.exec(offsets(arrivals, 0, 9, 12, ts(300), ts(300), 2, 1, 6, 2), segment(0, 0, 0, 10, 1, true), trip(301, 8))
	s.exec(both(0, 1, "5", 5, 5, 5)...)
	s.clean()
}

func TestGapsAndNoDelay(t *testing.T) {
	t.Parallel()
	// K01: offsets 0, 1, 2, 5, 6 and 9; a status moves the watermark too.
	canceled := prediction(430, 0, "nl:t", "nl:A", func(p *event.Prediction) { p.Status = event.Canceled })
	s := one(t, sample(10, 1), sample(20, 2), sample(30, 3), offset(5, sample(40, 4)), offset(6, sample(50, 5)), offset(9, canceled))
	rows := []string{offsets(arrivals, 0, 10, 10, ts(310), ts(310), 6, 0, 0, 0), segment(0, 0, 0, 9, 5, true), trip(50, 5)}
	s.exec(append(rows, both(0, 5, "3", 5, 5, 1)...)...)
	s.clean()
	s.exec("UPDATE consumer_offsets SET next_offset = 3")
	wantDifferences(t, s.verify(), "consumer_offsets.next_offset")
	// A position in the gap of a transaction marker is as right as the one before.
	s.log.parts[onlyPartition].end = 11
	s.exec("UPDATE consumer_offsets SET next_offset = 11, position = 11")
	s.clean()
}

// TestNewestTrip: R10 among the stops of one trip update, and two partitions that
// are equal in everything that orders them.
func TestNewestTrip(t *testing.T) {
	t.Parallel()
	call := func(sequence int64, delay int32, predicted float64) stream.Record {
		return prediction(10, delay, "nl:t", "nl:A", func(p *event.Prediction) {
			p.StopSequence, p.HasStopSequence, p.PredictedTime = sequence, true, at(predicted)
		})
	}
	s := one(t, call(2, 20, 5), call(4, 40, 60), call(3, 30, 30), call(3, 31, 30))
	row := func(delay int) string {
		return fmt.Sprintf("REPLACE INTO trip_delay_latest VALUES ('nl:t', '', 'nl:A', NULL, NULL, NULL, 3, %d, %s, %s, %d, %s)",
			delay, ts(30), ts(10), int64(1)<<62-3, ts(0))
	}
	s.exec(offsets(arrivals, 0, 0, 4, ts(-110), ts(-110), 4, 0, 0, 0), row(31)) // the later of the equal ones
	s.clean()
	s.exec(row(30))
	wantDifferences(t, s.verify(), "trip_delay_latest.delay_s")

	s.log.create(arrivals, 2)
	s.log.put(arrivals, 1, call(3, 32, 30))
	s.exec(offsets(arrivals, 1, 0, 1, ts(-110), ts(-110), 1, 0, 0, 0))
	for delay, right := range map[int]bool{30: false, 31: true, 32: true, 33: false} {
		s.exec(row(delay))
		if r := s.verify(); r.Clean() != right {
			t.Errorf("delay %d: clean is %t, want %t:\n%s", delay, r.Clean(), right, lines(r.Differences))
		}
	}
}

// TestSmallestOperator: over records and over partitions, whatever the order.
func TestSmallestOperator(t *testing.T) {
	t.Parallel()
	by := func(operator string) stream.Record {
		return prediction(10, 1, "nl:t", "nl:A", func(p *event.Prediction) { p.Operator = []byte(operator) })
	}
	s := newScene(t)
	s.log.create(arrivals, 2)
	s.log.put(arrivals, 0, by("nl:P"), by("nl:O"), by("nl:Q"), heartbeat(420))
	s.log.put(arrivals, 1, by(""), by("nl:N"), heartbeat(420))
	s.exec(offsets(arrivals, 0, 4, 4, ts(300), ts(300), 3, 0, 0, 0), offsets(arrivals, 1, 3, 3, ts(300), ts(300), 2, 0, 0, 0),
		segment(0, 0, 0, 3, 3, true), segment(0, 1, 0, 2, 2, true),
		aggregate(0, "line", "nl:A", "'nl:N'", 5, "1", 1, 1, 1), aggregate(0, "network", "nl", "'nl:N'", 5, "1", 1, 1, 1))
	for _, o := range []string{"nl:N", "nl:O", "nl:P", "nl:Q"} {
		s.exec(aggregate(0, "operator", o, "'"+o+"'", 1, "1", 1, 1, 1))
	}
	s.exec(strings.Replace(trip(10, 1), "NULL", "'nl:Q'", 1))
	s.clean()
}

// TestP90IsTheNearestRank compares all counts up to 100 with delays 1 to n: the
// ceil(0.9 n)-th smallest is that number itself.
func TestP90IsTheNearestRank(t *testing.T) {
	t.Parallel()
	literal := map[int]int{1: 1, 2: 2, 3: 3, 9: 9, 10: 9, 11: 10, 12: 11, 19: 18, 20: 18, 21: 19, 99: 90, 100: 90}
	for n, p90 := range literal {
		s := one(t)
		for i := n; i > 0; i-- {
			s.log.put(arrivals, 0, sample(10, int32(i)))
		}
		s.log.put(arrivals, 0, heartbeat(420))
		end := int64(n)
		s.exec(offsets(arrivals, 0, end+1, end+1, ts(300), ts(300), n, 0, 0, 0), segment(0, 0, 0, end, end, true), trip(10, 1))
		s.exec(both(0, n, fmt.Sprintf("%d / 2.0", n+1), p90, n, 1)...)
		s.clean()
	}
}
