package processor_test

import (
	"errors"
	"math"
	"testing"
	"testing/synctest"

	"github.com/peil-stream/peil/event"
	"github.com/peil-stream/peil/internal/processor"
	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/internal/testkit"
)

// bubble runs a test in a synctest bubble: time is fake, and Wait tells when
// everything that can happen has happened.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, f)
}

// wantNetwork checks the network row of the window at T0+start seconds.
func wantNetwork(t *testing.T, r *testkit.Rig, start float64, count int64, mean, p90 float64, maximum, minimum int32) {
	t.Helper()
	a, ok := r.Network(start)
	if !ok {
		t.Fatalf("no row of the window at T0+%v", start)
	}
	if a.Count != count || math.Abs(a.Mean-mean) > 5e-5 || a.P90 != p90 || a.Max != maximum || a.Min != minimum {
		t.Fatalf("row of T0+%v: count %d mean %v p90 %v max %d min %d, want %d %v %v %d %d",
			start, a.Count, a.Mean, a.P90, a.Max, a.Min, count, mean, p90, maximum, minimum)
	}
}

func wantNoRow(t *testing.T, r *testkit.Rig, start float64) {
	t.Helper()
	if a, ok := r.Network(start); ok {
		t.Fatalf("unexpected row of T0+%v: %+v", start, a)
	}
}

func wantPoint(t *testing.T, r *testkit.Rig, partition int32, next, position int64) {
	t.Helper()
	if o := r.Offset(partition); o.Point != (sink.Point{Next: next, Position: position}) {
		t.Fatalf("partition %d stored at %+v, want next %d position %d", partition, o.Point, next, position)
	}
}

func wantCounts(t *testing.T, r *testkit.Rig, partition int32, want sink.Counts) {
	t.Helper()
	if o := r.Offset(partition); o.Counts != want {
		t.Fatalf("partition %d counts %+v, want %+v", partition, o.Counts, want)
	}
}

func TestK01GapsInTheLogDoNotHoldTheCommit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{})
		r.Put(0, 30, r.Delay(10, 0), r.Delay(20, 1), r.Delay(30, 2))
		r.Gap(0, 2) // a transaction marker, a compacted record
		r.Put(0, 50, r.Delay(40, 5), r.Delay(50, 6))
		r.Gap(0, 2) // an aborted record and its marker
		r.Put(0, 430, r.Delay(430, 9))
		r.Process()
		wantPoint(t, r, 0, 9, 10)
		wantNetwork(t, r, 0, 5, (0+1+2+5+6)/5.0, 6, 6, 0)
		u := r.Start(nil)
		u.MustDrain()
		if s := u.Status()[0]; s.Pending != 1 || s.Committed != 9 {
			t.Fatalf("after a restart %d records from %d were read again, want 1 from 9", s.Pending, s.Committed)
		}
		u.Stop()
		r.Verify()
	})
}

func TestK14OneFutureEventDoesNotMakeHonestOnesLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{})
		r.Put(0, 10, r.Delay(10, 60))
		r.Put(0, 15, r.Delay(86400, 0)) // stamped now, claims to be of tomorrow
		for at := 20.0; at <= 200; at += 20 {
			r.Put(0, at, r.Delay(at, 0))
		}
		r.Put(0, 430, r.Delay(430, 0))
		r.Process()
		wantNetwork(t, r, 0, 11, 60.0/11, 0, 60, 0)
		wantCounts(t, r, 0, sink.Counts{Accepted: 12, Dead: 1})
		wantPoint(t, r, 0, 12, 13)
		dead := r.Records("dlq."+testkit.Arrivals, 0)
		if len(dead) != 1 {
			t.Fatalf("%d dead letters, want 1", len(dead))
		}
		if reason, _ := dead[0].Header("peil-dlq-reason"); string(reason) != "future_event" {
			t.Fatalf("reason %q", reason)
		}
		r.Verify()
	})
}

