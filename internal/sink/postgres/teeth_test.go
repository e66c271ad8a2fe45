//go:build integration

package postgres_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/testkit/services"
	"github.com/peil-stream/peil/window"
)

// broken is a sink with one rule broken. Nil fields pass calls through.
type broken struct {
	sink.Sink
	flush   func(context.Context, sink.Sink, []sink.PartitionFlush) (sink.FlushResult, error)
	final   func(context.Context, sink.Sink, sink.FinalRequest) (sink.Finaliser, error)
	pending func(context.Context, sink.Finaliser) ([]sink.PendingWindow, error)
	apply   func(context.Context, sink.Finaliser, sink.PendingWindow, []window.Row) (sink.Applied, error)
}

func (b *broken) Flush(ctx context.Context, parts []sink.PartitionFlush) (sink.FlushResult, error) {
	if b.flush == nil {
		return b.Sink.Flush(ctx, parts)
	}
	return b.flush(ctx, b.Sink, slices.Clone(parts))
}

func (b *broken) Final(ctx context.Context, req sink.FinalRequest) (f sink.Finaliser, err error) {
	if b.final == nil {
		f, err = b.Sink.Final(ctx, req)
	} else {
		f, err = b.final(ctx, b.Sink, req)
	}
	if err != nil {
		return nil, err
	}
	return &brokenFinaliser{Finaliser: f, sink: b}, nil
}

type brokenFinaliser struct {
	sink.Finaliser
	sink *broken
}

func (f *brokenFinaliser) Pending(ctx context.Context) ([]sink.PendingWindow, error) {
	if f.sink.pending == nil {
		return f.Finaliser.Pending(ctx)
	}
	return f.sink.pending(ctx, f.Finaliser)
}

func (f *brokenFinaliser) Apply(ctx context.Context, w sink.PendingWindow, rows []window.Row) (sink.Applied, error) {
	if f.sink.apply == nil {
		return f.Finaliser.Apply(ctx, w, rows)
	}
	return f.sink.apply(ctx, f.Finaliser, w, rows)
}

// early is a finaliser that has read before it had the lock.
type early struct {
	sink.Finaliser
	read []sink.PendingWindow
}

func (e early) Pending(context.Context) ([]sink.PendingWindow, error) { return e.read, nil }

// readThenLock reads what is pending, and then waits for the lock.
func readThenLock(pool *pgxpool.Pool) func(context.Context, sink.Sink, sink.FinalRequest) (sink.Finaliser, error) {
	return func(ctx context.Context, s sink.Sink, req sink.FinalRequest) (sink.Finaliser, error) {
		f, err := s.Final(ctx, req)
		if err != nil {
			return nil, err
		}
		read, err := f.Pending(ctx)
		if err := errors.Join(err, f.Rollback(ctx)); err != nil {
			return nil, err
		}
		// Let the other one in between.
		if _, err := pool.Exec(ctx, "SELECT pg_sleep(0.002)"); err != nil {
			return nil, err
		}
		for {
			f, err = s.Final(ctx, req)
			if !errors.Is(err, sink.ErrBusy) {
				return early{f, read}, err
			}
		}
	}
}

// markAll marks every segment of the window, read or not.
func markAll(ctx context.Context, f sink.Finaliser, w sink.PendingWindow, rows []window.Row) (sink.Applied, error) {
	now, err := f.Pending(ctx)
	if err != nil {
		return sink.Applied{}, err
	}
	for i := range now {
		if now[i].Start == w.Start {
			w.Segments = now[i].Segments
		}
	}
	return f.Apply(ctx, w, rows)
}

// addUp adds to the stored rows of the window instead of replacing them.
func addUp(pool *pgxpool.Pool) func(context.Context, sink.Finaliser, sink.PendingWindow, []window.Row) (sink.Applied, error) {
	return func(ctx context.Context, f sink.Finaliser, w sink.PendingWindow, rows []window.Row) (sink.Applied, error) {
		for i := range rows {
			var stored int64
			err := pool.QueryRow(ctx, `SELECT COALESCE(sum(event_count), 0) FROM delay_aggregates
				WHERE extract(epoch FROM window_start) * 1000 = $1::bigint AND dimension = $2 AND dimension_id = $3`,
				w.Start, rows[i].Dimension, rows[i].ID).Scan(&stored)
			if err != nil {
				return sink.Applied{}, err
			}
			rows[i].Count += stored
		}
		return f.Apply(ctx, w, rows)
	}
}

