package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/stream"
)

const (
	// lockRetention keeps retention out until the flush has ended, and shares the
	// lock with other flushes. Without it retention could empty a window while a
	// segment for it is on its way, and neither would see the other.
	lockRetention = `SELECT pg_advisory_xact_lock_shared(hashtextextended('peil retention ' || current_schema(), 0))`

	// upsertSegments replaces, never adds (R2): a stored segment of another topic
	// id counts as absent; one of the same topic id gives way if the new one
	// reaches as far on both sides and is not the same. What is replaced is
	// unmerged again. It returns the keys of what was inserted or replaced; the
	// other rows are locked all the same.
	upsertSegments = `
INSERT INTO window_segments (window_start, topic, partition, window_end, topic_id,
	first_offset, through_offset, records, origin, merged_at, data)
SELECT s, t, p, e, i, f, h, r, o, NULL, d
FROM unnest($1::timestamptz[], $2::text[], $3::integer[], $4::timestamptz[], $5::text[],
	$6::bigint[], $7::bigint[], $8::bigint[], $9::text[], $10::bytea[]) AS u (s, t, p, e, i, f, h, r, o, d)
ON CONFLICT (window_start, topic, partition) DO UPDATE SET
	window_end = EXCLUDED.window_end, topic_id = EXCLUDED.topic_id,
	first_offset = EXCLUDED.first_offset, through_offset = EXCLUDED.through_offset,
	records = EXCLUDED.records, origin = EXCLUDED.origin, merged_at = NULL, data = EXCLUDED.data
WHERE window_segments.topic_id <> EXCLUDED.topic_id
	OR (EXCLUDED.first_offset <= window_segments.first_offset
		AND EXCLUDED.through_offset >= window_segments.through_offset
		AND (EXCLUDED.first_offset, EXCLUDED.through_offset, EXCLUDED.origin)
			IS DISTINCT FROM (window_segments.first_offset, window_segments.through_offset, window_segments.origin))
RETURNING window_start, topic, partition`

	selectIdentities = `
SELECT g.window_start, g.topic, g.partition, g.first_offset, g.through_offset, g.origin
FROM unnest($1::timestamptz[], $2::text[], $3::integer[]) AS u (s, t, p)
JOIN window_segments AS g ON g.window_start = u.s AND g.topic = u.t AND g.partition = u.p`

	// selectSealed finds those of the windows of which retention has emptied a
	// segment.
	selectSealed = `
SELECT DISTINCT g.window_start, g.topic, g.topic_id
FROM unnest($1::timestamptz[], $2::text[], $3::text[]) AS u (s, t, i)
JOIN window_segments AS g ON g.window_start = u.s AND g.topic = u.t AND g.topic_id = u.i
WHERE g.data IS NULL`
)

// offered is a segment with the partition that it comes from.
type offered struct {
	from *sink.PartitionFlush
	*sink.Segment
}

func (o *offered) key() segmentKey { return segmentKey{o.Start, o.from.Partition} }

func (o *offered) window() windowKey {
	return windowKey{o.Start, o.from.Partition.Topic, o.from.TopicID}
}

type segmentKey struct {
	start     int64
	partition stream.Partition
}

func scanSegmentKey(row pgx.CollectableRow) (k segmentKey, err error) {
	err = row.Scan(timeColumn{&k.start}, &k.partition.Topic, &k.partition.Index)
	return k, err
}

type windowKey struct {
	start   int64
	topic   string
	topicID string
}

// writeSegments stores the segments of all partitions, by window, topic and
// partition.
func (f *flush) writeSegments(ctx context.Context) error {
	var all []offered
	for i := range f.parts {
		for j := range f.parts[i].Segments {
			all = append(all, offered{&f.parts[i], &f.parts[i].Segments[j]})
		}
	}
	if len(all) == 0 {
		return nil
	}
	if _, err := f.tx.exec(ctx, lockRetention); err != nil {
		return err
	}
	// Stable: the partitions are in order already.
	slices.SortStableFunc(all, func(a, b offered) int { return cmp.Compare(a.Start, b.Start) })
	changed := make(map[segmentKey]bool, len(all))
	err := table[offered]{
		name: "window_segments",
		key: func(o *offered) string {
			return fmt.Sprintf("of partition %s: window %s", o.from.Partition, sink.TimeText(o.Start))
		},
		bytes: func(o *offered) int { return len(o.Data) },
		write: func(ctx context.Context, t *transaction, rows []offered) error {
			keys, err := collect(ctx, t, scanSegmentKey, upsertSegments, segmentArgs(rows)...)
			for _, k := range keys {
				changed[k] = true
			}
			return err
		},
	}.put(ctx, f.tx, all, f.careful)
	if err != nil {
		return err
	}
	var stays, replaced []offered
	for _, o := range all {
		if changed[o.key()] {
			replaced = append(replaced, o)
		} else {
			stays = append(stays, o)
		}
	}
	if err := f.noteRefused(ctx, stays); err != nil {
		return err
	}
	// Only now: a flush that rewrites every emptied segment of a window has
	// opened it again.
	return f.noteSealed(ctx, replaced)
}

