package sqlite

import (
	"database/sql"

	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/sqlitefile"
)

// instant is an instant as an argument: text, or NULL for [sink.NoTime].
func instant(ms int64) any {
	if ms == sink.NoTime {
		return nil
	}
	return sqlitefile.FormatTime(ms)
}

// text is a string as an argument, where the empty string is NULL.
func text(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// known is a number as an argument, where a negative one is NULL.
func known(n int64) any {
	if n < 0 {
		return nil
	}
	return n
}

// orMinus1 is the reverse of known.
func orMinus1(n sql.NullInt64) int64 {
	if !n.Valid {
		return -1
	}
	return n.Int64
}

// timeColumn scans an instant into Unix milliseconds; NULL is [sink.NoTime].
type timeColumn struct{ ms *int64 }

// Scan implements [sql.Scanner].
func (c timeColumn) Scan(src any) error {
	if src == nil {
		*c.ms = sink.NoTime
		return nil
	}
	var s sql.Null[string]
	if err := s.Scan(src); err != nil {
		return err
	}
	ms, err := sqlitefile.ParseTime(s.V)
	*c.ms = ms
	return err
}

// textColumn scans text; NULL is the empty string.
type textColumn struct{ s *string }

// Scan implements [sql.Scanner].
func (c textColumn) Scan(src any) error {
	var s sql.Null[string]
	if err := s.Scan(src); err != nil {
		return err
	}
	*c.s = s.V
	return nil
}
