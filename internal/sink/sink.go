package sink

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/window"
)

const (
	// NoTime is the instant of a value that is not known (NULL in SQL).
	NoTime int64 = math.MinInt64
	// Infinity is 9999-12-31T23:59:59.999Z: later than every window.
	Infinity int64 = 253402300799999
)

// Errors that callers branch on.
var (
	// ErrBusy: another instance finalises this topic now; try again later.
	ErrBusy = errors.New("another instance holds the lock of this topic")
	// ErrTransient marks errors after which the same call may succeed later
	// (R13). Adapters wrap it around what the database said.
	ErrTransient = errors.New("the database cannot answer now")
)

// MismatchError says that the stored row of a partition belongs to something
// else than the caller: another topic id, group or fingerprint. The claim
// changed nothing.
type MismatchError struct {
	Partition stream.Partition
	// What is "topic_id", "group_id" or "fingerprint".
	What           string
	Stored, Wanted string
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("%s: stored %s is %q, this process has %q", e.Partition, e.What, e.Stored, e.Wanted)
}

// Point is how far a partition is: Next is where a restart begins, Position the
// next offset that was not read yet. Next <= Position.
type Point struct {
	Next     int64
	Position int64
}

// Counts are the records of a partition below its position, by outcome.
type Counts struct {
	Accepted int64
	Late     int64
	Dead     int64
	Ignored  int64
}

// Total is the number of records that were judged.
func (c Counts) Total() int64 { return c.Accepted + c.Late + c.Dead + c.Ignored }

// ClaimRequest asks for a partition.
type ClaimRequest struct {
	Partition   stream.Partition
	TopicID     string
	Group       string
	Owner       string
	Fingerprint string
}

// Claim is what the table held when the partition was claimed.
type Claim struct {
	// Epoch is the new fencing token.
	Epoch int64
	// Stored is false when nothing was ever flushed for this partition; then
	// the fields below mean nothing.
	Stored      bool
	Point       Point
	LeaderEpoch int32
	// Watermark in Unix milliseconds, or NoTime.
	Watermark int64
	Counts    Counts
}

// Origins of a segment.
const (
	OriginLive     = "live"
	OriginBackfill = "backfill"
)

// Segment is all cells of one window from one partition.
type Segment struct {
	Start, End    int64 // Unix milliseconds
	FirstOffset   int64
	ThroughOffset int64
	Records       int64
	Origin        string
	// Data is the encoding of package window, compressed by the processor. It
	// is nil once retention has emptied it.
	Data []byte
}

// Vehicle is a row of vehicle_latest. An empty string or nil is NULL.
type Vehicle struct {
	VehicleID     string
	TripID        string
	LineID        string
	Operator      string
	Latitude      float64
	Longitude     float64
	Bearing       *float64
	SpeedMPS      *float64
	StopID        string
	CurrentStatus string
	Occupancy     string
	ObservedAt    int64
	Tie           int64
}

// Trip is a row of trip_delay_latest. An empty string or nil is NULL, but for
// StartDate, where the empty string stands for itself.
type Trip struct {
	TripID        string
	StartDate     string
	LineID        string
	Operator      string
	StopID        string
	StationID     string
	StopSequence  *int64
	DelayS        int32
	PredictedTime int64 // or NoTime
	ObservedAt    int64
	Tie           int64
}

// State is the newest rows of a batch, at most one per key (R10).
type State struct {
	Vehicles []Vehicle
	Trips    []Trip
}

// Incident is something that a person should know of, kept in SQL.
type Incident struct {
	ID         int64 // set by the sink
	Kind       string
	Topic      string
	Partition  int32 // -1: not about one partition
	FromOffset int64 // -1: none
	ToOffset   int64 // -1: none
	Detail     string
	At         int64 // set by the sink
}

// PartitionFlush is the immutable snapshot of one partition.
type PartitionFlush struct {
	Partition stream.Partition
	TopicID   string
	Epoch     int64
	// From is the point last written under this claim or found by it; nil when
	// none was ever stored.
	From *Point
	// To is the point being written. Its position must not lie below that of
	// From: while replaying after a restart it stays the stored one.
	To          Point
	LeaderEpoch int32
	Watermark   int64 // or NoTime
	FinalTo     int64 // NoTime, an instant, or Infinity
	Counts      Counts
	Segments    []Segment
	State       State
	Incidents   []Incident
}

// Refused is a segment that was not stored because a stored one covers more (R2).
type Refused struct {
	Partition stream.Partition
	Start     int64
	// Stored identity that stands.
	FirstOffset, ThroughOffset int64
	// Offered identity.
	OfferedFirst, OfferedThrough int64
}

// FlushResult says what a flush did.
type FlushResult struct {
	// Fenced partitions: nothing at all was written; flush the others again
	// without these.
	Fenced  []stream.Partition
	Refused []Refused
	// Sealed counts segments stored for windows that retention has emptied.
	Sealed int
}

