package postgres

import (
	"context"
	"errors"
)

// chunkRows bounds the rows of one statement, so that none comes near its
// timeout.
const chunkRows = 10_000

// table is how rows of one kind are written.
type table[T any] struct {
	name string
	// key names a row in an error.
	key func(*T) string
	// write writes rows in one statement.
	write func(ctx context.Context, t *transaction, rows []T) error
	// bytes is the size of a row, where it is large; chunks are cut at
	// chunkBytes then. Nil: rows are small.
	bytes func(*T) int
}

// chunkBytes bounds the data of one statement: it must arrive before the server
// takes the session for an idle one.
const chunkBytes = 2 << 20

// put writes rows chunk by chunk. With careful, a chunk that holds a row which
// the database refuses is halved until that row is found, and the error is a
// [*DataError]; the transaction stays usable but is to be rolled back.
func (tb table[T]) put(ctx context.Context, t *transaction, rows []T, careful bool) error {
	for len(rows) > 0 {
		n := tb.fits(rows)
		write := tb.write
		if careful {
			write = tb.bisect
		}
		if err := write(ctx, t, rows[:n]); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// fits is how many of the rows go into the next statement.
func (tb table[T]) fits(rows []T) int {
	n := min(len(rows), chunkRows)
	if tb.bytes == nil {
		return n
	}
	size := 0
	for i := range n {
		if size += tb.bytes(&rows[i]); size > chunkBytes && i > 0 {
			return i
		}
	}
	return n
}

const (
	setSavepoint    = `SAVEPOINT chunk`
	freeSavepoint   = `RELEASE SAVEPOINT chunk`
	returnSavepoint = `ROLLBACK TO SAVEPOINT chunk`
)

// bisect writes rows; if the database refuses the data of one of them it finds
// the first such row. The halves before it are written by then.
func (tb table[T]) bisect(ctx context.Context, t *transaction, rows []T) error {
	if _, err := t.exec(ctx, setSavepoint); err != nil {
		return err
	}
	err := tb.write(ctx, t, rows)
	if err == nil {
		_, err = t.exec(ctx, freeSavepoint)
		return err
	}
	if !badData(err) {
		return err
	}
	if len(rows) == 1 {
		return &DataError{Table: tb.name, Key: tb.key(&rows[0]), Err: err}
	}
	if _, back := t.exec(ctx, returnSavepoint); back != nil {
		return errors.Join(err, back)
	}
	half := len(rows) / 2
	if err := tb.bisect(ctx, t, rows[:half]); err != nil {
		return err
	}
	return tb.bisect(ctx, t, rows[half:])
}
