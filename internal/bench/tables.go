package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/sink/postgres"
	"github.com/peil-stream/peil/internal/sink/sqlite"
	"github.com/peil-stream/peil/internal/sqlitefile"
)

// openTables opens the database of a whole job for writing, and makes its tables.
func openTables(ctx context.Context, s *Spec) (sink.Sink, error) {
	if s.Stage == StagePostgres {
		return postgres.Open(ctx, postgres.Options{URL: s.Database})
	}
	return openSQLite(ctx, s.Database)
}

// sqliteTables are the tables in a file that is closed with them.
type sqliteTables struct {
	*sqlite.Sink

	file *sqlitefile.File
}

func openSQLite(ctx context.Context, path string) (sink.Sink, error) {
	f, err := sqlitefile.Open(ctx, path, sqlitefile.Options{})
	if err != nil {
		return nil, err
	}
	s, err := sqlite.New(ctx, f, sqlite.Options{})
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return sqliteTables{s, f}, nil
}

func (t sqliteTables) Close() error { return errors.Join(t.Sink.Close(), t.file.Close()) }

// view reads the tables of a whole job that has ended.
func view(ctx context.Context, s *Spec, read func(sink.View) error) (err error) {
	tables, err := openTables(ctx, s)
	if err != nil {
		return fmt.Errorf("open the tables that were written: %w", err)
	}
	defer func() { err = errors.Join(err, tables.Close()) }()
	v, err := tables.View(ctx)
	if err != nil {
		return fmt.Errorf("read the tables that were written: %w", err)
	}
	return errors.Join(read(v), v.Close())
}

// schema makes a schema for a whole job; what it returns takes it away.
func (r *run) schema(ctx context.Context, s *Spec) (drop func() error, err error) {
	name := "peil_bench_" + strings.ToLower(rand.Text()[:8])
	database, remove, err := postgres.Scratch(ctx, r.Postgres, name)
	if err != nil {
		return nil, err
	}
	s.Database = database
	return func() error { return remove(ctx) }, nil
}
