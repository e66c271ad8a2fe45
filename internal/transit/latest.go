package transit

import "github.com/peil-stream/peil/internal/sink"

// tripRow is the newest row of a trip. Most records of a trip change it, so that
// its texts are bytes in memory that is used again; strings are made by Take.
type tripRow struct {
	sink.Trip        // without the texts but for the key
	text      []byte // line, operator, stop and station, one after the other
	ends      [4]int // where each of them ends
	sequence  int64
	sequenced bool // the stop has a sequence
	// changed since the last Take. A row that is not is forgotten at the next one.
	changed bool
}

// newer is R10: the greater (observed, tie) wins, and of equals the later one.
func newer(observed, tie, oldObserved, oldTie int64) bool {
	return observed > oldObserved || observed == oldObserved && tie >= oldTie
}

// Keep folds the prediction decoded last into the newest row of its trip. One
// without a delay changes nothing.
func (a *arrivals) Keep(int64) {
	p := &a.rec
	if len(p.TripID) == 0 || !p.HasDelay() {
		return
	}
	tie := p.Tie()
	// Ids have no control characters.
	a.key = append(append(append(a.key[:0], p.TripID...), 0), p.StartDate...)
	row := a.newest[string(a.key)]
	if row == nil {
		k := string(a.key)
		row = &tripRow{Trip: sink.Trip{TripID: k[:len(p.TripID)], StartDate: k[len(p.TripID)+1:]}}
		a.newest[k] = row
	} else if !newer(p.Timestamp, tie, row.ObservedAt, row.Tie) {
		return
	}
	row.text = row.text[:0]
	for i, id := range [...][]byte{p.LineID, p.Operator, p.StopID, p.StationID} {
		row.text = append(row.text, id...)
		row.ends[i] = len(row.text)
	}
	row.sequence, row.sequenced = p.StopSequence, p.HasStopSequence
	row.DelayS = p.DelayS
	row.PredictedTime = p.PredictedTime
	row.ObservedAt = p.Timestamp
	row.Tie = tie
	row.changed = true
}

// Take hands over the trips that have a newer row than at the last Take. Rows stay
// for one more turn: a trip that goes on then costs no allocation, and what is
// older than a row that was handed over would be refused by the table.
func (a *arrivals) Take() sink.State {
	n := 0
	for k, r := range a.newest {
		if !r.changed {
			delete(a.newest, k)
			continue
		}
		n++
	}
	if n == 0 {
		return sink.State{}
	}
	rows := make([]sink.Trip, 0, n)
	sequences := make([]int64, 0, n) // of their own, as the rows here change
	for _, r := range a.newest {
		r.changed = false
		row := r.Trip
		text, ends := string(r.text), r.ends
		row.LineID, row.Operator = text[:ends[0]], text[ends[0]:ends[1]]
		row.StopID, row.StationID = text[ends[1]:ends[2]], text[ends[2]:]
		if r.sequenced {
			sequences = append(sequences, r.sequence)
			row.StopSequence = &sequences[len(sequences)-1]
		}
		rows = append(rows, row)
	}
	return sink.State{Trips: rows}
}

// Keep folds the position decoded last into the newest row of its vehicle.
func (v *positions) Keep(offset int64) {
	p := &v.rec
	if len(p.VehicleID) == 0 {
		return
	}
	row := v.newest[string(p.VehicleID)]
	if row == nil {
		row = &sink.Vehicle{VehicleID: string(p.VehicleID)}
		v.newest[row.VehicleID] = row
	} else if !newer(p.Timestamp, offset, row.ObservedAt, row.Tie) {
		return
	}
	set(&row.TripID, p.TripID)
	set(&row.LineID, p.LineID)
	set(&row.Operator, p.Operator)
	set(&row.StopID, p.StopID)
	set(&row.CurrentStatus, p.CurrentStatus)
	set(&row.Occupancy, p.Occupancy)
	row.Latitude, row.Longitude = p.Latitude, p.Longitude
	row.Bearing = number(p.Bearing, p.HasBearing)
	row.SpeedMPS = number(p.SpeedMPS, p.HasSpeed)
	row.ObservedAt = p.Timestamp
	row.Tie = offset
}

// Take hands over the newest vehicles; the job begins anew.
func (v *positions) Take() sink.State {
	if len(v.newest) == 0 {
		return sink.State{}
	}
	rows := make([]sink.Vehicle, 0, len(v.newest))
	for _, r := range v.newest {
		rows = append(rows, *r)
	}
	v.newest = make(map[string]*sink.Vehicle, len(rows))
	return sink.State{Vehicles: rows}
}

// set copies a view into a string only when it differs.
func set(dst *string, src []byte) {
	if *dst != string(src) {
		*dst = string(src)
	}
}

func number(x float64, has bool) *float64 {
	if !has {
		return nil
	}
	return &x
}
