package postgres

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/peil-stream/peil/internal/sink"
)

// Both statements take a row that is not older than the stored one (R10), where
// the tie decides between rows of one instant. A row that is equal in every
// column changes nothing, not even updated_at. Empty text is NULL.
const (
	upsertVehicles = `
INSERT INTO vehicle_latest (vehicle_id, trip_id, line_id, operator, latitude, longitude, bearing, speed_mps,
	stop_id, current_status, occupancy, observed_at, tie, updated_at)
SELECT id, NULLIF(trip, ''), NULLIF(line, ''), NULLIF(op, ''), lat, lon, brg, speed,
	NULLIF(stop, ''), NULLIF(status, ''), NULLIF(occ, ''), seen, tie, $14
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::double precision[], $6::double precision[],
	$7::double precision[], $8::double precision[], $9::text[], $10::text[], $11::text[],
	$12::timestamptz[], $13::bigint[])
	AS u (id, trip, line, op, lat, lon, brg, speed, stop, status, occ, seen, tie)
ON CONFLICT (vehicle_id) DO UPDATE SET
	trip_id = EXCLUDED.trip_id, line_id = EXCLUDED.line_id, operator = EXCLUDED.operator,
	latitude = EXCLUDED.latitude, longitude = EXCLUDED.longitude, bearing = EXCLUDED.bearing,
	speed_mps = EXCLUDED.speed_mps, stop_id = EXCLUDED.stop_id, current_status = EXCLUDED.current_status,
	occupancy = EXCLUDED.occupancy, observed_at = EXCLUDED.observed_at, tie = EXCLUDED.tie,
	updated_at = EXCLUDED.updated_at
WHERE (EXCLUDED.observed_at, EXCLUDED.tie) >= (vehicle_latest.observed_at, vehicle_latest.tie)
	AND (EXCLUDED.trip_id, EXCLUDED.line_id, EXCLUDED.operator, EXCLUDED.latitude, EXCLUDED.longitude,
			EXCLUDED.bearing, EXCLUDED.speed_mps, EXCLUDED.stop_id, EXCLUDED.current_status, EXCLUDED.occupancy,
			EXCLUDED.observed_at, EXCLUDED.tie)
		IS DISTINCT FROM (vehicle_latest.trip_id, vehicle_latest.line_id, vehicle_latest.operator,
			vehicle_latest.latitude, vehicle_latest.longitude, vehicle_latest.bearing, vehicle_latest.speed_mps,
			vehicle_latest.stop_id, vehicle_latest.current_status, vehicle_latest.occupancy,
			vehicle_latest.observed_at, vehicle_latest.tie)`

	upsertTrips = `
INSERT INTO trip_delay_latest (trip_id, start_date, line_id, operator, stop_id, station_id, stop_sequence, delay_s,
	predicted_time, observed_at, tie, updated_at)
SELECT trip, date, NULLIF(line, ''), NULLIF(op, ''), NULLIF(stop, ''), NULLIF(station, ''), seq, delay,
	predicted, seen, tie, $12
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::integer[],
	$9::timestamptz[], $10::timestamptz[], $11::bigint[])
	AS u (trip, date, line, op, stop, station, seq, delay, predicted, seen, tie)
ON CONFLICT (trip_id, start_date) DO UPDATE SET
	line_id = EXCLUDED.line_id, operator = EXCLUDED.operator, stop_id = EXCLUDED.stop_id,
	station_id = EXCLUDED.station_id, stop_sequence = EXCLUDED.stop_sequence, delay_s = EXCLUDED.delay_s,
	predicted_time = EXCLUDED.predicted_time, observed_at = EXCLUDED.observed_at, tie = EXCLUDED.tie,
	updated_at = EXCLUDED.updated_at
WHERE (EXCLUDED.observed_at, EXCLUDED.tie) >= (trip_delay_latest.observed_at, trip_delay_latest.tie)
	AND (EXCLUDED.line_id, EXCLUDED.operator, EXCLUDED.stop_id, EXCLUDED.station_id, EXCLUDED.stop_sequence,
			EXCLUDED.delay_s, EXCLUDED.predicted_time, EXCLUDED.observed_at, EXCLUDED.tie)
		IS DISTINCT FROM (trip_delay_latest.line_id, trip_delay_latest.operator, trip_delay_latest.stop_id,
			trip_delay_latest.station_id, trip_delay_latest.stop_sequence, trip_delay_latest.delay_s,
			trip_delay_latest.predicted_time, trip_delay_latest.observed_at, trip_delay_latest.tie)`
)

// newest sorts rows by key and keeps one of each: the database refuses a key that
// comes twice in one statement. The later of two rows wins unless it is older,
// as it would if they came in two statements.
func newest[T any](rows []*T, compare func(a, b *T) int, older func(a, b *T) bool) []*T {
	slices.SortStableFunc(rows, compare)
	kept := rows[:0]
	for _, r := range rows {
		last := len(kept) - 1
		switch {
		case last < 0 || compare(kept[last], r) != 0:
			kept = append(kept, r)
		case !older(r, kept[last]):
			kept[last] = r
		}
	}
	return kept
}

