//go:build integration

package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/peil-stream/peil/internal/sink/postgres"
	"github.com/peil-stream/peil/internal/sink/sinktest"
	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/internal/testkit/services"
)

func TestMain(m *testing.M) {
	// The servers live as long as the test binary.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/peil-stream/peil/internal/testkit/services.start.func1"))
}

func TestConformance(t *testing.T) {
	t.Parallel()
	database := services.Postgres(t)
	sinktest.Run(t, func(t *testing.T) sinktest.Harness {
		t.Helper()
		h, _ := open(t, schema(t, database))
		return h
	})
}

// runCheck runs the only check of the suite whose name begins so.
func runCheck(t *testing.T, prefix string, h sinktest.Harness) {
	t.Helper()
	if err := findCheck(t, prefix).Run(t.Context(), h); err != nil {
		t.Error(err)
	}
}

func findCheck(t *testing.T, prefix string) sinktest.Check {
	t.Helper()
	var found []sinktest.Check
	for _, c := range sinktest.Checks() {
		if strings.HasPrefix(c.Name, prefix) {
			found = append(found, c)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d checks have a name that begins with %q, want one", len(found), prefix)
	}
	return found[0]
}

// schema makes a schema in a database and returns the address that leads there.
func schema(tb testing.TB, database string) string {
	tb.Helper()
	pool, err := pgxpool.New(tb.Context(), database)
	if err != nil {
		tb.Fatal(err)
	}
	defer pool.Close()
	var name string
	// The identity of a transaction is a number that no other one has.
	err = pool.QueryRow(tb.Context(), "SELECT 'peil_' || pg_current_xact_id()").Scan(&name)
	if err == nil {
		_, err = pool.Exec(tb.Context(), "CREATE SCHEMA "+name)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return database + "&search_path=" + name
}

// open makes two sinks on the same tables, and a pool that reads and alters them
// behind their backs.
func open(tb testing.TB, url string) (sinktest.Harness, *pgxpool.Pool) {
	tb.Helper()
	clock := new(sinktest.Clock)
	first := openSink(tb, postgres.Options{URL: url, Now: clock.Now})
	second := openSink(tb, postgres.Options{URL: url, Now: clock.Now})
	pool := openPool(tb, url)
	return sinktest.Harness{
		Sink: first, Second: second, Interleaves: true,
		Dump: func(ctx context.Context) (string, error) { return dump(ctx, pool) },
		Void: func(ctx context.Context, p stream.Partition, topicID string) error {
			return void(ctx, pool, p, topicID)
		},
	}, pool
}

func openPool(tb testing.TB, url string) *pgxpool.Pool {
	tb.Helper()
	pool, err := pgxpool.New(tb.Context(), url)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(pool.Close)
	return pool
}

func void(ctx context.Context, pool *pgxpool.Pool, p stream.Partition, topicID string) error {
	_, err := pool.Exec(ctx, `UPDATE consumer_offsets SET topic_id = $1, next_offset = NULL, position = NULL,
		leader_epoch = NULL, watermark = NULL, final_to = NULL, accepted = 0, late = 0, dead = 0, ignored = 0
		WHERE topic = $2 AND partition = $3`, topicID, p.Topic, p.Index)
	return err
}

func openSink(tb testing.TB, o postgres.Options) *postgres.Sink {
	tb.Helper()
	s, err := postgres.Open(tb.Context(), o)
	if err != nil {
		tb.Fatalf("Open: %v", err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("Close: %v", err)
		}
	})
	return s
}

// tableNames are the tables of the design.
func tableNames() []string {
	return []string{
		"consumer_offsets", "delay_aggregates", "incidents", "trip_delay_latest", "vehicle_latest", "window_segments",
	}
}

// dump writes all tables as of one moment, one line for each row.
func dump(ctx context.Context, pool *pgxpool.Pool) (string, error) {
	var b strings.Builder
	err := pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		for _, table := range tableNames() {
			rows, err := tx.Query(ctx, "SELECT * FROM "+table+" ORDER BY 1, 2, 3")
			if err != nil {
				return err
			}
			_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) {
				values, err := row.Values()
				b.WriteString(table)
				for i, v := range values {
					if at, ok := v.(time.Time); ok {
						v = at.UnixMicro()
					}
					fmt.Fprintf(&b, " %s=%T:%v", row.FieldDescriptions()[i].Name, v, v)
				}
				b.WriteByte('\n')
				return struct{}{}, err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return b.String(), err
}
