package verify

import (
	"cmp"
	"maps"
	"slices"

	"github.com/peil-stream/peil/internal/sink"
)

// candidate is a row that may be the newest of its key.
type candidate[R any] struct {
	from          *partition
	observed, tie int64
	row           R
}

// newest holds the newest row of each key (R10): the greatest observed time, then
// the greatest tie, then the later one in its partition. Rows of two partitions
// that are equal in both have no order, so either is right; there is more than one
// candidate only then.
type newest[K comparable, R any] map[K][]candidate[R]

// wins says whether a row of that age takes a place.
func (n newest[K, R]) wins(key K, observed, tie int64) bool {
	have := n[key]
	return len(have) == 0 || cmp.Or(cmp.Compare(observed, have[0].observed), cmp.Compare(tie, have[0].tie)) >= 0
}

// keep takes a row that wins.
func (n newest[K, R]) keep(key K, c candidate[R]) {
	have := n[key]
	if len(have) > 0 && (have[0].observed != c.observed || have[0].tie != c.tie) {
		have = have[:0]
	}
	for i := range have {
		if have[i].from == c.from {
			have[i] = c
			return
		}
	}
	n[key] = append(have, c)
}

// keepTrip folds the prediction decoded last into the newest row of its trip.
func (r *reader) keepTrip() {
	a := &r.arrival
	key := tripKey{r.ids.bytes(a.TripID), r.ids.bytes(a.StartDate)}
	tie := a.Tie()
	if !r.trips.wins(key, a.Timestamp, tie) {
		return
	}
	t := sink.Trip{
		TripID: key.trip, StartDate: key.date,
		LineID: r.ids.bytes(a.LineID), Operator: r.ids.bytes(a.Operator),
		StopID: r.ids.bytes(a.StopID), StationID: r.ids.bytes(a.StationID),
		DelayS: a.DelayS, PredictedTime: a.PredictedTime, ObservedAt: a.Timestamp, Tie: tie,
	}
	if a.HasStopSequence {
		t.StopSequence = new(a.StopSequence)
	}
	r.trips.keep(key, candidate[sink.Trip]{r.p, a.Timestamp, tie, t})
}

// keepVehicle does the same for the position decoded last, whose tie is its
// offset.
func (r *reader) keepVehicle(offset int64) {
	x := &r.position
	key := r.ids.bytes(x.VehicleID)
	if !r.vehicles.wins(key, x.Timestamp, offset) {
		return
	}
	row := sink.Vehicle{
		VehicleID: key, TripID: r.ids.bytes(x.TripID), LineID: r.ids.bytes(x.LineID), Operator: r.ids.bytes(x.Operator),
		Latitude: x.Latitude, Longitude: x.Longitude, StopID: r.ids.bytes(x.StopID),
		CurrentStatus: r.ids.bytes(x.CurrentStatus), Occupancy: r.ids.bytes(x.Occupancy),
		ObservedAt: x.Timestamp, Tie: offset,
	}
	if x.HasBearing {
		row.Bearing = new(x.Bearing)
	}
	if x.HasSpeed {
		row.SpeedMPS = new(x.SpeedMPS)
	}
	r.vehicles.keep(key, candidate[sink.Vehicle]{r.p, x.Timestamp, offset, row})
}

// compareState compares the two tables of newest rows.
func (v *verifier) compareState() {
	compareNewest(&v.report, newestTable[tripKey, sink.Trip]{
		name: tableTrips, stored: v.tables.trips, expected: v.trips,
		partial: v.partial(true),
		columns: tripColumns,
		age:     func(t sink.Trip) (int64, int64) { return t.ObservedAt, t.Tie },
		order:   func(a, b tripKey) int { return cmp.Or(cmp.Compare(a.trip, b.trip), cmp.Compare(a.date, b.date)) },
		key:     func(k tripKey) string { return k.trip + " " + k.date },
	})
	compareNewest(&v.report, newestTable[string, sink.Vehicle]{
		name: tableVehicles, stored: v.tables.vehicles, expected: v.vehicles,
		partial: v.partial(false),
		columns: vehicleColumns,
		age:     func(x sink.Vehicle) (int64, int64) { return x.ObservedAt, x.Tie },
		order:   cmp.Compare[string],
		key:     func(k string) string { return k },
	})
}