func TestK18TimesBelowZeroAreDeadNotInTheNextWindow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{})
		for _, ms := range []int64{-1000, -300_000, -301_000} {
			p := r.Prediction(0, 5)
			p.Timestamp = ms
			r.Put(0, 10, event.AppendPrediction(nil, &p))
		}
		r.Put(0, 430, r.Delay(430, 0))
		r.Process()
		wantCounts(t, r, 0, sink.Counts{Accepted: 1, Dead: 3})
		for _, d := range r.Records("dlq."+testkit.Arrivals, 0) {
			if reason, _ := d.Header("peil-dlq-reason"); string(reason) != "implausible_time" {
				t.Fatalf("reason %q", reason)
			}
		}
		if rows := r.Rows(""); len(rows) != 0 {
			t.Fatalf("%d rows, want none", len(rows))
		}
		r.Verify()
	})
}

func TestK20WindowEdges(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{})
		r.Put(0, 300, r.Delay(299.999, 1), r.Delay(300, 100))
		r.Put(0, 370, r.Delay(370, 100)) // watermark T0+250
		r.Put(0, 371, r.Delay(10, 3))    // behind the watermark, its window open
		r.Put(0, 419, r.Delay(419, 100))
		r.Process()
		wantNoRow(t, r, 0)
		r.Put(0, 420, r.Delay(420, 100))
		r.Process()
		wantNetwork(t, r, 0, 2, 2, 3, 3, 1)
		if a, _ := r.Network(0); a.Revision != 1 {
			t.Fatalf("revision %d, want 1", a.Revision)
		}
		r.Put(0, 421, r.Delay(299.999, 50)) // now it is late
		r.Put(0, 730, r.Delay(730, 100))
		r.Process()
		wantNetwork(t, r, 0, 2, 2, 3, 3, 1)
		wantNetwork(t, r, 300, 4, 100, 100, 100, 100)
		wantCounts(t, r, 0, sink.Counts{Accepted: 7, Late: 1})
		r.Verify()
	})
}

func TestK33APartitionOfLateAndEmptyRecordsCommits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{})
		r.Put(0, 2000, r.Status(2000, event.Skipped))
		for i := range 999 {
			if i%2 == 0 {
				r.Put(0, 2000, r.Delay(10, 5)) // late
			} else {
				r.Put(0, 2000, r.Status(2000, event.NoData))
			}
		}
		r.Process()
		wantPoint(t, r, 0, 1000, 1000)
		wantCounts(t, r, 0, sink.Counts{Accepted: 500, Late: 500})
		r.Verify()
	})
}

func TestK35RowsFollowTheEventTimeNotTheTimeOfAppend(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{})
		const day = 86400
		for i := range 1000 {
			r.Put(0, day, r.Delay(float64(i), int32(i%10))) // appended a day later
		}
		r.Process()
		wantNetwork(t, r, 0, 300, 4.5, 8, 9, 0)
		wantNetwork(t, r, 300, 300, 4.5, 8, 9, 0)
		wantNoRow(t, r, 600)
		for _, a := range r.Rows("") {
			if a.Start >= testkit.At(1000) {
				t.Fatalf("a row in the window of the append: %+v", a)
			}
		}
		r.Verify()
	})
}

func TestK38NegativeDelays(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{})
		r.Put(0, 10, r.Delay(10, -120), r.Delay(11, -60))
		r.Heartbeat(0, 420)
		r.Process()
		for _, a := range r.Rows("") {
			if a.Count != 2 || a.Mean != -90 || a.P90 != -60 || a.Max != -60 || a.Min != -120 {
				t.Fatalf("row %+v", a)
			}
		}
		if n := len(r.Rows("")); n != 4 {
			t.Fatalf("%d rows, want one of each dimension", n)
		}
		r.Verify()
	})
}

