// Package ledger knows which offset of a partition may be committed.
//
// A record that was read is not yet safe to forget: it may sit in a window that is
// still open, or in a snapshot that is still being written. The ledger keeps, for
// one assignment of one partition, the lowest received offset whose effect is not
// durable. That is where a restart must begin, and the only offset that may be
// committed.
//
// # Invariants
//
//	I1  Committed is the lowest received offset that is not durable, or the
//	    position if there is none. It is never above the position and never falls.
//	I2  A record of a window becomes durable when a snapshot that holds its
//	    window's segment is released; any other record when a snapshot taken after
//	    it is released. Nothing received after the mark is released with it.
//	I3  Offsets have gaps (transaction markers, aborted records, compaction); only
//	    received offsets count, so a gap never holds anything back.
//	I4  Pending is exact: the number of received records at or above Committed.
//	I5  Memory grows with the number of windows that are not durable, never with
//	    the number of records: of each window, and of the other records before and
//	    after the mark, only the first offset and its ordinal are kept.
//
// A Ledger is owned by one goroutine and not safe for concurrent use. A call that
// breaks its rules is a programmer's error, which could only end in lost records,
// and panics.
package ledger
