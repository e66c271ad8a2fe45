package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/peil-stream/peil/internal/sink/sinktest"
	"github.com/peil-stream/peil/internal/sink/sqlite"
	"github.com/peil-stream/peil/internal/sqlitefile"
	"github.com/peil-stream/peil/internal/stream"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	sinktest.Run(t, func(t *testing.T) sinktest.Harness {
		t.Helper()
		h, _ := open(t)
		return h
	})
}

// open makes a sink on a file of its own.
func open(t *testing.T) (sinktest.Harness, *sqlitefile.File) {
	t.Helper()
	f, err := sqlitefile.Open(t.Context(), filepath.Join(t.TempDir(), "peil.db"), sqlitefile.Options{})
	if err != nil {
		t.Fatalf("open file: %v", err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Errorf("close file: %v", err)
		}
	})
	s, err := sqlite.New(t.Context(), f, sqlite.Options{Now: new(sinktest.Clock).Now})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return sinktest.Harness{
		Sink: s,
		Dump: func(ctx context.Context) (string, error) { return dump(ctx, f) },
		Void: func(ctx context.Context, p stream.Partition, topicID string) error { return void(ctx, f, p, topicID) },
	}, f
}

// dump writes all tables, one line for each row.
func dump(ctx context.Context, f *sqlitefile.File) (_ string, err error) {
	tx, end, err := f.BeginRead(ctx)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, end()) }()
	var b strings.Builder
	for _, table := range []string{
		"consumer_offsets", "delay_aggregates", "incidents", "trip_delay_latest", "vehicle_latest", "window_segments",
	} {
		if err := dumpTable(ctx, tx, &b, table); err != nil {
			return "", fmt.Errorf("dump %s: %w", table, err)
		}
	}
	return b.String(), nil
}

func dumpTable(ctx context.Context, tx *sql.Tx, b *strings.Builder, table string) (err error) {
	rows, err := tx.QueryContext(ctx, "SELECT * FROM "+table+" ORDER BY 1, 2, 3")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	values, dest := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		dest[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return err
		}
		fmt.Fprintf(b, "%s", table)
		for i, v := range values {
			fmt.Fprintf(b, " %s=%T:%v", columns[i], v, v)
		}
		b.WriteByte('\n')
	}
	return rows.Err()
}

func void(ctx context.Context, f *sqlitefile.File, p stream.Partition, topicID string) error {
	return f.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE consumer_offsets SET topic_id = ?, next_offset = NULL, position = NULL,
			leader_epoch = NULL, watermark = NULL, final_to = NULL, accepted = 0, late = 0, dead = 0, ignored = 0
			WHERE topic = ? AND partition = ?`, topicID, p.Topic, p.Index)
		return err
	})
}
