// Package processor is the engine: a task per partition that owns its windows
// and its ledger, one flush at a time that writes what has closed together with
// the offsets, and a finalising step after each flush. It knows the contracts of
// log and tables, and nothing of Kafka or SQL.
//
// Invariants (the rules are those of the design):
//
//   - I1: What a flush writes is an immutable snapshot taken by the partition's
//     own task at a record boundary; what the task reads meanwhile belongs to
//     the next one (R3, R4). One snapshot of a partition is in flight at a time;
//     until it is durable it is written again unchanged, never replaced.
//   - I2: A snapshot is written only when every dead letter below its position
//     has been acknowledged; the other partitions do not wait for it (R7).
//   - I3: Counts and state rows take records at or above the position found at
//     the claim; records below it only rebuild open windows (R5).
//   - I4: After a fenced flush, a failed claim or an error that lasts, nothing is
//     written any more: the process stops and says why.
//   - I5: Open windows are never written as partial ones.
//
// # Goroutines
//
// One task goroutine per assigned partition, started by Assigned and awaited by
// Revoked or Lost, and by its side the lane of its dead letters, awaited by the
// task; one flush loop, awaited by Run.
// flushMu serialises flushes (the loop, Drain and the last one at a revoke); mu
// guards the set of tasks and is never held across a call to log, sink or task.
package processor
