package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/sink/sinktest"
)

func TestNoAddition(t *testing.T) {
	t.Parallel()
	sinktest.NoAddition(t, ".")
}

// TestErrorClasses holds what may pass against the rule (R13).
func TestErrorClasses(t *testing.T) {
	t.Parallel()
	code := func(c string) error { return fmt.Errorf("flush: %w", &pgconn.PgError{Severity: "ERROR", Code: c}) }
	tests := []struct {
		name string
		err  error
		want bool
	}{
		{"connection exception", code("08006"), true},
		{"unknown outcome", code("08007"), true},
		{"serialisation failure", code("40001"), true},
		{"completion unknown", code("40003"), true},
		{"deadlock", code("40P01"), true},
		{"disk full", code("53100"), true},
		{"too many connections", code("53300"), true},
		{"lock timeout", code("55P03"), true},
		{"statement timeout", code("57014"), true},
		{"shutting down", code("57P01"), true},
		{"starting up", code("57P03"), true},
		{"standby", code("25006"), true},
		{"idle for too long", code("25P03"), true},
		{"connection reset", &net.OpError{Op: "read", Err: os.NewSyscallError("read", io.EOF)}, true},
		{"end of stream", fmt.Errorf("receive: %w", io.ErrUnexpectedEOF), true},
		{"no answer in time", os.ErrDeadlineExceeded, true},
		{"bad text", code("22021"), false},
		{"constraint", code("23514"), false},
		{"key twice", code("21000"), false},
		{"failed transaction", code("25P02"), false},
		{"no such table", code("42P01"), false},
		{"no rights", code("42501"), false},
		{"wrong password", code("28P01"), false},
		{"ours", errors.New("position would go back"), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := errors.Is(failure(t.Context(), "flush", tt.err), sink.ErrTransient); got != tt.want {
				t.Errorf("%v is transient: %v, want %v", tt.err, got, tt.want)
			}
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			err := failure(ended, "flush", tt.err)
			if errors.Is(err, sink.ErrTransient) || !errors.Is(err, context.Canceled) {
				t.Errorf("once the caller's context has ended: %v", err)
			}
		})
	}
	if failure(t.Context(), "flush", nil) != nil {
		t.Error("nil does not stay nil")
	}
}

// TestTimeoutsLieBelowTheSession holds the bounds of R4.
func TestTimeoutsLieBelowTheSession(t *testing.T) {
	t.Parallel()
	for _, session := range []time.Duration{6 * time.Second, sessionTimeout, 10 * time.Minute} {
		l := timeoutsOf(session)
		for name, d := range map[string]time.Duration{"lock": l.lock, "idle": l.idle, "statement": l.statement} {
			if d < time.Second || d >= session {
				t.Errorf("session %s: %s timeout is %s", session, name, d)
			}
		}
		if l.lock >= l.statement {
			t.Errorf("session %s: a statement ends before its wait for a lock", session)
		}
	}
}

// TestURLErrorsHideThePassword gives addresses that cannot be used, in every form
// that a person may mistype, and servers that do not answer.
func TestURLErrorsHideThePassword(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, url, want string }{
		{"slash in the password", "postgres://u:hush/hush@localhost/db", "cannot be read"},
		{"percent in the password", "postgres://u:hush%zz@localhost/db", "cannot be read"},
		{"space in the host", "postgres://u:hush@local host/db", "cannot be read"},
		{"port", "postgres://u:hush@localhost:99999999/db", "port"},
		{"setting", "postgres://u:hush@localhost/db?sslmode=maybe", "sslmode"},
		{"pool", "postgres://u:hush@localhost/db?pool_max_conns=none", "pool_max_conns"},
		{"words", "host=localhost password='hush dbname=db", "cannot be read"},
		{"nothing there", "postgres://u:hush@127.0.0.1:1/db?connect_timeout=1", "127.0.0.1:1/db"},
		{"nothing there, words", "host=127.0.0.1 port=1 user=u password=hush dbname=db", "127.0.0.1:1/db"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := Open(t.Context(), Options{URL: tt.url})
			if err == nil {
				t.Fatal("no error")
			}
			if strings.Contains(err.Error(), "hush") {
				t.Errorf("the error shows the password: %v", err)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v lacks %q", err, tt.want)
			}
			if unreachable := strings.HasPrefix(tt.name, "nothing"); errors.Is(err, sink.ErrTransient) != unreachable {
				t.Errorf("error %v is transient: %v", err, !unreachable)
			}
		})
	}
}