// partial says whether rows of a kind of topic may come from records that were
// not read.
func (v *verifier) partial(windowed bool) bool {
	for _, t := range v.topics {
		for _, p := range t.parts {
			if t.windowed == windowed && (p.foreign || p.trimmed() || p.known && (!windowed || v.hasEarlierStay(p))) {
				return true
			}
		}
	}
	return false
}

// newestTable is one table of newest rows and how to compare it.
type newestTable[K comparable, R any] struct {
	name     string
	stored   map[K]R
	expected newest[K, R]
	partial  bool
	columns  func(R) []column
	age      func(R) (observed, tie int64)
	order    func(a, b K) int
	key      func(K) string
}

func compareNewest[K comparable, R any](report *Report, t newestTable[K, R]) {
	keys := map[K]bool{}
	for k := range t.stored {
		keys[k] = true
	}
	for k := range t.expected {
		keys[k] = true
	}
	report.StateRows += int64(len(keys))
	for _, k := range slices.SortedFunc(maps.Keys(keys), t.order) {
		stored, has := t.stored[k]
		candidates := t.expected[k]
		switch {
		case !has:
			report.differ(t.name, t.key(k), WholeRow, "missing", "observed_at "+instant(candidates[0].observed))
		case len(candidates) == 0 && t.partial:
			report.unjudge(t.name, t.key(k), "the log no longer holds records of this key")
		case len(candidates) == 0:
			observed, _ := t.age(stored)
			report.differ(t.name, t.key(k), WholeRow, "observed_at "+instant(observed), "missing")
		default:
			t.compareRow(report, k, stored, candidates)
		}
	}
}

// compareRow compares a stored row with those that may stand in its place.
func (t *newestTable[K, R]) compareRow(report *Report, k K, stored R, candidates []candidate[R]) {
	have := t.columns(stored)
	for _, c := range candidates {
		if slices.Equal(have, t.columns(c.row)) {
			return
		}
	}
	observed, tie := t.age(stored)
	best := candidates[0]
	if newer := cmp.Or(cmp.Compare(observed, best.observed), cmp.Compare(tie, best.tie)) > 0; newer && t.partial {
		report.unjudge(t.name, t.key(k), "newer than what the log still holds of this key")
		return
	}
	report.compareColumns(t.name, t.key(k), have, t.columns(best.row))
}

func tripColumns(t sink.Trip) []column {
	return []column{
		{"line_id", text(t.LineID)},
		{"operator", text(t.Operator)},
		{"stop_id", text(t.StopID)},
		{"station_id", text(t.StationID)},
		{"stop_sequence", optional(t.StopSequence, number[int64])},
		{"delay_s", number(t.DelayS)},
		{"predicted_time", instant(t.PredictedTime)},
		{"observed_at", instant(t.ObservedAt)},
		{"tie", number(t.Tie)},
	}
}

func vehicleColumns(x sink.Vehicle) []column {
	return []column{
		{"trip_id", text(x.TripID)},
		{"line_id", text(x.LineID)},
		{"operator", text(x.Operator)},
		{"latitude", float(x.Latitude)},
		{"longitude", float(x.Longitude)},
		{"bearing", optional(x.Bearing, float)},
		{"speed_mps", optional(x.SpeedMPS, float)},
		{"stop_id", text(x.StopID)},
		{"current_status", text(x.CurrentStatus)},
		{"occupancy", text(x.Occupancy)},
		{"observed_at", instant(x.ObservedAt)},
		{"tie", number(x.Tie)},
	}
}