// PendingWindow is a final window with at least one unmerged segment.
type PendingWindow struct {
	Start, End int64
	// Segments are all segments of the window for this topic and topic id,
	// merged ones too, by partition.
	Segments []StoredSegment
}

// StoredSegment is a segment with the partition it came from.
type StoredSegment struct {
	Partition int32
	Segment
	// MergedAt in Unix milliseconds, or NoTime.
	MergedAt int64
	TopicID  string
}

// Applied says what Apply changed.
type Applied struct {
	Inserted int
	Revised  int
	Removed  int
	// Foreign counts rows that belong to another topic and were left alone; the
	// sink has written an incident.
	Foreign int
}

// Finaliser is one finalising transaction under the lock of a topic.
type Finaliser interface {
	// Pending returns the windows to merge, oldest first, at most the limit.
	Pending(ctx context.Context) ([]PendingWindow, error)
	// Apply upserts the rows of a window (sorted by dimension and id), removes
	// rows of the window and topic that are no longer in the result, and marks
	// the window's segments as merged, each by the identity that was read.
	Apply(ctx context.Context, w PendingWindow, rows []window.Row) (Applied, error)
	Commit(ctx context.Context) error
	// Rollback ends the transaction without effect; after Commit it does nothing.
	Rollback(ctx context.Context) error
}

// FinalRequest asks to finalise windows of a topic.
type FinalRequest struct {
	Topic   string
	TopicID string
	// Limit of windows in one transaction.
	Limit int
}

// Sink is the tables, for writing. Safe for concurrent use.
type Sink interface {
	Viewer
	// Register inserts the missing rows of all partitions of a topic, with
	// final_to NULL, so that finality waits for partitions not seen yet.
	Register(ctx context.Context, topic stream.Topic, group string) error
	// Claim raises the partition's epoch and returns what is stored. It sets
	// final_to back to the watermark (R9). A row that belongs to another topic
	// id, group or fingerprint is a *[MismatchError].
	Claim(ctx context.Context, req ClaimRequest) (Claim, error)
	// Flush applies the partitions' snapshots in one transaction (R4).
	Flush(ctx context.Context, parts []PartitionFlush) (FlushResult, error)
	// Final begins a finalising transaction, or returns [ErrBusy].
	Final(ctx context.Context, req FinalRequest) (Finaliser, error)
	// Record writes an incident on its own.
	Record(ctx context.Context, in Incident) error
	// Retain empties the data of segments merged before the instant and returns
	// how many; their windows are sealed by it.
	Retain(ctx context.Context, mergedBefore int64) (int, error)
	// Close releases what the sink holds. Idempotent.
	Close() error
}

// Viewer opens consistent views. Safe for concurrent use.
type Viewer interface {
	// View begins a read transaction: everything read through it is of one
	// moment. It must be closed.
	View(ctx context.Context) (View, error)
}

// Offset is a row of consumer_offsets.
type Offset struct {
	Partition   stream.Partition
	Group       string
	TopicID     string
	Stored      bool // false: next_offset and position are NULL
	Point       Point
	LeaderEpoch int32
	Watermark   int64
	FinalTo     int64
	Counts      Counts
	Fingerprint string
	Epoch       int64
	Owner       string
	// UpdatedAt is when something in the row last changed; a redo leaves it.
	UpdatedAt int64
}

// Aggregate is a row of delay_aggregates.
type Aggregate struct {
	Start, End  int64
	Dimension   string
	DimensionID string
	Operator    string // empty: NULL
	Count       int64
	Mean        float64
	P90         float64
	Max, Min    int32
	Revision    int64
	Topic       string
	ComputedAt  int64
}

// AggregateQuery selects rows; zero fields do not restrict.
type AggregateQuery struct {
	Dimension   string
	DimensionID string
	// From and To bound window_start: From <= start < To. NoTime: unbounded.
	From, To int64
	// Limit of rows; 0 is none.
	Limit int
	// Newest first instead of by window, dimension and id.
	Newest bool
}

// View reads the tables as of one moment. Not safe for concurrent use. Its
// sequences end after an error.
type View interface {
	Offsets(ctx context.Context) ([]Offset, error)
	Aggregates(ctx context.Context, q AggregateQuery) iter.Seq2[Aggregate, error]
	Vehicles(ctx context.Context) iter.Seq2[Vehicle, error]
	Trips(ctx context.Context) iter.Seq2[Trip, error]
	// Segments yields a topic's segments by window and partition; withData
	// false leaves Data nil.
	Segments(ctx context.Context, topic string, withData bool) iter.Seq2[StoredSegment, error]
	// Incidents returns the newest ones, newest first; limit 0 is all.
	Incidents(ctx context.Context, limit int) ([]Incident, error)
	Close() error
}
