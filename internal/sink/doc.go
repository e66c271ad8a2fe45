// Package sink is the contract of the tables: it claims partitions, applies
// flushes with their offsets in one transaction, and finalises windows. The
// adapters below it know SQL; the processor knows only this package.
//
// Invariants that every adapter keeps (package sinktest checks them; R2, R4 and
// R5 are the rules of the design):
//
//   - I1: A flush is one transaction: its segments, its state rows and its
//     offsets take effect together or not at all, and the fencing update of
//     each partition comes first.
//   - I2: A flush under an epoch, topic id or stored point other than expected
//     changes nothing and names the partition as fenced. Applying the same flush
//     twice has one effect, also when the first outcome is unknown.
//   - I3: A segment replaces, never adds; a fragment never replaces a whole.
//   - I4: Finalising reads under the topic's lock, marks exactly what it read,
//     and raises a row's revision only when its content changes.
//   - I5: Stored position and watermark never go back.
//
// Instants are Unix milliseconds in UTC; [NoTime] stands for SQL NULL.
package sink
