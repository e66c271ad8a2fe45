package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"

	"github.com/peil-stream/peil/internal/stream"
)

// Trim removes the records below an offset: it moves the start of the partition
// there, never back, and then deletes what lies below it, a bounded number of
// rows in each transaction. An offset above the end is an error that wraps
// [stream.ErrOutOfRange].
func (l *Log) Trim(ctx context.Context, p stream.Partition, before int64) error {
	if err := l.open(); err != nil {
		return err
	}
	if err := l.trim(ctx, p, before); err != nil {
		return fmt.Errorf("trim %s below %d: %w", p, before, err)
	}
	return nil
}

func (l *Log) trim(ctx context.Context, p stream.Partition, before int64) error {
	var at place
	err := l.file.Write(ctx, func(tx *sql.Tx) (err error) {
		if at, err = find(ctx, tx, p); err != nil {
			return err
		}
		if before > at.End {
			return outOfRange(before, at.Bounds)
		}
		_, err = tx.ExecContext(ctx,
			`UPDATE log_partitions SET log_start = max(log_start, ?) WHERE number = ?`, before, at.number)
		return err
	})
	for deleted := int64(math.MaxInt64); err == nil && deleted >= trimRows; {
		err = l.file.Write(ctx, func(tx *sql.Tx) error {
			res, err := tx.ExecContext(ctx, `DELETE FROM log_chunks WHERE rowid IN (
				SELECT c.rowid FROM log_partitions p JOIN log_chunks c ON c.number = p.number
				WHERE p.number = ? AND c.last_offset < p.log_start ORDER BY c.last_offset LIMIT ?)`, at.number, trimRows)
			if err != nil {
				return err
			}
			deleted, err = res.RowsAffected()
			return err
		})
	}
	return err
}

// trimRows bounds the rows that one transaction of a trim deletes.
const trimRows = 256

// TrimOlder removes the leading run of records that are older than an instant
// in Unix milliseconds and lie below limitOffset. A younger record among older
// ones ends the run. A record without a timestamp counts as older.
func (l *Log) TrimOlder(ctx context.Context, p stream.Partition, beforeTimestamp, limitOffset int64) error {
	if err := l.open(); err != nil {
		return err
	}
	before, err := l.runEnd(ctx, p, beforeTimestamp, limitOffset)
	if err == nil {
		err = l.trim(ctx, p, before)
	}
	if err != nil {
		return fmt.Errorf("trim %s: %w", p, err)
	}
	return nil
}

// runEnd is the offset after the leading run of old records below the limit.
func (l *Log) runEnd(ctx context.Context, p stream.Partition, beforeTimestamp, limit int64) (run int64, err error) {
	err = l.view(ctx, func(tx *sql.Tx) (err error) {
		at, err := find(ctx, tx, p)
		if err != nil {
			return err
		}
		run = max(at.Start, min(limit, at.End))
		rows, err := tx.QueryContext(ctx, `SELECT first_offset, last_offset, data FROM log_chunks
			WHERE number = ? AND last_offset >= ? AND max_timestamp >= ? ORDER BY last_offset`,
			at.number, at.Start, beforeTimestamp)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, rows.Close()) }()
		for rows.Next() {
			var first, last int64
			var data sql.RawBytes
			if err := rows.Scan(&first, &last, &data); err != nil {
				return err
			}
			// The young record of the first chunk may be trimmed already; then
			// the next one decides.
			young, found, err := firstYoung(first, last, data, at.Start, beforeTimestamp)
			if err != nil {
				return err
			}
			if found {
				run = min(run, young)
				return nil
			}
		}
		return rows.Err()
	})
	return run, err
}

// firstYoung finds the first record at or after start that is not older than
// the instant.
func firstYoung(first, last int64, data []byte, start, beforeTimestamp int64) (offset int64, found bool, err error) {
	r, err := newChunkReader(first, last, data)
	if err != nil {
		return 0, false, err
	}
	var rec stream.Record
	var headers []stream.Header
	for {
		var more bool
		headers, more, err = r.read(&rec, headers[:0])
		if err != nil || !more {
			return 0, false, err
		}
		if rec.Offset >= start && rec.Timestamp >= beforeTimestamp {
			return rec.Offset, true, nil
		}
	}
}
