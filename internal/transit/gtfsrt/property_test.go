package gtfsrt_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/peil-stream/peil/internal/transit/gtfsrt"
	"github.com/peil-stream/peil/internal/transit/gtfsrt/pb"
)

// drawStop draws a stop update near a time.
func drawStop(t *rapid.T, now int64) *pb.TripUpdate_StopTimeUpdate {
	s := &pb.TripUpdate_StopTimeUpdate{}
	if rapid.Bool().Draw(t, "sequence") {
		s.StopSequence = new(rapid.Uint32Range(1, 3).Draw(t, "n"))
	}
	s.StopId = new(rapid.SampledFrom([]string{"s", "t"}).Draw(t, "stop"))
	switch rapid.IntRange(0, 9).Draw(t, "relation") {
	case 0:
		s.ScheduleRelationship = pb.TripUpdate_StopTimeUpdate_SKIPPED.Enum()
	case 1:
		s.ScheduleRelationship = pb.TripUpdate_StopTimeUpdate_NO_DATA.Enum()
	}
	if rapid.IntRange(0, 5).Draw(t, "arrival") > 0 {
		s.Arrival = &pb.TripUpdate_StopTimeEvent{}
		if rapid.IntRange(0, 5).Draw(t, "delay") > 0 {
			s.Arrival.Delay = new(rapid.Int32Range(-1, 1).Draw(t, "seconds"))
		}
		if rapid.IntRange(0, 5).Draw(t, "time") > 0 {
			s.Arrival.Time = new(now + 20*rapid.Int64Range(-2, 3).Draw(t, "at"))
		}
	}
	return s
}

// drawFeed draws a snapshot of few trips and stops, so that they meet often.
func drawFeed(t *rapid.T, header int64) *pb.FeedMessage {
	m := feed(header)
	for range rapid.IntRange(0, 4).Draw(t, "entities") {
		e := trip(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "trip"), 0)
		if rapid.IntRange(0, 3).Draw(t, "dated") == 0 {
			e.TripUpdate.Trip.StartTime = new("1:00")
		}
		if rapid.Bool().Draw(t, "stamped") {
			e.TripUpdate.Timestamp = new(uint64(t0 + header - 10*rapid.Int64Range(-1, 3).Draw(t, "age")))
		}
		for range rapid.IntRange(1, 5).Draw(t, "stops") {
			e.TripUpdate.StopTimeUpdate = append(e.TripUpdate.StopTimeUpdate, drawStop(t, t0+header))
		}
		if rapid.IntRange(0, 9).Draw(t, "canceled") == 0 {
			e.TripUpdate.Trip.ScheduleRelationship = pb.TripDescriptor_CANCELED.Enum()
		}
		m.Entity = append(m.Entity, e)
	}
	// A trip update without effect, so that the snapshot is one of trip updates.
	m.Entity = append(m.Entity, trip("idle", 0))
	return m
}

// TestPublishedOnce holds I1 to I4: whatever the snapshots, and however often the
// work is killed between two parts of a poll and begun again from the stored
// memory, the events are those of the recount, each once, and the memory ends as
// it does without a kill. How: parts are drawn, and a kill throws the differ away.
func TestPublishedOnce(t *testing.T) {
	t.Parallel()
	for _, emit := range []gtfsrt.Emit{gtfsrt.Predictions, gtfsrt.Arrivals} {
		t.Run(emit.String(), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(rt *rapid.T) {
				var messages []*pb.FeedMessage
				header := int64(0)
				for range rapid.IntRange(1, 6).Draw(rt, "polls") {
					header += rapid.Int64Range(1, 60).Draw(rt, "step")
					messages = append(messages, drawFeed(rt, header))
				}
				whole, killed := newBench(t, emit), newBench(t, emit)
				got := []string{}
				for _, m := range messages {
					whole.poll(m)
					for _, e := range killed.pollInParts(rt, m) {
						got = append(got, text(e))
					}
				}
				slices.Sort(got)
				if diff := cmp.Diff(blunt(recount(messages, emit == gtfsrt.Arrivals)), got); diff != "" {
					rt.Fatalf("events mismatch (-recount +published):\n%s", diff)
				}
				if diff := cmp.Diff(whole.store, killed.store); diff != "" {
					rt.Fatalf("memory mismatch (-whole +killed):\n%s", diff)
				}
			})
		})
	}
}

