package sqlitefile

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// WriteTx is a write transaction that spans calls. It holds the write queue, so
// it must be ended soon. Not safe for concurrent use.
type WriteTx struct {
	// Tx is the transaction. After any error from it the only thing left to do
	// is Rollback: SQLite has then possibly rolled back by itself, and a
	// statement after that would stand alone.
	Tx *sql.Tx

	file *File
	done bool
}

// Begin waits for its turn in the write queue and begins a transaction. The
// context bounds the wait only; statements have their own.
func (f *File) Begin(ctx context.Context) (*WriteTx, error) {
	if f.ReadOnly() {
		return nil, fmt.Errorf("begin write: %w", ErrReadOnly)
	}
	if err := f.queue.lock(ctx); err != nil {
		return nil, fmt.Errorf("begin write: %w", err)
	}
	var tx *sql.Tx
	err := f.retryBusy(ctx, func() (err error) {
		// Without the cancellation: database/sql would roll the transaction back
		// behind the owner's back, beside a statement or a commit.
		tx, err = f.writer.BeginTx(context.WithoutCancel(ctx), nil)
		return err
	})
	if err != nil {
		f.queue.unlock()
		return nil, fmt.Errorf("begin write: %w", err)
	}
	return &WriteTx{Tx: tx, file: f}, nil
}

// Commit makes the transaction durable. After an error nothing of it is there,
// unless the error is one of input or output ([Transient] says yes): then the
// outcome is unknown until the file has been read again.
func (w *WriteTx) Commit() error {
	if w.done {
		return fmt.Errorf("commit: %w", sql.ErrTxDone)
	}
	w.done = true
	defer w.file.queue.unlock()
	if err := w.file.commit(w.Tx.Commit); err != nil {
		// A commit that was never tried must not keep the connection; after one
		// that was tried this does nothing.
		if rerr := w.Tx.Rollback(); rerr != nil && !rolledBack(rerr) {
			err = errors.Join(err, rerr)
		}
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// Rollback ends the transaction without effect. After Commit or another
// Rollback it does nothing.
func (w *WriteTx) Rollback() error {
	if w.done {
		return nil
	}
	w.done = true
	defer w.file.queue.unlock()
	if err := w.Tx.Rollback(); err != nil && !rolledBack(err) {
		return fmt.Errorf("roll back: %w", err)
	}
	return nil
}

// Write runs fn in a write transaction: waits for its turn in the queue,
// commits if fn returns nil, rolls back if it returns an error or panics. The
// error of fn is returned as it is. A context that ends while fn runs does not
// end the transaction; pass it to the statements for that.
func (f *File) Write(ctx context.Context, fn func(*sql.Tx) error) (err error) {
	w, err := f.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if rerr := w.Rollback(); rerr != nil {
			err = errors.Join(err, rerr)
		}
	}()
	if err := fn(w.Tx); err != nil {
		return err
	}
	return w.Commit()
}

// BeginRead begins a read transaction, which sees the file as of now until end
// is called; end must be called, once is enough. The context bounds the wait
// for a connection only. Do not begin a second one while holding one: the
// number of read connections is bounded.
func (f *File) BeginRead(ctx context.Context) (tx *sql.Tx, end func() error, err error) {
	conn, err := f.readers.Conn(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("begin read: %w", f.closedError(err))
	}
	err = f.retryBusy(ctx, func() error {
		// Without the cancellation, as in Begin.
		tx, err = conn.BeginTx(context.WithoutCancel(ctx), &sql.TxOptions{ReadOnly: true})
		if err != nil {
			return err
		}
		// SQLite fixes the moment at the first read, not at BEGIN.
		var n int64
		if err = tx.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&n); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		return nil
	})
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("begin read: %w", f.closedError(err)), conn.Close())
	}
	ended := false
	return tx, func() error {
		if ended {
			return nil
		}
		ended = true
		err := tx.Rollback()
		if err != nil && rolledBack(err) {
			err = nil
		}
		if err = errors.Join(err, conn.Close()); err != nil {
			return fmt.Errorf("end read: %w", err)
		}
		return nil
	}, nil
}

// closedError replaces what database/sql says of a closed pool by ErrClosed.
func (f *File) closedError(err error) error {
	f.queue.mu.Lock()
	defer f.queue.mu.Unlock()
	if f.queue.closed {
		return ErrClosed
	}
	return err
}
