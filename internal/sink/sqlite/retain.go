package sqlite

import (
	"context"
	"database/sql"

	"github.com/peil-stream/peil/internal/sqlitefile"
)

// retainRows bounds the segments that one transaction empties, so that flushes
// get their turn in between.
const retainRows = 500

// emptySegments empties what was merged long enough ago, in windows of which
// every segment of the same topic id is merged. The rows stay: they hold the
// identity against which a later segment is judged.
const emptySegments = `
UPDATE window_segments SET data = NULL WHERE rowid IN (
	SELECT s.rowid FROM window_segments AS s
	WHERE s.merged_at IS NOT NULL AND s.data IS NOT NULL AND s.merged_at < ?1
		AND NOT EXISTS (SELECT 1 FROM window_segments AS o
			WHERE o.window_start = s.window_start AND o.topic = s.topic AND o.topic_id = s.topic_id
				AND o.merged_at IS NULL)
	LIMIT ?2)`

// Retain implements [sink.Sink]. It works in transactions of bounded size; after
// an error those before it stand, and their number is returned with it.
func (s *Sink) Retain(ctx context.Context, mergedBefore int64) (int, error) {
	total := 0
	for {
		var n int64
		err := s.write(ctx, "empty segments", func(tx *sql.Tx) (keep bool, err error) {
			n, err = affected(tx.ExecContext(ctx, emptySegments, sqlitefile.FormatTime(mergedBefore), retainRows))
			return n > 0, err
		})
		if err != nil {
			return total, err
		}
		total += int(n)
		if n < retainRows {
			return total, nil
		}
	}
}
