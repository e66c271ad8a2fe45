// Package sinktest is the conformance suite of package sink: what every adapter
// must do, whatever its database. [Run] runs it in a test of the adapter.
//
// Invariants:
//
//   - I1: A [Check] speaks to the adapter through the contract and the hooks of
//     its [Harness] only, and works on empty tables of its own.
//   - I2: A check reports by an error, so that the suite itself can be tested: an
//     adapter with one rule broken must fail the check of that rule.
//   - I3: Segments come from package window, fed with records, so that the suite
//     tests rows that a processor could have written.
//
// Checks named M.. and K.. follow the acceptance cases of the design. Where a
// case has two instances, the second one is that of the harness.
package sinktest