func TestM04ARestartWithoutTheStoredWatermarkIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{})
		r.Put(0, 10, r.Delay(10, 10))
		r.Put(0, 20, r.Delay(310, 7))
		r.Put(0, 30, []byte("{broken"))
		r.Put(0, 40, r.Delay(20, 30))
		r.Put(0, 430, r.Delay(430, 5))
		r.Process()
		wantPoint(t, r, 0, 1, 5)
		before := r.Dump()
		r.Exec("UPDATE consumer_offsets SET watermark = NULL WHERE topic = ?", testkit.Arrivals)
		err := r.Start(nil).Fail()
		if !errors.Is(err, processor.ErrInconsistent) {
			t.Fatalf("ended with %v, want a refusal", err)
		}
		wantNetwork(t, r, 0, 2, 20, 30, 30, 10)
		// Without a row at all and with the head of the log gone it is a cold
		// start: the fragment {3} never replaces the stored segment {0, 3}.
		r.Exec("DELETE FROM consumer_offsets WHERE topic = ?", testkit.Arrivals)
		r.Trim(0, 1)
		r.Process()
		wantNetwork(t, r, 0, 2, 20, 30, 30, 10)
		var cold bool
		for _, in := range r.Incidents() {
			cold = cold || in.Kind == "cold_start" && in.FromOffset == 1
		}
		if !cold {
			t.Fatalf("no incident of the cold start: %+v", r.Incidents())
		}
		if before == r.Dump() {
			t.Fatal("the tables did not change at all: the second start cannot have run")
		}
	})
}

// A tool that moves the offsets and leaves nothing else must not make fragments of
// windows: without a watermark nothing was accepted, so reading begins anew.
func TestM04OffsetsMovedByAToolMakeNoFragments(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{})
		r.Put(0, 10, r.Delay(10, 10), r.Delay(11, 20), r.Delay(12, 30))
		r.Put(0, 430, r.Delay(430, 5))
		r.Put(0, 431, r.Delay(13, 999)) // late, and below where the tool puts the position
		r.Put(0, 432, r.Delay(432, 5))
		r.Process()
		for _, table := range []string{"window_segments", "delay_aggregates"} {
			r.Exec("DELETE FROM " + table)
		}
		r.Exec("UPDATE consumer_offsets SET next_offset = 6, position = 6, watermark = NULL, accepted = 0, late = 0 WHERE topic = ?", testkit.Arrivals)
		r.Process()
		wantNetwork(t, r, 0, 3, 20, 30, 30, 10)
		wantCounts(t, r, 0, sink.Counts{Accepted: 5, Late: 1})
		r.Verify()
	})
}

func TestM07FastClocksMakeNobodyLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{})
		for i := range 140 {
			at := float64(i) * 5
			r.Put(0, at, r.Delay(at, 10))
			if i%6 == 0 {
				r.Put(0, at, r.Delay(at+299, 1000)) // within the skew that is allowed
			}
		}
		r.CloseMarker(0, 1200, 1200)
		r.Process()
		wantCounts(t, r, 0, sink.Counts{Accepted: 164})
		total := int64(0)
		for _, a := range r.Rows("network") {
			total += a.Count
		}
		if total != 164 {
			t.Fatalf("%d in the windows, want all 164", total)
		}
		wantNetwork(t, r, 0, 61, (60*10+1000)/61.0, 10, 1000, 10)
		r.Verify()
	})
}

func TestM08AnUnacknowledgedDeadLetterHoldsItsPartitionOnly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Partitions: 2})
		r.Put(0, 10, r.Delay(10, 1), []byte("{broken"), r.Delay(11, 2))
		r.Put(1, 10, r.Delay(10, 1))
		r.Heartbeat(0, 420)
		r.Heartbeat(1, 420)
		r.RefuseDead(true)
		u := r.Start(nil)
		synctest.Wait()
		u.Pass(7) // a flush waits a moment for dead letters on their way
		if o := r.Offset(0); o.Stored {
			t.Fatalf("partition 0 is committed past a dead letter that is not durable: %+v", o.Point)
		}
		wantPoint(t, r, 1, 2, 2)
		wantNoRow(t, r, 0)
		u.Crash()

		r.RefuseDead(false)
		for range 2 { // the second start must not send it again
			r.Process()
			if n := len(r.Records("dlq."+testkit.Arrivals, 0)); n != 1 {
				t.Fatalf("%d dead letters, want 1", n)
			}
			wantPoint(t, r, 0, 4, 4)
		}
		wantNetwork(t, r, 0, 3, 4/3.0, 2, 2, 1)
		r.Verify()
	})
}

