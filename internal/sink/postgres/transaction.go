package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// transaction is a writing transaction on a connection of its own. Belongs to
// one goroutine.
type transaction struct {
	pool *pgxpool.Pool
	conn *pgxpool.Conn
	tx   pgx.Tx
	// answer bounds each round trip: the server's own timeouts end what it can
	// still end, and this the wait for a server that is gone.
	answer time.Duration
	// done says that the connection has gone back.
	done bool
	// standby says that the server refused to write (R13): every connection to it
	// is to be made anew.
	standby bool
}

func (s *Sink) begin(ctx context.Context) (*transaction, error) {
	if s.closed.Load() {
		return nil, errClosed
	}
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	t := &transaction{pool: s.pool, conn: conn, answer: s.limits.answer()}
	within, cancel := context.WithTimeout(ctx, t.answer)
	defer cancel()
	t.tx, err = conn.BeginTx(within, pgx.TxOptions{BeginQuery: s.begins})
	if err = t.note(err); err != nil {
		t.release()
		return nil, err
	}
	return t, nil
}

// release gives the connection back. The pool keeps it only if its transaction
// has ended and it is still connected.
func (t *transaction) release() {
	if t.done {
		return
	}
	t.done = true
	t.conn.Release()
	if t.standby {
		t.pool.Reset()
	}
}

// note takes notice of what an error means for the connection, and returns it
// with its mark.
func (t *transaction) note(err error) error {
	t.standby = t.standby || sqlState(err) == codeReadOnly
	return marked(t.conn.Conn(), err)
}

func (t *transaction) commit(ctx context.Context) error {
	if t.done {
		return pgx.ErrTxClosed
	}
	within, cancel := context.WithTimeout(ctx, t.answer)
	defer cancel()
	err := t.note(t.tx.Commit(within))
	t.release()
	return err
}

// rollback ends the transaction, also when the context has ended, and gives the
// connection back. What it says is of no use: if the server does not take it,
// the connection is closed, and the server rolls back by itself.
func (t *transaction) rollback(ctx context.Context) error {
	if t.done {
		return nil
	}
	if !t.conn.Conn().IsClosed() {
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.answer) // a cancelled caller wants this too
		defer cancel()
		_ = t.note(t.tx.Rollback(within)) // the pool sees that it has not ended
	}
	t.release()
	return nil
}

// exec runs a statement and returns how many rows it touched.
func (t *transaction) exec(ctx context.Context, query string, args ...any) (int64, error) {
	within, cancel := context.WithTimeout(ctx, t.answer)
	defer cancel()
	tag, err := t.tx.Exec(within, query, args...)
	return tag.RowsAffected(), t.note(err)
}

// one scans the only row of a statement, or returns [pgx.ErrNoRows].
func (t *transaction) one(ctx context.Context, query string, args, dest []any) error {
	within, cancel := context.WithTimeout(ctx, t.answer)
	defer cancel()
	return t.note(t.tx.QueryRow(within, query, args...).Scan(dest...))
}

// collect collects the rows of a statement.
func collect[T any](ctx context.Context, t *transaction, scan pgx.RowToFunc[T], query string, args ...any) ([]T, error) {
	within, cancel := context.WithTimeout(ctx, t.answer)
	defer cancel()
	r, err := t.tx.Query(within, query, args...)
	if err != nil {
		return nil, t.note(err)
	}
	values, err := pgx.AppendRows([]T(nil), r, scan)
	return values, t.note(err)
}

// each runs one statement for each of n rows in their order, in one round trip.
// touched is told how many rows each one touched. An error names its row. It is
// for a few small rows: the server's timeouts do not look between the
// statements of one round trip.
func (t *transaction) each(
	ctx context.Context, query string, n int, args func(i int) []any, name func(i int) string, touched func(i int, rows int64),
) (err error) {
	if n == 0 {
		return nil
	}
	within, cancel := context.WithTimeout(ctx, t.answer)
	defer cancel()
	var batch pgx.Batch
	for i := range n {
		batch.Queue(query, args(i)...)
	}
	results := t.tx.SendBatch(within, &batch)
	for i := range n {
		var tag pgconn.CommandTag
		if tag, err = results.Exec(); err != nil {
			err = fmt.Errorf("%s: %w", name(i), err)
			break
		}
		touched(i, tag.RowsAffected())
	}
	if end := results.Close(); err == nil {
		err = end
	}
	return t.note(err)
}
