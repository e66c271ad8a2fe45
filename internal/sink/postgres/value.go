package postgres

import (
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/peil-stream/peil/internal/sink"
)

// The instants that both dialects hold, in Unix milliseconds: the years 0 to
// 9999. One outside is stored as the nearest one inside.
const instantMin int64 = -62167219200000

// instant is an instant as an argument, to the millisecond: NULL for
// [sink.NoTime]. [sink.Infinity] is an instant like the others.
func instant(ms int64) pgtype.Timestamptz {
	if ms == sink.NoTime {
		return pgtype.Timestamptz{}
	}
	return pgtype.Timestamptz{Time: time.UnixMilli(min(max(ms, instantMin), sink.Infinity)).UTC(), Valid: true}
}

// timeColumn scans an instant into Unix milliseconds; NULL is [sink.NoTime].
type timeColumn struct{ ms *int64 }

// ScanTimestamptz implements [pgtype.TimestamptzScanner].
func (c timeColumn) ScanTimestamptz(t pgtype.Timestamptz) error {
	switch {
	case !t.Valid:
		*c.ms = sink.NoTime
	case t.InfinityModifier != pgtype.Finite:
		return fmt.Errorf("instant is %s; want one up to 9999-12-31", t.InfinityModifier)
	default:
		*c.ms = t.Time.UnixMilli()
	}
	return nil
}

// textColumn scans text; NULL is the empty string.
type textColumn struct{ s *string }

// ScanText implements [pgtype.TextScanner].
func (c textColumn) ScanText(t pgtype.Text) error {
	*c.s = t.String
	return nil
}

// numberColumn scans a number; NULL is -1.
type numberColumn struct{ n *int64 }

// ScanInt64 implements [pgtype.Int64Scanner].
func (c numberColumn) ScanInt64(n pgtype.Int8) error {
	*c.n = -1
	if n.Valid {
		*c.n = n.Int64
	}
	return nil
}

// known is a number as an argument, where a negative one is NULL.
func known(n int64) pgtype.Int8 { return pgtype.Int8{Int64: n, Valid: n >= 0} }

// count is an optional whole number as an argument: nil is NULL.
func count(n *int64) pgtype.Int8 {
	if n == nil {
		return pgtype.Int8{}
	}
	return pgtype.Int8{Int64: *n, Valid: true}
}

// number is an optional number as an argument: nil is NULL.
func number(n *float64) pgtype.Float8 {
	if n == nil {
		return pgtype.Float8{}
	}
	return pgtype.Float8{Float64: *n, Valid: true}
}

// column is a column of so many rows as an argument: an array for unnest.
func column[T, V any](rows []T, of func(*T) V) pgtype.FlatArray[V] {
	values := make(pgtype.FlatArray[V], len(rows))
	for i := range rows {
		values[i] = of(&rows[i])
	}
	return values
}
