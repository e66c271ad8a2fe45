package gtfsrt

// diffArrivals remembers what is predicted for the stops of a trip, until they are
// passed.
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

// diffArrival remembers the prediction for a stop with time and delay, or counts a
// correction of what was published.
func (d *Differ) diffArrival(work *tripWork, m *tripMemory, known bool, stop *currentStop, at int, remembered bool, t *Delta) {
	now := stopMemory{id: stop.id, observation: observation{
		hasDelay: true, hasTime: true, delay: stop.delay, time: stop.time,
	}}
	switch {
	case remembered && m.stops[at].published:
		if m.stops[at].observation == now.observation {
			return
		}
		t.Stats.Tally[ArrivalCorrected]++
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
	t.touchTrip(work.key, m, known)
	m.route, m.realtime = stop.route, stop.live
	if remembered {
		m.stops[at] = now
	} else {
		m.stops = append(m.stops, now)
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

// publishPassed publishes what is remembered of stops that have been passed: those
// that the snapshot tells, and those that it tells no more, with their trip or
// without.
func (d *Differ) publishPassed(t *Delta) {
	for key, m := range d.trips {
		if t.header/msPerSecond-m.seen >= forgetAfter {
			continue
		}
		var fields *tripFields
		for i := range m.stops {
			s := &m.stops[i]
			if s.published || s.time*msPerSecond > t.header {
				continue
			}
			if fields == nil {
				fields = d.remembered(key, m)
			}
			c := t.touchTrip(key, m, true)
			stop := currentStop{id: s.id, stopID: s.stop + s.id.stop, fields: fields, said: said{observation: s.observation}}
			s.published, s.stop = true, "" // of the two texts above one is empty
			d.emit(t, c, &stop, s.time*msPerSecond)
		}
	}
}

// remembered makes the fields of a trip's events from its key and its memory.
func (d *Differ) remembered(key string, m *tripMemory) *tripFields {
	tripID, startDate, _ := splitTripKey(key) // load has checked it
	f := &tripFields{startDate: []byte(startDate)}
	f.tripID, _ = d.ids.id(tripID) // it was checked when it was remembered
	f.line, f.operator, _ = d.ids.line(m.route, m.realtime)
	return f
}
