package postgres

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/peil-stream/peil/internal/sink"
)

// Sink is the tables in a PostgreSQL database. Safe for concurrent use. Views
// have a pool of their own, so that slow readers never keep a flush waiting for
// a connection.
type Sink struct {
	*Viewer

	pool   *pgxpool.Pool
	now    func() time.Time
	log    *slog.Logger
	limits timeouts
	begins string
	closed atomic.Bool
}

var (
	_ sink.Sink   = (*Sink)(nil)
	_ sink.Viewer = (*Viewer)(nil)
)

// Open connects, makes or changes the tables where they are not those of this
// program, and returns the sink, which the caller closes. If the server cannot be
// reached the error wraps [sink.ErrTransient]; if this role may not make the
// tables it is a [*SchemaError] with a hint.
func Open(ctx context.Context, o Options) (*Sink, error) {
	o = o.withDefaults()
	pool, err := connect(ctx, o.URL, true)
	if err != nil {
		return nil, err
	}
	if err := ensure(ctx, pool); err != nil {
		pool.Close()
		return nil, err
	}
	v, err := openViewer(ctx, o, true)
	if err != nil {
		pool.Close()
		return nil, err
	}
	limits := timeoutsOf(o.SessionTimeout)
	return &Sink{
		Viewer: v, pool: pool, now: o.Now, log: o.Logger.With(slog.String("component", "sink")),
		limits: limits, begins: limits.begin(),
	}, nil
}

// Close refuses further work and waits for what is under way; open views and
// finalisers must have ended. Idempotent.
func (s *Sink) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.pool.Close()
	return s.Viewer.Close()
}

// stamp is the present instant as the tables hold it.
func (s *Sink) stamp() pgtype.Timestamptz { return instant(s.now().UnixMilli()) }

// write runs fn in one transaction, which is committed if fn says so and has no
// error, and rolled back otherwise. doing names the work in errors. After an
// error of the commit itself the outcome is unknown: the same call may be made
// again, and has one effect.
func (s *Sink) write(ctx context.Context, doing string, fn func(*transaction) (keep bool, err error)) error {
	tx, err := s.begin(ctx)
	if err != nil {
		return failure(ctx, doing, err)
	}
	keep, err := fn(tx)
	if err != nil || !keep {
		return failure(ctx, doing, errors.Join(err, tx.rollback(ctx)))
	}
	return failure(ctx, doing, tx.commit(ctx))
}
