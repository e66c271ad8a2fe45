package processor_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peil-stream/peil/internal/dlq"
	"github.com/peil-stream/peil/internal/processor"
	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/testkit"
)

func TestALostRangeStopsTheProcess(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{})
		r.Put(0, 10, r.Delay(10, 1), r.Delay(11, 1))
		r.Process()
		wantPoint(t, r, 0, 0, 2)
		for range 4 {
			r.Put(0, 12, r.Delay(12, 1))
		}
		r.Trim(0, 4)
		before := r.Dump()
		err := r.Start(nil).Fail()
		if !errors.Is(err, processor.ErrLost) || !strings.Contains(err.Error(), "offsets 0 to 3 (4 offsets)") {
			t.Fatalf("ended with %v, want the lost range 0 to 3", err)
		}
		var hint interface{ Hint() string }
		if !errors.As(err, &hint) || hint.Hint() == "" {
			t.Fatal("the error has no hint")
		}
		if r.Dump() != before {
			t.Fatal("a refused start changed the tables")
		}
	})
}

func TestATruncatedLogStopsTheProcess(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{})
		r.Put(0, 10, r.Delay(10, 1), r.Delay(11, 1))
		r.Process()
		r.Exec("DELETE FROM log_chunks")
		r.Exec("UPDATE log_partitions SET log_end = 1")
		if err := r.Start(nil).Fail(); !errors.Is(err, processor.ErrTruncated) {
			t.Fatalf("ended with %v, want ErrTruncated", err)
		}
	})
}

func TestARecreatedTopicStopsTheProcess(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{})
		r.Put(0, 10, r.Delay(10, 1))
		r.Process()
		r.Recreate()
		var mismatch *sink.MismatchError
		if err := r.Start(nil).Fail(); !errors.As(err, &mismatch) || mismatch.What != "topic_id" {
			t.Fatalf("ended with %v, want another topic id", err)
		}
	})
}

func TestAnotherFingerprintOrGroupIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{})
		r.Put(0, 10, r.Delay(10, 1))
		r.Process()
		for what, change := range map[string]func(*processor.Config){
			"fingerprint": func(c *processor.Config) { c.Fingerprint = "size=60000" },
			"group_id":    func(c *processor.Config) { c.Group = "another" },
		} {
			var mismatch *sink.MismatchError
			if err := r.Start(change).Fail(); !errors.As(err, &mismatch) || mismatch.What != what {
				t.Errorf("ended with %v, want another %s", err, what)
			}
		}
	})
}

// The latest start is kept, too, by one that was stored while it was quiet.
func TestStartLatestIsKeptWhileItIsQuiet(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{})
		r.Put(0, 10, r.Delay(10, 1))
		latest := func(c *processor.Config) { c.Start = processor.StartLatest }
		u := r.Start(latest)
		u.Pass(61)
		u.Flush()
		u.Stop()
		wantPoint(t, r, 0, 1, 1)
		r.Put(0, 20, r.Delay(20, 1))
		u = r.Start(latest)
		u.MustDrain()
		u.Stop()
		if o := r.Offset(0); o.Watermark != testkit.At(600) || o.Counts.Accepted != 0 || o.Counts.Late != 1 {
			t.Fatalf("watermark %d, counts %+v, want B = %d and one late", o.Watermark, o.Counts, testkit.At(600))
		}
		r.Verify()
	})
}

// A quiet partition of a trimmed log lets the windows of the others be final.
func TestAQuietColdPartitionHoldsNobody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Partitions: 2})
		r.Put(1, 10, r.Delay(10, 1))
		r.Trim(1, 1)
		r.Put(0, 10, r.Delay(10, 7))
		r.Heartbeat(0, 420)
		u := r.Start(nil)
		u.Pass(61)
		u.Flush()
		wantNetwork(t, r, 0, 1, 7, 7, 7, 7)
		u.Stop()
		r.Verify()
	})
}

