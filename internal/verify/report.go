package verify

import (
	"strconv"
	"time"

	"github.com/peil-stream/peil/internal/sink"
)

// ListMax bounds each list of a [Report].
const ListMax = 1_000

// The tables that are compared, as reports name them.
const (
	tableOffsets    = "consumer_offsets"
	tableSegments   = "window_segments"
	tableAggregates = "delay_aggregates"
	tableTrips      = "trip_delay_latest"
	tableVehicles   = "vehicle_latest"
)

// WholeRow is the column of a difference that is about a whole row.
const WholeRow = "(row)"

// Difference is one place where a table says something else than the log.
type Difference struct {
	Table string `json:"table"`
	// Key names the row: its primary key, the parts separated by spaces.
	Key string `json:"key"`
	// Column is [WholeRow] for a row that is missing or one too many.
	Column   string `json:"column"`
	Stored   string `json:"stored"`
	Expected string `json:"expected"`
}

// Pending is a window that a partition has closed and whose rows do not hold
// that partition's records yet.
type Pending struct {
	Topic       string `json:"topic"`
	WindowStart string `json:"window_start"`
	WindowEnd   string `json:"window_end"`
	// Partitions whose segments are not merged yet.
	Partitions []int32 `json:"partitions"`
	// Final says that nothing holds the window: only the merge is missing.
	Final  bool   `json:"final"`
	Reason string `json:"reason"`
}

// Revision is what one partition still keeps open of a window that has rows, or
// may have them: it will revise them.
type Revision struct {
	Topic       string `json:"topic"`
	WindowStart string `json:"window_start"`
	WindowEnd   string `json:"window_end"`
	Partition   int32  `json:"partition"`
	// Records is the number of accepted delays that are not in the rows.
	Records int64 `json:"records"`
}

// Unjudged is something stored that the log cannot confirm or refute.
type Unjudged struct {
	Table  string `json:"table"`
	Key    string `json:"key"`
	Reason string `json:"reason"`
}

// Report is what a run has compared and found. Each list holds the first
// [ListMax] entries; the number beside it counts all.
type Report struct {
	// Records that were read from the log.
	Records int64 `json:"records"`
	// Partitions whose stored position was compared.
	Partitions int `json:"partitions"`
	// Segments of window_segments that were compared.
	Segments int64 `json:"segments"`
	// Windows whose rows were compared, and Rows of delay_aggregates in them,
	// stored or expected.
	Windows int64 `json:"windows"`
	Rows    int64 `json:"rows"`
	// StateRows of trip_delay_latest and vehicle_latest that were compared.
	StateRows int64 `json:"state_rows"`

	Differences      []Difference `json:"differences"`
	DifferenceCount  int64        `json:"difference_count"`
	Pending          []Pending    `json:"pending"`
	PendingCount     int64        `json:"pending_count"`
	ToBeRevised      []Revision   `json:"to_be_revised"`
	ToBeRevisedCount int64        `json:"to_be_revised_count"`
	Unjudged         []Unjudged   `json:"unjudged"`
	UnjudgedCount    int64        `json:"unjudged_count"`
}

// Clean says that nothing stored contradicts the log.
func (r *Report) Clean() bool { return r.DifferenceCount == 0 }

func (r *Report) differ(table, key, column, stored, expected string) {
	r.DifferenceCount++
	if len(r.Differences) < ListMax {
		r.Differences = append(r.Differences, Difference{table, key, column, stored, expected})
	}
}

func (r *Report) pend(p Pending) {
	r.PendingCount++
	if len(r.Pending) < ListMax {
		r.Pending = append(r.Pending, p)
	}
}

func (r *Report) revise(v Revision) {
	r.ToBeRevisedCount++
	if len(r.ToBeRevised) < ListMax {
		r.ToBeRevised = append(r.ToBeRevised, v)
	}
}

func (r *Report) unjudge(table, key, reason string) {
	r.UnjudgedCount++
	if len(r.Unjudged) < ListMax {
		r.Unjudged = append(r.Unjudged, Unjudged{table, key, reason})
	}
}

// column is one named value of a row, as text.
type column struct{ name, value string }

// compareColumns reports each column in which two rows differ.
func (r *Report) compareColumns(table, key string, stored, expected []column) {
	for i, c := range stored {
		if c.value != expected[i].value {
			r.differ(table, key, c.name, c.value, expected[i].value)
		}
	}
}

// instant is a time as the tables hold it, so that a user can search for it.
func instant(ms int64) string {
	if ms == sink.NoTime {
		return "null"
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}

func number[T int32 | int64](n T) string { return strconv.FormatInt(int64(n), 10) }

// float is the shortest text that reads as exactly x. Adding zero takes the sign
// from a negative zero, which SQL does not keep.
func float(x float64) string { return strconv.FormatFloat(x+0, 'g', -1, 64) }

// text is a nullable text column; the empty string stands for NULL.
func text(s string) string {
	if s == "" {
		return "null"
	}
	return s
}

func optional[T any](x *T, format func(T) string) string {
	if x == nil {
		return "null"
	}
	return format(*x)
}
