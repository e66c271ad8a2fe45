// Package peil turns public-transport events on a log into correct SQL tables:
// every row equals what a batch job over the same log would compute, after any
// crash, rebalance, outage or redelivery, and an offset is never committed past
// work that is not durable.
//
// An [Instance] is one process: a [Source] that fills the log, the processor that
// reads it into tables, and the HTTP API over them, each of them optional. The
// command in cmd/peil is a thin layer over it.
package peil
