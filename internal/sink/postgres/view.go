package postgres

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/peil-stream/peil/internal/sink"
)

// Viewer opens views of the tables in a database. Safe for concurrent use.
type Viewer struct {
	pool *pgxpool.Pool
}

// OpenViewer connects for reading and changes nothing. If there are no tables the
// error wraps [ErrNoSchema]; if they are not those of this program it is a
// [*SchemaError]. The caller closes the viewer.
func OpenViewer(ctx context.Context, o Options) (*Viewer, error) {
	return openViewer(ctx, o, false)
}

// openViewer connects for reading: to the server that takes writes, if the views
// are those of a writer.
func openViewer(ctx context.Context, o Options, writer bool) (*Viewer, error) {
	pool, err := connect(ctx, o.URL, writer)
	if err != nil {
		return nil, err
	}
	if err := readable(ctx, pool); err != nil {
		pool.Close()
		return nil, err
	}
	return &Viewer{pool: pool}, nil
}

func readable(ctx context.Context, pool *pgxpool.Pool) error {
	v, err := version(ctx, pool)
	switch {
	case err != nil:
		return err
	case v == 0:
		return &SchemaError{What: "open tables", Advice: adviceMigrate, Err: ErrNoSchema}
	case v < len(steps()):
		return &SchemaError{
			What:   fmt.Sprintf("the tables have version %d; this program needs %d", v, len(steps())),
			Advice: adviceMigrate,
		}
	default:
		return nil
	}
}

// Close ends the connections, once every view is closed. Idempotent.
func (v *Viewer) Close() error {
	v.pool.Close()
	return nil
}

// View implements [sink.Viewer]. The number of views that are open at one time
// is bounded by the pool; one more waits.
func (v *Viewer) View(ctx context.Context) (sink.View, error) {
	conn, err := v.pool.Acquire(ctx)
	if err != nil {
		return nil, failure(ctx, "open view", err)
	}
	// The moment of a view is that of its first statement, so that comes with it.
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{BeginQuery: "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT 1"})
	if err != nil {
		err = failure(ctx, "open view", marked(conn.Conn(), err))
		conn.Release()
		return nil, err
	}
	return &view{tx: tx, end: func() error {
		// Nothing was written, so what the end says is of no use; a connection
		// whose transaction did not end is closed by the pool.
		_ = tx.Rollback(context.WithoutCancel(ctx)) // Close has no context, and must end the transaction
		conn.Release()
		return nil
	}}, nil
}

// view is one read transaction.
type view struct {
	tx      pgx.Tx
	end     func() error
	cursors int
	closed  bool
}

// Close implements [sink.View]. Idempotent.
func (v *view) Close() error {
	if v.closed {
		return nil
	}
	v.closed = true
	return v.end()
}

func (v *view) failure(ctx context.Context, doing string, err error) error {
	return failure(ctx, doing, marked(v.tx.Conn(), err))
}

const selectOffsets = `
SELECT topic, partition, group_id, topic_id, next_offset, position, leader_epoch, watermark, final_to,
	accepted, late, dead, ignored, fingerprint, epoch, owner, updated_at
FROM consumer_offsets ORDER BY topic, partition`

// Offsets implements [sink.View].
func (v *view) Offsets(ctx context.Context) ([]sink.Offset, error) {
	return readAll(ctx, v, "read consumer_offsets", scanOffset, selectOffsets)
}

func scanOffset(row pgx.CollectableRow) (o sink.Offset, err error) {
	var next, position, leaderEpoch int64
	err = row.Scan(&o.Partition.Topic, &o.Partition.Index, &o.Group, &o.TopicID,
		numberColumn{&next}, numberColumn{&position}, numberColumn{&leaderEpoch},
		timeColumn{&o.Watermark}, timeColumn{&o.FinalTo},
		&o.Counts.Accepted, &o.Counts.Late, &o.Counts.Dead, &o.Counts.Ignored,
		&o.Fingerprint, &o.Epoch, &o.Owner, timeColumn{&o.UpdatedAt})
	o.LeaderEpoch = int32(leaderEpoch)
	if position >= 0 {
		o.Stored = true
		o.Point = sink.Point{Next: next, Position: position}
	}
	return o, err
}

