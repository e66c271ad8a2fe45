// Package verify is the batch job that defines right rows: it goes through the
// log once more, by a separate and naive path, and compares what the tables hold
// with what they should hold.
//
// Invariants:
//
//   - I1: It shares nothing with the processor but the contracts of log and
//     tables and the record types of package event, so that a fault in windows,
//     statistics or the ledger shows up here instead of being repeated.
//   - I2: Everything stored is of one moment: one view is read first, then the
//     log up to each partition's stored position. A process may be running.
//   - I3: It writes nothing.
//   - I4: What is neither right nor wrong is named, never passed over: windows
//     that wait to be merged, records that will revise a row, and what a log
//     that was trimmed cannot judge any more.
//   - I5: The lists of a report are bounded by [ListMax]; their totals are exact.
//
// What it does not compare: revision, the instants at which rows were written,
// owner, epoch and leader epoch, and the encoded data of segments (its effect is
// compared once it is merged).
package verify