// A backlog is old when it is read; nobody has held it for an hour, and a record
// without a timestamp is not from 1970.
func TestABacklogIsNotHeldTooLong(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{})
		r.PutUnstamped(0, []byte("{"))
		r.Put(0, 10, r.Delay(10, 1), r.Delay(400, 1))
		r.SetNow(testkit.At(100_000))
		u := r.Start(func(c *processor.Config) { c.IdleTimeout = 24 * time.Hour })
		u.Flush()
		if in := r.Incidents(); len(in) != 0 {
			t.Fatalf("incidents %+v", in)
		}
		u.Pass(3601)
		u.Flush()
		in := r.Incidents()
		if len(in) != 1 || in[0].Kind != "held" || !strings.Contains(in[0].Detail, "2 records") {
			t.Fatalf("incidents %+v, want that two records have been held for more than an hour", in)
		}
		u.Pass(3601)
		if again := r.Incidents(); len(again) != 1 {
			t.Fatalf("it is said more than once: %+v", again)
		}
	})
}

// One flush finalises everything that is final, lot by lot.
func TestOneFlushFinalisesEverything(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{})
		const windows = 20
		for i := range windows {
			r.Put(0, float64(300*i), r.Delay(float64(300*i), int32(i)))
		}
		r.CloseMarker(0, 300*windows, 300*windows)
		u := r.Start(func(c *processor.Config) { c.FinalLimit = 3 })
		u.MustDrain()
		if n := len(r.Rows("network")); n != windows {
			t.Fatalf("%d windows are final after one flush, want %d", n, windows)
		}
		u.Stop()
		r.Verify()
	})
}

func TestOneRefusedClaimStartsNoTask(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Partitions: 3})
		r.Put(0, 10, r.Delay(10, 1))
		r.Process()
		r.Exec("UPDATE consumer_offsets SET fingerprint = 'other' WHERE topic = ? AND partition = 2", testkit.Arrivals)
		u := r.Start(nil)
		var mismatch *sink.MismatchError
		if err := u.Fail(); !errors.As(err, &mismatch) || mismatch.Partition.Index != 2 {
			t.Fatalf("ended with %v, want a refusal of partition 2", err)
		}
		if s := u.Status(); len(s) != 0 {
			t.Fatalf("%d tasks were started", len(s))
		}
	})
}

func TestAPartitionStopsReadingWhenItsDeadLettersAreNotWritten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{})
		r.RefuseDead(true)
		const n = 3 * dlq.LaneMax
		bad := make([][]byte, 64)
		for i := range bad {
			bad[i] = []byte("{broken")
		}
		for range n / len(bad) {
			r.Put(0, 10, bad...)
		}
		u := r.Start(func(c *processor.Config) { c.BatchBytes = 1 << 10 })
		synctest.Wait()
		if s := u.Status()[0]; s.Position < dlq.LaneMax || s.Position > dlq.LaneMax+1000 {
			t.Fatalf("%d records read, want a little over %d", s.Position, dlq.LaneMax)
		}
		r.RefuseDead(false)
		u.MustDrain()
		u.Stop()
		wantCounts(t, r, 0, sink.Counts{Dead: n})
		if got := len(r.Records(dlq.Topic(testkit.Arrivals), 0)); got != n {
			t.Fatalf("%d dead letters, want %d", got, n)
		}
		r.Verify()
	})
}

func TestAPartitionWaitsForTheFlushInFlight(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{})
		r.Put(0, 10, r.Delay(10, 1))
		u := r.Start(func(c *processor.Config) { c.FlushRecords, c.BatchBytes = 10, 1 })
		flushed := make(chan struct{})
		u.Sink.Break(func(op string, _ []sink.PartitionFlush) error {
			if op != "flush" {
				return nil
			}
			u.Sink.Break(func(string, []sink.PartitionFlush) error { return nil })
			for range 100 {
				r.Put(0, 11, r.Delay(11, 1))
			}
			synctest.Wait()
			if s := u.Status()[0]; s.Position != 11 {
				t.Errorf("position %d during the flush, want 11: 10 more than the snapshot", s.Position)
			}
			close(flushed)
			return nil
		})
		<-flushed
		u.MustDrain()
		u.Stop()
		wantPoint(t, r, 0, 0, 101)
		r.Verify()
	})
}

