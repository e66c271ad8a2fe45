package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/window"
)

const (
	// tryTopic takes the lock of a topic until the end of the transaction, if it
	// is free.
	tryTopic = `SELECT pg_try_advisory_xact_lock(hashtextextended('peil final ' || current_schema() || ' ' || $1, 0))`

	// selectPending finds the windows up to an instant that have an unmerged
	// segment and are not sealed. An unmerged segment always has data, so an
	// emptied one is another partition's.
	selectPending = `
SELECT u.window_start, max(u.window_end) FROM window_segments AS u
WHERE u.topic = $1 AND u.topic_id = $2 AND u.merged_at IS NULL AND u.window_end <= $3
	AND NOT EXISTS (SELECT FROM window_segments AS e
		WHERE e.window_start = u.window_start AND e.topic = $1 AND e.topic_id = $2 AND e.data IS NULL)
GROUP BY u.window_start ORDER BY u.window_start LIMIT $4`

	selectWindows = `
SELECT ` + segmentColumns + `, data FROM window_segments
WHERE window_start = ANY ($1) AND topic = $2 AND topic_id = $3 ORDER BY window_start, partition`

	selectKeys = `
SELECT dimension, dimension_id, topic FROM delay_aggregates
WHERE window_start = $1 ORDER BY dimension, dimension_id`

	// upsertAggregates replaces rows of the same topic whose content differs.
	// revision, computed_at and topic are not content; an operator once known
	// stays. It returns for each row that it wrote whether it is new.
	upsertAggregates = `
INSERT INTO delay_aggregates (window_start, window_end, dimension, dimension_id, operator, event_count,
	mean_delay_s, p90_delay_s, max_delay_s, min_delay_s, revision, topic, computed_at)
SELECT $1, $2, dim, id, NULLIF(op, ''), n, mean, p90, most, least, 1, $11, $12
FROM unnest($3::text[], $4::text[], $5::text[], $6::bigint[], $7::double precision[], $8::double precision[],
	$9::integer[], $10::integer[]) AS u (dim, id, op, n, mean, p90, most, least)
ON CONFLICT (window_start, dimension, dimension_id) DO UPDATE SET
	window_end = EXCLUDED.window_end, operator = COALESCE(EXCLUDED.operator, delay_aggregates.operator),
	event_count = EXCLUDED.event_count, mean_delay_s = EXCLUDED.mean_delay_s, p90_delay_s = EXCLUDED.p90_delay_s,
	max_delay_s = EXCLUDED.max_delay_s, min_delay_s = EXCLUDED.min_delay_s,
	revision = delay_aggregates.revision + 1, computed_at = EXCLUDED.computed_at
WHERE delay_aggregates.topic = EXCLUDED.topic
	AND (EXCLUDED.window_end, COALESCE(EXCLUDED.operator, delay_aggregates.operator), EXCLUDED.event_count,
			EXCLUDED.mean_delay_s, EXCLUDED.p90_delay_s, EXCLUDED.max_delay_s, EXCLUDED.min_delay_s)
		IS DISTINCT FROM (delay_aggregates.window_end, delay_aggregates.operator, delay_aggregates.event_count,
			delay_aggregates.mean_delay_s, delay_aggregates.p90_delay_s, delay_aggregates.max_delay_s,
			delay_aggregates.min_delay_s)
RETURNING revision = 1`

	deleteAggregates = `
DELETE FROM delay_aggregates AS a USING unnest($2::text[], $3::text[]) AS u (dim, id)
WHERE a.window_start = $1 AND a.dimension = u.dim AND a.dimension_id = u.id AND a.topic = $4`

	// markMerged marks what was read and nothing else: a segment that was
	// replaced since then has another identity and stays unmerged.
	markMerged = `
UPDATE window_segments SET merged_at = $1
WHERE window_start = $2 AND topic = $3 AND partition = $4
	AND topic_id = $5 AND first_offset = $6 AND through_offset = $7 AND origin = $8`
)

// finaliser is one finalising transaction, which holds the lock of its topic.
type finaliser struct {
	sink     *Sink
	req      sink.FinalRequest
	tx       *transaction
	now      pgtype.Timestamptz
	recorded []sink.Incident
}

var _ sink.Finaliser = (*finaliser)(nil)