// pollInParts publishes a snapshot in drawn parts, with drawn kills between them,
// and gives what was published.
func (b *bench) pollInParts(t *rapid.T, m *pb.FeedMessage) (published []gtfsrt.Event) {
	for kills := 0; ; {
		delta := b.differ.Diff(decode(b.tb, m), (t0+1_000_000)*1000)
		b.check(delta.Events)
		done := 0
		for {
			left := len(delta.Events) - done
			size := rapid.IntRange(min(1, left), left).Draw(t, "part")
			if kills < 3 && rapid.IntRange(0, 3).Draw(t, "kill") == 0 {
				kills++
				b.restart()
				break
			}
			b.store.apply(delta.Changes(done, done+size))
			published = append(published, delta.Events[done:done+size]...)
			if done += size; done == len(delta.Events) {
				return published
			}
		}
	}
}

// TestPartsOfSpecialCases kills where the whole changes at once: a cancelled trip
// that takes its stops with it, and a trip that comes back after a day.
func TestPartsOfSpecialCases(t *testing.T) {
	t.Parallel()
	b := newBench(t, gtfsrt.Predictions)
	running := trip("a", t0-1, stop(1, 900, 5), stop(2, 960, 5))
	other := trip("z", 0, stop(1, 960, 5)) // its event comes after those of trip a
	b.poll(feed(0, running))
	gone := feed(30, related(trip("a", t0-1), pb.TripDescriptor_CANCELED), other)
	first := func(m *pb.FeedMessage, want string) {
		t.Helper()
		delta := b.differ.Diff(decode(t, m), (t0+1_000_000)*1000)
		wantSays(t, "first part", delta.Events[:1], want)
		b.store.apply(delta.Changes(0, 1))
		b.restart()
	}
	first(gone, "-1 a|  canceled")
	events, _ := b.poll(gone)
	wantSays(t, "the rest", events, "30 z| 1 5 960")
	events, _ = b.poll(feed(60, running, other))
	wantSays(t, "running after all", events, "-1 a| 1 5 900", "-1 a| 2 5 960")

	back := feed(25*3600+60, running, other)
	first(back, "-1 a| 1 5 900")
	events, _ = b.poll(back)
	wantSays(t, "the rest", events, "-1 a| 2 5 960", fmt.Sprint(25*3600+60, " z| 1 5 960"))
}

// TestPartsOfVehicles holds the same of positions, and how far a source is after
// a part: not further than before, but for the greatest event time.
func TestPartsOfVehicles(t *testing.T) {
	t.Parallel()
	b := newBench(t, gtfsrt.Predictions)
	m := feed(30, vehicle("a", t0+1, 1, 1), vehicle("b", t0+2, 1, 1), vehicle("c", t0+3, 1, 1))
	delta := b.differ.Diff(decode(t, m), (t0+60)*1000)
	b.store.apply(delta.Changes(0, 2))
	b.restart()
	if last, latest := b.differ.Last(gtfsrt.VehiclePositions), b.differ.Latest(gtfsrt.VehiclePositions); last != gtfsrt.NoTime || latest != (t0+2)*1000 {
		t.Errorf("after the first part: last %d, latest %d", last, latest)
	}
	events, _ := b.poll(m)
	wantSays(t, "the rest", events, "f:c")
	b.restart()
	if latest := b.differ.Latest(gtfsrt.VehiclePositions); latest != (t0+3)*1000 || b.differ.Latest(gtfsrt.TripUpdates) != gtfsrt.NoTime {
		t.Errorf("at the end: latest %d", latest)
	}
}
