package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"iter"
	"strings"

	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/sqlitefile"
)

// Viewer opens views of the tables in a file. Safe for concurrent use.
type Viewer struct {
	file *sqlitefile.File
}

// NewViewer returns a viewer of a borrowed file. A file that is open for writing
// gets the tables where they are missing; one that is open for reading must have
// them, else the error wraps [sqlitefile.ErrOlder].
func NewViewer(ctx context.Context, f *sqlitefile.File) (*Viewer, error) {
	if err := f.Migrate(ctx, component, steps()); err != nil {
		return nil, failure("open tables", err)
	}
	return &Viewer{file: f}, nil
}

// View implements [sink.Viewer]. The number of views that are open at one time
// is bounded by the file's read connections; one more waits.
func (v *Viewer) View(ctx context.Context) (sink.View, error) {
	tx, end, err := v.file.BeginRead(ctx)
	if err != nil {
		return nil, failure("open view", err)
	}
	return &view{tx: tx, end: end}, nil
}

// view is one read transaction.
type view struct {
	tx  *sql.Tx
	end func() error
}

// Close implements [sink.View]. Idempotent.
func (v *view) Close() error { return v.end() }

const selectOffsets = `
SELECT topic, partition, group_id, topic_id, next_offset, position, leader_epoch, watermark, final_to,
	accepted, late, dead, ignored, fingerprint, epoch, owner, updated_at
FROM consumer_offsets ORDER BY topic, partition`

// Offsets implements [sink.View].
func (v *view) Offsets(ctx context.Context) ([]sink.Offset, error) {
	offsets, err := queryOffsets(ctx, v.tx)
	return offsets, failure("read consumer_offsets", err)
}

func queryOffsets(ctx context.Context, tx *sql.Tx) ([]sink.Offset, error) {
	return all(query(ctx, tx, func(rows *sql.Rows) (o sink.Offset, err error) {
		var next, position, leaderEpoch sql.NullInt64
		err = rows.Scan(&o.Partition.Topic, &o.Partition.Index, &o.Group, &o.TopicID, &next, &position, &leaderEpoch,
			timeColumn{&o.Watermark}, timeColumn{&o.FinalTo},
			&o.Counts.Accepted, &o.Counts.Late, &o.Counts.Dead, &o.Counts.Ignored,
			&o.Fingerprint, &o.Epoch, &o.Owner, timeColumn{&o.UpdatedAt})
		o.Stored = position.Valid
		o.Point = sink.Point{Next: next.Int64, Position: position.Int64}
		o.LeaderEpoch = int32(orMinus1(leaderEpoch))
		return o, err
	}, selectOffsets))
}

const selectAggregates = `
SELECT window_start, window_end, dimension, dimension_id, operator, event_count, mean_delay_s, p90_delay_s,
	max_delay_s, min_delay_s, revision, topic, computed_at
FROM delay_aggregates WHERE TRUE`

// aggregatesQuery makes the statement of a query. One dimension and id is found
// by the index on them. A dimension alone has a plus sign that keeps SQLite off
// that index: the rows are wanted by window, so walking the primary key ends at
// the limit, while the index would fetch and sort all rows of the dimension.
func aggregatesQuery(q sink.AggregateQuery) (text string, args []any) {
	var b strings.Builder
	b.WriteString(selectAggregates)
	where := func(clause string, arg any) {
		b.WriteString(clause)
		args = append(args, arg)
	}
	switch {
	case q.Dimension != "" && q.DimensionID != "":
		where(" AND dimension = ?", q.Dimension)
		where(" AND dimension_id = ?", q.DimensionID)
	case q.Dimension != "":
		where(" AND +dimension = ?", q.Dimension)
	case q.DimensionID != "":
		where(" AND dimension_id = ?", q.DimensionID)
	}
	if q.From != sink.NoTime {
		where(" AND window_start >= ?", sqlitefile.FormatTime(q.From))
	}
	if q.To != sink.NoTime {
		where(" AND window_start < ?", sqlitefile.FormatTime(q.To))
	}
	b.WriteString(" ORDER BY window_start")
	if q.Newest {
		b.WriteString(" DESC")
	}
	b.WriteString(", dimension, dimension_id")
	if q.Limit > 0 {
		where(" LIMIT ?", q.Limit)
	}
	return b.String(), args
}

// Aggregates implements [sink.View].
func (v *view) Aggregates(ctx context.Context, q sink.AggregateQuery) iter.Seq2[sink.Aggregate, error] {
	text, args := aggregatesQuery(q)
	return classed("read delay_aggregates", query(ctx, v.tx, func(rows *sql.Rows) (a sink.Aggregate, err error) {
		err = rows.Scan(timeColumn{&a.Start}, timeColumn{&a.End}, &a.Dimension, &a.DimensionID, textColumn{&a.Operator},
			&a.Count, &a.Mean, &a.P90, &a.Max, &a.Min, &a.Revision, &a.Topic, timeColumn{&a.ComputedAt})
		return a, err
	}, text, args...))
}

const selectVehicles = `
SELECT vehicle_id, trip_id, line_id, operator, latitude, longitude, bearing, speed_mps, stop_id, current_status,
	occupancy, observed_at, tie
FROM vehicle_latest ORDER BY vehicle_id`

