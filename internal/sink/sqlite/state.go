package sqlite

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/sqlitefile"
)

// Both statements take a row that is not older than the stored one (R10), where
// the tie decides between rows of one instant. A row that is equal in every
// column changes nothing, not even updated_at.
const (
	upsertVehicle = `
INSERT INTO vehicle_latest (vehicle_id, trip_id, line_id, operator, latitude, longitude, bearing, speed_mps,
	stop_id, current_status, occupancy, observed_at, tie, updated_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (vehicle_id) DO UPDATE SET
	trip_id = excluded.trip_id, line_id = excluded.line_id, operator = excluded.operator,
	latitude = excluded.latitude, longitude = excluded.longitude, bearing = excluded.bearing,
	speed_mps = excluded.speed_mps, stop_id = excluded.stop_id, current_status = excluded.current_status,
	occupancy = excluded.occupancy, observed_at = excluded.observed_at, tie = excluded.tie,
	updated_at = excluded.updated_at
WHERE (excluded.observed_at, excluded.tie) >= (vehicle_latest.observed_at, vehicle_latest.tie)
	AND (excluded.trip_id, excluded.line_id, excluded.operator, excluded.latitude, excluded.longitude,
			excluded.bearing, excluded.speed_mps, excluded.stop_id, excluded.current_status, excluded.occupancy,
			excluded.observed_at, excluded.tie)
		IS NOT (vehicle_latest.trip_id, vehicle_latest.line_id, vehicle_latest.operator, vehicle_latest.latitude,
			vehicle_latest.longitude, vehicle_latest.bearing, vehicle_latest.speed_mps, vehicle_latest.stop_id,
			vehicle_latest.current_status, vehicle_latest.occupancy, vehicle_latest.observed_at, vehicle_latest.tie)`

	upsertTrip = `
INSERT INTO trip_delay_latest (trip_id, start_date, line_id, operator, stop_id, station_id, stop_sequence, delay_s,
	predicted_time, observed_at, tie, updated_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (trip_id, start_date) DO UPDATE SET
	line_id = excluded.line_id, operator = excluded.operator, stop_id = excluded.stop_id,
	station_id = excluded.station_id, stop_sequence = excluded.stop_sequence, delay_s = excluded.delay_s,
	predicted_time = excluded.predicted_time, observed_at = excluded.observed_at, tie = excluded.tie,
	updated_at = excluded.updated_at
WHERE (excluded.observed_at, excluded.tie) >= (trip_delay_latest.observed_at, trip_delay_latest.tie)
	AND (excluded.line_id, excluded.operator, excluded.stop_id, excluded.station_id, excluded.stop_sequence,
			excluded.delay_s, excluded.predicted_time, excluded.observed_at, excluded.tie)
		IS NOT (trip_delay_latest.line_id, trip_delay_latest.operator, trip_delay_latest.stop_id,
			trip_delay_latest.station_id, trip_delay_latest.stop_sequence, trip_delay_latest.delay_s,
			trip_delay_latest.predicted_time, trip_delay_latest.observed_at, trip_delay_latest.tie)`
)

// writeVehicles upserts the vehicles of all partitions by key. Of two rows of one
// key, from two partitions, the guard keeps the newer in either order.
func (f *flush) writeVehicles(ctx context.Context) error {
	var rows []*sink.Vehicle
	for i := range f.parts {
		for j := range f.parts[i].State.Vehicles {
			rows = append(rows, &f.parts[i].State.Vehicles[j])
		}
	}
	slices.SortStableFunc(rows, func(a, b *sink.Vehicle) int { return strings.Compare(a.VehicleID, b.VehicleID) })
	args := make([]any, 0, 14)
	return each{query: upsertVehicle, n: len(rows), row: func(i int) []any {
		v := rows[i]
		return append(args[:0], v.VehicleID, text(v.TripID), text(v.LineID), text(v.Operator), v.Latitude, v.Longitude,
			number(v.Bearing), number(v.SpeedMPS), text(v.StopID), text(v.CurrentStatus), text(v.Occupancy),
			sqlitefile.FormatTime(v.ObservedAt), v.Tie, f.now)
	}, name: func(i int) string { return "vehicle " + rows[i].VehicleID }}.run(ctx, f.tx)
}

// writeTrips does the same for trips.
func (f *flush) writeTrips(ctx context.Context) error {
	var rows []*sink.Trip
	for i := range f.parts {
		for j := range f.parts[i].State.Trips {
			rows = append(rows, &f.parts[i].State.Trips[j])
		}
	}
	slices.SortStableFunc(rows, func(a, b *sink.Trip) int {
		if c := strings.Compare(a.TripID, b.TripID); c != 0 {
			return c
		}
		return strings.Compare(a.StartDate, b.StartDate)
	})
	args := make([]any, 0, 12)
	return each{query: upsertTrip, n: len(rows), row: func(i int) []any {
		t := rows[i]
		return append(args[:0], t.TripID, t.StartDate, text(t.LineID), text(t.Operator), text(t.StopID),
			text(t.StationID), number(t.StopSequence), t.DelayS, instant(t.PredictedTime),
			sqlitefile.FormatTime(t.ObservedAt), t.Tie, f.now)
	}, name: func(i int) string { return "trip " + rows[i].TripID + " of " + strconv.Quote(rows[i].StartDate) }}.run(ctx, f.tx)
}

// number is an optional number as an argument: nil is NULL.
func number[T int64 | float64](n *T) any {
	if n == nil {
		return nil
	}
	return *n
}
