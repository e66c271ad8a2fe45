package transit

import "github.com/peil-stream/peil/internal/sink"

// The newest rows are kept with reused strings: most records of a trip repeat
// its line, operator and stop, and then cost no allocation.

// tripKey is the primary key of trip_delay_latest.
type tripKey struct{ trip, date string }

type tripRow struct {
	sink.Trip
	sequence int64
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
	row := a.newest[tripKey{string(p.TripID), string(p.StartDate)}]
	if row == nil {
		k := tripKey{string(p.TripID), string(p.StartDate)}
		row = &tripRow{Trip: sink.Trip{TripID: k.trip, StartDate: k.date}}
		a.newest[k] = row
	} else if !newer(p.Timestamp, tie, row.ObservedAt, row.Tie) {
		return
	}
	set(&row.LineID, p.LineID)
	set(&row.Operator, p.Operator)
	set(&row.StopID, p.StopID)
	set(&row.StationID, p.StationID)
	row.StopSequence = nil
	if p.HasStopSequence {
		row.sequence = p.StopSequence
		row.StopSequence = &row.sequence
	}
	row.DelayS = p.DelayS
	row.PredictedTime = p.PredictedTime
	row.ObservedAt = p.Timestamp
	row.Tie = tie
}

// Take hands over the newest trips; the job begins anew.
func (a *arrivals) Take() sink.State {
	if len(a.newest) == 0 {
		return sink.State{}
	}
	rows := make([]sink.Trip, 0, len(a.newest))
	for _, r := range a.newest {
		rows = append(rows, r.Trip)
	}
	a.newest = make(map[tripKey]*tripRow, len(rows))
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