func TestM09StoredPositionStaysWhileReplaying(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{})
		r.Put(0, 10, r.Delay(10, 1))
		r.Put(0, 310, r.Delay(310, 2))
		r.Put(0, 430, r.Delay(430, 3))
		r.Put(0, 431, r.Delay(20, 4)) // late
		r.Put(0, 440, r.Delay(440, 5))
		r.Process()
		wantPoint(t, r, 0, 1, 5)

		r.Let(1) // of four that are read again
		u := r.Start(func(c *processor.Config) { c.BatchBytes = 1 })
		synctest.Wait()
		u.Flush()
		if s := u.Status()[0]; s.Position != 2 {
			t.Fatalf("position %d, want 2: the flush must come while the restart reads again", s.Position)
		}
		wantPoint(t, r, 0, 1, 5)
		wantCounts(t, r, 0, sink.Counts{Accepted: 4, Late: 1})
		u.Crash()

		r.OpenGate()
		u = r.Start(nil)
		u.MustDrain()
		if n := u.Count("peil_redelivered_total"); n != 1 {
			t.Fatalf("%v records redelivered, want the late one", n)
		}
		u.Stop()
		wantPoint(t, r, 0, 1, 5)
		wantCounts(t, r, 0, sink.Counts{Accepted: 4, Late: 1})
		r.Verify()
	})
}

func TestM13FinalisingAgainDoesNotRaiseTheRevision(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{})
		r.Put(0, 10, r.Delay(10, 1))
		r.Heartbeat(0, 420)
		r.Process()
		before := r.Dump()
		r.Exec("UPDATE window_segments SET merged_at = NULL")
		r.Process()
		if after := r.Dump(); after != before {
			t.Fatalf("tables changed:\n%s\n%s", before, after)
		}
		if a, _ := r.Network(0); a.Revision != 1 {
			t.Fatalf("revision %d, want 1", a.Revision)
		}
	})
}

func TestM18AColdStartIsKeptOverARestart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{})
		for i := range 10 {
			r.Put(0, float64(10*i), r.Delay(float64(10*i), 1))
		}
		r.Trim(0, 5)
		r.Process() // first record at T0+50: B = end of the window of T0+350 = T0+600
		if o := r.Offset(0); o.Watermark != testkit.At(600) {
			t.Fatalf("watermark %d, want B = %d", o.Watermark, testkit.At(600))
		}
		r.Put(0, 310, r.Delay(310, 1)) // its window may have begun before
		r.Put(0, 610, r.Delay(610, 9))
		r.Process()
		r.Put(0, 1030, r.Delay(1030, 1))
		r.Process()
		wantNoRow(t, r, 0)
		wantNoRow(t, r, 300)
		wantNetwork(t, r, 600, 1, 9, 9, 9, 9)
		cold := 0
		for _, in := range r.Incidents() {
			if in.Kind == "cold_start" {
				cold++
			}
		}
		if cold != 1 {
			t.Fatalf("%d incidents of a cold start, want 1", cold)
		}
		r.Verify()
	})
}

func TestM21IdlePartitionsLetAWindowBecomeFinal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Partitions: 2})
		r.Put(0, 10, r.Delay(10, 1))
		r.Put(0, 430, r.Delay(430, 1))
		u := r.Start(nil)
		synctest.Wait()
		u.Flush()
		wantNoRow(t, r, 0) // partition 1 has never been heard of
		if got := u.Gauges("peil_finality_held"); len(got) != 1 || got[0] != "partition=1 reason=no_event_time topic=arrival-predictions" {
			t.Fatalf("finality is held by %v", got)
		}
		u.Pass(61)
		u.Flush()
		wantNetwork(t, r, 0, 1, 1, 1, 1, 1)
		if o := r.Offset(1); o.FinalTo != sink.Infinity {
			t.Fatalf("final_to of the silent partition %d", o.FinalTo)
		}
		if o := r.Offset(0); o.FinalTo != testkit.At(300) {
			t.Fatalf("final_to of the idle partition %d, want the start of its open window", o.FinalTo)
		}
		// It wakes with a record of W0: not late there, so the row is revised.
		r.Put(1, 500, r.Delay(250, 30))
		r.Put(1, 501, r.Delay(430, 1))
		synctest.Wait()
		u.Flush()
		wantNetwork(t, r, 0, 2, 15.5, 30, 30, 1)
		if a, _ := r.Network(0); a.Revision != 2 {
			t.Fatalf("revision %d, want 2", a.Revision)
		}
		u.Stop()
		r.Verify()
	})
}

