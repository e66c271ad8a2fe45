package city

import (
	"math"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/peil-stream/peil/internal/transit/gtfsrt/pb"
)

// Message returns the feed as it stands at an instant (cut to the second): a
// trip update and a vehicle position for each vehicle, the latter not for
// cancelled trips. The caller owns it.
func (c *City) Message(at time.Time) *pb.FeedMessage {
	m := &pb.FeedMessage{
		Header: &pb.FeedHeader{
			GtfsRealtimeVersion: new("2.0"),
			Incrementality:      pb.FeedHeader_FULL_DATASET.Enum(),
			Timestamp:           new(uint64(at.Unix())),
		},
	}
	c.underWay(at, func(d *day, l *line, tr *trip, r *run, report int64) {
		p := present{day: d, line: l, trip: tr, run: r, route: &l.routes[tr.dir], now: report}
		m.Entity = p.appendTo(m.Entity)
	})
	return m
}

// present is one trip as its last report shows it.
type present struct {
	day   *day
	line  *line
	trip  *trip
	run   *run
	route *route
	now   int64 // second of the service day
}

func (p *present) appendTo(entities []*pb.FeedEntity) []*pb.FeedEntity {
	// Both entities show the same trip and vehicle, so they share the messages.
	id := p.day.date.dashed() + ":" + p.trip.realtime
	trip := p.tripDescriptor()
	if p.run.canceled {
		trip.ScheduleRelationship = pb.TripDescriptor_CANCELED.Enum()
		return append(entities, &pb.FeedEntity{
			Id:         &id,
			TripUpdate: &pb.TripUpdate{Trip: trip, Timestamp: p.timestamp()},
		})
	}
	vehicle := p.vehicleDescriptor()
	return append(entities,
		&pb.FeedEntity{Id: &id, TripUpdate: &pb.TripUpdate{
			Trip:           trip,
			Vehicle:        vehicle,
			StopTimeUpdate: p.stopTimes(),
			Timestamp:      p.timestamp(),
		}},
		&pb.FeedEntity{Id: new(id + ":vehicle"), Vehicle: p.position(trip, vehicle)},
	)
}

func (p *present) timestamp() *uint64 { return new(uint64(p.day.origin + p.now)) }

func (p *present) tripDescriptor() *pb.TripDescriptor {
	t := &pb.TripDescriptor{
		TripId:               new(p.trip.id),
		RouteId:              new(p.line.operator + ":" + p.line.name),
		DirectionId:          new(uint32(p.trip.dir)),
		StartDate:            new(p.day.date.digits()),
		ScheduleRelationship: pb.TripDescriptor_SCHEDULED.Enum(),
	}
	proto.SetExtension(t, pb.E_OvapiTripdescriptor, &pb.OVapiTripDescriptor{RealtimeTripId: new(p.trip.realtime)})
	return t
}

// vehicleDescriptor numbers the fleet by line. Vehicles change at the change of
// the service day, when the last trips of one meet the first ones of the next.
func (p *present) vehicleDescriptor() *pb.VehicleDescriptor {
	fleet := int(p.day.date.ordinal()&1) * vehiclesMax
	label := strconv.Itoa(1000 + p.line.index*2*vehiclesMax + fleet + p.trip.vehicle)
	return &pb.VehicleDescriptor{Id: new(p.line.operator + ":" + label), Label: &label}
}

// vehiclesMax bounds the vehicles of a line on one service day.
const vehiclesMax = 50

// next is the first stop that is not reached yet, at least 1 and at most one
// past the last.
func (p *present) next() int {
	k := 1
	for k < len(p.run.reach) && int64(p.run.reach[k]) <= p.now {
		k++
	}
	return k
}

// planned is the arrival that the timetable promises at a stop.
func (p *present) planned(i int) int64 { return p.trip.depart + p.route.sched[i] }

// deviation is how late the vehicle is now, in seconds.
func (p *present) deviation(next int) int64 {
	r, i := p.run, next-1
	reach, leave := int64(r.reach[i]), int64(r.leave[i])
	plannedLeave := p.planned(i) + dwellScheduled
	if i == 0 {
		plannedLeave = p.trip.depart
	}
	switch {
	case i == 0 && p.now < leave:
		return max(p.now-plannedLeave, 0)
	case p.now < leave || next == len(r.reach):
		return reach - p.planned(i)
	}
	from, to := leave-plannedLeave, int64(r.reach[next])-p.planned(next)
	return from + (to-from)*(p.now-leave)/(int64(r.reach[next])-leave)
}

