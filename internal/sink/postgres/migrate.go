package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// selectSchema names the schema of the tables, and says whether they are
	// there. Only that schema counts: another one of search_path may hold the
	// tables of another installation.
	selectSchema = `
SELECT COALESCE(current_schema(), ''), EXISTS (SELECT FROM pg_catalog.pg_class AS c
	JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
	WHERE c.relname = 'peil_schema' AND n.nspname = current_schema())`

	selectVersion = `SELECT COALESCE(max(version), 0) FROM peil_schema`

	lockSchema = `SELECT pg_advisory_xact_lock(hashtextextended('peil schema ' || current_schema(), 0))`
)

// beginMigration begins a transaction that ends if the process stops in it; how
// long the steps take is not bounded.
const beginMigration = `BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL idle_in_transaction_session_timeout = '60s'`

const adviceMigrate = "run `peil migrate` as the owner of the tables, then start this again"

// Migrate brings the tables to the version of this program and returns the one
// before and the one after. Several may run at one time: one works, the others
// wait for it. Tables that are newer than this program are a [*SchemaError].
func Migrate(ctx context.Context, o Options) (from, to int, err error) {
	pool, err := connect(ctx, o.URL, true)
	if err != nil {
		return 0, 0, err
	}
	defer pool.Close()
	from, err = migrate(ctx, pool)
	if err != nil {
		return 0, 0, err
	}
	return from, len(steps()), nil
}

// ensure migrates only if it must: an instance without the right to create
// tables opens those of this version.
func ensure(ctx context.Context, pool *pgxpool.Pool) error {
	v, err := version(ctx, pool)
	if err == nil && v < len(steps()) {
		_, err = migrate(ctx, pool)
	}
	return err
}

type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// version reads the version of the tables; 0 means that there are none.
func version(ctx context.Context, q querier) (int, error) {
	var (
		schema string
		exists bool
		v      int
	)
	if err := q.QueryRow(ctx, selectSchema).Scan(&schema, &exists); err != nil {
		return 0, failure(ctx, "look for the tables", err)
	}
	switch {
	case schema == "":
		return 0, &SchemaError{
			What:   "no schema of search_path exists",
			Advice: "create it (CREATE SCHEMA …) or name another one: ?search_path=…",
			Err:    ErrNoSchema,
		}
	case !exists:
		return 0, nil
	}
	if err := q.QueryRow(ctx, selectVersion).Scan(&v); err != nil {
		return 0, forbidden("read the version of the tables in schema "+schema,
			"grant this role the rights that docs/postgres.md lists", failure(ctx, "read peil_schema", err))
	}
	if v > len(steps()) {
		return 0, &SchemaError{
			What:   fmt.Sprintf("the tables in schema %s have version %d; this program knows %d", schema, v, len(steps())),
			Advice: "use the version of peil that made them, or a newer one",
		}
	}
	return v, nil
}

// migrate takes the missing steps in one transaction, under a lock.
func migrate(ctx context.Context, pool *pgxpool.Pool) (from int, err error) {
	tx, err := pool.BeginTx(ctx, pgx.TxOptions{BeginQuery: beginMigration})
	if err != nil {
		return 0, failure(ctx, "migrate", err)
	}
	defer func() {
		// After a commit this does nothing; after an error that error counts.
		if rollback := tx.Rollback(context.WithoutCancel(ctx)); !errors.Is(rollback, pgx.ErrTxClosed) && err == nil {
			err = failure(ctx, "migrate", rollback)
		}
	}()
	if _, err := tx.Exec(ctx, lockSchema); err != nil {
		return 0, failure(ctx, "lock the schema", err)
	}
	// Another instance may have been quicker.
	if from, err = version(ctx, tx); err != nil || from == len(steps()) {
		return from, err
	}
	if err := takeSteps(ctx, tx, from); err != nil {
		return 0, forbidden("this role may not make or change the tables", adviceMigrate, failure(ctx, "migrate", err))
	}
	return from, failure(ctx, "migrate", tx.Commit(ctx))
}

func takeSteps(ctx context.Context, tx pgx.Tx, from int) error {
	if _, err := tx.Exec(ctx, schemaVersions); err != nil {
		return err
	}
	for i, step := range steps()[from:] {
		n := from + i + 1
		if _, err := tx.Exec(ctx, step); err != nil {
			return fmt.Errorf("step %d: %w", n, err)
		}
		if _, err := tx.Exec(ctx, `INSERT INTO peil_schema (version) VALUES ($1)`, n); err != nil {
			return fmt.Errorf("step %d: %w", n, err)
		}
	}
	return nil
}

// forbidden makes a lack of rights an error with a hint; another error stays.
func forbidden(what, advice string, err error) error {
	if sqlState(err) != codeNoPrivileges {
		return err
	}
	return &SchemaError{What: what, Advice: advice, Err: err}
}
