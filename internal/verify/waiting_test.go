package verify_test

import (
	"fmt"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/internal/verify"
)

// pair has two partitions that have both closed the first window: 60 and 0 in the
// first, 600 in the second. Its rows are those of K27.
func pair(t *testing.T) *scene {
	t.Helper()
	s := newScene(t)
	s.log.create(arrivals, 2)
	s.log.put(arrivals, 0, sample(10, 60), sample(20, 0), heartbeat(430))
	s.log.put(arrivals, 1, sample(30, 600), heartbeat(425))
	s.exec(
		offsets(arrivals, 0, 3, 3, ts(310), ts(310), 2, 0, 0, 0),
		offsets(arrivals, 1, 2, 2, ts(305), ts(305), 1, 0, 0, 0),
		segment(0, 0, 0, 2, 2, true), segment(0, 1, 0, 1, 1, true), trip(30, 600))
	s.exec(both(0, 3, "220", 600, 600, 0)...)
	return s
}

const (
	first = "2026-09-21T14:15:00.000Z"
	next  = "2026-09-21T14:20:00.000Z"
)

func TestPendingIsNoDifference(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name       string
		statements []string
		windows    int64
		pending    verify.Pending
	}{
		{"nothing merged yet", []string{
			"UPDATE window_segments SET merged_at = NULL", "DELETE FROM delay_aggregates",
		}, 0, verify.Pending{Partitions: []int32{0, 1}, Final: true, Reason: "final, not merged yet"}},
		{"one merged", []string{
			"UPDATE window_segments SET merged_at = NULL WHERE partition = 1",
			"UPDATE delay_aggregates SET event_count = 2, mean_delay_s = 30, p90_delay_s = 60, max_delay_s = 60",
		}, 1, verify.Pending{Partitions: []int32{1}, Final: true, Reason: "final, not merged yet"}},
		{"held", []string{
			"UPDATE window_segments SET merged_at = NULL", "DELETE FROM delay_aggregates",
			"UPDATE consumer_offsets SET next_offset = 0, position = 1, watermark = " + ts(-90) + ", final_to = " + ts(-90) + " WHERE partition = 1",
			"DELETE FROM window_segments WHERE partition = 1",
		}, 0, verify.Pending{Partitions: []int32{0}, Reason: "held by arrival-predictions/1 (final_to 2026-09-21T14:13:30.000Z)"}},
		{"sealed", []string{
			"UPDATE window_segments SET merged_at = NULL WHERE partition = 1", "UPDATE window_segments SET data = NULL WHERE partition = 0",
			"UPDATE delay_aggregates SET event_count = 2, mean_delay_s = 30, p90_delay_s = 60, max_delay_s = 60",
			"INSERT INTO incidents VALUES (1, 'sealed', 'arrival-predictions', 1, 0, 1, 'late', " + ts(0) + ")",
		}, 1, verify.Pending{Partitions: []int32{1}, Reason: "sealed: the segment came after retention had emptied the window; it is stored and not merged"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := pair(t)
			s.exec(test.statements...)
			r := s.clean()
			test.pending.Topic, test.pending.WindowStart, test.pending.WindowEnd = arrivals, first, next
			if diff := gocmp.Diff([]verify.Pending{test.pending}, r.Pending); diff != "" {
				t.Errorf("pending mismatch (-want +got):\n%s", diff)
			}
			if r.Windows != test.windows || r.PendingCount != 1 || r.ToBeRevisedCount != 0 {
				t.Errorf("%d windows, %d pending, %d to be revised", r.Windows, r.PendingCount, r.ToBeRevisedCount)
			}
		})
	}
}

