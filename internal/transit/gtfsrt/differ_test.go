package gtfsrt_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/peil-stream/peil/event"
	"github.com/peil-stream/peil/internal/transit/gtfsrt"
	"github.com/peil-stream/peil/internal/transit/gtfsrt/pb"
)

func wantSays(t *testing.T, step string, events []gtfsrt.Event, want ...string) {
	t.Helper()
	if want == nil {
		want = []string{}
	}
	if diff := cmp.Diff(want, says(events)); diff != "" {
		t.Errorf("%s mismatch (-want +got):\n%s", step, diff)
	}
}

// TestPredictionRecord holds every field of a record, with OVapi's extension and
// with a route id.
func TestPredictionRecord(t *testing.T) {
	t.Parallel()
	rich := trip("t1", t0+10, stop(7, 300, 143))
	rich.TripUpdate.Trip.StartDate, rich.TripUpdate.Trip.RouteId = new("20260921"), new("r9")
	proto.SetExtension(rich.TripUpdate.Trip, pb.E_OvapiTripdescriptor, &pb.OVapiTripDescriptor{RealtimeTripId: new("CXX:1011:11462")})
	plain := trip("t2", 0, stop(1, 60, -5))
	plain.TripUpdate.Trip.RouteId = new("r9")
	half := trip("t3", 0, stop(1, 60, 0))
	proto.SetExtension(half.TripUpdate.Trip, pb.E_OvapiTripdescriptor, &pb.OVapiTripDescriptor{RealtimeTripId: new("CXX::1")})

	events, _ := newBench(t, gtfsrt.Predictions).poll(feed(30, half, plain, rich))
	var got []string
	for _, e := range events {
		got = append(got, string(event.AppendPrediction(nil, e.Prediction)))
	}
	want := []string{
		`{"feed":"f","trip_id":"f:t1","start_date":"20260921","stop_sequence":7,"stop_id":"f:s7","station_id":"f:s7","line_id":"f:CXX:1011","operator":"f:CXX","delay_s":143,"predicted_time":"2026-09-21T14:20:00Z","timestamp":"2026-09-21T14:15:10Z"}`,
		`{"feed":"f","trip_id":"f:t2","stop_sequence":1,"stop_id":"f:s1","station_id":"f:s1","line_id":"f:r9","delay_s":-5,"predicted_time":"2026-09-21T14:16:00Z","timestamp":"2026-09-21T14:15:30Z"}`,
		`{"feed":"f","trip_id":"f:t3","stop_sequence":1,"stop_id":"f:s1","station_id":"f:s1","delay_s":0,"predicted_time":"2026-09-21T14:16:00Z","timestamp":"2026-09-21T14:15:30Z"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("mismatch (-want +got):\n%s", diff)
	}
}

func TestG34TimeIsThatOfThePrediction(t *testing.T) {
	t.Parallel()
	events, _ := newBench(t, gtfsrt.Predictions).poll(feed(20, trip("a", t0+10, stop(1, 300, 5), stop(2, 3900, 5))))
	wantSays(t, "two stops ahead", events, "10 a| 1 5 300", "10 a| 2 5 3900")
}

func TestG35EachObservationOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, gtfsrt.Predictions)
	total := 0
	poll := func(header, timestamp int64, delay int32) {
		t.Helper()
		events, _ := b.poll(feed(header, trip("a", timestamp, stop(1, 600, delay))))
		total += len(events)
	}
	for i := range int64(10) {
		poll(10+20*i, t0+5, 60)
	}
	if total != 1 {
		t.Fatalf("%d events of ten equal polls, want 1", total)
	}
	poll(310, t0+301, 60)
	poll(340, t0+331, 62)
	poll(370, t0+361, 65)
	if total != 4 {
		t.Fatalf("%d events, want 4", total)
	}
}

// TestM20ClockAhead holds the caps: an update's time at the header's, the
// header's at the fetch, and a header too far ahead counts as absent.
func TestM20ClockAhead(t *testing.T) {
	t.Parallel()
	day := int64(24 * 3600)
	for _, test := range []struct {
		name                       string
		header, timestamp, fetched int64
		event, heartbeat           int64
		future                     int
	}{
		{"clock of a vehicle a day ahead", 30, t0 + day, 100, 30, 30, 0},
		{"header a little ahead", 130, 0, 100, 100, 100, 0},
		{"header and vehicle a little ahead", 130, t0 + 130, 100, 100, 100, 0},
		{"header at the bound", 400, 0, 100, 100, 100, 0},
		{"header beyond the bound", 401, t0 + 50, 100, 50, 100, 1},
		{"header a day ahead", day, 0, 100, 100, 100, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, gtfsrt.Predictions)
			delta := b.differ.Diff(decode(t, feed(test.header, trip("a", test.timestamp, stop(1, 600, 5)))), (t0+test.fetched)*1000)
			if len(delta.Events) != 1 || delta.Events[0].Time != (t0+test.event)*1000 {
				t.Fatalf("events %v, want one at %d", says(delta.Events), test.event)
			}
			if got := delta.Sources[gtfsrt.TripUpdates].Header; got != (t0+test.heartbeat)*1000 {
				t.Errorf("heartbeat at %d, want %d", got/1000-t0, test.heartbeat)
			}
			if got := delta.Stats.Tally[gtfsrt.HeaderInFuture]; got != test.future {
				t.Errorf("counted %d headers in the future, want %d", got, test.future)
			}
		})
	}
}

// TestG05NoTimes holds that what has no time is dated by the header, else by the
// fetch, and never lies in 1970.
func TestG05NoTimes(t *testing.T) {
	t.Parallel()
	for _, header := range []*uint64{nil, proto.Uint64(0)} {
		b := newBench(t, gtfsrt.Predictions)
		m := feed(0, trip("a", 0, stop(1, 600, 5)), vehicle("v", 0, 52, 4))
		m.Header.Timestamp = header
		events, _ := b.pollAt(m, t0+77)
		for _, e := range events {
			if e.Time != (t0+77)*1000 {
				t.Errorf("event at %d, want the time of the fetch", e.Time)
			}
		}
		if len(events) != 2 || b.tally[gtfsrt.HeaderMissing] != 1 {
			t.Errorf("%d events, tally %v", len(events), b.tally)
		}
	}
}

func TestG02OldSnapshotAfterNew(t *testing.T) {
	t.Parallel()
	b := newBench(t, gtfsrt.Predictions)
	var got []string
	for i, header := range []int64{100, 160, 130, 190} {
		events, changed := b.poll(feed(header, trip("a", 0, stop(1, 600, int32(header))), vehicle("x", 0, 52+float32(i), 4)))
		for _, e := range events {
			if e.Position != nil {
				got = append(got, fmt.Sprint(e.Position.Latitude))
			}
		}
		if header == 130 {
			if len(events) != 0 || changed != 0 || b.tally[gtfsrt.FeedOutOfOrder] != 2 {
				t.Errorf("the older snapshot: %d events, %d changes, tally %v", len(events), changed, b.tally)
			}
		}
	}
	if diff := cmp.Diff([]string{"52", "53", "55"}, got); diff != "" {
		t.Errorf("positions (-want +got):\n%s", diff)
	}
	b.restart()
	if events, _ := b.poll(feed(190, trip("a", 0, stop(1, 600, 7)))); len(events) != 0 || b.tally[gtfsrt.FeedUnchanged] != 1 {
		t.Errorf("the same header again: %v, tally %v", says(events), b.tally)
	}
	if b.differ.Last(gtfsrt.TripUpdates) != (t0+190)*1000 || b.differ.Last(gtfsrt.Alerts) != gtfsrt.NoTime {
		t.Errorf("last %d, want 190", b.differ.Last(gtfsrt.TripUpdates)/1000-t0)
	}
}

// TestSourcesApart holds that trip updates and positions are ordered apart, as
// they come from two addresses with clocks of their own.
func TestSourcesApart(t *testing.T) {
	t.Parallel()
	b := newBench(t, gtfsrt.Predictions)
	b.poll(feed(100, trip("a", 0, stop(1, 600, 5))))
	if events, _ := b.poll(feed(50, vehicle("v", 0, 52, 4))); len(events) != 1 {
		t.Errorf("positions of an older header: %v", says(events))
	}
	delta := b.differ.Diff(decode(t, feed(150)), (t0+150)*1000)
	if delta.Sources[gtfsrt.TripUpdates].Outcome != gtfsrt.Taken || delta.Sources[gtfsrt.VehiclePositions].Outcome != gtfsrt.Absent {
		t.Errorf("a header alone: %+v", delta.Sources)
	}
	empty := decode(t, feed(150))
	empty.Assume = gtfsrt.VehiclePositions
	if delta := b.differ.Diff(empty, (t0+150)*1000); delta.Sources[gtfsrt.TripUpdates].Outcome != gtfsrt.Absent || delta.Sources[gtfsrt.VehiclePositions].Outcome != gtfsrt.Taken {
		t.Errorf("a header alone of positions: %+v", delta.Sources)
	}
	alerts := feed(200, &pb.FeedEntity{Id: new("a"), Alert: &pb.Alert{}})
	if delta := b.differ.Diff(decode(t, alerts), (t0+200)*1000); delta.Sources[0].Outcome != gtfsrt.Absent || len(delta.Changes(0, 0)) != 0 {
		t.Errorf("alerts alone: %+v", delta.Sources)
	}
}

func TestG01EmptyArrivalAndMilliseconds(t *testing.T) {
	t.Parallel()
	s := bare(1)
	s.Arrival = &pb.TripUpdate_StopTimeEvent{}
	s.Departure = &pb.TripUpdate_StopTimeEvent{Time: proto.Int64(1447792969000)}
	e := trip("a", 0, s)
	e.TripUpdate.Timestamp, e.TripUpdate.Delay = proto.Uint64(1447792952), proto.Int32(171)
	m := feed(0, e)
	m.Header.Timestamp = proto.Uint64(1447793107)
	b := newBench(t, gtfsrt.Predictions)
	events, _ := b.poll(m)
	wantSays(t, "nothing", events)
	if b.tally[gtfsrt.TimeUnitSuspect] != 1 {
		t.Errorf("tally %v, want time_unit_suspect once", b.tally)
	}
}

// TestPlausible holds what is made of an arrival by which of its two values can
// be used: G06 and G07 without a timetable, G08, and values that cannot be.
func TestPlausible(t *testing.T) {
	t.Parallel()
	arrival := func(delay *int32, at *int64) *pb.TripUpdate_StopTimeUpdate {
		s := bare(1)
		s.Arrival = &pb.TripUpdate_StopTimeEvent{Delay: delay, Time: at}
		return s
	}
	departure := bare(1)
	departure.Departure = &pb.TripUpdate_StopTimeEvent{Delay: proto.Int32(60)}
	for _, test := range []struct {
		name   string
		stop   *pb.TripUpdate_StopTimeUpdate
		want   []string
		reason gtfsrt.Reason
		count  int
	}{
		{"both", arrival(proto.Int32(60), proto.Int64(t0+300)), []string{"0 a| 1 60 300"}, 0, 0},
		{"G06 time alone", arrival(nil, proto.Int64(t0+125)), []string{"0 a| 1 unmatched 125"}, 0, 0},
		{"G07 delay alone", arrival(proto.Int32(125), nil), []string{"0 a| 1 125 -"}, 0, 0},
		{"G08 departure alone", departure, nil, 0, 0},
		{"no arrival", bare(1), nil, 0, 0},
		{"delay at the bound", arrival(proto.Int32(-86_400), nil), []string{"0 a| 1 -86400 -"}, 0, 0},
		{"delay beyond it", arrival(proto.Int32(86_401), nil), nil, gtfsrt.DelayImplausible, 1},
		{"delay beyond it, with a time", arrival(proto.Int32(-86_401), proto.Int64(t0)), []string{"0 a| 1 unmatched 0"}, gtfsrt.DelayImplausible, 1},
		{"milliseconds", arrival(proto.Int32(5), proto.Int64(t0*1000)), []string{"0 a| 1 5 -"}, gtfsrt.TimeUnitSuspect, 1},
		{"sentinel", arrival(nil, proto.Int64(-1)), nil, gtfsrt.TimeImplausible, 1},
		{"zero for none", arrival(nil, proto.Int64(0)), nil, 0, 0},
		{"2100", arrival(nil, proto.Int64(4_102_444_800)), nil, gtfsrt.TimeImplausible, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, gtfsrt.Predictions)
			events, _ := b.poll(feed(0, trip("a", 0, test.stop)))
			wantSays(t, test.name, events, test.want...)
			want := gtfsrt.Tally{}
			want[test.reason] = test.count
			if b.tally != want {
				t.Errorf("tally %v, want %v", b.tally, want)
			}
		})
	}
}

// TestG11G12G14Statuses holds what the relationships of trips and stops give.
func TestG11G12G14Statuses(t *testing.T) {
	t.Parallel()
	skipped, noData, odd := pb.TripUpdate_StopTimeUpdate_SKIPPED, pb.TripUpdate_StopTimeUpdate_NO_DATA, pb.TripUpdate_StopTimeUpdate_ScheduleRelationship(99)
	for _, test := range []struct {
		name string
		trip *pb.FeedEntity
		want []string
	}{
		{
			"G11", trip("a", 0, stop(1, 60, 120), marked(bare(2), skipped), bare(3), marked(bare(4), noData), bare(5)),
			[]string{"0 a| 1 120 60", "0 a| 2 skipped", "0 a| 4 no_data"},
		},
		{"skipped with an arrival left over", trip("a", 0, marked(stop(1, 60, 120), skipped)), []string{"0 a| 1 skipped"}},
		{"unknown number of a stop", trip("a", 0, marked(stop(1, 60, 120), odd)), []string{"0 a| 1 unknown"}},
		{"unscheduled stop", trip("a", 0, marked(stop(1, 60, 120), pb.TripUpdate_StopTimeUpdate_UNSCHEDULED)), []string{"0 a| 1 120 60"}},
		{"G12 canceled without stops", related(trip("a", 0), pb.TripDescriptor_CANCELED), []string{"0 a|  canceled"}},
		{"G12 canceled with stops", related(trip("a", 0, stop(1, 60, 300), stop(2, 90, 300)), pb.TripDescriptor_CANCELED), []string{"0 a| 1 canceled", "0 a| 2 canceled"}},
		{"G12 added and skipped", related(trip("a", 0, marked(bare(1), skipped), marked(bare(2), skipped)), 1), []string{"0 a| 1 skipped", "0 a| 2 skipped"}},
		{"added", related(trip("a", 0, stop(1, 60, 5)), 1), []string{"0 a| 1 5 60"}},
		{"duplicated", related(trip("a", 0, stop(1, 60, 5)), pb.TripDescriptor_DUPLICATED), []string{"0 a| 1 5 60"}},
		{"G14 deleted", related(trip("a", 0, stop(1, 60, 5)), 7), []string{"0 a| 1 canceled"}},
		{"G14 deleted without stops", related(trip("a", 0), 7), []string{"0 a|  canceled"}},
		{"G14 new", related(trip("a", 0, stop(1, 60, 5)), 8), []string{"0 a| 1 unknown"}},
		{"G14 unknown number", related(trip("a", 0, stop(1, 60, 5), bare(2)), 99), []string{"0 a| 1 unknown", "0 a| 2 unknown"}},
		{"running without stops", trip("a", 0), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, gtfsrt.Predictions)
			events, _ := b.poll(feed(0, test.trip))
			wantSays(t, "predictions", events, test.want...)
			events, _ = b.poll(feed(30, test.trip))
			wantSays(t, "again", events)
			var arrivals []string
			for _, w := range test.want {
				if strings.HasSuffix(w, " 60") {
					arrivals = append(arrivals, "60"+w[1:])
				}
			}
			events, _ = newBench(t, gtfsrt.Arrivals).poll(feed(100, test.trip))
			wantSays(t, "arrivals: no statuses", events, arrivals...)
		})
	}
}

// TestCanceledAndBack holds that a trip that is cancelled as a whole and runs
// after all is news each time.
func TestCanceledAndBack(t *testing.T) {
	t.Parallel()
	b := newBench(t, gtfsrt.Predictions)
	running := func() *pb.FeedEntity { return trip("a", 0, stop(1, 900, 5), stop(2, 960, 5)) }
	gone := func() *pb.FeedEntity { return related(trip("a", 0), pb.TripDescriptor_CANCELED) }
	for i, step := range []struct {
		trip *pb.FeedEntity
		want int
	}{{running(), 2}, {gone(), 1}, {gone(), 0}, {running(), 2}, {running(), 0}, {gone(), 1}, {trip("a", 0), 0}, {gone(), 1}} {
		events, _ := b.poll(feed(int64(30*i), step.trip))
		if len(events) != step.want {
			t.Errorf("step %d: %v, want %d events", i, says(events), step.want)
		}
		b.restart()
	}
}

func TestG15Identity(t *testing.T) {
	t.Parallel()
	named := func(id string, at int64) *pb.TripUpdate_StopTimeUpdate {
		return &pb.TripUpdate_StopTimeUpdate{StopId: &id, Arrival: &pb.TripUpdate_StopTimeEvent{Time: new(t0 + at)}}
	}
	b := newBench(t, gtfsrt.Predictions)
	events, _ := b.poll(feed(0, trip("a", 0, named("S", 60), named("X", 90), named("S", 120))))
	wantSays(t, "a loop by stop_id", events, "0 a| S unmatched 60", "0 a| S unmatched 120", "0 a| X unmatched 90")
	events, _ = b.poll(feed(30, trip("a", 0, named("S", 60), named("X", 90), named("S", 121))))
	wantSays(t, "its second call changes", events, "30 a| S unmatched 121")

	huge := stop(1, 60, 5)
	huge.StopSequence = proto.Uint32(1 << 31)
	nobody := stop(1, 60, 5)
	nobody.StopSequence, nobody.StopId = nil, nil
	events, _ = b.poll(feed(60, trip("b", 0, stop(99, 60, 5), huge, nobody)))
	wantSays(t, "sequences are labels", events, "60 b| s1 5 60", "60 b| 99 5 60")
	if b.tally[gtfsrt.StopWithoutIdentity] != 1 {
		t.Errorf("tally %v", b.tally)
	}

	other := trip("b", 0, stop(99, 60, 5))
	other.TripUpdate.Trip.StartTime = new("10:00:00")
	events, _ = b.poll(feed(90, other))
	wantSays(t, "another start_time is another trip", events, "90 b| 99 5 60")
}

func TestG20Duplicates(t *testing.T) {
	t.Parallel()
	b := newBench(t, gtfsrt.Predictions)
	twice := func(header int64) *pb.FeedMessage {
		first, second := trip("a", t0, stop(1, 600, 10), stop(2, 660, 10)), trip("a", t0, stop(1, 600, 20), bare(2))
		return feed(header, first, second)
	}
	events, _ := b.poll(twice(10))
	wantSays(t, "last wins, nothing is not a word", events, "0 a| 1 20 600", "0 a| 2 10 660")
	if b.tally[gtfsrt.DuplicateEntity] != 1 {
		t.Errorf("tally %v", b.tally)
	}
	for i := range int64(3) {
		events, _ = b.poll(twice(20 + i))
		wantSays(t, "stable", events)
	}
	one, other := trip("b", t0, stop(1, 600, 1)), trip("c", t0, stop(1, 600, 2))
	one.Id, other.Id = new("same"), new("same")
	events, _ = b.poll(feed(30, one, other))
	wantSays(t, "one entity id, two trips", events, "0 b| 1 1 600", "0 c| 1 2 600")
}

func TestG22TripsThatComeBack(t *testing.T) {
	t.Parallel()
	b := newBench(t, gtfsrt.Predictions)
	full := func(header int64, n int) *pb.FeedMessage {
		m := feed(header)
		for i := range n {
			m.Entity = append(m.Entity, trip(fmt.Sprintf("t%04d", i), 0, stop(1, 9000, 5)))
		}
		return m
	}
	if events, _ := b.poll(full(0, 1000)); len(events) != 1000 {
		t.Fatalf("%d events, want 1000", len(events))
	}
	if events, changed := b.poll(full(30, 50)); len(events) != 0 || changed != 1 {
		t.Errorf("a poll with 50 of them: %d events, %d changes of the memory, want 0 and the source's", len(events), changed)
	}
	b.restart()
	if events, _ := b.poll(full(60, 1000)); len(events) != 0 {
		t.Errorf("all back: %d events, want 0", len(events))
	}
}

// TestMemoryForgets holds the times after which the memory is written again and
// forgotten, and its bound.
func TestMemoryForgets(t *testing.T) {
	t.Parallel()
	const hour = 3600
	b := newBench(t, gtfsrt.Predictions)
	entities := func(delay int32) []*pb.FeedEntity {
		return []*pb.FeedEntity{trip("a", 0, stop(1, 600, 5)), trip("b", 0, stop(1, 600, delay)), vehicle("v", t0, 52, 4)}
	}
	b.poll(feed(0, entities(1)...))
	if len(b.store) != 5 {
		t.Fatalf("%d keys, want 2 trips, a vehicle, 2 sources", len(b.store))
	}
	if _, changed := b.poll(feed(60, entities(2)...)); changed != 3 {
		t.Errorf("%d keys written when one trip changed, want it and the sources", changed)
	}
	if _, changed := b.poll(feed(hour, entities(2)...)); changed != 4 {
		t.Errorf("%d keys written after an hour, want trip a, the vehicle and the sources", changed)
	}
	b.poll(feed(hour+24*hour-1, trip("b", 0, stop(1, 600, 2))))
	if len(b.store) != 5 {
		t.Errorf("forgotten before a day had passed: %d keys", len(b.store))
	}
	b.restart()
	b.poll(feed(hour+25*hour, trip("b", 0, stop(1, 600, 2))))
	if len(b.store) != 4 { // the vehicles' source has not moved
		t.Errorf("not forgotten after a day and an hour: %d keys", len(b.store))
	}
	events, _ := b.poll(feed(hour+25*hour+30, entities(2)...))
	if len(events) != 2 {
		t.Errorf("a forgotten trip and vehicle are news: %v", says(events))
	}

	// The time it was last seen lags in the memory, by less than an hour.
	b = newBench(t, gtfsrt.Predictions)
	b.poll(feed(0, trip("a", 0, stop(1, 600, 5))))
	b.poll(feed(hour-1, trip("a", 0, stop(1, 600, 5))))
	b.poll(feed(hour-1+24*hour, trip("b", 0, stop(1, 600, 5))))
	if len(b.store) != 3 {
		t.Errorf("forgotten a day after it was last seen, not later: %d keys", len(b.store))
	}

	b = newBench(t, gtfsrt.Predictions)
	b.cfg.Remembered = 2
	b.restart()
	b.poll(feed(0, trip("a", 0, stop(1, 600, 5)), trip("b", 0, stop(1, 600, 5))))
	b.poll(feed(30, trip("c", 0, stop(1, 600, 5))))
	if b.tally[gtfsrt.MemoryOverBound] != 1 || len(b.store) != 3 {
		t.Errorf("%d keys, tally %v, want 2 trips and the source", len(b.store), b.tally)
	}
	b.poll(feed(60, vehicle("v", 0, 1, 1), vehicle("w", 0, 1, 1), vehicle("x", 0, 1, 1)))
	if b.tally[gtfsrt.MemoryOverBound] != 1 || len(b.store) != 6 {
		t.Errorf("%d keys, tally %v, want 2 vehicles", len(b.store), b.tally)
	}
}

// TestBadIDs holds that ids which no record may carry cost only what they name.
func TestBadIDs(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 255)
	badDate := trip("a", 0, stop(1, 60, 5))
	badDate.TripUpdate.Trip.StartDate = new("2026\x00")
	badRoute := trip("a", 0, stop(1, 60, 5))
	badRoute.TripUpdate.Trip.RouteId = new("\u0085")
	badStop := trip("ok", 0, stop(1, 60, 5), stop(2, 90, 5))
	badStop.TripUpdate.StopTimeUpdate[0].StopId = new("a\xff")
	badVehicle, badTripOfVehicle := vehicle("v\n", 0, 52, 4), vehicle("w", 0, 52, 4)
	badTripOfVehicle.Vehicle.Trip = &pb.TripDescriptor{TripId: &long}
	b := newBench(t, gtfsrt.Predictions)
	events, _ := b.poll(feed(0, trip(long, 0, stop(1, 60, 5)), trip("", 0, stop(1, 60, 5)), badDate, badRoute, badStop,
		badVehicle, badTripOfVehicle, trip(long[1:], 0, stop(1, 60, 5))))
	wantSays(t, "what is left", events, "0 ok| 2 5 90", "0 "+long[1:]+"| 1 5 60")
	if b.tally[gtfsrt.BadID] != 6 || b.tally[gtfsrt.TripWithoutID] != 1 {
		t.Errorf("tally %v, want 6 bad ids and a trip without", b.tally)
	}
}

func TestTooManyStops(t *testing.T) {
	t.Parallel()
	b := newBench(t, gtfsrt.Predictions)
	many := trip("a", 0)
	for i := range gtfsrt.TripStopsMax + 1 {
		s := stop(1, 60, 5)
		s.StopSequence = new(uint32(i))
		many.TripUpdate.StopTimeUpdate = append(many.TripUpdate.StopTimeUpdate, s)
	}
	events, _ := b.poll(feed(0, many))
	if len(events) != gtfsrt.TripStopsMax || b.tally[gtfsrt.StopsOverBound] != 1 {
		t.Fatalf("%d events, tally %v", len(events), b.tally)
	}
	late := stop(1, 60, 5)
	late.StopSequence = proto.Uint32(1 << 20)
	if events, _ := b.poll(feed(30, trip("a", 0, late))); len(events) != 0 || b.tally[gtfsrt.StopsOverBound] != 1 {
		t.Errorf("one more: %d events, tally %v", len(events), b.tally)
	}
	b.restart()
}

func TestNewDifferRefuses(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "a\n", strings.Repeat("x", 257)} {
		if _, err := gtfsrt.NewDiffer(gtfsrt.Config{Feed: name}, none); err == nil {
			t.Errorf("feed name %q is taken", name)
		}
	}
	b := newBench(t, gtfsrt.Predictions)
	b.poll(feed(0, trip("a", 0, stop(1, 600, 5)), vehicle("v", 0, 52, 4)))
	_, err := gtfsrt.NewDiffer(gtfsrt.Config{Feed: "f", Emit: gtfsrt.Arrivals}, b.store.all)
	if _, ok := errors.AsType[*gtfsrt.EmitError](err); !ok {
		t.Errorf("the other mode on the same memory: %v", err)
	}
	for key, value := range b.store {
		for _, bad := range [][]byte{nil, {2}, value[:len(value)-1], append([]byte{9}, value[1:]...)} {
			if strings.HasPrefix(key, "vehicle|") && len(bad) == len(value)-1 {
				continue // its last field is the rest, whatever it is
			}
			if _, err := gtfsrt.NewDiffer(b.cfg, store{key: bad}.all); err == nil || !strings.Contains(err.Error(), key) {
				t.Errorf("value %x of %s is taken: %v", bad, key, err)
			}
		}
	}
	if _, err := gtfsrt.NewDiffer(b.cfg, store{"close|x": {1}}.all); err != nil {
		t.Errorf("a key of somebody else: %v", err)
	}
	if _, err := gtfsrt.NewDiffer(b.cfg, store{"trip|x": b.store["trip|||a"]}.all); err == nil {
		t.Error("a trip's key without its parts is taken")
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]gtfsrt.Emit{"": gtfsrt.Predictions, "predictions": gtfsrt.Predictions, "arrivals": gtfsrt.Arrivals} {
		if got, err := gtfsrt.ParseEmit(word); err != nil || got != want || word != "" && got.String() != word {
			t.Errorf("ParseEmit(%q) = %v, %v", word, got, err)
		}
	}
	if _, err := gtfsrt.ParseEmit("all"); err == nil {
		t.Error("ParseEmit takes anything")
	}
	seen := map[string]bool{}
	for r := range gtfsrt.Reason(255) {
		word := r.String()
		if word == "invalid" {
			break
		}
		if word == "" || seen[word] {
			t.Errorf("reason %d is %q", r, word)
		}
		seen[word] = true
	}
	var tally, sum gtfsrt.Tally
	tally[gtfsrt.BadID] = 2
	sum.Add(&tally)
	sum.Add(&tally)
	for reason, n := range sum.All() {
		if reason != gtfsrt.BadID || n != 4 {
			t.Errorf("%s %d", reason, n)
		}
	}
}
