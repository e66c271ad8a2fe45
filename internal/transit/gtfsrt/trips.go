package gtfsrt

import (
	"github.com/peil-stream/peil/event"
	"github.com/peil-stream/peil/internal/transit/gtfsrt/pb"
)

// tripWork is one trip of a snapshot: all updates that it has there.
type tripWork struct {
	key     string
	updates []tripPart
}

// tripPart is one update, with its own time in seconds where that is plausible,
// else 0.
type tripPart struct {
	*TripUpdate
	timestamp int64
}

func (w *tripWork) last() tripPart { return w.updates[len(w.updates)-1] }

// tripFields are the parts of an event that all stops of an update share.
type tripFields struct {
	tripID, startDate, line, operator []byte
}

// currentStop is a stop of a trip as the snapshot has it. fields belongs to the
// update that it comes from.
type currentStop struct {
	id     stopID
	stopID string
	fields *tripFields
	route  string
	live   string // OVapi's id
	said
}

// said is what an update says about a stop.
type said struct {
	observation
	// empty: no arrival and no status, so nothing was said.
	empty bool
}

// diffTrips compares the trip updates of a snapshot with the memory.
func (d *Differ) diffTrips(s *Snapshot, t *Delta) {
	for _, work := range d.gather(s, t) {
		t.Stats.Trips++
		d.collect(&work, t)
		m, known := d.trips[work.key], true
		if m == nil || t.header/msPerSecond-m.seen >= forgetAfter {
			m, known = new(tripMemory), false
		}
		switch {
		case d.cfg.Emit == Arrivals:
			d.diffArrivals(&work, m, known, t)
		case len(d.stops) == 0:
			d.diffTrip(&work, m, known, t)
		default:
			d.diffPredictions(&work, m, known, t)
		}
		if known && t.header/msPerSecond-m.seen >= seenStep {
			t.touchTrip(work.key, m, known)
		}
		if t.touched[work.key] != nil {
			d.trips[work.key] = m
		}
	}
	if d.cfg.Emit == Arrivals {
		d.publishPassed(t)
	}
}

// gather groups the updates by trip, in the order of the snapshot, and leaves out
// those that no record can be made of.
func (d *Differ) gather(s *Snapshot, t *Delta) []tripWork {
	out := make([]tripWork, 0, len(s.Trips))
	at := make(map[string]int, len(s.Trips))
	for i := range s.Trips {
		u := &s.Trips[i]
		switch {
		case u.TripID == "":
			t.Stats.Tally[TripWithoutID]++
			continue
		case !d.ids.valid(u.TripID), !validWord(u.StartDate), !validWord(u.StartTime):
			t.Stats.Tally[BadID]++
			continue
		}
		if _, _, ok := d.ids.line(u.RouteID, u.Realtime); !ok {
			t.Stats.Tally[BadID]++
			continue
		}
		part := tripPart{TripUpdate: u}
		if seconds(u.Timestamp, &t.Stats.Tally) != NoTime {
			part.timestamp = int64(u.Timestamp)
		}
		d.key = appendTripKey(d.key[:0], u.TripID, u.StartDate, u.StartTime)
		if j, ok := at[string(d.key)]; ok {
			t.Stats.Tally[DuplicateEntity]++
			out[j].updates = append(out[j].updates, part)
			continue
		}
		key := string(d.key)
		at[key] = len(out)
		out = append(out, tripWork{key: key, updates: []tripPart{part}})
	}
	return out
}

func validWord(text string) bool { return len(text) <= event.IDMax && validText(text) }

