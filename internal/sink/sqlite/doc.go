// Package sqlite keeps the tables in the one SQLite file of the embedded
// default: it implements the contract of package sink over a borrowed
// [sqlitefile.File].
//
// Invariants, besides those of the contract:
//
//   - I1: Every change is one write transaction of the file. SQLite has one
//     writer, so a transaction that has begun holds the lock of every topic and
//     [sink.ErrBusy] never occurs: a second finaliser waits in the file's queue.
//   - I2: Every rule on what may replace what stands in the WHERE of the
//     statement that replaces, never in a read before it. No statement adds to a
//     stored aggregate; the only arithmetic after DO UPDATE is on revision.
//   - I3: Instants are text of one width, so that text order is time order, and
//     an unknown value is NULL.
//   - I4: updated_at, computed_at and merged_at change only with the content
//     beside them, so that the redo of a call leaves the tables byte-equal.
//   - I5: Rows are written in the order of their keys.
//
// A [Sink] and a [Viewer] are safe for concurrent use; a finaliser and a view
// belong to one goroutine. Errors that may pass wrap [sink.ErrTransient]; an
// error of one row names the row.
package sqlite
