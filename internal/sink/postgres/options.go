package postgres

import (
	"fmt"
	"log/slog"
	"time"
)

// sessionTimeout is that of a consumer group which does not say otherwise.
const sessionTimeout = 45 * time.Second

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

func (o Options) withDefaults() Options {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.SessionTimeout <= 0 {
		o.SessionTimeout = sessionTimeout
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// timeouts are the bounds of a writing transaction.
type timeouts struct {
	// lock is how long a statement waits for a row or table lock.
	lock time.Duration
	// idle is how long the server waits for the next statement, or for an answer to
	// be taken, before it ends the session: a stopped process loses its locks
	// after it.
	idle time.Duration
	// statement bounds one statement, not a flush: each writes a bounded chunk.
	statement time.Duration
}

// timeoutsOf derives the bounds from the session timeout of the group.
func timeoutsOf(session time.Duration) timeouts {
	return timeouts{lock: session / 4, idle: session / 2, statement: session * 2 / 3}
}

// begin is the text that begins a writing transaction. The timeouts travel with
// it, in the same round trip, because what is set at the start of a session is
// lost behind a pooler that shares sessions.
func (t timeouts) begin() string {
	return fmt.Sprintf(`BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = %d; `+
		`SET LOCAL idle_in_transaction_session_timeout = %d; SET LOCAL tcp_user_timeout = %d; SET LOCAL statement_timeout = %d`,
		t.lock.Milliseconds(), t.idle.Milliseconds(), t.idle.Milliseconds(), t.statement.Milliseconds())
}

// answer is how long the client waits for the answer to one statement. It is
// longer than what the server allows, so that it ends only what the server
// cannot: a host that is gone.
func (t timeouts) answer() time.Duration { return t.statement + t.idle }
