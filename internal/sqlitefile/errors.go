package sqlitefile

import (
	"database/sql"
	"errors"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// primaryMask cuts an extended result code to its primary code.
const primaryMask = 0xff

// Transient says whether the same call may succeed later: the file is busy or
// locked by another program, the disk is full, or input or output failed.
func Transient(err error) bool {
	switch code(err) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR,
		sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PROTOCOL:
		return true
	default:
		return false
	}
}

func busy(err error) bool {
	switch code(err) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL:
		return true
	default:
		return false
	}
}

// code is the primary result code in err's chain, or SQLITE_OK.
func code(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & primaryMask
	}
	return sqlite3.SQLITE_OK
}

// rolledBack recognises the errors of a rollback that SQLite had already done
// by itself, after a full disk or an interrupted statement. There is no code
// for it but SQLITE_ERROR.
func rolledBack(err error) bool {
	if errors.Is(err, sql.ErrTxDone) {
		return true
	}
	return code(err) == sqlite3.SQLITE_ERROR && strings.Contains(err.Error(), "no transaction is active")
}
