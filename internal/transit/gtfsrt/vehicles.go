package gtfsrt

import (
	"encoding/binary"
	"math"

	"github.com/peil-stream/peil/event"
)

// vehicleWork is one vehicle of a snapshot: its newest position there.
type vehicleWork struct {
	key  string
	from *Vehicle
	// time is the event time, and own the vehicle's own time in seconds or 0.
	time, own int64
}

// diffVehicles publishes the positions that are new.
func (d *Differ) diffVehicles(s *Snapshot, t *Delta) {
	for _, work := range d.gatherVehicles(s, t) {
		t.Stats.Vehicles++
		p, ok := d.position(&work, t)
		if !ok {
			continue
		}
		fields := projection(p, work.own)
		m := d.vehicles[work.key]
		now := t.header / msPerSecond
		if m != nil && now-m.seen < forgetAfter {
			if string(m.fields) == string(fields) {
				if now-m.seen >= seenStep {
					m.seen = now
					t.touchVehicle(work.key, m)
				}
				continue
			}
			if work.time < m.time {
				t.Stats.Tally[VehicleOutOfOrder]++
				continue
			}
		}
		m = &vehicleMemory{seen: now, time: work.time, fields: fields}
		d.vehicles[work.key] = m
		t.Stats.Positions++
		t.Events = append(t.Events, Event{Time: work.time, Position: p, from: t.touchVehicle(work.key, m)})
	}
}

// gatherVehicles takes of each vehicle its newest position, the last of equals.
func (d *Differ) gatherVehicles(s *Snapshot, t *Delta) []vehicleWork {
	out := make([]vehicleWork, 0, len(s.Vehicles))
	at := make(map[string]int, len(s.Vehicles))
	for i := range s.Vehicles {
		v := &s.Vehicles[i]
		id := vehicleID(v)
		switch {
		case id == "":
			t.Stats.Tally[VehicleWithoutID]++
			continue
		case !d.ids.valid(id):
			t.Stats.Tally[BadID]++
			continue
		}
		work := vehicleWork{key: keyVehicle + id, from: v, time: t.header}
		if own := seconds(v.Timestamp, &t.Stats.Tally); own != NoTime {
			work.time, work.own = min(own, t.header), int64(v.Timestamp)
		}
		if j, ok := at[work.key]; ok {
			t.Stats.Tally[DuplicateEntity]++
			if work.time >= out[j].time {
				out[j] = work
			}
			continue
		}
		at[work.key] = len(out)
		out = append(out, work)
	}
	return out
}

// vehicleID gives the identity of a vehicle: its id, else its label, else that of
// the entity, so that vehicles without an id do not become one.
func vehicleID(v *Vehicle) string {
	switch {
	case v.ID != "":
		return v.ID
	case v.Label != "":
		return v.Label
	default:
		return v.EntityID
	}
}

// position makes the record of a position, or counts why there is none.
func (d *Differ) position(work *vehicleWork, t *Delta) (*event.Position, bool) {
	v := work.from
	switch {
	case !v.HasPosition:
		t.Stats.Tally[PositionMissing]++
		return nil, false
	case !(math.Abs(v.Latitude) <= 90 && math.Abs(v.Longitude) <= 180) || v.Latitude == 0 && v.Longitude == 0:
		t.Stats.Tally[PositionBad]++
		return nil, false
	}
	p := &event.Position{
		Feed: t.feed, Latitude: v.Latitude, Longitude: v.Longitude, Timestamp: work.time,
		CurrentStatus: []byte(v.CurrentStatus), Occupancy: []byte(v.Occupancy),
	}
	if v.HasBearing && finite(v.Bearing) {
		p.Bearing, p.HasBearing = v.Bearing, true
	}
	if v.HasSpeed && finite(v.SpeedMPS) {
		p.SpeedMPS, p.HasSpeed = v.SpeedMPS, true
	}
	p.VehicleID, _ = d.ids.id(vehicleID(v)) // gatherVehicles has checked it
	var tripOK, stopOK, lineOK bool
	p.TripID, tripOK = d.ids.id(v.TripID)
	p.StopID, stopOK = d.ids.id(v.StopID)
	p.LineID, p.Operator, lineOK = d.ids.line(v.RouteID, v.Realtime)
	if !tripOK || !stopOK || !lineOK {
		t.Stats.Tally[BadID]++
		return nil, false
	}
	return p, true
}

func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

// projection encodes what is compared of a position: its fields, and the
// vehicle's own time, so that a vehicle that stands still is seen to report.
func projection(p *event.Position, own int64) []byte {
	b := make([]byte, 0, 96)
	for _, text := range [][]byte{p.TripID, p.StopID, p.LineID, p.Operator, p.CurrentStatus, p.Occupancy} {
		b = binary.AppendUvarint(b, uint64(len(text)))
		b = append(b, text...)
	}
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(p.Latitude))
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(p.Longitude))
	b = appendOptional(b, p.Bearing, p.HasBearing)
	b = appendOptional(b, p.SpeedMPS, p.HasSpeed)
	return binary.AppendVarint(b, own)
}

func appendOptional(b []byte, f float64, has bool) []byte {
	if !has {
		return append(b, 0)
	}
	return binary.LittleEndian.AppendUint64(append(b, 1), math.Float64bits(f))
}