// collect fills d.stops with the trip's stops: of each what was said last, at the
// place of the first. An update that says nothing about an arrival does not take
// back what an earlier one said.
func (d *Differ) collect(work *tripWork, t *Delta) {
	d.stops = d.stops[:0]
	d.clearIndex()
	for _, u := range work.updates {
		fields := d.fieldsOf(u.TripUpdate)
		var occurrences map[string]int
		for i := range u.Stops {
			stop := &u.Stops[i]
			t.Stats.Stops++
			id, reason := d.identity(stop, &occurrences)
			if reason < reasons {
				t.Stats.Tally[reason]++
				continue
			}
			current := currentStop{
				id: id, stopID: stop.StopID, fields: fields, route: u.RouteID, live: u.Realtime,
				said: read(&u, stop, &t.Stats.Tally),
			}
			if at, ok := d.index[id]; ok {
				if !current.empty {
					d.stops[at] = current
				}
			} else if len(d.stops) < TripStopsMax {
				d.index[id] = len(d.stops)
				d.stops = append(d.stops, current)
			} else {
				t.Stats.Tally[StopsOverBound]++
			}
		}
	}
}

func (d *Differ) fieldsOf(u *TripUpdate) *tripFields {
	f := &tripFields{startDate: []byte(u.StartDate)}
	f.tripID, _ = d.ids.id(u.TripID) // gather has checked them
	f.line, f.operator, _ = d.ids.line(u.RouteID, u.Realtime)
	return f
}

// identity gives the identity of a stop, or the reason why it has none. A
// stop_sequence that no record can carry counts as absent.
func (d *Differ) identity(stop *StopUpdate, occurrences *map[string]int) (stopID, Reason) {
	if stop.StopID != "" && !d.ids.valid(stop.StopID) {
		return stopID{}, BadID
	}
	if stop.HasSequence && stop.Sequence <= 1<<31-1 {
		return stopID{sequence: int64(stop.Sequence)}, reasons
	}
	if stop.StopID == "" {
		return stopID{}, StopWithoutIdentity
	}
	if *occurrences == nil {
		*occurrences = map[string]int{}
	}
	(*occurrences)[stop.StopID]++
	return stopID{sequence: -1, stop: stop.StopID, nth: (*occurrences)[stop.StopID]}, reasons
}

// read gives what an update says about a stop, without implausible values.
func read(u *tripPart, stop *StopUpdate, tally *Tally) said {
	arrival := checked(&stop.Arrival, tally)
	checked(&stop.Departure, tally)
	s := said{observation: observation{timestamp: u.timestamp}}
	switch status, running := tripStatus(u.Relation); {
	case !running:
		s.status = status
		return s
	case stop.Relation == pb.TripUpdate_StopTimeUpdate_SKIPPED:
		s.status = event.Skipped
		return s
	case stop.Relation == pb.TripUpdate_StopTimeUpdate_NO_DATA:
		s.status = event.NoData
		return s
	case stop.Relation != pb.TripUpdate_StopTimeUpdate_SCHEDULED && stop.Relation != pb.TripUpdate_StopTimeUpdate_UNSCHEDULED:
		s.status = event.Unknown
		return s
	}
	s.hasDelay, s.delay = arrival.HasDelay, int32(arrival.Delay)
	s.hasTime, s.time = arrival.HasTime, arrival.Time
	s.empty = !s.hasDelay && !s.hasTime
	if !s.hasDelay {
		s.status = event.Unmatched // until a timetable tells the scheduled time
	}
	return s
}

// added is ADDED: deprecated for who writes a feed, and what feeds still send.
const added pb.TripDescriptor_ScheduleRelationship = 1

// tripStatus gives the status that a trip's schedule relationship puts on all its
// stops, or running.
func tripStatus(r pb.TripDescriptor_ScheduleRelationship) (status event.Status, running bool) {
	switch r {
	case pb.TripDescriptor_CANCELED, pb.TripDescriptor_DELETED:
		return event.Canceled, false
	case pb.TripDescriptor_SCHEDULED, added, pb.TripDescriptor_UNSCHEDULED,
		pb.TripDescriptor_REPLACEMENT, pb.TripDescriptor_DUPLICATED:
		return event.None, true
	default:
		return event.Unknown, false
	}
}

// checked gives an arrival or departure without what is implausible in it.
func checked(e *StopEvent, tally *Tally) StopEvent {
	out := *e
	if e.HasDelay && (e.Delay < -event.DelayMax || e.Delay > event.DelayMax) {
		tally[DelayImplausible]++
		out.HasDelay, out.Delay = false, 0
	}
	if e.HasTime && seconds(uint64(e.Time), tally) == NoTime {
		out.HasTime, out.Time = false, 0
	}
	return out
}

