package postgres

import "context"

// retainRows bounds the segments that one transaction empties, so that flushes
// get their turn in between.
const retainRows = 500

const (
	// lockForRetention waits until the flushes under way have ended; those that
	// come later wait for it. See lockRetention.
	lockForRetention = `SELECT pg_advisory_xact_lock(hashtextextended('peil retention ' || current_schema(), 0))`

	// emptySegments empties what was merged long enough ago, in windows of which
	// every segment of the same topic id is merged. The rows stay: they hold the
	// identity against which a later segment is judged. The order is that of the
	// index on what is left to empty.
	emptySegments = `
UPDATE window_segments AS w SET data = NULL
FROM (SELECT s.window_start, s.topic, s.partition FROM window_segments AS s
	WHERE s.merged_at IS NOT NULL AND s.data IS NOT NULL AND s.merged_at < $1
		AND NOT EXISTS (SELECT FROM window_segments AS o
			WHERE o.window_start = s.window_start AND o.topic = s.topic AND o.topic_id = s.topic_id
				AND o.merged_at IS NULL)
	ORDER BY s.merged_at LIMIT $2 FOR UPDATE) AS old
WHERE w.window_start = old.window_start AND w.topic = old.topic AND w.partition = old.partition`
)

// Retain implements [sink.Sink]. It works in transactions of bounded size; after
// an error those before it stand, and their number is returned with it.
func (s *Sink) Retain(ctx context.Context, mergedBefore int64) (int, error) {
	total := 0
	for {
		var n int64
		err := s.write(ctx, "empty segments", func(tx *transaction) (keep bool, err error) {
			if _, err := tx.exec(ctx, lockForRetention); err != nil {
				return false, err
			}
			n, err = tx.exec(ctx, emptySegments, instant(mergedBefore), retainRows)
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
