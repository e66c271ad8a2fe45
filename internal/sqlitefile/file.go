package sqlitefile

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"modernc.org/sqlite"
)

// Errors that callers branch on.
var (
	// ErrLocked: another process has the file open for writing.
	ErrLocked = errors.New("another process writes this file")
	// ErrClosed: the file was closed.
	ErrClosed = errors.New("file is closed")
	// ErrReadOnly: the file was opened by [OpenReadOnly].
	ErrReadOnly = errors.New("file is open for reading only")
)

// readConnsDefault is the number of read connections if Options does not say.
const readConnsDefault = 8

// Options of [Open] and [OpenReadOnly]. The zero value is good.
type Options struct {
	// Logger receives life-cycle messages. Nil discards them.
	Logger *slog.Logger
	// ReadConns bounds the read transactions that are open at one time; one
	// more waits. Defaults to 8.
	ReadConns int
	// Commit, if not nil, is called in place of each commit of a write
	// transaction with the commit itself, so that tests and the fault simulator
	// can make it fail before or after it took effect.
	Commit func(commit func() error) error
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.ReadConns <= 0 {
		o.ReadConns = readConnsDefault
	}
	if o.Commit == nil {
		o.Commit = func(commit func() error) error { return commit() }
	}
	return o
}

// File is an open SQLite file. Safe for concurrent use.
type File struct {
	path    string
	log     *slog.Logger
	lock    *os.File // nil when read-only
	writer  *sql.DB  // nil when read-only
	readers *sql.DB
	queue   queue
	commit  func(commit func() error) error

	closeOnce sync.Once
	closeErr  error
}

// Open opens the file for writing, creating its folder and the file itself
// where missing. While another process has it open for writing the error wraps
// [ErrLocked] and names the lock file and that process.
func Open(ctx context.Context, path string, o Options) (*File, error) {
	o = o.withDefaults()
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	if err := makeFolder(filepath.Dir(abs)); err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	lock, err := acquireLock(abs + ".lock")
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	f := &File{path: abs, log: o.Logger, lock: lock, commit: o.Commit}
	f.writer, err = openPool(dsn(abs, "rwc", writePragmas(), true), 1)
	if err == nil {
		// The first connection makes the file and turns the write-ahead log on;
		// only then can the readers connect.
		err = f.ping(ctx, f.writer)
	}
	if err == nil {
		f.readers, err = openPool(dsn(abs, "rw", readPragmas(), false), o.ReadConns)
	}
	if err == nil {
		err = f.ping(ctx, f.readers)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), f.Close())
	}
	o.Logger.Debug("database opened", slog.String("component", "sqlitefile"), slog.String("path", abs))
	return f, nil
}

// OpenReadOnly opens an existing file for reading, also while another process
// writes it. A missing file is an error that wraps [fs.ErrNotExist].
func OpenReadOnly(ctx context.Context, path string, o Options) (*File, error) {
	o = o.withDefaults()
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	// A stat, because opening the file here would drop SQLite's locks on it if
	// this process writes it too.
	if _, err := os.Stat(abs); err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	f := &File{path: abs, log: o.Logger}
	f.readers, err = openPool(dsn(abs, "ro", readPragmas(), false), o.ReadConns)
	if err == nil {
		err = f.ping(ctx, f.readers)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), f.Close())
	}
	return f, nil
}

// Path is the absolute path of the database file.
func (f *File) Path() string { return f.path }

// ReadOnly says whether the file was opened by [OpenReadOnly].
func (f *File) ReadOnly() bool { return f.lock == nil }

// Close refuses further work, waits for the write transaction in progress, if
// any, and gives the lock back. Idempotent. Every [WriteTx] must be ended by its
// owner; read transactions that are still open keep their connection until
// their end.
func (f *File) Close() error {
	f.closeOnce.Do(func() {
		f.queue.close()
		var errs []error
		// Readers first: the writer's close, the last one, then folds the
		// write-ahead log into the file.
		if f.readers != nil {
			errs = append(errs, f.readers.Close())
		}
		if f.writer != nil {
			errs = append(errs, f.writer.Close())
		}
		if f.lock != nil {
			errs = append(errs, f.lock.Close())
		}
		if err := errors.Join(errs...); err != nil {
			f.closeErr = fmt.Errorf("close %s: %w", f.path, err)
		}
	})
	return f.closeErr
}

func writePragmas() []string {
	return []string{
		"busy_timeout(0)",
		"journal_mode(WAL)",
		"synchronous(FULL)",
		// On macOS only these reach the platter.
		"fullfsync(1)",
		"checkpoint_fullfsync(1)",
		"temp_store(MEMORY)",
		"cache_size(-16384)",
		// The log is cut back to this many bytes once it has been folded in.
		"journal_size_limit(67108864)",
	}
}

func readPragmas() []string {
	return []string{"busy_timeout(0)", "query_only(1)", "temp_store(MEMORY)", "cache_size(-4096)"}
}

// dsn makes the URI of the file, with every byte of the path that has a meaning
// in a URI escaped.
func dsn(path, mode string, pragmas []string, immediate bool) string {
	p := filepath.ToSlash(path)
	if !strings.HasPrefix(p, "/") {
		p = "/" + p // a drive letter
	}
	q := url.Values{"mode": {mode}, "_pragma": pragmas}
	if immediate {
		q.Set("_txlock", "immediate")
	}
	u := url.URL{Scheme: "file", Path: p, RawQuery: q.Encode()}
	return u.String()
}

func openPool(dsn string, size int) (*sql.DB, error) {
	c, err := sqlite.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(c)
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(size)
	return db, nil
}

// ping connects and reads the schema, which is where a file that is no
// database, or that needs a recovery, shows.
func (f *File) ping(ctx context.Context, db *sql.DB) error {
	return f.retryBusy(ctx, func() error {
		var n int64
		return db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&n)
	})
}

// The waits of retryBusy.
const (
	busyWaitFirst = time.Millisecond
	busyWaitMax   = 50 * time.Millisecond
	busyWaitTotal = 5 * time.Second
)

// retryBusy repeats try while SQLite says that the file is busy: another
// connection recovers the log, or a foreign program holds a lock. The waits are
// Go timers, so they end with ctx and pass at once under a fake clock.
func (f *File) retryBusy(ctx context.Context, try func() error) error {
	wait, total := busyWaitFirst, time.Duration(0)
	for {
		err := try()
		if err == nil || !busy(err) || total >= busyWaitTotal {
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return errors.Join(context.Cause(ctx), err)
		case <-timer.C:
		}
		total += wait
		wait = min(2*wait, busyWaitMax)
	}
}
