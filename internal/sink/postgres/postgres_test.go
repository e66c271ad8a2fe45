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

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	t.Parallel()
	sinktest.Run(t, func(t *testing.T) sinktest.Harness {
		t.Helper()
		h, _ := open(t)
		return h
	})
}

// open makes two sinks on a database of their own, and a pool that reads and
// alters the tables behind their backs.
func open(tb testing.TB) (sinktest.Harness, *pgxpool.Pool) {
	tb.Helper()
	url := services.Postgres(tb)
	clock := new(sinktest.Clock)
	first, second := openSink(tb, postgres.Options{URL: url, Now: clock.Now}), openSink(tb, postgres.Options{URL: url, Now: clock.Now})
	pool, err := pgxpool.New(tb.Context(), url)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(pool.Close)
	return sinktest.Harness{
		Sink: first, Second: second, Interleaves: true,
		Dump: func(ctx context.Context) (string, error) { return dump(ctx, pool) },
		Void: func(ctx context.Context, p stream.Partition, topicID string) error {
			_, err := pool.Exec(ctx, `UPDATE consumer_offsets SET topic_id = $1, next_offset = NULL, position = NULL,
				leader_epoch = NULL, watermark = NULL, final_to = NULL, accepted = 0, late = 0, dead = 0, ignored = 0
				WHERE topic = $2 AND partition = $3`, topicID, p.Topic, p.Index)
			return err
		},
	}, pool
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
			lines, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
				values, err := row.Values()
				line := table
				for i, v := range values {
					if at, ok := v.(time.Time); ok {
						v = at.UnixMicro()
					}
					line += fmt.Sprintf(" %s=%T:%v", row.FieldDescriptions()[i].Name, v, v)
				}
				return line + "\n", err
			})
			if err != nil {
				return err
			}
			for _, line := range lines {
				b.WriteString(line)
			}
		}
		return nil
	})
	return b.String(), err
}
