package processor_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/peil-stream/peil/internal/ingest"
	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/testkit"
	"github.com/peil-stream/peil/internal/transit/gtfsrt"
	"github.com/peil-stream/peil/internal/transit/gtfsrt/pb"
)

// snapshot is a feed of trip updates with a header time of T0+at.
func snapshot(at int64, entities ...*pb.FeedEntity) *pb.FeedMessage {
	return &pb.FeedMessage{
		Header: &pb.FeedHeader{GtfsRealtimeVersion: new("2.0"), Timestamp: new(uint64(testkit.T0/1000 + at))},
		Entity: entities,
	}
}

// update is an entity with one arrival; at is the trip update's own time, or 0
// for none, and predicted the time of the arrival, both from T0.
func update(id, trip string, at, predicted int64, delay int32) *pb.FeedEntity {
	u := &pb.TripUpdate{
		Trip: &pb.TripDescriptor{TripId: new(trip), StartDate: new("20260921"), RouteId: new("1")},
		StopTimeUpdate: []*pb.TripUpdate_StopTimeUpdate{{
			StopSequence: proto.Uint32(1), StopId: new("s"),
			Arrival: &pb.TripUpdate_StopTimeEvent{Delay: new(delay), Time: new(testkit.T0/1000 + predicted)},
		}},
	}
	if at != 0 {
		u.Timestamp = new(uint64(testkit.T0/1000 + at))
	}
	e := &pb.FeedEntity{TripUpdate: u}
	if id != "" {
		e.Id = new(id)
	}
	return e
}

// publish plays snapshots through the real ingest, each fetched at T0+fetched,
// and returns what was published.
func publish(t *testing.T, r *testkit.Rig, fetched int64, feeds ...*pb.FeedMessage) (results []ingest.Result) {
	t.Helper()
	r.SetNow(testkit.At(float64(fetched)))
	ing, err := ingest.Open(t.Context(), r.Log, ingest.Config{
		Feed: "nl", ArrivalsTopic: testkit.Arrivals, PositionsTopic: testkit.Positions,
	}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range feeds {
		body, err := proto.MarshalOptions{AllowPartial: true}.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		s, err := gtfsrt.Decode(body)
		if err != nil {
			t.Fatal(err)
		}
		res, err := ing.Publish(t.Context(), s, time.UnixMilli(testkit.At(float64(fetched))))
		if err != nil {
			t.Fatal(err)
		}
		results = append(results, res)
	}
	if err := ing.Close(); err != nil {
		t.Fatal(err)
	}
	return results
}

func TestG28OneMalformedEntityLeavesTheRest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{})
		publish(t, r, 10, snapshot(10, update("a", "t1", 10, 60, 30), update("", "t2", 10, 60, 1000), update("c", "t3", 10, 60, 60)))
		r.Heartbeat(0, 420)
		r.Process()
		wantNetwork(t, r, 0, 2, 45, 60, 60, 30)
		wantCounts(t, r, 0, sink.Counts{Accepted: 2})
		r.Verify()
	})
}

func TestG34PredictedTimesInTheFutureAreNoEventTimes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{})
		publish(t, r, 10, snapshot(10, update("a", "t1", 10, 300, 30), update("b", "t2", 10, 3900, 60)))
		r.Process()
		if o := r.Offset(0); o.Watermark != testkit.At(-110) {
			t.Fatalf("watermark %d, want T0-110 s = %d", o.Watermark, testkit.At(-110))
		}
		r.Heartbeat(0, 420)
		r.Process()
		wantNetwork(t, r, 0, 2, 45, 60, 60, 30)
		r.Verify()
	})
}

func TestM20AnOldCaptureWithAClockADayAheadMakesNobodyLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{})
		const day = 86400
		feeds := []*pb.FeedMessage{snapshot(10, update("a", "t1", 10, 60, 10), update("wrong", "t9", 10+day, 60, 500))}
		for at := int64(40); at <= 430; at += 30 {
			feeds = append(feeds, snapshot(at, update("a", "t1", at, at+60, int32(at))))
		}
		publish(t, r, 100*day, feeds...)
		r.Process()
		wantCounts(t, r, 0, sink.Counts{Accepted: int64(len(feeds)) + 1})
		if a, ok := r.Network(0); !ok || a.Max != 500 || a.Count != 11 {
			t.Fatalf("row %+v, want 11 events, the capped one among them", a)
		}
		r.Verify()
	})
}
