// Package gtfsrt reads GTFS-Realtime snapshots and turns them into events, each
// observation once (R12). It is pure: bytes in, decisions out, no clock and no
// input or output.
//
// [Decode] takes protobuf or the JSON form, told apart by content, and keeps
// what is usable: an entity that lacks what it needs is left out and counted, the
// rest counts. A body that the libraries cannot read is an error as a whole. A
// [Differ] compares a [Snapshot] with what it remembers and answers with a
// [Delta]: the events, in the order in which they are published, and the changes
// of its memory.
//
// Invariants:
//
//   - I1: The memory says exactly what was published. A differ that is made from
//     the stored memory goes on like the one that wrote it, and a snapshot that
//     was published whole gives no event again.
//   - I2: [Delta.Changes] of a part holds what the events of that part, and of
//     those before it, make of the memory: when the parts are applied one by one
//     and the work stops between two, the same snapshot gives exactly the rest.
//   - I3: No event lies after the header time of its snapshot, and no header time
//     after the time of the fetch (R8).
//   - I4: Within one snapshot the last entity wins per stop; what is published
//     does not depend on how often it was said.
//   - I5: Every event passes the decoder of package event: what would not is
//     rejected here, with a reason, and counted.
//   - I6: The memory is bounded: a trip or vehicle is forgotten a day after it was
//     last seen, and there are never more than the configured numbers.
//
// A [Differ] is owned by one goroutine. Its memory moves with [Differ.Diff], so
// after a delta that could not be published it must be made anew.
//
// # Statuses
//
// A trip that is CANCELED or DELETED gives the status canceled, for each stop it
// lists, or once for the trip. SCHEDULED, ADDED, UNSCHEDULED, REPLACEMENT and
// DUPLICATED are read as running. Any other number, NEW included, gives the
// status unknown: it is published and enters no aggregate, because nothing says
// that its delay is measured against a timetable.
package gtfsrt
