package window

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/peil-stream/peil/stats"
)

// NoTime is the watermark of a partition of which nothing is known yet.
const NoTime int64 = math.MinInt64

// The defaults of [Config].
const (
	DefaultSize     = 5 * time.Minute
	DefaultLateness = 2 * time.Minute
)

// timeMax bounds event times on both sides of the epoch, so that the start and
// the end of a window always fit.
const timeMax int64 = 1 << 62

// Config is the shape of the windows. The zero Config stands for [DefaultSize] and
// [DefaultLateness]; in any other both fields are taken as they are, so that a
// lateness of zero can be asked for.
type Config struct {
	// Size of a window, in whole milliseconds, positive.
	Size time.Duration
	// Lateness is how far the watermark stays behind the highest event time, in
	// whole milliseconds, zero or more.
	Lateness time.Duration
}

// Validate reports everything that is wrong with the configuration.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	if c.Size <= 0 {
		errs = append(errs, fmt.Errorf("window size %v is not positive", c.Size))
	}
	if c.Size%time.Millisecond != 0 {
		errs = append(errs, fmt.Errorf("window size %v is not a whole number of milliseconds", c.Size))
	}
	if c.Lateness < 0 {
		errs = append(errs, fmt.Errorf("lateness %v is negative", c.Lateness))
	}
	if c.Lateness%time.Millisecond != 0 {
		errs = append(errs, fmt.Errorf("lateness %v is not a whole number of milliseconds", c.Lateness))
	}
	return errors.Join(errs...)
}

func (c Config) withDefaults() Config {
	if c == (Config{}) {
		return Config{Size: DefaultSize, Lateness: DefaultLateness}
	}
	return c
}

// Start is the start of the window that contains t, both in Unix milliseconds. It
// rounds down below zero too, where Go's division alone would round towards zero
// and put t into the window after its own. The size must be positive.
func Start(t, size int64) int64 {
	t = max(-timeMax, min(t, timeMax))
	m := t % size
	if m < 0 {
		m += size
	}
	return t - m
}

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
	// the cell that varies freely. Which cell stands where changes the speed,
	// never a result. A cell whose Dimension is empty is none.
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

// Verdict is what a partition decided about an event.
type Verdict uint8

// The verdicts.
const (
	// Accepted: the record counts, and its value is in its window if it has one.
	Accepted Verdict = iota
	// Replayed: accepted again below the stored position. It rebuilds its window
	// and has been counted before.
	Replayed
	// Late: its window is closed, and it lies at or above the stored position.
	// Drop and count it.
	Late
	// Redelivered: its window is closed, and it lies below the stored position,
	// so it was judged before. Skip it and count nothing.
	Redelivered
)

// String names the verdict in lower case.
func (v Verdict) String() string {
	switch v {
	case Accepted:
		return "accepted"
	case Replayed:
		return "replayed"
	case Late:
		return "late"
	case Redelivered:
		return "redelivered"
	default:
		return fmt.Sprintf("verdict(%d)", uint8(v))
	}
}

// Resume is where a partition goes on, as a claim found it.
type Resume struct {
	// Watermark stored with the position; [NoTime] for a new partition.
	Watermark int64
	// Position is the next offset that was never judged; 0 for a new partition.
	// Reading may begin below it.
	Position int64
}

// OpenWindow describes a window that holds at least one record.
type OpenWindow struct {
	Start, End  int64
	FirstOffset int64
	Records     int64
}

// Segment is a closed window of one partition.
type Segment struct {
	Start, End int64
	// FirstOffset is the first record in the window.
	FirstOffset int64
	// ThroughOffset is the record, heartbeat or marker whose watermark closed it.
	ThroughOffset int64
	Records       int64
	// Data is the cells, for [Merge] and [Decode]. It is not compressed.
	Data []byte
}
