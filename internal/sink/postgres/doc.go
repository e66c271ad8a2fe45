// Package postgres keeps the tables in PostgreSQL: it implements the contract of
// package sink over pools of connections. docs/postgres.md says how to run it.
//
// Invariants, besides those of the contract:
//
//   - I1: Every change is one READ COMMITTED transaction that carries its own
//     timeouts, all below the session timeout of the consumer group: a process
//     that stops in a transaction loses its locks before or soon after its
//     partitions go to others (R4).
//   - I2: Every rule on what may replace what stands in the WHERE of the
//     statement that replaces, never in a read before it. No statement adds to a
//     stored aggregate; the only arithmetic after DO UPDATE is on revision.
//   - I3: Rows are locked in one order everywhere: offsets by partition, segments
//     by window and partition, then state rows by key. Within a statement the
//     rows come sorted, and each key once.
//   - I4: A finaliser takes the lock of its topic first and reads in later
//     statements, each of which sees what was committed before it began.
//   - I5: updated_at, computed_at and merged_at change only with the content
//     beside them, so that the redo of a call leaves the tables equal.
//   - I6: Statements name tables without a schema: that is the first one of
//     search_path. No password ever reaches an error or a log.
//
// A [Sink] and a [Viewer] are safe for concurrent use; a finaliser and a view
// belong to one goroutine. Errors that may pass wrap [sink.ErrTransient], which
// errors.go alone decides; an error of one row is a [*DataError] that names it.
//
// # Goroutines
//
// The pools of pgx keep one goroutine each until Close.
package postgres