// stopTimes predicts the remaining stops: the deviation of now, made up little
// by little, and never a time that is not possible any more.
func (p *present) stopTimes() []*pb.TripUpdate_StopTimeUpdate {
	next := p.next()
	dev := p.deviation(next)
	first := next
	if p.now < int64(p.run.leave[0]) {
		first = 0
	}
	updates := make([]pb.TripUpdate_StopTimeUpdate, len(p.route.stops)-first)
	ids := make([]string, len(updates))
	out := make([]*pb.TripUpdate_StopTimeUpdate, len(updates))
	earliest := p.now + 5
	for i := first; i < len(p.route.stops); i++ {
		u := &updates[i-first]
		out[i-first] = u
		u.StopSequence = new(uint32(i + 1))
		ids[i-first] = p.route.stops[i].id
		u.StopId = &ids[i-first]
		if i == 0 {
			u.Departure = p.event(max(p.trip.depart+dev, earliest), p.trip.depart)
			continue
		}
		if dev > 0 {
			dev -= min(recovery/2, dev)
		} else if dev < 0 {
			dev++
		}
		at := max(p.planned(i)+dev, earliest)
		earliest = at + 1
		switch {
		case p.run.ghost > 0 && i >= p.run.ghost:
			u.ScheduleRelationship = pb.TripUpdate_StopTimeUpdate_NO_DATA.Enum()
		case i < p.route.last() && unit(mix(p.run.key, forSkip, uint64(i))) < 0.003:
			u.ScheduleRelationship = pb.TripUpdate_StopTimeUpdate_SKIPPED.Enum()
		default:
			u.Arrival = p.event(at, p.planned(i))
		}
	}
	return out
}

// event writes a predicted time with its delay.
func (p *present) event(at, planned int64) *pb.TripUpdate_StopTimeEvent {
	return &pb.TripUpdate_StopTimeEvent{Delay: new(int32(at - planned)), Time: new(p.day.origin + at)}
}

func (p *present) position(trip *pb.TripDescriptor, vehicle *pb.VehicleDescriptor) *pb.VehiclePosition {
	next := p.next()
	i := next - 1 // the stop that is left, or at which it stands
	v := &pb.VehiclePosition{Trip: trip, Vehicle: vehicle, Timestamp: p.timestamp()}
	along, speed, status := p.route.stops[i].along, 0.0, pb.VehiclePosition_STOPPED_AT
	shown := i
	if leave := int64(p.run.leave[i]); p.now >= leave && next < len(p.run.reach) {
		f := float64(p.now-leave) / float64(int64(p.run.reach[next])-leave)
		length := p.route.stops[next].along - along
		// It speeds up and slows down as 3f²-2f³ does.
		along += length * f * f * (3 - 2*f)
		speed = length / float64(int64(p.run.reach[next])-leave) * 6 * f * (1 - f)
		status, shown = pb.VehiclePosition_IN_TRANSIT_TO, next
		if f > 0.85 {
			status = pb.VehiclePosition_INCOMING_AT
		}
	}
	at, heading := p.route.at(along)
	fix := func(n uint64) float64 {
		return between(mix(p.run.key, forGPS, uint64(p.now), n), -4, 4) / metresPerLat
	}
	v.Position = &pb.Position{
		Latitude:  new(float32(at.lat + fix(0))),
		Longitude: new(float32(at.lon + fix(1))),
		Bearing:   new(float32(math.Mod(math.Round(heading), 360))),
		Speed:     new(float32(math.Round(speed*10) / 10)),
	}
	v.CurrentStopSequence = new(uint32(shown + 1))
	v.StopId = new(p.route.stops[shown].id)
	v.CurrentStatus = status.Enum()
	v.OccupancyStatus = p.occupancy(i)
	return v
}

// occupancy is fullest in the middle of the line and in the peaks; some vehicles
// do not count.
func (p *present) occupancy(i int) *pb.VehiclePosition_OccupancyStatus {
	if unit(mix(p.run.key, forLoad)) < 0.08 {
		return nil
	}
	f := float64(i) / float64(p.route.last())
	load := (0.25 + 0.75*rush(p.trip.depart)) * 4 * f * (1 - f)
	load += between(mix(p.run.key, forLoad, uint64(i/4)), -0.2, 0.25)
	switch {
	case load < 0.05:
		return pb.VehiclePosition_EMPTY.Enum()
	case load < 0.4:
		return pb.VehiclePosition_MANY_SEATS_AVAILABLE.Enum()
	case load < 0.7:
		return pb.VehiclePosition_FEW_SEATS_AVAILABLE.Enum()
	case load < 1.05:
		return pb.VehiclePosition_STANDING_ROOM_ONLY.Enum()
	case load < 1.15:
		return pb.VehiclePosition_CRUSHED_STANDING_ROOM_ONLY.Enum()
	default:
		return pb.VehiclePosition_FULL.Enum()
	}
}
