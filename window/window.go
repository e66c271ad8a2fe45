// Package window keeps one partition's open windows.
package window

import "github.com/peil-stream/peil/stats"

// Cell is one key of a dimension, as bytes that may be a view.
type Cell struct {
	Dimension string
	ID        []byte
}

// Record is one event as the windows see it.
type Record struct {
	Offset   int64
	Time     int64 // event time, Unix milliseconds
	LogTime  int64 // the log's own timestamp, Unix milliseconds
	HasValue bool
	Value    int32
	// Label: the smallest one seen is kept per cell. Empty: none.
	Label []byte
	// Group holds the cells that occur together: they are interned by the
	// first, and the rest compared with what that first one had last. Extra is
	// the cell that varies freely (Dimension empty: none). Which cell stands
	// where changes the speed, never a result.
	Group []Cell
	Extra Cell
}

// Row is one merged cell of a window.
type Row struct {
	Dimension string
	ID        string
	Label     string
	stats.Summary
}