// Final implements [sink.Sink]. The transaction has a connection of its own until
// the caller ends it.
func (s *Sink) Final(ctx context.Context, req sink.FinalRequest) (sink.Finaliser, error) {
	doing := "finalise " + req.Topic
	if req.Limit <= 0 {
		return nil, fmt.Errorf("%s: limit of windows is %d", doing, req.Limit)
	}
	tx, err := s.begin(ctx)
	if err != nil {
		return nil, failure(ctx, doing, err)
	}
	var mine bool
	err = tx.one(ctx, tryTopic, []any{req.Topic}, []any{&mine})
	if err == nil && !mine {
		err = sink.ErrBusy
	}
	if err != nil {
		return nil, failure(ctx, doing, errors.Join(err, tx.rollback(ctx)))
	}
	return &finaliser{sink: s, req: req, tx: tx, now: s.stamp()}, nil
}

// Pending implements [sink.Finaliser].
func (f *finaliser) Pending(ctx context.Context) ([]sink.PendingWindow, error) {
	windows, err := f.pending(ctx)
	if err != nil {
		return nil, failure(ctx, "read pending windows of "+f.req.Topic, err)
	}
	return windows, nil
}

// pending reads in statements of its own, after the lock was taken: what another
// finaliser committed before it gave up the lock is seen.
func (f *finaliser) pending(ctx context.Context) ([]sink.PendingWindow, error) {
	offsets, err := collect(ctx, f.tx, scanOffset, selectOffsets)
	if err != nil {
		return nil, err
	}
	final := sink.Holders(offsets, f.req.Topic, f.req.TopicID)
	if final.FinalTo == sink.NoTime {
		return nil, nil
	}
	windows, err := collect(ctx, f.tx, func(row pgx.CollectableRow) (w sink.PendingWindow, err error) {
		err = row.Scan(timeColumn{&w.Start}, timeColumn{&w.End})
		return w, err
	}, selectPending, f.req.Topic, f.req.TopicID, instant(final.FinalTo), f.req.Limit)
	if err != nil || len(windows) == 0 {
		return nil, err
	}
	starts := column(windows, func(w *sink.PendingWindow) pgtype.Timestamptz { return instant(w.Start) })
	segments, err := collect(ctx, f.tx, scanSegment(true), selectWindows, starts, f.req.Topic, f.req.TopicID)
	if err != nil {
		return nil, err
	}
	for i := range windows {
		n := 0
		for n < len(segments) && segments[n].Start == windows[i].Start {
			n++
		}
		windows[i].Segments, segments = segments[:n:n], segments[n:]
	}
	return windows, nil
}

// Apply implements [sink.Finaliser]. The rows may come in any order, but each
// key once.
func (f *finaliser) Apply(ctx context.Context, w sink.PendingWindow, rows []window.Row) (sink.Applied, error) {
	doing := fmt.Sprintf("finalise %s: window %s", f.req.Topic, sink.TimeText(w.Start))
	sorted, err := sink.SortRows(rows)
	if err != nil {
		return sink.Applied{}, fmt.Errorf("%s: %w", doing, err)
	}
	applied, err := f.apply(ctx, w, sorted)
	if err != nil {
		return sink.Applied{}, failure(ctx, doing, err)
	}
	return applied, nil
}

func (f *finaliser) apply(ctx context.Context, w sink.PendingWindow, rows []window.Row) (sink.Applied, error) {
	applied, err := f.upsert(ctx, w, rows)
	if err != nil {
		return applied, err
	}
	keys, err := collect(ctx, f.tx, func(row pgx.CollectableRow) (k storedKey, err error) {
		err = row.Scan(&k.dimension, &k.id, &k.topic)
		return k, err
	}, selectKeys, instant(w.Start))
	if err != nil {
		return applied, fmt.Errorf("read stored rows: %w", err)
	}
	gone, foreign := compareKeys(keys, rows, f.req.Topic)
	if len(gone) > 0 {
		_, err := f.tx.exec(ctx, deleteAggregates, instant(w.Start),
			column(gone, func(k *storedKey) string { return k.dimension }),
			column(gone, func(k *storedKey) string { return k.id }), f.req.Topic)
		if err != nil {
			return applied, fmt.Errorf("remove rows: %w", err)
		}
	}
	if err := f.noteForeign(ctx, w.Start, foreign); err != nil {
		return applied, err
	}
	applied.Removed, applied.Foreign = len(gone), len(foreign)
	return applied, f.mark(ctx, w)
}

