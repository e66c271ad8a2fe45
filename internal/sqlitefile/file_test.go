package sqlitefile

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(playRole(role))
	}
	goleak.VerifyTestMain(m)
}

func openTemp(t *testing.T) *File {
	t.Helper()
	return openAt(t, filepath.Join(t.TempDir(), "peil.db"))
}

func openAt(t *testing.T, path string) *File {
	t.Helper()
	f, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func mustExec(t *testing.T, f *File, statement string, args ...any) {
	t.Helper()
	err := f.Write(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(t.Context(), statement, args...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func count(t *testing.T, f *File, query string) int {
	t.Helper()
	tx, end, err := f.BeginRead(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := errors.Join(tx.QueryRowContext(t.Context(), query).Scan(&n), end(), end()); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestOpenMakesFolderAndSettings(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a b", "c#d", "100%?x=1&mode=ro.db")
	f := openAt(t, path)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("the file is not where it was asked for: %v", err)
	}
	if f.Path() != path || f.ReadOnly() {
		t.Fatalf("Path() = %q, ReadOnly() = %v", f.Path(), f.ReadOnly())
	}
	err := f.Write(t.Context(), func(tx *sql.Tx) error {
		for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "busy_timeout": "0"} {
			var got string
			if err := tx.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got); err != nil {
				return err
			}
			if got != want {
				t.Errorf("%s = %s, want %s", pragma, got, want)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestOpenReadOnlyOfMissingFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "none.db")
	if _, err := OpenReadOnly(t.Context(), path, Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("error is %v, want fs.ErrNotExist", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("the reader made the file: %v", err)
	}
}

func TestOpenOfForeignFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	if err := os.WriteFile(path, []byte(strings.Repeat("no database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the lock is given back after a failure
		_, err := Open(t.Context(), path, Options{})
		if err == nil || errors.Is(err, ErrLocked) || Transient(err) || !strings.Contains(err.Error(), "not a database") {
			t.Fatalf("error is %v", err)
		}
	}
}

func TestSecondWriterInOneProcess(t *testing.T) {
	t.Parallel()
	f := openTemp(t)
	_, err := Open(t.Context(), f.Path(), Options{})
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), f.Path()+".lock") ||
		!strings.Contains(err.Error(), fmt.Sprintf("process %d", os.Getpid())) {
		t.Fatalf("error is %v", err)
	}
	if err := errors.Join(f.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	openAt(t, f.Path())
}

func TestWriteRollsBack(t *testing.T) {
	t.Parallel()
	f := openTemp(t)
	mustExec(t, f, "CREATE TABLE t (a)")
	mine := errors.New("mine")
	err := f.Write(t.Context(), func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(t.Context(), "INSERT INTO t VALUES (1)"); err != nil {
			return err
		}
		return mine
	})
	if !errors.Is(err, mine) {
		t.Fatalf("error is %v", err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_ = f.Write(t.Context(), func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(t.Context(), "INSERT INTO t VALUES (2)"); err != nil {
				return err
			}
			panic("mine")
		})
	}()
	if n := count(t, f, "SELECT count(*) FROM t"); n != 0 {
		t.Fatalf("%d rows stayed", n)
	}
}

func TestWriteTxEnds(t *testing.T) {
	t.Parallel()
	f := openTemp(t)
	mustExec(t, f, "CREATE TABLE t (a)")
	w, err := f.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Tx.ExecContext(t.Context(), "INSERT INTO t VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	if n := count(t, f, "SELECT count(*) FROM t"); n != 0 {
		t.Fatalf("a reader saw %d uncommitted rows", n)
	}
	if err := errors.Join(w.Commit(), w.Rollback(), w.Rollback()); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(); !errors.Is(err, sql.ErrTxDone) {
		t.Fatalf("second commit: %v", err)
	}
	w, err = f.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Tx.ExecContext(t.Context(), "INSERT INTO t VALUES (2)"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Rollback(), w.Rollback()); err != nil {
		t.Fatal(err)
	}
	if n := count(t, f, "SELECT count(*) FROM t"); n != 1 {
		t.Fatalf("%d rows, want 1", n)
	}
}

// A statement interrupted inside a transaction makes SQLite roll it back by
// itself; the write queue must survive that.
func TestWriteAfterInterruptedStatement(t *testing.T) {
	t.Parallel()
	f := openTemp(t)
	mustExec(t, f, "CREATE TABLE t (a)")
	ctx, cancel := context.WithCancel(t.Context())
	err := f.Write(t.Context(), func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(t.Context(), "INSERT INTO t VALUES (1)"); err != nil {
			return err
		}
		time.AfterFunc(time.Millisecond, cancel)
		_, err := tx.ExecContext(ctx, `INSERT INTO t WITH RECURSIVE n(i) AS
			(SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 1000000000) SELECT i FROM n`)
		return err
	})
	if !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "roll back") {
		t.Fatalf("error is %v", err)
	}
	mustExec(t, f, "INSERT INTO t VALUES (2)")
	if n := count(t, f, "SELECT count(*) FROM t"); n != 1 {
		t.Fatalf("%d rows, want 1", n)
	}
}

func TestReadSeesOneMoment(t *testing.T) {
	t.Parallel()
	f := openTemp(t)
	mustExec(t, f, "CREATE TABLE t (a)")
	beside, err := OpenReadOnly(t.Context(), f.Path(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer beside.Close()
	if !beside.ReadOnly() {
		t.Fatal("not read-only")
	}
	for _, r := range []*File{f, beside} {
		tx, end, err := r.BeginRead(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		before := count(t, f, "SELECT count(*) FROM t")
		mustExec(t, f, "INSERT INTO t VALUES (1)")
		var n int
		if err := tx.QueryRowContext(t.Context(), "SELECT count(*) FROM t").Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n != before {
			t.Errorf("a read transaction saw %d rows, want %d", n, before)
		}
		if _, err := tx.ExecContext(t.Context(), "INSERT INTO t VALUES (9)"); err == nil {
			t.Error("a read transaction could write")
		}
		if err := end(); err != nil {
			t.Error(err)
		}
		if n := count(t, r, "SELECT count(*) FROM t"); n != before+1 {
			t.Errorf("a later read transaction saw %d rows, want %d", n, before+1)
		}
	}
	if err := beside.Write(t.Context(), func(*sql.Tx) error { return nil }); !errors.Is(err, ErrReadOnly) {
		t.Errorf("write to a read-only file: %v", err)
	}
}

func TestReadOnlyAfterCleanClose(t *testing.T) {
	t.Parallel()
	f := openTemp(t)
	mustExec(t, f, "CREATE TABLE t (a)")
	mustExec(t, f, "INSERT INTO t VALUES (1)")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := OpenReadOnly(t.Context(), f.Path(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if n := count(t, r, "SELECT count(*) FROM t"); n != 1 {
		t.Fatalf("%d rows, want 1", n)
	}
	// A writer may come while the reader is there.
	w := openAt(t, f.Path())
	mustExec(t, w, "INSERT INTO t VALUES (2)")
	if n := count(t, r, "SELECT count(*) FROM t"); n != 2 {
		t.Fatalf("%d rows, want 2", n)
	}
}

func TestClosed(t *testing.T) {
	t.Parallel()
	f := openTemp(t)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Write(t.Context(), func(*sql.Tx) error { return nil }); !errors.Is(err, ErrClosed) {
		t.Errorf("Write: %v", err)
	}
	if _, _, err := f.BeginRead(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("BeginRead: %v", err)
	}
}

func TestQueueOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, err := Open(t.Context(), filepath.Join(t.TempDir(), "x.db"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		first, err := f.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var order []int // guarded by the write queue
		var done sync.WaitGroup
		for i := range 10 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			if i == 4 {
				ctx, cancel = context.WithTimeout(t.Context(), time.Second)
			}
			done.Go(func() {
				defer cancel()
				err := f.Write(ctx, func(*sql.Tx) error {
					order = append(order, i)
					return nil
				})
				if i == 4 {
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("writer 4: %v", err)
					}
				} else if err != nil {
					t.Errorf("writer %d: %v", i, err)
				}
			})
			synctest.Wait()
		}
		// The fourth gives up in fake time while the queue is held.
		<-time.After(time.Minute)
		if err := first.Commit(); err != nil {
			t.Fatal(err)
		}
		done.Wait()
		if got := fmt.Sprint(order); got != "[0 1 2 3 5 6 7 8 9]" {
			t.Errorf("order %v", got)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestCloseWaitsForWriterAndTurnsAwayTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, err := Open(t.Context(), filepath.Join(t.TempDir(), "x.db"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		w, err := f.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var done sync.WaitGroup
		closed := false
		done.Go(func() {
			if err := f.Write(t.Context(), func(*sql.Tx) error { return nil }); !errors.Is(err, ErrClosed) {
				t.Errorf("queued writer: %v", err)
			}
		})
		synctest.Wait()
		done.Go(func() {
			if err := f.Close(); err != nil {
				t.Error(err)
			}
			closed = true
		})
		synctest.Wait()
		if closed {
			t.Error("Close did not wait for the transaction in progress")
		}
		if err := w.Commit(); err != nil {
			t.Error(err)
		}
		done.Wait()
	})
}

func TestWritersBesideReaders(t *testing.T) {
	t.Parallel()
	f := openTemp(t)
	beside, err := OpenReadOnly(t.Context(), f.Path(), Options{ReadConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer beside.Close()
	mustExec(t, f, "CREATE TABLE t (a, b)")
	const writers, rounds = 4, 25
	var done sync.WaitGroup
	for w := range writers {
		done.Go(func() {
			for i := range rounds {
				err := f.Write(t.Context(), func(tx *sql.Tx) error {
					for range 2 { // always in pairs
						if _, err := tx.ExecContext(t.Context(), "INSERT INTO t VALUES (?, ?)", w, i); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	for _, r := range []*File{f, beside, f, beside, beside} {
		done.Go(func() {
			for range rounds {
				if n := count(t, r, "SELECT count(*) FROM t"); n%2 != 0 {
					t.Errorf("a reader saw half a transaction: %d rows", n)
				}
			}
		})
	}
	done.Wait()
	if n := count(t, beside, "SELECT count(*) FROM t"); n != 2*writers*rounds {
		t.Errorf("%d rows, want %d", n, 2*writers*rounds)
	}
}

// A foreign program that holds SQLite's own lock is waited for in Go time.
func TestBusyIsTransient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, err := Open(t.Context(), filepath.Join(t.TempDir(), "x.db"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		foreign, err := openPool(dsn(f.Path(), "rw", writePragmas(), true), 1)
		if err != nil {
			t.Fatal(err)
		}
		tx, err := foreign.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		err = f.Write(t.Context(), func(*sql.Tx) error { return nil })
		if !Transient(err) || time.Since(began) < busyWaitTotal {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		time.AfterFunc(time.Second, func() { _ = tx.Rollback() })
		if err := f.Write(t.Context(), func(*sql.Tx) error { return nil }); err != nil {
			t.Errorf("after the foreign program has gone: %v", err)
		}
		if err := errors.Join(foreign.Close(), f.Close()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestFullIsTransient(t *testing.T) {
	t.Parallel()
	f := openTemp(t)
	mustExec(t, f, "CREATE TABLE t (a)")
	err := f.Write(t.Context(), func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(t.Context(), "PRAGMA max_page_count = 10"); err != nil {
			return err
		}
		_, err := tx.ExecContext(t.Context(), "INSERT INTO t VALUES (randomblob(1000000))")
		return err
	})
	if err == nil || !Transient(err) || strings.Contains(err.Error(), "roll back") {
		t.Fatalf("error is %v", err)
	}
	if Transient(nil) || Transient(errors.New("x")) || Transient(context.Canceled) {
		t.Fatal("everything is transient")
	}
	mustExec(t, f, "PRAGMA max_page_count = 1000000")
	mustExec(t, f, "INSERT INTO t VALUES (1)")
}

func TestTime(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		ms   int64
		want string
	}{
		{"epoch", 0, "1970-01-01T00:00:00.000Z"},
		{"issue", 1796040000000, "2026-11-30T12:00:00.000Z"},
		{"before the epoch", -1, "1969-12-31T23:59:59.999Z"},
		{"first", timeMin, "0000-01-01T00:00:00.000Z"},
		{"infinity", timeMax, "9999-12-31T23:59:59.999Z"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := FormatTime(tt.ms); got != tt.want {
				t.Errorf("FormatTime(%d) = %s, want %s", tt.ms, got, tt.want)
			}
			if got, err := ParseTime(tt.want); err != nil || got != tt.ms {
				t.Errorf("ParseTime(%s) = %d, %v, want %d", tt.want, got, err, tt.ms)
			}
		})
	}
	for _, bad := range []string{
		"", "2026-11-30", "2026-11-30T12:00:00Z", "2026-11-30T12:00:00.0000Z", "2026-11-30T12:00:00,000Z",
		"2026-11-30T12:00:00.000+00:00", "2026-11-31T12:00:00.000Z", "12026-11-30T12:00:00.000Z",
	} {
		if ms, err := ParseTime(bad); err == nil {
			t.Errorf("ParseTime(%q) = %d", bad, ms)
		}
	}
	if FormatTime(timeMax+1) != FormatTime(timeMax) || FormatTime(timeMin-1) != FormatTime(timeMin) {
		t.Error("instants outside are not cut to the ends")
	}
}

func TestCommitHook(t *testing.T) {
	t.Parallel()
	lost := errors.New("answer lost")
	for _, tt := range []struct {
		name string
		hook func(commit func() error) error
		want int
	}{
		{"before", func(func() error) error { return lost }, 0},
		{"after", func(commit func() error) error { return errors.Join(commit(), lost) }, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			hook := func(commit func() error) error { return commit() }
			f, err := Open(t.Context(), filepath.Join(t.TempDir(), "x.db"), Options{
				Commit: func(commit func() error) error { return hook(commit) },
			})
			if err != nil {
				t.Fatal(err)
			}
			mustExec(t, f, "CREATE TABLE t (a)")
			hook = tt.hook
			err = f.Write(t.Context(), func(tx *sql.Tx) error {
				_, err := tx.ExecContext(t.Context(), "INSERT INTO t VALUES (1)")
				return err
			})
			if !errors.Is(err, lost) {
				t.Errorf("error is %v", err)
			}
			if n := count(t, f, "SELECT count(*) FROM t"); n != tt.want {
				t.Errorf("%d rows, want %d", n, tt.want)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
