package gtfsrt

import (
	"fmt"
	"math"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/peil-stream/peil/internal/transit/gtfsrt/pb"
)

// Field numbers of the schema that are read from the wire, because the
// generated code reads a message whole or not at all: one broken entity would
// cost the feed, and a count would come too late.
const (
	fieldHeader  protowire.Number = 1 // of FeedMessage
	fieldEntity  protowire.Number = 2 // of FeedMessage
	fieldID      protowire.Number = 1 // of FeedEntity
	fieldDeleted protowire.Number = 2 // of FeedEntity
	fieldTrip    protowire.Number = 3 // of FeedEntity
	fieldVehicle protowire.Number = 4 // of FeedEntity
	fieldAlert   protowire.Number = 5 // of FeedEntity

	// protoHeader is the first byte of a message that begins with its header.
	protoHeader = byte(fieldHeader)<<3 | byte(protowire.BytesType)
)

// partial decodes what is there. Required fields are checked here, so that one
// that is missing costs no more than it must.
func partial() proto.UnmarshalOptions {
	return proto.UnmarshalOptions{AllowPartial: true, DiscardUnknown: true}
}

// readWire reads a message in protobuf's binary form: first the outline of it
// all, with the bounds, then the header, then the entities one by one.
func (l Limits) readWire(body []byte, entities bool) (*Snapshot, *DecodeError) {
	o, err := l.outline(body)
	if err != nil {
		return nil, err
	}
	if len(o.headers) == 0 {
		return nil, noHeader(body)
	}
	var header pb.FeedHeader
	options := partial()
	options.Merge = true // a header in several pieces is one header
	for _, piece := range o.headers {
		if err := options.Unmarshal(piece, &header); err != nil {
			return nil, broken(body, "the header cannot be read: "+err.Error())
		}
	}
	if header.GetIncrementality() == pb.FeedHeader_DIFFERENTIAL {
		return nil, differential()
	}
	s := &Snapshot{Head: o.head}
	s.Version = header.GetGtfsRealtimeVersion()
	s.Header = seconds(header.GetTimestamp(), &s.Tally)
	if !entities {
		return s, nil
	}
	s.Trips = make([]TripUpdate, 0, s.count[TripUpdates])
	s.Vehicles = make([]Vehicle, 0, s.count[VehiclePositions])
	_ = fields(body, func(n protowire.Number, t protowire.Type, v []byte) error { // the outline has read it
		if n == fieldEntity && t == protowire.BytesType {
			s.addEntity(v)
		}
		return nil
	})
	return s, nil
}

// outline is what a walk over the wire shows.
type outline struct {
	head    Head
	headers [][]byte
}

func (l Limits) outline(body []byte) (outline, *DecodeError) {
	var o outline
	parts := 0
	err := fields(body, func(n protowire.Number, t protowire.Type, v []byte) error {
		switch {
		case t != protowire.BytesType:
		case n == fieldHeader:
			o.headers = append(o.headers, v)
		case n == fieldEntity:
			o.head.Entities++
			if o.head.Entities > l.Entities {
				return tooLarge("more than %d entities", l.Entities)
			}
			parts += o.head.look(v)
			if parts > l.Stops {
				return tooLarge("more than %d stops and other fields in its trip updates and vehicle positions", l.Stops)
			}
		}
		return nil
	})
	if err == nil {
		return o, nil
	}
	if d, ok := err.(*DecodeError); ok { //nolint:errorlint // made above, never wrapped
		return o, d
	}
	return o, broken(body, fmt.Sprintf("%v, after %d whole entities", err, o.head.Entities))
}

// look notes what an entity holds and counts the fields of its trip update and
// vehicle. An entity that is broken inside counts by what comes before the break.
func (h *Head) look(entity []byte) (parts int) {
	var has [kinds]bool
	_ = fields(entity, func(n protowire.Number, t protowire.Type, v []byte) error { // judged when it is read
		if t != protowire.BytesType {
			return nil
		}
		switch n {
		case fieldTrip:
			has[TripUpdates] = true
			parts += countFields(v)
		case fieldVehicle:
			has[VehiclePositions] = true
			parts += countFields(v)
		case fieldAlert:
			has[Alerts] = true
		default:
		}
		return nil
	})
	for k, yes := range has {
		if yes {
			h.count[k]++
		}
	}
	return parts
}

func countFields(message []byte) int {
	n := 0
	_ = fields(message, func(protowire.Number, protowire.Type, []byte) error { // judged when it is read
		n++
		return nil
	})
	return n
}

// fields walks over the fields of a message. The bytes of a length-delimited
// field come without their length, those of any other as they are.
func fields(message []byte, each func(n protowire.Number, t protowire.Type, v []byte) error) error {
	for at := 0; at < len(message); {
		n, t, size := protowire.ConsumeTag(message[at:])
		if size < 0 {
			return fmt.Errorf("byte %d: %w", at, protowire.ParseError(size))
		}
		v := message[at+size:]
		if t == protowire.BytesType {
			content, length := protowire.ConsumeBytes(v)
			if length < 0 {
				return fmt.Errorf("byte %d: %w", at, protowire.ParseError(length))
			}
			v, size = content, size+length
		} else {
			length := protowire.ConsumeFieldValue(n, t, v)
			if length < 0 {
				return fmt.Errorf("byte %d: %w", at, protowire.ParseError(length))
			}
			v, size = v[:length], size+length
		}
		if err := each(n, t, v); err != nil {
			return err
		}
		at += size
	}
	return nil
}

func broken(body []byte, detail string) *DecodeError {
	return &DecodeError{
		Class: BadProtobuf, Detail: detail,
		Hint: "the body was cut off or is no protobuf; try again later", Head: headOf(body),
	}
}

// addEntity reads one entity, or counts why it cannot be used.
func (s *Snapshot) addEntity(entity []byte) {
	var (
		id      string
		hasID   bool
		deleted bool
		trip    *pb.TripUpdate
		vehicle *pb.VehiclePosition
	)
	options := partial()
	options.Merge = true // a message in several pieces is one message
	err := fields(entity, func(n protowire.Number, t protowire.Type, v []byte) error {
		switch {
		case n == fieldID && t == protowire.BytesType:
			id, hasID = string(v), true
		case n == fieldDeleted && t == protowire.VarintType:
			x, _ := protowire.ConsumeVarint(v)
			deleted = x != 0
		case n == fieldTrip && t == protowire.BytesType:
			if trip == nil {
				trip = new(pb.TripUpdate)
			}
			return options.Unmarshal(v, trip)
		case n == fieldVehicle && t == protowire.BytesType:
			if vehicle == nil {
				vehicle = new(pb.VehiclePosition)
			}
			return options.Unmarshal(v, vehicle)
		}
		return nil
	})
	switch {
	case err != nil:
		s.Tally[EntityMalformed]++
		return
	case !hasID:
		s.Tally[EntityWithoutID]++
		return
	case deleted:
		s.Tally[EntityDeleted]++
		return
	}
	if trip != nil {
		s.Trips = append(s.Trips, tripUpdate(trip))
	}
	if vehicle != nil {
		s.addVehicle(id, vehicle)
	}
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