// upsert writes the rows and counts those inserted and revised. It looks for a
// row that the database refuses at once: the caller's transaction cannot be run
// again from here.
func (f *finaliser) upsert(ctx context.Context, w sink.PendingWindow, rows []window.Row) (applied sink.Applied, err error) {
	err = table[window.Row]{
		name: "delay_aggregates",
		key:  func(r *window.Row) string { return label(r.Dimension) + " " + label(r.ID) },
		write: func(ctx context.Context, t *transaction, rows []window.Row) error {
			fresh, err := collect(ctx, t, pgx.RowTo[bool], upsertAggregates, f.aggregateArgs(w, rows)...)
			for _, isNew := range fresh {
				if isNew {
					applied.Inserted++
				} else {
					applied.Revised++
				}
			}
			return err
		},
	}.put(ctx, f.tx, rows, true)
	return applied, err
}

func (f *finaliser) aggregateArgs(w sink.PendingWindow, rows []window.Row) []any {
	return []any{
		instant(w.Start), instant(w.End),
		column(rows, func(r *window.Row) string { return r.Dimension }),
		column(rows, func(r *window.Row) string { return r.ID }),
		column(rows, func(r *window.Row) string { return r.Label }),
		column(rows, func(r *window.Row) int64 { return r.Count }),
		column(rows, func(r *window.Row) float64 { return r.Mean() }),
		column(rows, func(r *window.Row) float64 { return float64(r.P90) }),
		column(rows, func(r *window.Row) int32 { return r.Max }),
		column(rows, func(r *window.Row) int32 { return r.Min }),
		f.req.Topic, f.now,
	}
}

// mark marks the segments that were read, in the order in which flushes lock
// them.
func (f *finaliser) mark(ctx context.Context, w sink.PendingWindow) error {
	segments := slices.Clone(w.Segments)
	slices.SortFunc(segments, func(a, b sink.StoredSegment) int { return cmp.Compare(a.Partition, b.Partition) })
	return f.tx.each(ctx, markMerged, len(segments), func(i int) []any {
		s := &segments[i]
		return []any{
			f.now, instant(w.Start), f.req.Topic, s.Partition,
			s.TopicID, s.FirstOffset, s.ThroughOffset, s.Origin,
		}
	}, func(i int) string {
		return fmt.Sprintf("mark segment of partition %d", segments[i].Partition)
	}, func(int, int64) {})
}

// noteForeign records one incident for all rows that belong to another topic.
func (f *finaliser) noteForeign(ctx context.Context, start int64, foreign []storedKey) error {
	if len(foreign) == 0 {
		return nil
	}
	k := foreign[0]
	in := sink.Incident{
		Kind: sink.IncidentForeignRow, Topic: f.req.Topic, Partition: -1, FromOffset: -1, ToOffset: -1,
		Detail: fmt.Sprintf("window %s: %d rows belong to another topic and were left alone; the first is %s %s of topic %s",
			sink.TimeText(start), len(foreign), k.dimension, k.id, k.topic),
	}
	if err := addIncidents(ctx, f.tx, []sink.Incident{in}, f.now, false); err != nil {
		return err
	}
	f.recorded = append(f.recorded, in)
	return nil
}

// Commit implements [sink.Finaliser].
func (f *finaliser) Commit(ctx context.Context) error {
	doing := "finalise " + f.req.Topic
	if err := trimIncidents(ctx, f.tx, len(f.recorded)); err != nil {
		return failure(ctx, doing, err)
	}
	if err := f.tx.commit(ctx); err != nil {
		return failure(ctx, doing, err)
	}
	f.sink.warn(ctx, f.recorded)
	return nil
}

// Rollback implements [sink.Finaliser]. It frees lock and connection also when
// the context has ended.
func (f *finaliser) Rollback(ctx context.Context) error {
	return failure(ctx, "roll back finalising "+f.req.Topic, f.tx.rollback(ctx))
}

// storedKey is the key of a stored row and the topic it belongs to.
type storedKey struct{ dimension, id, topic string }

// compareKeys holds the keys of a window, once its rows are written, against the
// result; both are sorted by dimension and id. gone are those of the topic that
// are no longer in the result, foreign those of another topic that are.
func compareKeys(keys []storedKey, rows []window.Row, topic string) (gone, foreign []storedKey) {
	for _, k := range keys {
		in := len(rows) > 0 && rows[0].Dimension == k.dimension && rows[0].ID == k.id
		if in {
			rows = rows[1:]
		}
		switch own := k.topic == topic; {
		case own && !in:
			gone = append(gone, k)
		case !own && in:
			foreign = append(foreign, k)
		}
	}
	return gone, foreign
}
