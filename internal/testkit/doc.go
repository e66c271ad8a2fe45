// Package testkit is for tests only: a rig of one SQLite file with a log and
// tables on it, a clock that the test sets, and processors that are started,
// drained, stopped and broken at chosen steps. It may import anything; nothing
// but tests imports it.
package testkit
