package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"

	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/sqlitefile"
	"github.com/peil-stream/peil/window"
)

const (
	// selectPending finds the windows up to an instant that have an unmerged
	// segment and are not sealed. An unmerged segment always has data, so an
	// emptied one is another partition's.
	selectPending = `
SELECT u.window_start, max(u.window_end) FROM window_segments AS u
WHERE u.topic = ?1 AND u.topic_id = ?2 AND u.merged_at IS NULL AND u.window_end <= ?3
	AND NOT EXISTS (SELECT 1 FROM window_segments AS e
		WHERE e.window_start = u.window_start AND e.topic = ?1 AND e.topic_id = ?2 AND e.data IS NULL)
GROUP BY u.window_start ORDER BY u.window_start LIMIT ?4`

	selectWindow = `
SELECT ` + segmentColumns + `, data FROM window_segments
WHERE window_start = ? AND topic = ? AND topic_id = ? ORDER BY partition`

	selectKeys = `
SELECT dimension, dimension_id, topic FROM delay_aggregates
WHERE window_start = ? ORDER BY dimension, dimension_id`

	// upsertAggregate replaces a row of the same topic whose content differs.
	// revision, computed_at and topic are not content; an operator once known
	// stays.
	upsertAggregate = `
INSERT INTO delay_aggregates (window_start, window_end, dimension, dimension_id, operator, event_count,
	mean_delay_s, p90_delay_s, max_delay_s, min_delay_s, revision, topic, computed_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?)
ON CONFLICT (window_start, dimension, dimension_id) DO UPDATE SET
	window_end = excluded.window_end, operator = COALESCE(excluded.operator, delay_aggregates.operator),
	event_count = excluded.event_count, mean_delay_s = excluded.mean_delay_s, p90_delay_s = excluded.p90_delay_s,
	max_delay_s = excluded.max_delay_s, min_delay_s = excluded.min_delay_s,
	revision = delay_aggregates.revision + 1, computed_at = excluded.computed_at
WHERE delay_aggregates.topic = excluded.topic
	AND (excluded.window_end, COALESCE(excluded.operator, delay_aggregates.operator), excluded.event_count,
			excluded.mean_delay_s, excluded.p90_delay_s, excluded.max_delay_s, excluded.min_delay_s)
		IS NOT (delay_aggregates.window_end, delay_aggregates.operator, delay_aggregates.event_count,
			delay_aggregates.mean_delay_s, delay_aggregates.p90_delay_s, delay_aggregates.max_delay_s,
			delay_aggregates.min_delay_s)`

	deleteAggregate = `
DELETE FROM delay_aggregates WHERE window_start = ? AND dimension = ? AND dimension_id = ? AND topic = ?`

	// markMerged marks what was read and nothing else: a segment that was
	// replaced since then has another identity and stays unmerged.
	markMerged = `
UPDATE window_segments SET merged_at = ?1
WHERE window_start = ?2 AND topic = ?3 AND partition = ?4
	AND topic_id = ?5 AND first_offset = ?6 AND through_offset = ?7 AND origin = ?8`
)

// finaliser is one finalising transaction. It holds the file's write queue, and
// with it the lock of every topic.
type finaliser struct {
	sink     *Sink
	req      sink.FinalRequest
	tx       *sqlitefile.WriteTx
	now      string
	recorded []sink.Incident
}

var _ sink.Finaliser = (*finaliser)(nil)

// Final implements [sink.Sink]. It waits for the file's writer and never returns
// [sink.ErrBusy]. The caller must end the transaction.
func (s *Sink) Final(ctx context.Context, req sink.FinalRequest) (sink.Finaliser, error) {
	if req.Limit <= 0 {
		return nil, fmt.Errorf("finalise %s: limit of windows is %d", req.Topic, req.Limit)
	}
	tx, err := s.begin(ctx)
	if err != nil {
		return nil, failure("finalise "+req.Topic, err)
	}
	return &finaliser{sink: s, req: req, tx: tx, now: s.stamp()}, nil
}

// Pending implements [sink.Finaliser].
func (f *finaliser) Pending(ctx context.Context) ([]sink.PendingWindow, error) {
	windows, err := f.pending(ctx)
	if err != nil {
		return nil, failure("read pending windows of "+f.req.Topic, err)
	}
	return windows, nil
}

func (f *finaliser) pending(ctx context.Context) ([]sink.PendingWindow, error) {
	offsets, err := queryOffsets(ctx, f.tx.Tx)
	if err != nil {
		return nil, err
	}
	final := sink.Holders(offsets, f.req.Topic, f.req.TopicID)
	if final.FinalTo == sink.NoTime {
		return nil, nil
	}
	windows, err := all(query(ctx, f.tx.Tx, func(rows *sql.Rows) (w sink.PendingWindow, err error) {
		err = rows.Scan(timeColumn{&w.Start}, timeColumn{&w.End})
		return w, err
	}, selectPending, f.req.Topic, f.req.TopicID, sqlitefile.FormatTime(final.FinalTo), f.req.Limit))
	if err != nil {
		return nil, err
	}
	for i := range windows {
		w := &windows[i]
		start := sqlitefile.FormatTime(w.Start)
		w.Segments, err = all(query(ctx, f.tx.Tx, scanSegment(true), selectWindow, start, f.req.Topic, f.req.TopicID))
		if err != nil {
			return nil, fmt.Errorf("window %s: %w", start, err)
		}
	}
	return windows, nil
}