const selectAggregates = `
SELECT window_start, window_end, dimension, dimension_id, operator, event_count, mean_delay_s, p90_delay_s,
	max_delay_s, min_delay_s, revision, topic, computed_at
FROM delay_aggregates WHERE TRUE`

// aggregatesQuery makes the statement of a query.
func aggregatesQuery(q sink.AggregateQuery) (text string, args []any) {
	var b strings.Builder
	b.WriteString(selectAggregates)
	where := func(clause string, arg any) {
		args = append(args, arg)
		b.WriteString(clause + "$" + strconv.Itoa(len(args)))
	}
	if q.Dimension != "" {
		where(" AND dimension = ", q.Dimension)
	}
	if q.DimensionID != "" {
		where(" AND dimension_id = ", q.DimensionID)
	}
	if q.From != sink.NoTime {
		where(" AND window_start >= ", instant(q.From))
	}
	if q.To != sink.NoTime {
		where(" AND window_start < ", instant(q.To))
	}
	if q.Newest {
		b.WriteString(" ORDER BY window_start DESC, dimension, dimension_id")
	} else {
		b.WriteString(" ORDER BY window_start, dimension, dimension_id")
	}
	if q.Limit > 0 {
		where(" LIMIT ", int64(q.Limit))
	}
	return b.String(), args
}

// Aggregates implements [sink.View].
func (v *view) Aggregates(ctx context.Context, q sink.AggregateQuery) iter.Seq2[sink.Aggregate, error] {
	text, args := aggregatesQuery(q)
	return sequence(ctx, v, "read delay_aggregates", fetchRows, func(row pgx.CollectableRow) (a sink.Aggregate, err error) {
		err = row.Scan(timeColumn{&a.Start}, timeColumn{&a.End}, &a.Dimension, &a.DimensionID, textColumn{&a.Operator},
			&a.Count, &a.Mean, &a.P90, &a.Max, &a.Min, &a.Revision, &a.Topic, timeColumn{&a.ComputedAt})
		return a, err
	}, text, args...)
}

const selectVehicles = `
SELECT vehicle_id, trip_id, line_id, operator, latitude, longitude, bearing, speed_mps, stop_id, current_status,
	occupancy, observed_at, tie
FROM vehicle_latest ORDER BY vehicle_id`

// Vehicles implements [sink.View].
func (v *view) Vehicles(ctx context.Context) iter.Seq2[sink.Vehicle, error] {
	return sequence(ctx, v, "read vehicle_latest", fetchRows, func(row pgx.CollectableRow) (r sink.Vehicle, err error) {
		err = row.Scan(&r.VehicleID, textColumn{&r.TripID}, textColumn{&r.LineID}, textColumn{&r.Operator},
			&r.Latitude, &r.Longitude, &r.Bearing, &r.SpeedMPS, textColumn{&r.StopID}, textColumn{&r.CurrentStatus},
			textColumn{&r.Occupancy}, timeColumn{&r.ObservedAt}, &r.Tie)
		return r, err
	}, selectVehicles)
}

const selectTrips = `
SELECT trip_id, start_date, line_id, operator, stop_id, station_id, stop_sequence, delay_s, predicted_time,
	observed_at, tie
FROM trip_delay_latest ORDER BY trip_id, start_date`

// Trips implements [sink.View].
func (v *view) Trips(ctx context.Context) iter.Seq2[sink.Trip, error] {
	return sequence(ctx, v, "read trip_delay_latest", fetchRows, func(row pgx.CollectableRow) (r sink.Trip, err error) {
		err = row.Scan(&r.TripID, &r.StartDate, textColumn{&r.LineID}, textColumn{&r.Operator}, textColumn{&r.StopID},
			textColumn{&r.StationID}, &r.StopSequence, &r.DelayS, timeColumn{&r.PredictedTime},
			timeColumn{&r.ObservedAt}, &r.Tie)
		return r, err
	}, selectTrips)
}