// Vehicles implements [sink.View].
func (v *view) Vehicles(ctx context.Context) iter.Seq2[sink.Vehicle, error] {
	return classed("read vehicle_latest", query(ctx, v.tx, func(rows *sql.Rows) (r sink.Vehicle, err error) {
		err = rows.Scan(&r.VehicleID, textColumn{&r.TripID}, textColumn{&r.LineID}, textColumn{&r.Operator},
			&r.Latitude, &r.Longitude, &r.Bearing, &r.SpeedMPS, textColumn{&r.StopID}, textColumn{&r.CurrentStatus},
			textColumn{&r.Occupancy}, timeColumn{&r.ObservedAt}, &r.Tie)
		return r, err
	}, selectVehicles))
}

const selectTrips = `
SELECT trip_id, start_date, line_id, operator, stop_id, station_id, stop_sequence, delay_s, predicted_time,
	observed_at, tie
FROM trip_delay_latest ORDER BY trip_id, start_date`

// Trips implements [sink.View].
func (v *view) Trips(ctx context.Context) iter.Seq2[sink.Trip, error] {
	return classed("read trip_delay_latest", query(ctx, v.tx, func(rows *sql.Rows) (r sink.Trip, err error) {
		err = rows.Scan(&r.TripID, &r.StartDate, textColumn{&r.LineID}, textColumn{&r.Operator}, textColumn{&r.StopID},
			textColumn{&r.StationID}, &r.StopSequence, &r.DelayS, timeColumn{&r.PredictedTime},
			timeColumn{&r.ObservedAt}, &r.Tie)
		return r, err
	}, selectTrips))
}

const (
	segmentColumns = `window_start, window_end, partition, topic_id, first_offset, through_offset, records, origin, merged_at`

	selectSegments = `
SELECT ` + segmentColumns + ` FROM window_segments WHERE topic = ? ORDER BY window_start, partition`

	selectSegmentsWithData = `
SELECT ` + segmentColumns + `, data FROM window_segments WHERE topic = ? ORDER BY window_start, partition`
)

// Segments implements [sink.View].
func (v *view) Segments(ctx context.Context, topic string, withData bool) iter.Seq2[sink.StoredSegment, error] {
	text := selectSegments
	if withData {
		text = selectSegmentsWithData
	}
	return classed("read window_segments", query(ctx, v.tx, scanSegment(withData), text, topic))
}

// scanSegment scans segmentColumns, and data after them if it was selected.
func scanSegment(withData bool) func(*sql.Rows) (sink.StoredSegment, error) {
	return func(rows *sql.Rows) (s sink.StoredSegment, err error) {
		dest := []any{
			timeColumn{&s.Start},
			timeColumn{&s.End},
			&s.Partition, &s.TopicID, &s.FirstOffset, &s.ThroughOffset,
			&s.Records, &s.Origin,
			timeColumn{&s.MergedAt},
		}
		if withData {
			dest = append(dest, &s.Data)
		}
		err = rows.Scan(dest...)
		return s, err
	}
}

const selectIncidents = `
SELECT id, kind, topic, partition, from_offset, to_offset, detail, at FROM incidents ORDER BY id DESC LIMIT ?`

// Incidents implements [sink.View].
func (v *view) Incidents(ctx context.Context, limit int) ([]sink.Incident, error) {
	if limit <= 0 {
		limit = -1 // no limit
	}
	ins, err := all(query(ctx, v.tx, func(rows *sql.Rows) (in sink.Incident, err error) {
		var partition, from, to sql.NullInt64
		err = rows.Scan(&in.ID, &in.Kind, &in.Topic, &partition, &from, &to, &in.Detail, timeColumn{&in.At})
		in.Partition = int32(orMinus1(partition))
		in.FromOffset, in.ToOffset = orMinus1(from), orMinus1(to)
		return in, err
	}, selectIncidents, limit))
	return ins, failure("read incidents", err)
}

// query streams the rows of a statement through scan. It runs once for each
// range over it, and ends after an error.
func query[T any](
	ctx context.Context, tx *sql.Tx, scan func(*sql.Rows) (T, error), text string, args ...any,
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		stopped := false
		err := scanEach(ctx, tx, scan, func(v T) bool {
			stopped = !yield(v, nil)
			return !stopped
		}, text, args...)
		// Whoever stopped has all they wanted; what closing says then is of no
		// use to them, and a yield after the stop would panic.
		if err != nil && !stopped {
			var zero T
			yield(zero, err)
		}
	}
}

// scanEach calls yield with the rows of a statement until it returns false.
func scanEach[T any](
	ctx context.Context, tx *sql.Tx, scan func(*sql.Rows) (T, error), yield func(T) bool, text string, args ...any,
) (err error) {
	rows, err := tx.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return err
		}
		if !yield(v) {
			return nil
		}
	}
	return rows.Err()
}

// all collects a sequence up to its error.
func all[T any](seq iter.Seq2[T, error]) ([]T, error) {
	var vs []T
	for v, err := range seq {
		if err != nil {
			return nil, err
		}
		vs = append(vs, v)
	}
	return vs, nil
}

// classed gives the error of a sequence its class.
func classed[T any](doing string, seq iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for v, err := range seq {
			if err != nil {
				err = failure(doing, err)
			}
			if !yield(v, err) {
				return
			}
		}
	}
}
