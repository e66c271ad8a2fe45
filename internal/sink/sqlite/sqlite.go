package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/sqlitefile"
)

// errClosed is what a call after Close gets.
var errClosed = errors.New("sink is closed")

// Options of [New]. The zero value is good.
type Options struct {
	// Now gives the time for updated_at, computed_at, merged_at and the time of
	// incidents. No rule looks at it. Defaults to time.Now.
	Now func() time.Time
	// Logger receives a warning for each incident that was stored. Nil discards
	// them.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Sink is the tables in a SQLite file. Safe for concurrent use.
type Sink struct {
	*Viewer

	now    func() time.Time
	log    *slog.Logger
	closed atomic.Bool
}

var (
	_ sink.Sink   = (*Sink)(nil)
	_ sink.Viewer = (*Viewer)(nil)
)

// New makes the tables where they are missing and returns the sink. The file is
// borrowed: it must stay open for as long as the sink is used, and closing the
// sink does not close it.
func New(ctx context.Context, f *sqlitefile.File, o Options) (*Sink, error) {
	o = o.withDefaults()
	if f.ReadOnly() {
		return nil, fmt.Errorf("open tables: %w", sqlitefile.ErrReadOnly)
	}
	v, err := NewViewer(ctx, f)
	if err != nil {
		return nil, err
	}
	return &Sink{Viewer: v, now: o.Now, log: o.Logger.With(slog.String("component", "sink"))}, nil
}

// Close refuses further writes. The file stays open; it belongs to the caller.
// Idempotent.
func (s *Sink) Close() error {
	s.closed.Store(true)
	return nil
}

// stamp is the present instant as the tables hold it.
func (s *Sink) stamp() string { return sqlitefile.FormatTime(s.now().UnixMilli()) }

// write runs fn in one write transaction, which is committed if fn says so and
// has no error, and rolled back otherwise. doing names the work in errors.
func (s *Sink) write(ctx context.Context, doing string, fn func(*sql.Tx) (keep bool, err error)) error {
	w, err := s.begin(ctx)
	if err != nil {
		return failure(doing, err)
	}
	keep, err := fn(w.Tx)
	if err != nil || !keep {
		return failure(doing, errors.Join(err, w.Rollback()))
	}
	return failure(doing, w.Commit())
}

func (s *Sink) begin(ctx context.Context) (*sqlitefile.WriteTx, error) {
	if s.closed.Load() {
		return nil, errClosed
	}
	return s.file.Begin(ctx)
}

// failure gives an error its class: one that may pass wraps [sink.ErrTransient].
// Nil stays nil.
func failure(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case sqlitefile.Transient(err):
		return fmt.Errorf("%s: %w: %w", doing, sink.ErrTransient, err)
	default:
		return fmt.Errorf("%s: %w", doing, err)
	}
}
