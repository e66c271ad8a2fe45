package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/sqlitefile"
)

const (
	// upsertSegment replaces, never adds (R2): a stored segment of another topic
	// id counts as absent; one of the same topic id gives way if the new one
	// reaches as far on both sides and is not the same. What is replaced is
	// unmerged again.
	upsertSegment = `
INSERT INTO window_segments (window_start, topic, partition, window_end, topic_id,
	first_offset, through_offset, records, origin, merged_at, data)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, NULL, ?10)
ON CONFLICT (window_start, topic, partition) DO UPDATE SET
	window_end = excluded.window_end, topic_id = excluded.topic_id,
	first_offset = excluded.first_offset, through_offset = excluded.through_offset,
	records = excluded.records, origin = excluded.origin, merged_at = NULL, data = excluded.data
WHERE window_segments.topic_id <> excluded.topic_id
	OR (excluded.first_offset <= window_segments.first_offset
		AND excluded.through_offset >= window_segments.through_offset
		AND (excluded.first_offset, excluded.through_offset, excluded.origin)
			IS NOT (window_segments.first_offset, window_segments.through_offset, window_segments.origin))`

	selectIdentity = `
SELECT first_offset, through_offset, origin FROM window_segments
WHERE window_start = ? AND topic = ? AND partition = ?`

	// selectSealed asks whether retention has emptied a segment of the window.
	selectSealed = `
SELECT EXISTS (SELECT 1 FROM window_segments
	WHERE window_start = ? AND topic = ? AND topic_id = ? AND data IS NULL)`
)

// offered is a segment with the partition that it comes from.
type offered struct {
	from *sink.PartitionFlush
	*sink.Segment
}

func (o offered) String() string {
	return fmt.Sprintf("partition %s: window %s", o.from.Partition, sqlitefile.FormatTime(o.Start))
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
	// Stable: the partitions are in order already.
	slices.SortStableFunc(all, func(a, b offered) int { return cmp.Compare(a.Start, b.Start) })
	replaced := all[:0]
	err := prepared(ctx, f.tx, upsertSegment, func(upsert *sql.Stmt) error {
		for _, o := range all {
			changed, err := f.writeSegment(ctx, upsert, o)
			if err != nil {
				return fmt.Errorf("%s: %w", o, err)
			}
			if changed {
				replaced = append(replaced, o)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	// Only now: a flush that rewrites every emptied segment of a window has
	// opened it again.
	for _, o := range replaced {
		if err := f.noteSealed(ctx, o); err != nil {
			return fmt.Errorf("%s: %w", o, err)
		}
	}
	return nil
}

// writeSegment stores one segment and says whether that changed anything.
func (f *flush) writeSegment(ctx context.Context, upsert *sql.Stmt, o offered) (changed bool, err error) {
	p := o.from.Partition
	start := sqlitefile.FormatTime(o.Start)
	n, err := affected(upsert.ExecContext(ctx, start, p.Topic, p.Index, sqlitefile.FormatTime(o.End), o.from.TopicID,
		o.FirstOffset, o.ThroughOffset, o.Records, o.Origin, o.Data))
	if err != nil || n > 0 {
		return n > 0, err
	}
	// What stands is the same one or covers more.
	var (
		first, through int64
		origin         string
	)
	if err := f.tx.QueryRowContext(ctx, selectIdentity, start, p.Topic, p.Index).Scan(&first, &through, &origin); err != nil {
		return false, err
	}
	if first != o.FirstOffset || through != o.ThroughOffset || origin != o.Origin {
		f.result.Refused = append(f.result.Refused, sink.Refused{
			Partition: p, Start: o.Start,
			FirstOffset: first, ThroughOffset: through,
			OfferedFirst: o.FirstOffset, OfferedThrough: o.ThroughOffset,
		})
	}
	return false, nil
}

// noteSealed records an incident if the window of a stored segment is sealed.
func (f *flush) noteSealed(ctx context.Context, o offered) error {
	p := o.from.Partition
	start := sqlitefile.FormatTime(o.Start)
	var sealed bool
	if err := f.tx.QueryRowContext(ctx, selectSealed, start, p.Topic, o.from.TopicID).Scan(&sealed); err != nil {
		return err
	}
	if !sealed {
		return nil
	}
	f.result.Sealed++
	in := sink.Incident{
		Kind: sink.IncidentSealed, Topic: p.Topic, Partition: p.Index,
		FromOffset: o.FirstOffset, ToOffset: o.ThroughOffset,
		Detail: fmt.Sprintf("window %s: a segment of %d records came after retention had emptied the window; "+
			"it is stored but not merged; a backfill of the window merges it", start, o.Records),
	}
	if err := addIncident(ctx, f.tx, in, f.now); err != nil {
		return err
	}
	f.recorded = append(f.recorded, in)
	return nil
}
