// Package assert stops the program where an invariant is broken.
//
// It is for faults of the programmer only, never for bad input, a broken network
// or a full disk: those are errors. Assertions stay on in production, because a
// wrong row is worse than a stopped partition: the loop that owns the partition
// turns a [ViolationError] into a fatal error without committing anything.
//
// Invariants:
//
//   - I1: A condition that holds costs no allocation.
//   - I2: A condition that does not hold panics with a [*ViolationError], and nothing
//     else in this package panics.
package assert
