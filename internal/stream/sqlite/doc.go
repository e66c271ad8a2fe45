// Package sqlite is the embedded log: topics, publishers and consumers in the
// one SQLite file, so that a laptop needs no broker. One process writes the
// file; others read it beside it.
//
// Records are not rows. Each append writes, for each partition it touches, rows
// of up to 64 KiB of records in a small encoding (see chunk.go). Getting a
// million records of 188 bytes through the driver so takes 0.15 s instead of
// 1.4 s with a row for each record, and writing 57,000 of 200 bytes 48 ms instead
// of 231 ms; the file is about as large. The price is that the records cannot be
// seen with plain SQL. The primary key holds a chunk's last offset, so "from this
// offset on" is one range of the index, whether or not the offset lies inside of
// a chunk or in a gap.
//
// Invariants, beside those of package stream:
//
//   - I1: An append, its offsets, a publisher's memory and the check of its epoch
//     are one SQLite transaction.
//   - I2: Offsets of a partition are given out inside that transaction, from the
//     stored end, which never goes back; nor does the stored start.
//   - I3: Records below the start are never delivered, even while their chunk is
//     still there; a trim moves the start first and deletes afterwards.
//   - I4: A consumer is woken by the appends of its own process. It never polls.
//
// Embedded groups: one consumer of a group holds all partitions of its topics; a
// second one of the same group in the process stands by until the first leaves.
package sqlite
