// Package peil turns public-transport events on a log into correct SQL tables:
// every row equals what a batch job over the same log would compute, after any
// crash, rebalance, outage or redelivery, and an offset is never committed past
// work that is not durable.
//
// It is the root of the command in cmd/peil and not a library for other modules:
// what a [Source] is given and what [Settings] are stands in internal packages,
// which only this module can import, and it changes without notice. The packages
// event, ledger, stats and window are made to be imported.
//
// An [Instance] is one process: a [Source] that fills the log, the processor that
// reads it into tables, and the HTTP API over them, each of them optional.
package peil
