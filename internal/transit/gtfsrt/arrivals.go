package gtfsrt

import (
	"github.com/peil-stream/peil/event"
)

// diffArrivals publishes the arrivals of a trip at stops that have been passed,
// and remembers its predictions for stops that have not.
func (d *Differ) diffArrivals(work *tripWork, m *tripMemory, known bool, t *Delta) {
	if len(d.stops) == 0 {
		d.cancelWaiting(work, m, known, t)
		return
	}
	d.indexMemory(m)
	dropped := false
	for i := range d.stops {
		stop := &d.stops[i]
		if stop.empty {
			continue // as if the feed had dropped it: the remembered one serves
		}
		at, remembered := d.index[stop.id]
		if !stop.hasDelay || !stop.hasTime {
			if remembered && !m.stops[at].published {
				t.touchTrip(work.key, m, known)
				m.stops[at] = stopMemory{id: stop.id} // swept below
				dropped = true
			}
			continue
		}
		d.diffArrival(work, m, known, stop, at, remembered, t)
	}
	if dropped {
		sweep(m)
	}
}

// diffArrival handles a stop with time and delay.
func (d *Differ) diffArrival(work *tripWork, m *tripMemory, known bool, stop *currentStop, at int, remembered bool, t *Delta) {
	now := stopMemory{id: stop.id, observation: observation{
		hasDelay: true, hasTime: true, delay: stop.delay, time: stop.time,
	}}
	passed := stop.time*msPerSecond <= t.header
	switch {
	case remembered && m.stops[at].published:
		if m.stops[at].observation == now.observation {
			return
		}
		t.Stats.Tally[ArrivalCorrected]++
		now.published = true
	case passed:
		now.published = true
	default:
		if stop.id.sequence >= 0 {
			now.stop = stop.stopID
		}
		if remembered && m.stops[at] == now && m.route == stop.route && m.realtime == stop.live {
			return
		}
	}
	if !remembered && len(m.stops) >= TripStopsMax {
		t.Stats.Tally[StopsOverBound]++
		return
	}
	first := now.published && (!remembered || !m.stops[at].published)
	c := t.touchTrip(work.key, m, known)
	if !now.published {
		m.route, m.realtime = stop.route, stop.live
	}
	if remembered {
		m.stops[at] = now
	} else {
		m.stops = append(m.stops, now)
	}
	if first {
		d.emit(t, c, stop, stop.time*msPerSecond)
	}
}

// cancelWaiting forgets the predictions of a trip that is said not to run, without
// a word about its stops.
func (d *Differ) cancelWaiting(work *tripWork, m *tripMemory, known bool, t *Delta) {
	u := work.last()
	if _, running := tripStatus(u.Relation); running || len(u.Stops) > 0 { // its stops were rejected
		return
	}
	for i := range m.stops {
		if !m.stops[i].published {
			t.touchTrip(work.key, m, known)
			m.stops[i] = stopMemory{id: m.stops[i].id}
		}
	}
	sweep(m)
}

// sweep removes stops of which nothing is remembered.
func sweep(m *tripMemory) {
	kept := m.stops[:0]
	for _, s := range m.stops {
		if s.published || s.hasTime {
			kept = append(kept, s)
		}
	}
	m.stops = kept
}

// publishPassed publishes the remembered predictions of stops that have been
// passed and that the feed no longer tells, with their trip or without.
func (d *Differ) publishPassed(t *Delta) {
	for key, m := range d.trips {
		if t.header/msPerSecond-m.seen >= forgetAfter {
			continue
		}
		for i := range m.stops {
			s := &m.stops[i]
			if s.published || s.time*msPerSecond > t.header {
				continue
			}
			c := t.touchTrip(key, m, true)
			stop := d.remembered(key, m, s)
			s.published, s.stop = true, ""
			d.emit(t, c, &stop, s.time*msPerSecond)
		}
	}
}

// remembered makes a stop again from what is remembered of it.
func (d *Differ) remembered(key string, m *tripMemory, s *stopMemory) currentStop {
	tripID, startDate, _ := splitTripKey(key) // load has checked it
	fields := &tripFields{startDate: []byte(startDate)}
	fields.tripID, _ = d.ids.id(tripID) // it was checked when it was remembered
	fields.line, fields.operator, _ = d.ids.line(m.route, m.realtime)
	stop := currentStop{id: s.id, stopID: s.stop, fields: fields, said: said{observation: s.observation}}
	if s.id.sequence < 0 {
		stop.stopID = s.id.stop
	}
	stop.status = event.None
	return stop
}
