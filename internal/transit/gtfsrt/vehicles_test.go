package gtfsrt_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/peil-stream/peil/event"
	"github.com/peil-stream/peil/internal/transit/gtfsrt"
	"github.com/peil-stream/peil/internal/transit/gtfsrt/pb"
)

func TestPositionRecord(t *testing.T) {
	t.Parallel()
	v := vehicle("7", t0+5, 52.37, 4.9)
	v.Vehicle.Trip = &pb.TripDescriptor{TripId: new("t"), RouteId: new("r")}
	proto.SetExtension(v.Vehicle.Trip, pb.E_OvapiTripdescriptor, &pb.OVapiTripDescriptor{RealtimeTripId: new("GVB:7:120")})
	v.Vehicle.StopId, v.Vehicle.CurrentStatus = new("s"), pb.VehiclePosition_STOPPED_AT.Enum()
	v.Vehicle.OccupancyStatus = pb.VehiclePosition_EMPTY.Enum()
	v.Vehicle.Position.Bearing, v.Vehicle.Position.Speed = proto.Float32(90.5), proto.Float32(0.1)
	events, _ := newBench(t, gtfsrt.Predictions).poll(feed(30, v))
	if len(events) != 1 {
		t.Fatalf("%d events", len(events))
	}
	want := `{"feed":"f","vehicle_id":"f:7","trip_id":"f:t","stop_id":"f:s","line_id":"f:GVB:7","operator":"f:GVB","latitude":52.37,"longitude":4.9,"bearing":90.5,"speed_mps":0.1,"current_status":"STOPPED_AT","occupancy":"EMPTY","timestamp":"2026-09-21T14:15:05Z"}`
	if diff := cmp.Diff(want, string(event.AppendPosition(nil, events[0].Position))); diff != "" {
		t.Fatalf("mismatch (-want +got):\n%s", diff)
	}
}

// TestG23LabelAndExtension holds that vehicles without id are told apart, and
// that fields which are not ours make no news.
func TestG23LabelAndExtension(t *testing.T) {
	t.Parallel()
	poll := func(header int64, counter uint64) *pb.FeedMessage {
		label, entity := vehicle("", t0, 52, 4), vehicle("", t0, 53, 5)
		label.Id, entity.Id = new("2023-01-02:QBUZZ:g309:8149"), new("2023-01-02:QBUZZ:g309:8150")
		label.Vehicle.Vehicle = &pb.VehicleDescriptor{Label: new("7602")}
		entity.Vehicle.Vehicle = nil
		m := feed(header, label, entity)
		m.Header.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 1000, protowire.VarintType), counter))
		inner := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), counter)
		label.Vehicle.ProtoReflect().SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, 1003, protowire.BytesType), inner))
		return m
	}
	b := newBench(t, gtfsrt.Predictions)
	events, _ := b.poll(poll(0, 38))
	wantSays(t, "first", events, "f:2023-01-02:QBUZZ:g309:8150", "f:7602")
	b.restart()
	events, _ = b.poll(poll(30, 39))
	wantSays(t, "only extensions changed", events)
}

// TestG02VehicleOlderThanPublished holds the order per vehicle; one whose clock
// runs ahead is dated by the header and not stuck there.
func TestG02VehicleOlderThanPublished(t *testing.T) {
	t.Parallel()
	b := newBench(t, gtfsrt.Predictions)
	for i, step := range []struct {
		own, header int64
		want        int
	}{{10, 20, 1}, {5, 40, 0}, {10, 60, 1}, {3600, 80, 1}, {70, 100, 0}, {90, 120, 1}, {0, 140, 1}, {150, 160, 1}} {
		own := step.own
		if own != 0 {
			own += t0
		}
		events, _ := b.poll(feed(step.header, vehicle("v", own, 50+float32(i), 4)))
		if len(events) != step.want || step.want == 0 && b.tally[gtfsrt.VehicleOutOfOrder] != 1 {
			t.Errorf("step %d: %d events, tally %v", i, len(events), b.tally)
		}
		b.restart()
	}
	if events, _ := b.poll(feed(200, vehicle("v", t0+180, 57, 4))); len(events) != 1 {
		t.Error("a vehicle that stands still and reports is an observation")
	}
}

func TestG20TwoPositionsOfOneVehicle(t *testing.T) {
	t.Parallel()
	b := newBench(t, gtfsrt.Predictions)
	events, _ := b.poll(feed(60, vehicle("v", t0+50, 52, 4), vehicle("v", t0+40, 53, 4), vehicle("w", 0, 1, 1), vehicle("w", 0, 2, 2)))
	if len(events) != 2 || events[0].Position.Latitude != 52 || events[1].Position.Latitude != 2 || b.tally[gtfsrt.DuplicateEntity] != 2 {
		t.Fatalf("%d events, tally %v: the newest counts, the last of equals", len(events), b.tally)
	}
	first, second := vehicle("x", 0, 1, 1), vehicle("y", 0, 1, 1)
	first.Vehicle.Trip, second.Vehicle.Trip = &pb.TripDescriptor{TripId: new("T")}, &pb.TripDescriptor{TripId: new("T")}
	if events, _ := b.poll(feed(90, first, second)); len(events) != 2 {
		t.Errorf("two vehicles on one trip: %d events", len(events))
	}
}

func TestG21BadPositions(t *testing.T) {
	t.Parallel()
	b := newBench(t, gtfsrt.Predictions)
	none := vehicle("none", 0, 1, 1)
	none.Vehicle.Position = nil
	nobody := vehicle("", 0, 1, 1)
	nobody.Id, nobody.Vehicle.Vehicle = new(""), nil
	dizzy := vehicle("z", 0, 49.766798, -7.557145)
	dizzy.Vehicle.Position.Bearing, dizzy.Vehicle.Position.Speed = new(float32(math.NaN())), new(float32(math.Inf(1)))
	events, _ := b.poll(feed(0, vehicle("a", 0, 0, 0), vehicle("b", 0, 91, 5), vehicle("c", 0, 52, 181),
		vehicle("d", 0, float32(math.NaN()), 5), dizzy, none, nobody))
	wantSays(t, "the only good one", events, "f:z")
	if events[0].Position.HasBearing || events[0].Position.HasSpeed {
		t.Error("a bearing that is no number is kept")
	}
	if b.tally[gtfsrt.PositionBad] != 4 || b.tally[gtfsrt.PositionMissing] != 1 || b.tally[gtfsrt.VehicleWithoutID] != 1 {
		t.Errorf("tally %v", b.tally)
	}
}

func TestG25BothInOneEntity(t *testing.T) {
	t.Parallel()
	both := trip("a", 0, stop(1, 600, 5))
	both.Vehicle = vehicle("v", 0, 52, 4).Vehicle
	events, _ := newBench(t, gtfsrt.Predictions).poll(feed(0, both))
	wantSays(t, "both", events, "0 a| 1 5 600", "f:v")
}
