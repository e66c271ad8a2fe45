// Package sqlitefile owns the one SQLite file of the embedded default: who may
// write it, its durability, its schema versions and the queue of its writers.
// The embedded log and the SQLite tables both borrow a [File]; neither opens
// the database itself, and no other package imports the driver.
//
// Invariants:
//
//   - I1: At most one process has a file open for writing. The holder keeps an
//     operating-system lock on <path>.lock, which the system frees when the
//     process ends in whatever way; the lock file itself stays.
//   - I2: What Write or Commit acknowledged survives a crash of the process and
//     a power cut (write-ahead log, synchronous=FULL); what they did not
//     acknowledge is there whole or not at all.
//   - I3: Write transactions run one at a time in order of arrival. They wait in
//     Go, never in SQLite's busy handler, so a wait ends with its context and
//     works under a fake clock.
//   - I4: A read transaction sees one moment, the one at which it began, whatever
//     is written beside it, in this process or in another.
//   - I5: A file whose schema is newer than the program is refused before
//     anything is changed.
//
// The database file must not be opened by other means inside the process that
// writes it: closing any descriptor of it would drop SQLite's own locks.
package sqlitefile
