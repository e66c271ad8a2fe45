package gtfsrt_test

import (
	"maps"
	"slices"
	"strconv"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/peil-stream/peil/event"
	"github.com/peil-stream/peil/internal/transit/gtfsrt"
	"github.com/peil-stream/peil/internal/transit/gtfsrt/pb"
)

// t0 is 2026-09-21T14:15:00Z in Unix seconds, the start of a window.
const t0 = 1790000100

// none is the memory of a publisher that never published.
func none(func(string, []byte) bool) {}

// store is the memory of a publisher, as the log keeps it.
type store map[string][]byte

func (s store) all(yield func(string, []byte) bool) {
	for _, key := range slices.Sorted(maps.Keys(s)) {
		if !yield(key, s[key]) {
			return
		}
	}
}

func (s store) apply(changes []gtfsrt.Change) {
	for _, c := range changes {
		if c.Value == nil {
			delete(s, c.Key)
		} else {
			s[c.Key] = c.Value
		}
	}
}

// feed makes a message with a header of t0 plus seconds.
func feed(seconds int64, entities ...*pb.FeedEntity) *pb.FeedMessage {
	return &pb.FeedMessage{
		Header: &pb.FeedHeader{GtfsRealtimeVersion: new("2.0"), Timestamp: new(uint64(t0 + seconds))},
		Entity: entities,
	}
}

// trip makes an entity with a trip update. A timestamp of 0 is left out.
func trip(id string, timestamp int64, stops ...*pb.TripUpdate_StopTimeUpdate) *pb.FeedEntity {
	u := &pb.TripUpdate{Trip: &pb.TripDescriptor{TripId: new(id)}, StopTimeUpdate: stops}
	if timestamp != 0 {
		u.Timestamp = new(uint64(timestamp))
	}
	return &pb.FeedEntity{Id: new("e-" + id), TripUpdate: u}
}

// related sets the schedule relationship of an entity's trip.
func related(e *pb.FeedEntity, r pb.TripDescriptor_ScheduleRelationship) *pb.FeedEntity {
	e.TripUpdate.Trip.ScheduleRelationship = &r
	return e
}

// stop makes a stop update: sequence, stop s<sequence>, arrival at t0 plus
// seconds with a delay.
func stop(sequence uint32, seconds int64, delay int32) *pb.TripUpdate_StopTimeUpdate {
	s := bare(sequence)
	s.Arrival = &pb.TripUpdate_StopTimeEvent{Delay: &delay, Time: new(t0 + seconds)}
	return s
}

// bare makes a stop update that says nothing.
func bare(sequence uint32) *pb.TripUpdate_StopTimeUpdate {
	return &pb.TripUpdate_StopTimeUpdate{StopSequence: &sequence, StopId: new("s" + strconv.FormatUint(uint64(sequence), 10))}
}

// marked sets the schedule relationship of a stop.
func marked(s *pb.TripUpdate_StopTimeUpdate, r pb.TripUpdate_StopTimeUpdate_ScheduleRelationship) *pb.TripUpdate_StopTimeUpdate {
	s.ScheduleRelationship = &r
	return s
}

// vehicle makes an entity with a position. A timestamp of 0 is left out.
func vehicle(id string, timestamp int64, lat, lon float32) *pb.FeedEntity {
	v := &pb.VehiclePosition{
		Vehicle:  &pb.VehicleDescriptor{Id: new(id)},
		Position: &pb.Position{Latitude: &lat, Longitude: &lon},
	}
	if timestamp != 0 {
		v.Timestamp = new(uint64(timestamp))
	}
	return &pb.FeedEntity{Id: new("v-" + id), Vehicle: v}
}

func marshal(tb testing.TB, m *pb.FeedMessage) []byte {
	tb.Helper()
	body, err := proto.MarshalOptions{AllowPartial: true, Deterministic: true}.Marshal(m)
	if err != nil {
		tb.Fatal(err)
	}
	return body
}

func decode(tb testing.TB, m *pb.FeedMessage) *gtfsrt.Snapshot {
	tb.Helper()
	s, err := gtfsrt.Decode(marshal(tb, m))
	if err != nil {
		tb.Fatalf("decode: %v", err)
	}
	return s
}

// bench is a differ with its stored memory, as ingest would hold them.
type bench struct {
	tb     testing.TB
	cfg    gtfsrt.Config
	differ *gtfsrt.Differ
	store  store
	tally  gtfsrt.Tally
}

func newBench(tb testing.TB, emit gtfsrt.Emit) *bench {
	tb.Helper()
	b := &bench{tb: tb, cfg: gtfsrt.Config{Feed: "f", Emit: emit}, store: store{}}
	b.restart()
	return b
}

// restart makes the differ anew from the stored memory.
func (b *bench) restart() {
	b.tb.Helper()
	d, err := gtfsrt.NewDiffer(b.cfg, b.store.all)
	if err != nil {
		b.tb.Fatalf("restart: %v", err)
	}
	b.differ = d
}

// poll diffs a message that was fetched long after all of its times, stores the
// memory, and gives the events and the number of changed keys.
func (b *bench) poll(m *pb.FeedMessage) (events []gtfsrt.Event, changed int) {
	b.tb.Helper()
	return b.pollAt(m, t0+100*24*3600)
}

// pollAt is poll with the time of the fetch in seconds.
func (b *bench) pollAt(m *pb.FeedMessage, fetched int64) (events []gtfsrt.Event, changed int) {
	b.tb.Helper()
	delta := b.differ.Diff(decode(b.tb, m), fetched*1000)
	b.check(delta.Events)
	changes := delta.Changes(0, len(delta.Events))
	b.store.apply(changes)
	b.tally = delta.Stats.Tally
	return delta.Events, len(changes)
}

// check holds I5 and the order of events.
func (b *bench) check(events []gtfsrt.Event) {
	b.tb.Helper()
	var dec event.Decoder
	var prediction event.Prediction
	var position event.Position
	for i, e := range events {
		if i > 0 && events[i-1].Time > e.Time {
			b.tb.Fatalf("event %d at %d comes after one at %d", i, e.Time, events[i-1].Time)
		}
		var err *event.Error
		if e.Prediction != nil {
			err = dec.Prediction(event.AppendPrediction(nil, e.Prediction), &prediction)
		} else {
			err = dec.Position(event.AppendPosition(nil, e.Position), &position)
		}
		if err != nil {
			b.tb.Fatalf("event %d is a dead letter: %v", i, err)
		}
	}
}

// says gives the events as texts: seconds after t0, trip, stop, what it says.
func says(events []gtfsrt.Event) []string {
	out := []string{}
	for _, e := range events {
		if e.Prediction != nil {
			e.Time -= t0 * 1000
			if e.Prediction.PredictedTime != event.NoTime {
				p := *e.Prediction
				p.PredictedTime -= t0 * 1000
				e.Prediction = &p
			}
			out = append(out, text(e))
			continue
		}
		out = append(out, string(e.Position.VehicleID))
	}
	return out
}
