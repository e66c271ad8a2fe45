package postgres

import (
	"log/slog"
	"time"
)

// Options of [Open], [OpenViewer] and [Migrate].
type Options struct {
	// URL is a postgres:// address, or any other form that pgx reads. Required. It
	// holds a password: it is never logged, and errors name host and database only.
	URL string
	// Now gives the time for updated_at, computed_at, merged_at and the time of
	// incidents. No rule looks at it. Defaults to time.Now.
	Now func() time.Time
	// SessionTimeout is that of the consumer group: a process that stops in a
	// transaction must lose its locks before its partitions go to others, so the
	// timeouts of locks, statements and idle transactions lie below it. Defaults
	// to 45 s.
	SessionTimeout time.Duration
	// Logger receives a warning for each incident that was stored. Nil discards
	// them.
	Logger *slog.Logger
}
