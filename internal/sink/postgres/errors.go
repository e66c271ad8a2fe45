package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/peil-stream/peil/internal/sink"
)

var (
	// errClosed is what a call after Close gets.
	errClosed = errors.New("sink is closed")
	// errLost marks errors after which the connection is gone.
	errLost = errors.New("connection lost")
	// ErrNoSchema says that the tables do not exist where they were looked for.
	ErrNoSchema = errors.New("there are no tables yet")
)

// SchemaError says that the tables are not those of this program, or cannot be.
type SchemaError struct {
	What   string
	Advice string
	// Err is [ErrNoSchema], what the server said, or nil.
	Err error
}

func (e *SchemaError) Error() string {
	if e.Err != nil {
		return e.What + ": " + e.Err.Error()
	}
	return e.What
}

func (e *SchemaError) Unwrap() error { return e.Err }

// Hint says what to do.
func (e *SchemaError) Hint() string { return e.Advice }

// DataError names the one row that the database refuses, whatever else is
// written with it. Trying again does not help.
type DataError struct {
	Table string
	// Key is the row's key as text.
	Key string
	Err error
}

func (e *DataError) Error() string { return fmt.Sprintf("%s %s: %v", e.Table, e.Key, e.Err) }
func (e *DataError) Unwrap() error { return e.Err }

// sqlState is the code of what the server said, or "" if it said nothing.
func sqlState(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

const (
	codeReadOnly     = "25006"
	codeNoPrivileges = "42501"
)

// badData says that a value was refused: its form (22) or a constraint (23).
func badData(err error) bool {
	code := sqlState(err)
	return strings.HasPrefix(code, "22") || strings.HasPrefix(code, "23")
}

// passes says whether the same call may succeed later (R13).
func passes(err error) bool {
	switch code := sqlState(err); {
	case code == "":
		return lostConnection(err)
	case strings.HasPrefix(code, "08"), strings.HasPrefix(code, "53"), strings.HasPrefix(code, "57P0"):
		return true
	default:
		switch code {
		// Serialisation, unknown completion, deadlock; lock and statement timeout;
		// a standby; a session that was idle for too long.
		case "40001", "40003", "40P01", "55P03", "57014", codeReadOnly, "25P03":
			return true
		}
		return false
	}
}

// lostConnection says that the server did not answer, or that there is none.
func lostConnection(err error) bool {
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return errors.Is(err, errLost) || pgconn.SafeToRetry(err) || pgconn.Timeout(err) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

// marked is an error with the mark that the connection is gone, if it is: what
// the driver says then has no type of its own.
func marked(conn *pgx.Conn, err error) error {
	if err != nil && sqlState(err) == "" && conn.IsClosed() {
		return fmt.Errorf("%w: %w", errLost, err)
	}
	return err
}

// failure gives an error its class: one that may pass wraps [sink.ErrTransient].
// The end of the caller's own context is never one. Nil stays nil.
func failure(ctx context.Context, doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w: %w", doing, ctx.Err(), err)
	case passes(err):
		return fmt.Errorf("%s: %w: %w", doing, sink.ErrTransient, err)
	default:
		return fmt.Errorf("%s: %w", doing, err)
	}
}
