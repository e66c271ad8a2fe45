package gtfsrt

import "github.com/peil-stream/peil/internal/transit/gtfsrt/pb"

// entity reads one entity, or counts why it cannot be used.
func (r *jsonReader) entity(s *Snapshot) {
	s.Entities++
	if s.Entities > r.limits.Entities {
		r.fail(tooLarge("more than %d entities", r.limits.Entities))
		return
	}
	var (
		id             string
		hasID, deleted bool
		trip           *TripUpdate
		vehicle        *Vehicle
		incomplete     bool
	)
	r.object(func(name []byte) {
		switch string(name) {
		case "id":
			hasID = !r.is('n')
			id = r.str()
		case "isdeleted":
			deleted = r.boolean()
		case "tripupdate":
			if r.is('{') {
				s.count[TripUpdates]++
				trip = r.tripUpdate()
				return
			}
			r.skip()
		case "vehicle":
			if r.is('{') {
				s.count[VehiclePositions]++
				vehicle, incomplete = r.vehicle()
				return
			}
			r.skip()
		case "alert":
			if r.is('{') {
				s.count[Alerts]++
			}
			r.skip()
		default:
			r.skip()
		}
	})
	switch {
	case r.err != nil:
		return
	case !hasID:
		s.Tally[EntityWithoutID]++
		return
	case deleted:
		s.Tally[EntityDeleted]++
		return
	}
	if trip != nil {
		s.Trips = append(s.Trips, *trip)
	}
	if vehicle != nil {
		vehicle.EntityID = id
		s.Vehicles = append(s.Vehicles, *vehicle)
	}
	if incomplete {
		s.Tally[PositionIncomplete]++
	}
}

// descriptor is a trip descriptor.
type descriptor struct {
	tripID, startDate, startTime, routeID, realtime string
	relation                                        int32
}

func (r *jsonReader) descriptor() (d descriptor) {
	r.object(func(name []byte) {
		switch string(name) {
		case "tripid":
			d.tripID = r.str()
		case "startdate":
			d.startDate = r.str()
		case "starttime":
			d.startTime = r.str()
		case "routeid":
			d.routeID = r.str()
		case "schedulerelationship":
			d.relation, _ = r.enum(pb.TripDescriptor_ScheduleRelationship_value)
		case "[transitrealtime.ovapitripdescriptor]", "ovapitripdescriptor":
			d.realtime = r.extension()
		default:
			r.skip()
		}
	})
	return d
}

func (r *jsonReader) extension() (realtime string) {
	r.object(func(name []byte) {
		if string(name) == "realtimetripid" {
			realtime = r.str()
			return
		}
		r.skip()
	})
	return realtime
}

func (r *jsonReader) tripUpdate() *TripUpdate {
	u := new(TripUpdate)
	r.object(func(name []byte) {
		switch string(name) {
		case "trip":
			d := r.descriptor()
			u.TripID, u.StartDate, u.StartTime = d.tripID, d.startDate, d.startTime
			u.RouteID, u.Realtime = d.routeID, d.realtime
			u.Relation = pb.TripDescriptor_ScheduleRelationship(d.relation)
		case "timestamp":
			u.Timestamp = r.unix()
		case "stoptimeupdate":
			r.array(func() {
				r.stops++
				if r.stops > r.limits.Stops {
					r.fail(tooLarge("more than %d stops", r.limits.Stops))
					return
				}
				u.Stops = append(u.Stops, r.stopUpdate())
			})
		default:
			r.skip()
		}
	})
	return u
}

func (r *jsonReader) stopUpdate() (u StopUpdate) {
	r.object(func(name []byte) {
		switch string(name) {
		case "stopid":
			u.StopID = r.str()
		case "stopsequence":
			n, ok := r.integer()
			if ok && 0 <= n && n <= 1<<32-1 {
				u.Sequence, u.HasSequence = uint32(n), true
			}
		case "schedulerelationship":
			n, _ := r.enum(pb.TripUpdate_StopTimeUpdate_ScheduleRelationship_value)
			u.Relation = pb.TripUpdate_StopTimeUpdate_ScheduleRelationship(n)
		case "arrival":
			u.Arrival = r.stopEvent()
		case "departure":
			u.Departure = r.stopEvent()
		default:
			r.skip()
		}
	})
	return u
}

func (r *jsonReader) stopEvent() (e StopEvent) {
	r.object(func(name []byte) {
		switch string(name) {
		case "delay":
			e.Delay, e.HasDelay = r.integer()
		case "time":
			e.Time, e.HasTime = r.integer()
		default:
			r.skip()
		}
	})
	return e
}

func (r *jsonReader) vehicle() (v *Vehicle, incomplete bool) {
	v = new(Vehicle)
	r.object(func(name []byte) {
		switch string(name) {
		case "trip":
			d := r.descriptor()
			v.TripID, v.RouteID, v.Realtime = d.tripID, d.routeID, d.realtime
		case "vehicle":
			r.object(func(name []byte) {
				switch string(name) {
				case "id":
					v.ID = r.str()
				case "label":
					v.Label = r.str()
				default:
					r.skip()
				}
			})
		case "position":
			incomplete = r.position(v)
		case "stopid":
			v.StopID = r.str()
		case "timestamp":
			v.Timestamp = r.unix()
		case "currentstatus":
			v.CurrentStatus = r.word(pb.VehiclePosition_VehicleStopStatus_value, pb.VehiclePosition_VehicleStopStatus_name)
		case "occupancystatus":
			v.Occupancy = r.word(pb.VehiclePosition_OccupancyStatus_value, pb.VehiclePosition_OccupancyStatus_name)
		default:
			r.skip()
		}
	})
	return v, incomplete
}

func (r *jsonReader) position(v *Vehicle) (incomplete bool) {
	if !r.is('{') {
		r.skip()
		return false
	}
	hasLatitude, hasLongitude := false, false
	r.object(func(name []byte) {
		switch string(name) {
		case "latitude":
			v.Latitude, hasLatitude = r.float()
		case "longitude":
			v.Longitude, hasLongitude = r.float()
		case "bearing":
			v.Bearing, v.HasBearing = r.float()
		case "speed":
			v.SpeedMPS, v.HasSpeed = r.float()
		default:
			r.skip()
		}
	})
	v.HasPosition = hasLatitude && hasLongitude
	return !v.HasPosition
}

// word reads an enum value and gives its name, or nothing for an unknown one.
func (r *jsonReader) word(values map[string]int32, names map[int32]string) string {
	n, ok := r.enum(values)
	if !ok {
		return ""
	}
	return names[n]
}