func TestM22NothingReadAfterTheMarkIsCommitted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{})
		r.Put(0, 10, r.Delay(10, 1))
		r.Put(0, 310, r.Delay(310, 2))
		r.Put(0, 730, r.Delay(730, 3)) // closes W0 and W1; open window from offset 2
		u := r.Start(nil)
		synctest.Wait()
		flushed := make(chan struct{})
		u.Sink.Break(func(op string, _ []sink.PartitionFlush) error {
			switch op {
			case "flush":
				r.Put(0, 740, r.Delay(740, 4), r.Status(741, event.Skipped))
				synctest.Wait()
				if s := u.Status()[0]; s.Position != 5 {
					t.Errorf("position %d during the flush, want 5: the task must go on reading", s.Position)
				}
			case "flushed":
				close(flushed)
			}
			return nil
		})
		<-flushed
		synctest.Wait()
		wantPoint(t, r, 0, 2, 3)
		if s := u.Status()[0]; s.Committed != 2 || s.Pending != 3 {
			t.Fatalf("committed %d pending %d, want 2 and 3", s.Committed, s.Pending)
		}
		u.Crash()
		r.Process()
		wantPoint(t, r, 0, 2, 5)
		wantCounts(t, r, 0, sink.Counts{Accepted: 5})
		r.Verify()
	})
}

func TestEveryFlushAppliedAgainChangesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Partitions: 2})
		var all [][]sink.PartitionFlush
		u := r.Start(nil)
		u.Sink.Break(func(op string, parts []sink.PartitionFlush) error {
			if op == "flushed" {
				all = append(all, parts)
			}
			return nil
		})
		for i := range 40 {
			at := float64(i * 30)
			r.Put(int32(i%2), at, r.Delay(at, int32(i)), []byte("{"))
			r.Heartbeat(0, at)
			r.Heartbeat(1, at)
			synctest.Wait()
			u.Flush()
		}
		want := r.Dump()
		if len(all) < 20 {
			t.Fatalf("only %d flushes", len(all))
		}
		for _, parts := range all {
			if _, err := r.Sink.Flush(t.Context(), parts); err != nil {
				t.Fatal(err)
			}
			if got := r.Dump(); got != want {
				t.Fatalf("a flush applied again changes the tables:\n%s\n%s", want, got)
			}
		}
		u.Stop()
		r.Verify()
	})
}

func TestAFencedFlushStopsTheProcess(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{})
		r.Put(0, 10, r.Delay(10, 1))
		u := r.Start(nil)
		synctest.Wait()
		o := r.Offset(0)
		if _, err := r.Sink.Claim(t.Context(), sink.ClaimRequest{
			Partition: stream.Partition{Topic: testkit.Arrivals}, TopicID: o.TopicID, Group: o.Group,
			Owner: "another", Fingerprint: o.Fingerprint,
		}); err != nil {
			t.Fatal(err)
		}
		before := r.Dump()
		if _, err := u.Drain(t.Context()); !errors.Is(err, processor.ErrFenced) {
			t.Fatalf("drain: %v, want ErrFenced", err)
		}
		if err := u.Fail(); !errors.Is(err, processor.ErrFenced) {
			t.Fatalf("run: %v, want ErrFenced", err)
		}
		if r.Dump() != before {
			t.Fatal("a fenced process wrote something")
		}
	})
}
