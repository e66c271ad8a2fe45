// Package stream is the contract of the log: partitioned, append-only topics
// with offsets, transactional publishers with a memory, consumers that are
// assigned partitions, and readers of ranges. It names nothing of Kafka or of
// SQLite; those live in the adapters below it.
//
// Invariants that every adapter keeps (package streamtest checks them):
//
//   - I1: Offsets of a partition rise; they may have gaps (transaction markers,
//     aborted records, compaction). Nobody may count on next = last + 1.
//   - I2: A reader and a consumer see a published batch whole or not at all, and
//     records in offset order within a partition.
//   - I3: A publisher's messages and its memory changes take effect together.
//     Opening a publisher id fences every earlier publisher of that id: the
//     older one's next Publish returns [ErrFenced] and has no effect.
//   - I4: A consumer never resets to another offset by itself. An offset that
//     the log no longer holds is an error ([ErrOutOfRange]), not a jump.
//   - I5: A null value is a nil slice, an empty value is an empty, non-nil one.
package stream
