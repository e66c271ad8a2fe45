package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/peil-stream/peil/internal/sink"
)

// fence moves a partition's row from the point that was last written to the one
// being written. A row that is already there is hit too, which makes the redo
// after an unknown outcome safe (R4); then every value is equal and updated_at
// stays. The watermark never goes back, and neither does the position: what may
// be stored is only From or To, and sink.SortFlush refused a To behind From.
const fence = `
UPDATE consumer_offsets SET
	next_offset = ?5, position = ?6, leader_epoch = ?7,
	watermark = coalesce(max(watermark, ?8), watermark, ?8), final_to = ?9,
	accepted = ?10, late = ?11, dead = ?12, ignored = ?13,
	updated_at = CASE WHEN
		(next_offset, position, leader_epoch, watermark, final_to, accepted, late, dead, ignored)
		IS (?5, ?6, ?7, coalesce(max(watermark, ?8), watermark, ?8), ?9, ?10, ?11, ?12, ?13)
		THEN updated_at ELSE ?14 END
WHERE topic = ?1 AND partition = ?2 AND epoch = ?3 AND topic_id = ?4
	AND ((next_offset, position) IS (?15, ?16) OR (next_offset, position) IS (?5, ?6))`

// flush is one flush transaction.
type flush struct {
	tx       *sql.Tx
	now      string
	parts    []sink.PartitionFlush // by topic and partition
	result   sink.FlushResult
	recorded []sink.Incident
}

// Flush implements [sink.Sink]. A To.Position below From.Position, a partition
// given twice, and what else no correct caller does is an error before anything
// is written. To.Next may lie below From.Next: reading can begin lower than the
// row says, and a lower start only reads more.
//
// Incidents of a flush are compared with those kept, so that a redo writes none
// a second time.
func (s *Sink) Flush(ctx context.Context, parts []sink.PartitionFlush) (sink.FlushResult, error) {
	if len(parts) == 0 {
		return sink.FlushResult{}, nil
	}
	sorted, err := sink.SortFlush(parts)
	if err != nil {
		return sink.FlushResult{}, fmt.Errorf("flush: %w", err)
	}
	f := flush{now: s.stamp(), parts: sorted}
	err = s.write(ctx, "flush", func(tx *sql.Tx) (bool, error) {
		f.tx = tx
		if err := prepared(ctx, tx, fence, f.fence(ctx)); err != nil || len(f.result.Fenced) > 0 {
			return false, err
		}
		return true, f.apply(ctx)
	})
	if err != nil {
		return sink.FlushResult{}, err
	}
	s.warn(ctx, f.recorded)
	return f.result, nil
}

// fence updates the rows of all partitions and notes those that it did not hit.
func (f *flush) fence(ctx context.Context) func(*sql.Stmt) error {
	return func(update *sql.Stmt) error {
		for i := range f.parts {
			p := &f.parts[i]
			var fromNext, fromPosition any
			if p.From != nil {
				fromNext, fromPosition = p.From.Next, p.From.Position
			}
			n, err := affected(update.ExecContext(ctx, p.Partition.Topic, p.Partition.Index, p.Epoch, p.TopicID,
				p.To.Next, p.To.Position, known(int64(p.LeaderEpoch)), instant(p.Watermark), instant(p.FinalTo),
				p.Counts.Accepted, p.Counts.Late, p.Counts.Dead, p.Counts.Ignored, f.now, fromNext, fromPosition))
			if err != nil {
				return fmt.Errorf("partition %s: %w", p.Partition, err)
			}
			if n == 0 {
				f.result.Fenced = append(f.result.Fenced, p.Partition)
			}
		}
		return nil
	}
}

func (f *flush) apply(ctx context.Context) error {
	if err := f.writeSegments(ctx); err != nil {
		return err
	}
	if err := f.writeVehicles(ctx); err != nil {
		return err
	}
	if err := f.writeTrips(ctx); err != nil {
		return err
	}
	if err := f.writeIncidents(ctx); err != nil {
		return err
	}
	return trimIncidents(ctx, f.tx, len(f.recorded))
}

// prepared runs fn with a prepared statement.
func prepared(ctx context.Context, tx *sql.Tx, query string, fn func(*sql.Stmt) error) (err error) {
	stmt, err := tx.PrepareContext(ctx, query)
	if err != nil {
		return fmt.Errorf("prepare statement: %w", err)
	}
	defer func() { err = errors.Join(err, stmt.Close()) }()
	return fn(stmt)
}

// looks is how many rows are written between two looks at the context.
const looks = 128

// each is a statement to run once for each of n rows. One statement per row costs
// little more than one for many here, and an error names its row.
type each struct {
	query string
	n     int
	// row returns the arguments, which are valid until its next call.
	row func(i int) []any
	// name tells the row in an error.
	name func(i int) string
	// changed is told of rows that were inserted or updated. Nil: nobody asks.
	changed func(i int)
}

func (e each) run(ctx context.Context, tx *sql.Tx) error {
	if e.n == 0 {
		return nil
	}
	// The driver watches a context that can end by a goroutine for each
	// statement, which costs as much as the statement; so look at it here.
	quiet := context.WithoutCancel(ctx)
	return prepared(ctx, tx, e.query, func(stmt *sql.Stmt) error {
		for i := range e.n {
			if i%looks == 0 && ctx.Err() != nil {
				return context.Cause(ctx)
			}
			n, err := affected(stmt.ExecContext(quiet, e.row(i)...))
			if err != nil {
				return fmt.Errorf("%s: %w", e.name(i), err)
			}
			if n > 0 && e.changed != nil {
				e.changed(i)
			}
		}
		return nil
	})
}

// affected is the number of rows that a statement changed.
func affected(r sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}