// diffTrip handles a trip that lists no stop: a cancellation, or another status
// of the whole trip.
func (d *Differ) diffTrip(work *tripWork, m *tripMemory, known bool, t *Delta) {
	u := work.last()
	if len(u.Stops) > 0 { // they were rejected
		return
	}
	status, running := tripStatus(u.Relation)
	if running {
		t.revive(work, m, known)
		return
	}
	now := observation{status: status, timestamp: u.timestamp}
	i := m.find(theTrip())
	news := i < 0 || m.stops[i].observation != now
	if !news && len(m.stops) == 1 {
		return
	}
	c := t.touchTrip(work.key, m, known)
	// What was said about its stops holds no longer: if the trip runs after all,
	// they are news.
	m.stops = []stopMemory{{id: theTrip(), published: true, observation: now}}
	if news {
		d.emit(t, c, &currentStop{id: theTrip(), fields: d.fieldsOf(u.TripUpdate), said: said{observation: now}}, 0)
	}
}

// revive forgets what was said about the trip as a whole.
func (t *Delta) revive(work *tripWork, m *tripMemory, known bool) {
	if i := m.find(theTrip()); i >= 0 {
		t.touchTrip(work.key, m, known)
		m.stops = append(m.stops[:i], m.stops[i+1:]...)
	}
}

// diffPredictions publishes what is new about a trip's stops.
func (d *Differ) diffPredictions(work *tripWork, m *tripMemory, known bool, t *Delta) {
	t.revive(work, m, known)
	d.indexMemory(m)
	for i := range d.stops {
		stop := &d.stops[i]
		if stop.empty {
			continue
		}
		at, remembered := d.index[stop.id]
		if remembered && m.stops[at].observation == stop.observation {
			continue
		}
		if !remembered && len(m.stops) >= TripStopsMax {
			t.Stats.Tally[StopsOverBound]++
			continue
		}
		c := t.touchTrip(work.key, m, known)
		now := stopMemory{id: stop.id, published: true, observation: stop.observation}
		if remembered {
			m.stops[at] = now
		} else {
			m.stops = append(m.stops, now)
		}
		d.emit(t, c, stop, 0)
	}
}

// clearIndex empties the scratch, which must not stay large for the sake of one
// long trip: clearing costs what it once held.
func (d *Differ) clearIndex() {
	if len(d.index) > 512 {
		d.index = map[stopID]int{}
		return
	}
	clear(d.index)
}

// indexMemory makes d.index tell where in the memory a stop is.
func (d *Differ) indexMemory(m *tripMemory) {
	d.clearIndex()
	for i := range m.stops {
		d.index[m.stops[i].id] = i
	}
}

// emit adds an event. Its time is the one given in milliseconds, or for 0 that of
// the observation.
func (d *Differ) emit(t *Delta, c *touch, stop *currentStop, at int64) {
	if at == 0 {
		at = t.header
		if stop.timestamp != 0 {
			at = min(stop.timestamp*msPerSecond, t.header)
		}
	}
	p := &event.Prediction{
		Feed: t.feed, TripID: stop.fields.tripID, StartDate: stop.fields.startDate,
		LineID: stop.fields.line, Operator: stop.fields.operator,
		Status: stop.status, PredictedTime: event.NoTime, Timestamp: at,
	}
	p.StopID, _ = d.ids.id(stop.stopID) // identity has checked it
	p.StationID = p.StopID
	if stop.id.sequence >= 0 {
		p.StopSequence, p.HasStopSequence = stop.id.sequence, true
	}
	if stop.hasDelay {
		p.DelayS = stop.delay
	}
	if stop.hasTime {
		p.PredictedTime = stop.time * msPerSecond
	}
	t.Stats.Predictions++
	t.Events = append(t.Events, Event{Time: at, Prediction: p, from: c, stop: stop.id})
}