// TestPendingExcusesNothing: what waits must wait as a whole segment, and what is
// marked as merged must be in the rows.
func TestPendingExcusesNothing(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name       string
		statements []string
		want       []string
	}{
		{"final, all merged, no rows", []string{"DELETE FROM delay_aggregates"}, []string{
			"delay_aggregates." + whole, "delay_aggregates." + whole,
		}},
		{"no segment and no rows", []string{"DELETE FROM delay_aggregates", "DELETE FROM window_segments"}, []string{
			"window_segments." + whole, "window_segments." + whole, "delay_aggregates." + whole, "delay_aggregates." + whole,
		}},
		{"one partition's records left out", []string{
			"UPDATE delay_aggregates SET event_count = 2, mean_delay_s = 30, p90_delay_s = 60, max_delay_s = 60 WHERE dimension = 'line'",
		}, []string{
			"delay_aggregates.event_count", "delay_aggregates.mean_delay_s", "delay_aggregates.p90_delay_s", "delay_aggregates.max_delay_s",
		}},
		{"pending, but in the rows", []string{"UPDATE window_segments SET merged_at = NULL WHERE partition = 0"}, []string{
			"delay_aggregates.event_count", "delay_aggregates.mean_delay_s", "delay_aggregates.min_delay_s",
			"delay_aggregates.event_count", "delay_aggregates.mean_delay_s", "delay_aggregates.min_delay_s",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := pair(t)
			s.exec(test.statements...)
			wantDifferences(t, s.verify(), test.want...)
		})
	}
}

// TestK15ToBeRevised: a partition that had been idle has a record of a window
// that has rows.
func TestK15ToBeRevised(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.log.create(arrivals, 2)
	s.log.put(arrivals, 0, sample(10, 60), sample(430, 0))
	s.exec(offsets(arrivals, 0, 1, 2, ts(310), ts(310), 2, 0, 0, 0), offsets(arrivals, 1, 0, 0, "NULL", infinity, 0, 0, 0, 0),
		segment(0, 0, 0, 1, 1, true), trip(430, 0))
	s.exec(both(0, 1, "60", 60, 60, 60)...)
	if r := s.clean(); r.ToBeRevisedCount != 0 {
		t.Fatalf("idle without a record: %d to be revised", r.ToBeRevisedCount)
	}
	s.log.put(arrivals, 1, sample(250, 30), sample(260, 31))
	s.exec("UPDATE consumer_offsets SET position = 2, accepted = 2, watermark = " + ts(140) + ", final_to = " + ts(140) + " WHERE partition = 1")
	want := []verify.Revision{{Topic: arrivals, WindowStart: first, WindowEnd: next, Partition: 1, Records: 2}}
	if diff := gocmp.Diff(want, s.clean().ToBeRevised); diff != "" {
		t.Fatalf("to be revised mismatch (-want +got):\n%s", diff)
	}
	// Idle again, it holds its oldest open window, and must not let it go.
	s.exec("UPDATE consumer_offsets SET final_to = " + ts(0) + " WHERE partition = 1")
	s.clean()
	s.exec("UPDATE consumer_offsets SET final_to = " + infinity + " WHERE partition = 1")
	r := s.verify()
	wantDifferences(t, r, "consumer_offsets.final_to")
	if r.ToBeRevisedCount != 1 {
		t.Fatalf("%d to be revised", r.ToBeRevisedCount)
	}
}

// TestNothingProcessed: empty tables are right as long as the log closes nothing.
func TestNothingProcessed(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	if r := s.clean(); r.Records != 0 || r.Windows != 0 {
		t.Fatalf("no topics: %+v", r)
	}
	s.log.create(arrivals, 2)
	s.log.put(arrivals, 0, sample(10, 1), sample(419, 2))
	s.log.put(arrivals, 1, sample(20, 1))
	if r := s.clean(); r.Windows != 0 || r.Records != 3 {
		t.Fatalf("open windows only: %+v", r)
	}
	s.log.put(arrivals, 0, sample(420, 3))
	wantDifferences(t, s.verify(), "consumer_offsets.position")
	s.exec(`INSERT INTO consumer_offsets VALUES ('arrival-predictions', 0, 'peil', 'id-1', NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, '', 0, '', ` + ts(0) + `)`)
	wantDifferences(t, s.verify(), "consumer_offsets.position")
	s.exec("UPDATE consumer_offsets SET epoch = 1, owner = 'somebody'")
	// A process that has just begun, or was killed before its first flush.
	if r := s.clean(); r.PendingCount != 1 || !strings.HasSuffix(r.Pending[0].Reason, "somebody has claimed the topic") {
		t.Fatalf("pending %+v, want the one closed window", r.Pending)
	}
	s.exec(trip(10, 1))
	wantDifferences(t, s.verify(), "trip_delay_latest."+whole)
	s.exec("DELETE FROM trip_delay_latest")
	s.exec("DELETE FROM consumer_offsets", trip(10, 1))
	wantDifferences(t, s.verify(), "consumer_offsets.position", "trip_delay_latest."+whole)
}

