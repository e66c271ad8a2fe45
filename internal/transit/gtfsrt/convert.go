package gtfsrt

import (
	"math"
	"strconv"

	"google.golang.org/protobuf/proto"

	"github.com/peil-stream/peil/internal/transit/gtfsrt/pb"
)

// snapshot cuts a message to what is used of it, and counts what cannot be.
func snapshot(m *pb.FeedMessage) *Snapshot {
	s := &Snapshot{Head: Head{Version: m.GetHeader().GetGtfsRealtimeVersion(), Entities: len(m.GetEntity())}}
	s.Header = seconds(m.GetHeader().GetTimestamp(), &s.Tally)
	for _, e := range m.GetEntity() {
		for k, has := range [kinds]bool{e.TripUpdate != nil, e.Vehicle != nil, e.Alert != nil} {
			if has {
				s.count[k]++
			}
		}
	}
	s.Trips = make([]TripUpdate, 0, s.count[TripUpdates])
	s.Vehicles = make([]Vehicle, 0, s.count[VehiclePositions])
	for _, e := range m.GetEntity() {
		switch {
		case e.Id == nil:
			s.Tally[EntityWithoutID]++
			continue
		case e.GetIsDeleted():
			s.Tally[EntityDeleted]++
			continue
		}
		if e.TripUpdate != nil {
			s.Trips = append(s.Trips, tripUpdate(e.GetTripUpdate()))
		}
		if e.Vehicle != nil {
			s.addVehicle(e.GetId(), e.GetVehicle())
		}
	}
	return s
}

func tripUpdate(m *pb.TripUpdate) TripUpdate {
	trip := m.GetTrip()
	u := TripUpdate{
		TripID: trip.GetTripId(), StartDate: trip.GetStartDate(), StartTime: trip.GetStartTime(),
		RouteID: trip.GetRouteId(), Realtime: realtimeID(trip),
		Relation: trip.GetScheduleRelationship(), Timestamp: m.GetTimestamp(),
		Stops: make([]StopUpdate, 0, len(m.GetStopTimeUpdate())),
	}
	for _, stop := range m.GetStopTimeUpdate() {
		u.Stops = append(u.Stops, StopUpdate{
			StopID:   stop.GetStopId(),
			Sequence: stop.GetStopSequence(), HasSequence: stop.StopSequence != nil,
			Relation: stop.GetScheduleRelationship(),
			Arrival:  stopEvent(stop.GetArrival()), Departure: stopEvent(stop.GetDeparture()),
		})
	}
	return u
}

func realtimeID(trip *pb.TripDescriptor) string {
	if trip == nil {
		return ""
	}
	extension, ok := proto.GetExtension(trip, pb.E_OvapiTripdescriptor).(*pb.OVapiTripDescriptor)
	if !ok {
		return ""
	}
	return extension.GetRealtimeTripId()
}

func stopEvent(m *pb.TripUpdate_StopTimeEvent) StopEvent {
	if m == nil {
		return StopEvent{}
	}
	return StopEvent{
		Delay: int64(m.GetDelay()), HasDelay: m.Delay != nil,
		Time: m.GetTime(), HasTime: m.Time != nil,
	}
}

func (s *Snapshot) addVehicle(entityID string, m *pb.VehiclePosition) {
	trip, position := m.GetTrip(), m.GetPosition()
	v := Vehicle{
		EntityID: entityID, ID: m.GetVehicle().GetId(), Label: m.GetVehicle().GetLabel(),
		TripID: trip.GetTripId(), RouteID: trip.GetRouteId(), Realtime: realtimeID(trip),
		StopID: m.GetStopId(), Timestamp: m.GetTimestamp(),
	}
	if m.CurrentStatus != nil {
		v.CurrentStatus = pb.VehiclePosition_VehicleStopStatus_name[int32(m.GetCurrentStatus())]
	}
	if m.OccupancyStatus != nil {
		v.Occupancy = pb.VehiclePosition_OccupancyStatus_name[int32(m.GetOccupancyStatus())]
	}
	switch {
	case position == nil:
	case position.Latitude == nil || position.Longitude == nil:
		s.Tally[PositionIncomplete]++
	default:
		v.HasPosition = true
		v.Latitude, v.Longitude = degrees(position.GetLatitude()), degrees(position.GetLongitude())
		v.Bearing, v.HasBearing = degrees(position.GetBearing()), position.Bearing != nil
		v.SpeedMPS, v.HasSpeed = degrees(position.GetSpeed()), position.Speed != nil
	}
	s.Vehicles = append(s.Vehicles, v)
}

// degrees widens a number of single precision to the one that was meant: 52.37,
// not 52.369998931884766.
func degrees(f float32) float64 {
	wide := float64(f)
	if math.IsNaN(wide) || math.IsInf(wide, 0) {
		return wide
	}
	short, err := strconv.ParseFloat(strconv.FormatFloat(wide, 'g', -1, 32), 64)
	if err != nil {
		return wide // what was just written can be read
	}
	return short
}