// giveUp says that a flush is written although a lock was in its way, and lets
// that happen often by being impatient.
func giveUp(pool *pgxpool.Pool) func(context.Context, sink.Sink, []sink.PartitionFlush) (sink.FlushResult, error) {
	return func(ctx context.Context, s sink.Sink, parts []sink.PartitionFlush) (sink.FlushResult, error) {
		tx, err := pool.Begin(ctx)
		if err != nil {
			return sink.FlushResult{}, err
		}
		// The last flush of one of the two finds its keys locked by the other.
		_, locked := tx.Exec(ctx, "SELECT FROM vehicle_latest FOR UPDATE NOWAIT")
		if err := tx.Rollback(ctx); err != nil || locked != nil {
			return sink.FlushResult{}, err
		}
		return s.Flush(ctx, parts)
	}
}

// lastOnly merges the last segment of each window and forgets the others.
func lastOnly(ctx context.Context, f sink.Finaliser) ([]sink.PendingWindow, error) {
	windows, err := f.Pending(ctx)
	for i := range windows {
		windows[i].Segments = windows[i].Segments[len(windows[i].Segments)-1:]
	}
	return windows, err
}

// before runs a statement before each finaliser.
func before(pool *pgxpool.Pool, statement string) func(context.Context, sink.Sink, sink.FinalRequest) (sink.Finaliser, error) {
	return func(ctx context.Context, s sink.Sink, req sink.FinalRequest) (sink.Finaliser, error) {
		if _, err := pool.Exec(ctx, statement); err != nil {
			return nil, err
		}
		return s.Final(ctx, req)
	}
}

// TestSuiteHasTeeth breaks one rule at a time in both instances and sees its
// check fail.
func TestSuiteHasTeeth(t *testing.T) {
	t.Parallel()
	database := services.Postgres(t)
	tests := []struct {
		rule, check string
		breakIt     func(*pgxpool.Pool) broken
	}{
		{"reads before it has the lock", "M01 instances", func(pool *pgxpool.Pool) broken {
			return broken{final: readThenLock(pool)}
		}},
		{"marks all segments instead of those read", "M01 a segment", func(*pgxpool.Pool) broken {
			return broken{apply: markAll}
		}},
		{"marks without identity", "M19", func(*pgxpool.Pool) broken { return broken{apply: markAll} }},
		{"does without the lock", "one instance finalises", func(*pgxpool.Pool) broken {
			return broken{final: func(ctx context.Context, s sink.Sink, req sink.FinalRequest) (sink.Finaliser, error) {
				f, err := s.Final(ctx, req)
				if errors.Is(err, sink.ErrBusy) {
					req.Topic = "another"
					return s.Final(ctx, req)
				}
				return f, err
			}}
		}},
		{"finalises what a partition has not closed", "M02", func(pool *pgxpool.Pool) broken {
			return broken{final: before(pool, "UPDATE consumer_offsets SET final_to = '9999-12-31T23:59:59.999Z'")}
		}},
		{"merges a sealed window", "M03", func(pool *pgxpool.Pool) broken {
			return broken{final: before(pool, "DELETE FROM window_segments WHERE data IS NULL")}
		}},
		{"always raises the revision", "M13", func(pool *pgxpool.Pool) broken {
			return broken{final: before(pool, "UPDATE delay_aggregates SET revision = revision + 1")}
		}},
		{"adds instead of replacing", "an aggregate flushed by two epochs", func(pool *pgxpool.Pool) broken {
			return broken{apply: addUp(pool)}
		}},
		{"lets the last one win", "K27", func(*pgxpool.Pool) broken { return broken{pending: lastOnly} }},
		{"gives up a flush that may be tried again", "K22", func(pool *pgxpool.Pool) broken {
			return broken{flush: giveUp(pool)}
		}},
		{"ignores the epoch", "a flush under an older epoch", func(pool *pgxpool.Pool) broken {
			return broken{flush: func(ctx context.Context, s sink.Sink, parts []sink.PartitionFlush) (sink.FlushResult, error) {
				for i := range parts {
					err := pool.QueryRow(ctx, "SELECT epoch FROM consumer_offsets WHERE topic = $1 AND partition = $2",
						parts[i].Partition.Topic, parts[i].Partition.Index).Scan(&parts[i].Epoch)
					if err != nil {
						return sink.FlushResult{}, err
					}
				}
				return s.Flush(ctx, parts)
			}}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			t.Parallel()
			c := findCheck(t, tt.check)
			var err error
			// Two instances must meet for some of the faults to show: on a busy
			// machine they may miss each other a few times.
			for range 20 {
				h, pool := open(t, schema(t, database))
				first, second := tt.breakIt(pool), tt.breakIt(pool)
				first.Sink, second.Sink = h.Sink, h.Second
				h.Sink, h.Second = &first, &second
				if err = c.Run(t.Context(), h); err != nil {
					break
				}
			}
			if err == nil {
				t.Errorf("%q passes a sink that %s", c.Name, tt.rule)
			}
			t.Logf("%s: %v", c.Name, err)
		})
	}
}