const (
	segmentColumns = `window_start, window_end, partition, topic_id, first_offset, through_offset, records, origin, merged_at`

	selectSegments = `
SELECT ` + segmentColumns + ` FROM window_segments WHERE topic = $1 ORDER BY window_start, partition`

	selectSegmentsWithData = `
SELECT ` + segmentColumns + `, data FROM window_segments WHERE topic = $1 ORDER BY window_start, partition`
)

// Segments implements [sink.View].
func (v *view) Segments(ctx context.Context, topic string, withData bool) iter.Seq2[sink.StoredSegment, error] {
	text, n := selectSegments, fetchRows
	if withData {
		text, n = selectSegmentsWithData, fetchSegments
	}
	return sequence(ctx, v, "read window_segments", n, scanSegment(withData), text, topic)
}

// scanSegment scans segmentColumns, and data after them if it was selected.
func scanSegment(withData bool) pgx.RowToFunc[sink.StoredSegment] {
	return func(row pgx.CollectableRow) (s sink.StoredSegment, err error) {
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
		err = row.Scan(dest...)
		return s, err
	}
}

const selectIncidents = `
SELECT kind, topic, partition, from_offset, to_offset, detail, id, at FROM incidents ORDER BY id DESC LIMIT NULLIF($1, 0)`

// Incidents implements [sink.View].
func (v *view) Incidents(ctx context.Context, limit int) ([]sink.Incident, error) {
	return readAll(ctx, v, "read incidents", func(row pgx.CollectableRow) (in sink.Incident, err error) {
		err = scanIncident(row, &in, &in.ID, timeColumn{&in.At})
		return in, err
	}, selectIncidents, int64(max(limit, 0)))
}

// readAll reads the rows of a small table.
func readAll[T any](
	ctx context.Context, v *view, doing string, scan pgx.RowToFunc[T], text string, args ...any,
) ([]T, error) {
	rows, err := v.tx.Query(ctx, text, args...)
	if err != nil {
		return nil, v.failure(ctx, doing, err)
	}
	values, err := pgx.AppendRows([]T(nil), rows, scan)
	if err != nil {
		return nil, v.failure(ctx, doing, err)
	}
	return values, nil
}

const (
	// fetchRows and fetchSegments are how many rows come at a time: without and
	// with the data of segments, some 100 kB each.
	fetchRows     = 2000
	fetchSegments = 32
)

// sequence yields the rows of a statement as a cursor fetches them: a table need
// not fit into memory, and the view can be used while a sequence stands still.
// The statement runs once for each range over it, and ends after an error.
func sequence[T any](
	ctx context.Context, v *view, doing string, fetch int, scan pgx.RowToFunc[T], text string, args ...any,
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		err := v.fetchEach(ctx, fetch, text, args, func(rows pgx.Rows) (n int, more bool, err error) {
			values, err := pgx.AppendRows([]T(nil), rows, scan)
			if err != nil {
				return 0, false, err
			}
			for _, value := range values {
				if !yield(value, nil) {
					return len(values), false, nil
				}
			}
			return len(values), true, nil
		})
		if err != nil {
			var zero T
			yield(zero, v.failure(ctx, doing, err))
		}
	}
}

// fetchEach calls take with so many rows at a time until there are no more or it
// wants no more.
func (v *view) fetchEach(
	ctx context.Context, fetch int, text string, args []any, take func(pgx.Rows) (n int, more bool, err error),
) error {
	v.cursors++
	name := "peil_" + strconv.Itoa(v.cursors)
	// The names differ, so keeping the statements prepared would be of no use.
	declare := append([]any{pgx.QueryExecModeExec}, args...)
	if _, err := v.tx.Exec(ctx, "DECLARE "+name+" NO SCROLL CURSOR FOR "+text, declare...); err != nil {
		return err
	}
	for {
		rows, err := v.tx.Query(ctx, "FETCH "+strconv.Itoa(fetch)+" FROM "+name, pgx.QueryExecModeDescribeExec)
		if err != nil {
			return err
		}
		n, more, err := take(rows)
		if err != nil {
			return err
		}
		if !more || n < fetch {
			// What closing says is of no use to whoever has all they wanted; the
			// end of the transaction closes it too.
			_, _ = v.tx.Exec(ctx, "CLOSE "+name)
			return nil
		}
	}
}
