// Package transit is the public-transport job of the engine: it turns arrival
// predictions and vehicle positions into cells, delays and newest rows.
//
// Invariants:
//
//   - I1: Whether a record is dead, and with which reason, depends on the record
//     and its log timestamp alone, so that a replay decides the same (R7, R8).
//   - I2: Take returns at most one row per key: the greatest by observed time,
//     then by tie, then the later one in the partition (R10). A row that is older
//     than one handed over before may be left out: the tables would refuse it.
//   - I3: A record whose line, station or operator is missing counts in the
//     other dimensions.
//
// A job is owned by one task and not safe for concurrent use.
package transit
