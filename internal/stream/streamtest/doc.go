// Package streamtest is the conformance suite of package stream: every adapter
// of the log runs the same checks of the contract's invariants.
//
// A check is a function that returns an error, not a test, so that the suite
// itself can be tested: adapters broken on purpose must fail the check that
// their fault belongs to. Checks wait for events, never for time to pass, and
// run inside a synctest bubble too. That something does not happen is shown by
// what is ordered behind it: a record that must not arrive would have arrived
// before the one that was appended after it.
package streamtest
