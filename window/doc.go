// Package window keeps the open event-time windows of one partition, decides when
// they close, and merges the segments that closed windows leave behind.
//
// Windows are tumbling, [start, end), aligned to the Unix epoch. A [Partition] is
// fed the records of one partition of the log in offset order. It gives a verdict
// on each and, once its watermark passes the end of a window, turns the window
// into a [Segment]: every cell of the window as an exact histogram, encoded so
// that segments of several partitions can be merged into final rows.
//
// # Invariants
//
//	I1  The watermark is the highest of min(event time, log time) - lateness over
//	    accepted records and heartbeats, of the close markers, and of where the
//	    partition started. It never goes back. No clock takes part.
//	I2  A window is closed exactly when its end <= watermark. A record is judged
//	    before it moves the watermark, and a closed window never opens again.
//	I3  A segment is a pure function of the partition's own records: whoever
//	    computes it, in whatever order the records of the window came, gets the
//	    same bytes. So a segment may be written any number of times.
//	I4  A partition resumed from (next offset, position, watermark) rebuilds every
//	    open window whole and closes it at the same offset with the same content.
//	I5  A record counts once in each of its cells. In which place of Group or Extra
//	    a cell stands changes the speed, never a result.
//	I6  Numbers given to ids live and die with their window, so memory grows with
//	    the open windows, not with the ids ever seen.
//	I7  Decoding judges every byte: it returns a segment's only encoding or an
//	    error, never panics, and allocates in proportion to its input.
//
// # How it is fast
//
// An open window is a log of 12 bytes a record. Its cells are not touched while
// records come in. At closing the log is sorted once by value and dealt out to the
// cells, so that every histogram comes out sorted.
//
// All times are Unix milliseconds; those further than 2^62 from the epoch count as
// that limit. A Partition is owned by one goroutine and not safe for concurrent
// use; the functions are pure.
package window
