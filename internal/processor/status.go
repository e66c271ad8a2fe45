package processor

import (
	"cmp"
	"slices"

	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/stream"
)

// OpenWindow is a window that a partition has not closed.
type OpenWindow struct {
	Start, End  int64 // Unix milliseconds
	FirstOffset int64
	Records     int64
}

// PartitionStatus is the live state of a partition in this process. It must not
// be changed by the reader.
type PartitionStatus struct {
	Partition stream.Partition
	Windowed  bool
	Epoch     int64
	// Position is the next offset to read, Committed where a restart would begin,
	// Pending the received records at or above it.
	Position  int64
	Committed int64
	Pending   int64
	Watermark int64 // Unix milliseconds, or sink.NoTime
	// HeldSince is the log timestamp of the oldest uncommitted record, or NoTime.
	HeldSince int64
	Counts    sink.Counts
	// InFlight: a snapshot is being written.
	InFlight bool
	Open     []OpenWindow
}

// Status returns the live state of every assigned partition, by topic and index.
func (p *Processor) Status() []PartitionStatus {
	var all []PartitionStatus
	for _, t := range p.sorted() {
		all = append(all, *t.status.Load())
	}
	return all
}

// openWindows adds up the partitions' open windows, by start.
func (p *Processor) openWindows() []OpenWindow {
	sum := map[int64]OpenWindow{}
	for _, s := range p.Status() {
		for _, w := range s.Open {
			o := sum[w.Start]
			sum[w.Start] = OpenWindow{Start: w.Start, End: w.End, FirstOffset: -1, Records: o.Records + w.Records}
		}
	}
	all := make([]OpenWindow, 0, len(sum))
	for _, w := range sum {
		all = append(all, w)
	}
	slices.SortFunc(all, func(a, b OpenWindow) int { return cmp.Compare(a.Start, b.Start) })
	return all
}