// TestTopicCreatedAgain: what belongs to an earlier topic of the name is said to,
// and the stored position is a difference.
func TestTopicCreatedAgain(t *testing.T) {
	t.Parallel()
	s := pair(t)
	s.log.ids[arrivals] = "id-2"
	r := s.verify()
	wantDifferences(t, r, "consumer_offsets.topic_id", "consumer_offsets.topic_id")
	if r.UnjudgedCount == 0 || r.Windows != 0 {
		t.Fatalf("%d windows compared; unjudged:\n%s", r.Windows, lines(r.Unjudged))
	}
}

// TestRowsOfAnEarlierTopic: the topic was created again and is processed; what the
// earlier one wrote stands and is named.
func TestRowsOfAnEarlierTopic(t *testing.T) {
	t.Parallel()
	s := pair(t)
	s.exec(segment(-3000, 0, 7, 9, 1, true), "UPDATE window_segments SET topic_id = 'id-0' WHERE window_start = "+ts(-3000))
	s.exec(both(-3000, 1, "4", 4, 4, 4)...)
	r := s.clean()
	if r.Windows != 1 || r.UnjudgedCount != 2 {
		t.Fatalf("%d windows; unjudged:\n%s", r.Windows, lines(r.Unjudged))
	}
}

// TestOtherTopics: rows belong to the topic that wrote them first; topics that are
// not verified are named.
func TestOtherTopics(t *testing.T) {
	t.Parallel()
	const second = "fr.arrivals"
	s := pair(t)
	s.log.create(second, 1)
	s.log.put(second, 0, sample(10, 7), prediction(10, 8, "nl:t", "nl:B", nil), heartbeat(420))
	own := func(statement string) string { return strings.ReplaceAll(statement, arrivals, second) }
	s.exec(offsets(second, 0, 3, 3, ts(300), ts(300), 2, 0, 0, 0), own(segment(0, 0, 0, 2, 2, true)),
		own(aggregate(0, "line", "nl:B", "NULL", 1, "8", 8, 8, 8)))
	r := s.clean()
	if r.Windows != 1 || r.UnjudgedCount != 2 {
		t.Fatalf("one topic verified: %d windows; unjudged:\n%s", r.Windows, lines(r.Unjudged))
	}
	r, err := s.run(func(o *verify.Options) { o.ArrivalsTopics = append(o.ArrivalsTopics, second) })
	if err != nil || !r.Clean() || r.Windows != 2 || r.UnjudgedCount != 2 {
		t.Fatalf("%v, %d windows, differences:\n%sunjudged:\n%s", err, r.Windows, lines(r.Differences), lines(r.Unjudged))
	}
	s.exec(own("DELETE FROM delay_aggregates WHERE topic = '" + arrivals + "'"))
	r, err = s.run(func(o *verify.Options) { o.ArrivalsTopics = append(o.ArrivalsTopics, second) })
	if err != nil {
		t.Fatal(err)
	}
	wantDifferences(t, r, "delay_aggregates."+whole)
}

// TestListsAreBounded: 1,000 entries are kept and all are counted.
func TestListsAreBounded(t *testing.T) {
	t.Parallel()
	s := one(t)
	for i := range 1_500 {
		s.log.put(arrivals, 0, prediction(10, 1, fmt.Sprintf("nl:t%d", i), "", nil))
	}
	s.exec(offsets(arrivals, 0, 0, 1_500, ts(-110), ts(-110), 1_500, 0, 0, 0))
	r := s.verify()
	if len(r.Differences) != verify.ListMax || r.DifferenceCount != 1_500 {
		t.Fatalf("%d differences listed, %d counted", len(r.Differences), r.DifferenceCount)
	}
}

// TestManyPartitionsGrown: a partition that nobody has seen yet holds finality and
// is no difference.
func TestManyPartitionsGrown(t *testing.T) {
	t.Parallel()
	s := pair(t)
	s.log.create(arrivals, 3)
	s.log.put(arrivals, 2, []stream.Record{sample(10, 5), sample(430, 6)}...)
	r := s.clean()
	if r.Windows != 1 || r.UnjudgedCount != 1 {
		t.Fatalf("%d windows; unjudged:\n%s", r.Windows, lines(r.Unjudged))
	}
}
