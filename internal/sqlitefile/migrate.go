package sqlitefile

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
)

// Errors of [File.Migrate] that callers branch on.
var (
	// ErrNewer: the file was written by a newer program.
	ErrNewer = errors.New("file is newer than this program")
	// ErrOlder: the file is open for reading only and lacks steps that only a
	// writer can take.
	ErrOlder = errors.New("file is older than this program")
)

// Migrate brings the schema of one component up to date, in one transaction.
// steps are SQL scripts, in the order in which they came into being; their
// number is the version, so a step that was released is never changed, only
// followed by another. A file that has seen more steps is refused with an error
// that wraps [ErrNewer]. On a read-only file Migrate only checks; missing steps
// are an error that wraps [ErrOlder].
func (f *File) Migrate(ctx context.Context, component string, steps []string) error {
	version, err := f.version(ctx, component)
	if err != nil {
		return fmt.Errorf("migrate %s: %w", component, err)
	}
	switch {
	case version > len(steps):
		return fmt.Errorf("migrate %s: %w: %s has version %d of %q, this program knows %d; use the newer program",
			component, ErrNewer, f.path, version, component, len(steps))
	case version == len(steps):
		return nil
	case f.ReadOnly():
		return fmt.Errorf("migrate %s: %w: %s has version %d of %q, this program reads %d; open it for writing once",
			component, ErrOlder, f.path, version, component, len(steps))
	}
	err = f.Write(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, createVersions); err != nil {
			return fmt.Errorf("make version table: %w", err)
		}
		for i := version; i < len(steps); i++ {
			if _, err := tx.ExecContext(ctx, steps[i]); err != nil {
				return fmt.Errorf("step %d: %w", i+1, err)
			}
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO schema_versions (component, version) VALUES (?, ?)
			ON CONFLICT (component) DO UPDATE SET version = excluded.version`, component, len(steps))
		return err
	})
	if err != nil {
		return fmt.Errorf("migrate %s: %w", component, err)
	}
	f.log.Info("schema migrated", slog.String("component", component),
		slog.Int("from_version", version), slog.Int("to_version", len(steps)))
	return nil
}

const createVersions = `CREATE TABLE IF NOT EXISTS schema_versions (
	component TEXT PRIMARY KEY, version INTEGER NOT NULL) WITHOUT ROWID`

// version is the number of steps that the file has seen. There is no writer
// beside this process, so it stands until this process changes it.
func (f *File) version(ctx context.Context, component string) (version int, err error) {
	tx, end, err := f.BeginRead(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, end()) }()
	var n int
	err = tx.QueryRowContext(ctx,
		`SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'schema_versions'`).Scan(&n)
	if err != nil || n == 0 {
		return 0, err
	}
	err = tx.QueryRowContext(ctx, `SELECT version FROM schema_versions WHERE component = ?`, component).Scan(&version)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return version, err
}