func segmentArgs(rows []offered) []any {
	return append(segmentKeyArgs(rows),
		column(rows, func(o *offered) pgtype.Timestamptz { return instant(o.End) }),
		column(rows, func(o *offered) string { return o.from.TopicID }),
		column(rows, func(o *offered) int64 { return o.FirstOffset }),
		column(rows, func(o *offered) int64 { return o.ThroughOffset }),
		column(rows, func(o *offered) int64 { return o.Records }),
		column(rows, func(o *offered) string { return o.Origin }),
		column(rows, func(o *offered) []byte { return o.Data }),
	)
}

func segmentKeyArgs(rows []offered) []any {
	return []any{
		column(rows, func(o *offered) pgtype.Timestamptz { return instant(o.Start) }),
		column(rows, func(o *offered) string { return o.from.Partition.Topic }),
		column(rows, func(o *offered) int32 { return o.from.Partition.Index }),
	}
}

// noteRefused holds what was not stored against what stands: that is the same or
// covers more.
func (f *flush) noteRefused(ctx context.Context, stays []offered) error {
	if len(stays) == 0 {
		return nil
	}
	type identity struct {
		segmentKey
		first, through int64
		origin         string
	}
	stored, err := collect(ctx, f.tx, func(row pgx.CollectableRow) (i identity, err error) {
		err = row.Scan(timeColumn{&i.start}, &i.partition.Topic, &i.partition.Index, &i.first, &i.through, &i.origin)
		return i, err
	}, selectIdentities, segmentKeyArgs(stays)...)
	if err != nil {
		return fmt.Errorf("read stored segments: %w", err)
	}
	of := make(map[segmentKey]identity, len(stored))
	for _, i := range stored {
		of[i.segmentKey] = i
	}
	for _, o := range stays {
		i := of[o.key()]
		if i.first == o.FirstOffset && i.through == o.ThroughOffset && i.origin == o.Origin {
			continue
		}
		f.result.Refused = append(f.result.Refused, sink.Refused{
			Partition: o.from.Partition, Start: o.Start,
			FirstOffset: i.first, ThroughOffset: i.through,
			OfferedFirst: o.FirstOffset, OfferedThrough: o.ThroughOffset,
		})
	}
	return nil
}

// noteSealed records an incident for each stored segment whose window is sealed.
func (f *flush) noteSealed(ctx context.Context, replaced []offered) error {
	if len(replaced) == 0 {
		return nil
	}
	windows, err := collect(ctx, f.tx, func(row pgx.CollectableRow) (w windowKey, err error) {
		err = row.Scan(timeColumn{&w.start}, &w.topic, &w.topicID)
		return w, err
	}, selectSealed,
		column(replaced, func(o *offered) pgtype.Timestamptz { return instant(o.Start) }),
		column(replaced, func(o *offered) string { return o.from.Partition.Topic }),
		column(replaced, func(o *offered) string { return o.from.TopicID }))
	if err != nil {
		return fmt.Errorf("look for sealed windows: %w", err)
	}
	if len(windows) == 0 {
		return nil
	}
	var ins []sink.Incident
	for _, o := range replaced {
		if !slices.Contains(windows, o.window()) {
			continue
		}
		f.result.Sealed++
		p := o.from.Partition
		ins = append(ins, sink.Incident{
			Kind: sink.IncidentSealed, Topic: p.Topic, Partition: p.Index,
			FromOffset: o.FirstOffset, ToOffset: o.ThroughOffset,
			Detail: fmt.Sprintf("window %s: a segment of %d records came after retention had emptied the window; "+
				"it is stored but not merged; a backfill of the window merges it", sink.TimeText(o.Start), o.Records),
		})
	}
	if err := addIncidents(ctx, f.tx, ins, f.now, f.careful); err != nil {
		return err
	}
	f.recorded = append(f.recorded, ins...)
	return nil
}