// Apply implements [sink.Finaliser]. The rows may come in any order, but each
// key once.
func (f *finaliser) Apply(ctx context.Context, w sink.PendingWindow, rows []window.Row) (sink.Applied, error) {
	doing := fmt.Sprintf("finalise %s: window %s", f.req.Topic, sqlitefile.FormatTime(w.Start))
	sorted, err := sink.SortRows(rows)
	if err != nil {
		return sink.Applied{}, fmt.Errorf("%s: %w", doing, err)
	}
	applied, err := f.apply(ctx, w, sorted)
	if err != nil {
		return sink.Applied{}, failure(doing, err)
	}
	return applied, nil
}

func (f *finaliser) apply(ctx context.Context, w sink.PendingWindow, rows []window.Row) (sink.Applied, error) {
	start := sqlitefile.FormatTime(w.Start)
	keys, err := all(query(ctx, f.tx.Tx, func(r *sql.Rows) (k storedKey, err error) {
		err = r.Scan(&k.dimension, &k.id, &k.topic)
		return k, err
	}, selectKeys, start))
	if err != nil {
		return sink.Applied{}, fmt.Errorf("read stored rows: %w", err)
	}
	plan := compareKeys(keys, rows, f.req.Topic)
	changed, err := f.upsert(ctx, w, rows)
	if err != nil {
		return sink.Applied{}, err
	}
	for _, k := range plan.gone {
		if _, err := f.tx.Tx.ExecContext(ctx, deleteAggregate, start, k.dimension, k.id, f.req.Topic); err != nil {
			return sink.Applied{}, fmt.Errorf("remove %s %s: %w", k.dimension, k.id, err)
		}
	}
	if err := f.noteForeign(ctx, start, plan.foreign); err != nil {
		return sink.Applied{}, err
	}
	for i := range w.Segments {
		s := &w.Segments[i]
		_, err := f.tx.Tx.ExecContext(ctx, markMerged, f.now, start, f.req.Topic, s.Partition,
			s.TopicID, s.FirstOffset, s.ThroughOffset, s.Origin)
		if err != nil {
			return sink.Applied{}, fmt.Errorf("mark segment of partition %d: %w", s.Partition, err)
		}
	}
	return sink.Applied{
		Inserted: plan.inserted, Revised: changed - plan.inserted,
		Removed: len(plan.gone), Foreign: len(plan.foreign),
	}, nil
}

// upsert writes the rows and returns how many were inserted or revised.
func (f *finaliser) upsert(ctx context.Context, w sink.PendingWindow, rows []window.Row) (changed int, err error) {
	start, end := sqlitefile.FormatTime(w.Start), sqlitefile.FormatTime(w.End)
	args := make([]any, 0, 12)
	err = each{
		query: upsertAggregate,
		n:     len(rows),
		row: func(i int) []any {
			r := &rows[i]
			return append(args[:0], start, end, r.Dimension, r.ID, text(r.Label),
				r.Count, r.Mean(), float64(r.P90), r.Max, r.Min, f.req.Topic, f.now)
		},
		name:    func(i int) string { return rows[i].Dimension + " " + rows[i].ID },
		changed: func(int) { changed++ },
	}.run(ctx, f.tx.Tx)
	return changed, err
}

// noteForeign records one incident for all rows that belong to another topic.
func (f *finaliser) noteForeign(ctx context.Context, start string, foreign []storedKey) error {
	if len(foreign) == 0 {
		return nil
	}
	k := foreign[0]
	in := sink.Incident{
		Kind: sink.IncidentForeignRow, Topic: f.req.Topic, Partition: -1, FromOffset: -1, ToOffset: -1,
		Detail: fmt.Sprintf("window %s: %d rows belong to another topic and were left alone; the first is %s %s of topic %s",
			start, len(foreign), k.dimension, k.id, k.topic),
	}
	if err := addIncident(ctx, f.tx.Tx, in, f.now); err != nil {
		return err
	}
	f.recorded = append(f.recorded, in)
	return trimIncidents(ctx, f.tx.Tx, 1)
}

// Commit implements [sink.Finaliser].
func (f *finaliser) Commit(ctx context.Context) error {
	if err := f.tx.Commit(); err != nil {
		return failure("finalise "+f.req.Topic, err)
	}
	f.sink.warn(ctx, f.recorded)
	return nil
}

// Rollback implements [sink.Finaliser].
func (f *finaliser) Rollback(context.Context) error {
	return failure("roll back finalising "+f.req.Topic, f.tx.Rollback())
}

// storedKey is the key of a stored row and the topic it belongs to.
type storedKey struct{ dimension, id, topic string }

// changes is what a result does to the keys of its window.
type changes struct {
	inserted int
	gone     []storedKey // of this topic, no longer in the result
	foreign  []storedKey // of another topic, but in the result
}

// compareKeys holds the stored keys of a window against a result; both are
// sorted by dimension and id.
func compareKeys(keys []storedKey, rows []window.Row, topic string) changes {
	var c changes
	for len(keys) > 0 || len(rows) > 0 {
		order := -1 // the key comes first: it is not in the result
		switch {
		case len(keys) == 0:
			order = 1
		case len(rows) > 0:
			order = cmp.Or(cmp.Compare(keys[0].dimension, rows[0].Dimension), cmp.Compare(keys[0].id, rows[0].ID))
		}
		switch {
		case order > 0:
			c.inserted++
		case order < 0 && keys[0].topic == topic:
			c.gone = append(c.gone, keys[0])
		case order == 0 && keys[0].topic != topic:
			c.foreign = append(c.foreign, keys[0])
		}
		if order <= 0 {
			keys = keys[1:]
		}
		if order >= 0 {
			rows = rows[1:]
		}
	}
	return c
}