// A start in the middle of the log must stay one until a record says which
// windows may have begun before, whatever else is read, and however long it takes.
func TestAColdStartIsNotForgottenBeforeItsFirstRecord(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]func(r *testkit.Rig){
		"empty":               func(*testkit.Rig) {},
		"without a timestamp": func(r *testkit.Rig) { r.PutUnstamped(0, r.Delay(15, 1), nil, []byte("{broken")) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := testkit.New(t, testkit.Options{})
				r.Put(0, 10, r.Delay(10, 1), r.Delay(11, 1), r.Delay(12, 1))
				r.Trim(0, 3)
				first(r)
				u := r.Start(nil)
				u.Flush()
				if o := r.Offset(0); o.Stored {
					t.Fatalf("stored at %+v before a record has told the time", o.Point)
				}
				u.Pass(61) // idle: it must not hold finality for ever
				u.Flush()
				if o := r.Offset(0); o.FinalTo != sink.Infinity || o.Watermark != sink.NoTime {
					t.Fatalf("final_to %d, watermark %d of a quiet partition", o.FinalTo, o.Watermark)
				}
				u.Stop()
				counts := r.Offset(0).Counts
				r.Process() // a start in between changes nothing
				if got := r.Offset(0).Counts; got != counts {
					t.Fatalf("counts %+v, then %+v", counts, got)
				}
				r.Put(0, 50, r.Delay(50, 1))
				r.Process()
				if o := r.Offset(0); o.Watermark != testkit.At(600) {
					t.Fatalf("watermark %d, want B = %d", o.Watermark, testkit.At(600))
				}
				r.Verify()
			})
		})
	}
}

func TestStartLatestIsAColdStart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{})
		r.Put(0, 10, r.Delay(10, 1))
		latest := func(c *processor.Config) { c.Start = processor.StartLatest }
		u := r.Start(latest)
		synctest.Wait()
		r.Put(0, 20, r.Delay(20, 1))
		r.Put(0, 700, r.Delay(700, 5))
		r.Put(0, 1030, r.Delay(1030, 1))
		u.MustDrain()
		u.Stop()
		wantNoRow(t, r, 0)
		wantNetwork(t, r, 600, 1, 5, 5, 5, 5)
		if in := r.Incidents(); len(in) != 1 || in[0].Kind != "cold_start" || in[0].FromOffset != 1 {
			t.Fatalf("incidents %+v", in)
		}
		r.Verify()
	})
}

func TestAnUnansweredDatabaseEndsTheProcessAfterItsPatience(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{})
		r.Put(0, 10, r.Delay(10, 1))
		u := r.Start(nil)
		synctest.Wait()
		u.Sink.Break(func(op string, _ []sink.PartitionFlush) error {
			if op == "flush" {
				return sink.ErrTransient
			}
			return nil
		})
		u.Pass(30)
		if err := u.Ready(); err == nil {
			t.Fatal("ready while the database does not answer")
		}
		if err := u.Fail(); !errors.Is(err, sink.ErrTransient) {
			t.Fatalf("ended with %v", err)
		}
		if o := r.Offset(0); o.Stored {
			t.Fatal("something was committed")
		}
		r.Process()
		wantPoint(t, r, 0, 0, 1)
	})
}

func TestAShutdownDoesNotWaitForAnUnansweredDatabase(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{})
		r.Put(0, 10, r.Delay(10, 1))
		u := r.Start(nil)
		synctest.Wait()
		u.Sink.Break(func(op string, _ []sink.PartitionFlush) error {
			if op == "flush" {
				return sink.ErrTransient
			}
			return nil
		})
		u.Pass(10) // a flush is being tried again and again
		begun := time.Now()
		if err := u.Wait(); !errors.Is(err, sink.ErrTransient) {
			t.Fatalf("ended with %v", err)
		}
		if took := time.Since(begun); took > 25*time.Second {
			t.Fatalf("the shutdown took %s", took)
		}
		r.Process()
		wantPoint(t, r, 0, 0, 1)
	})
}

func TestAnUnknownCommitIsRedoneWithOneEffect(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{})
		r.Put(0, 10, r.Delay(10, 1), r.Delay(11, 2))
		r.Heartbeat(0, 420)
		u := r.Start(nil)
		lost := 0
		u.Sink.Break(func(op string, _ []sink.PartitionFlush) error {
			if op == "flushed" && lost < 3 {
				lost++
				return sink.ErrTransient // it is durable, but nobody says so
			}
			return nil
		})
		u.MustDrain()
		u.Stop()
		if lost != 3 {
			t.Fatalf("%d answers were lost, want 3", lost)
		}
		wantPoint(t, r, 0, 3, 3)
		wantNetwork(t, r, 0, 2, 1.5, 2, 2, 1)
		r.Verify()
	})
}