// writeVehicles upserts the vehicles of all partitions by key.
func (f *flush) writeVehicles(ctx context.Context) error {
	var all []*sink.Vehicle
	for i := range f.parts {
		for j := range f.parts[i].State.Vehicles {
			all = append(all, &f.parts[i].State.Vehicles[j])
		}
	}
	all = newest(all,
		func(a, b *sink.Vehicle) int { return strings.Compare(a.VehicleID, b.VehicleID) },
		func(a, b *sink.Vehicle) bool {
			return cmp.Or(cmp.Compare(a.ObservedAt, b.ObservedAt), cmp.Compare(a.Tie, b.Tie)) < 0
		})
	return table[*sink.Vehicle]{
		name: "vehicle_latest",
		key:  func(v **sink.Vehicle) string { return "vehicle " + label((*v).VehicleID) },
		write: func(ctx context.Context, t *transaction, rows []*sink.Vehicle) error {
			_, err := t.exec(ctx, upsertVehicles, append(vehicleArgs(rows), f.now)...)
			return err
		},
	}.put(ctx, f.tx, all, f.careful)
}

func vehicleArgs(rows []*sink.Vehicle) []any {
	return []any{
		column(rows, func(v **sink.Vehicle) string { return (*v).VehicleID }),
		column(rows, func(v **sink.Vehicle) string { return (*v).TripID }),
		column(rows, func(v **sink.Vehicle) string { return (*v).LineID }),
		column(rows, func(v **sink.Vehicle) string { return (*v).Operator }),
		column(rows, func(v **sink.Vehicle) float64 { return (*v).Latitude }),
		column(rows, func(v **sink.Vehicle) float64 { return (*v).Longitude }),
		column(rows, func(v **sink.Vehicle) pgtype.Float8 { return number((*v).Bearing) }),
		column(rows, func(v **sink.Vehicle) pgtype.Float8 { return number((*v).SpeedMPS) }),
		column(rows, func(v **sink.Vehicle) string { return (*v).StopID }),
		column(rows, func(v **sink.Vehicle) string { return (*v).CurrentStatus }),
		column(rows, func(v **sink.Vehicle) string { return (*v).Occupancy }),
		column(rows, func(v **sink.Vehicle) pgtype.Timestamptz { return instant((*v).ObservedAt) }),
		column(rows, func(v **sink.Vehicle) int64 { return (*v).Tie }),
	}
}

// writeTrips does the same for trips.
func (f *flush) writeTrips(ctx context.Context) error {
	var all []*sink.Trip
	for i := range f.parts {
		for j := range f.parts[i].State.Trips {
			all = append(all, &f.parts[i].State.Trips[j])
		}
	}
	all = newest(all,
		func(a, b *sink.Trip) int {
			if c := strings.Compare(a.TripID, b.TripID); c != 0 {
				return c
			}
			return strings.Compare(a.StartDate, b.StartDate)
		},
		func(a, b *sink.Trip) bool {
			return cmp.Or(cmp.Compare(a.ObservedAt, b.ObservedAt), cmp.Compare(a.Tie, b.Tie)) < 0
		})
	return table[*sink.Trip]{
		name: "trip_delay_latest",
		key: func(t **sink.Trip) string {
			return "trip " + label((*t).TripID) + " of " + strconv.Quote((*t).StartDate)
		},
		write: func(ctx context.Context, t *transaction, rows []*sink.Trip) error {
			_, err := t.exec(ctx, upsertTrips, append(tripArgs(rows), f.now)...)
			return err
		},
	}.put(ctx, f.tx, all, f.careful)
}

func tripArgs(rows []*sink.Trip) []any {
	return []any{
		column(rows, func(t **sink.Trip) string { return (*t).TripID }),
		column(rows, func(t **sink.Trip) string { return (*t).StartDate }),
		column(rows, func(t **sink.Trip) string { return (*t).LineID }),
		column(rows, func(t **sink.Trip) string { return (*t).Operator }),
		column(rows, func(t **sink.Trip) string { return (*t).StopID }),
		column(rows, func(t **sink.Trip) string { return (*t).StationID }),
		column(rows, func(t **sink.Trip) pgtype.Int8 { return count((*t).StopSequence) }),
		column(rows, func(t **sink.Trip) int32 { return (*t).DelayS }),
		column(rows, func(t **sink.Trip) pgtype.Timestamptz { return instant((*t).PredictedTime) }),
		column(rows, func(t **sink.Trip) pgtype.Timestamptz { return instant((*t).ObservedAt) }),
		column(rows, func(t **sink.Trip) int64 { return (*t).Tie }),
	}
}

// label is an id as it stands in a message: as it is, unless it holds bytes that
// no id should.
func label(id string) string {
	if quoted := strconv.Quote(id); len(quoted) != len(id)+2 {
		return quoted
	}
	return id
}
