package api

import "github.com/peil-stream/peil/internal/stream"

// Live is what the processor of this process knows and the tables do not: what
// it has read but not yet written. Instants are Unix milliseconds or
// [sink.NoTime].
type Live struct {
	Partitions []LivePartition
}

// LivePartition is one partition that this process owns.
type LivePartition struct {
	Partition stream.Partition
	// Position is the next offset to read, and Committed where a restart
	// begins once the present flush is durable.
	Position  int64
	Committed int64
	// Pending counts the records received at or above Committed.
	Pending   int64
	Watermark int64
	// OldestHeldSince is the log's timestamp of the record at Committed.
	OldestHeldSince int64
	// OpenWindows by start.
	OpenWindows []LiveWindow
}

// LiveWindow is a window that its partition has not closed.
type LiveWindow struct {
	Start, End int64
	Records    int64
}
