package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"
)

// NoTimestamp is the timestamp of a record that has none.
const NoTimestamp int64 = -1

// ByKey asks the log to choose a message's partition from its key (murmur2, as
// Kafka's default partitioner does it: partition = positive(murmur2(key)) % n).
const ByKey int32 = -1

// Errors that callers branch on.
var (
	// ErrFenced: another publisher opened the same id; this one is dead.
	ErrFenced = errors.New("publisher fenced: another one has opened the same id")
	// ErrNoTopic: the topic does not exist.
	ErrNoTopic = errors.New("no such topic")
	// ErrOutOfRange: the log does not hold the offset that was asked for.
	ErrOutOfRange = errors.New("offset out of range")
	// ErrTooLarge: a message is larger than the log takes.
	ErrTooLarge = errors.New("message too large for the log")
	// ErrUnavailable: the log cannot answer now, but may later: its brokers are
	// away, or it is busy. Adapters wrap it around what the log said.
	ErrUnavailable = errors.New("the log cannot answer now")
)

// Partition names one partition of one topic.
type Partition struct {
	Topic string
	Index int32
}

// String gives topic/index, as in logs and errors.
func (p Partition) String() string { return fmt.Sprintf("%s/%d", p.Topic, p.Index) }

// Compare orders partitions by topic and index; it is negative if p comes first.
func (p Partition) Compare(q Partition) int {
	return cmp.Or(cmp.Compare(p.Topic, q.Topic), cmp.Compare(p.Index, q.Index))
}

// Header is one header of a record. Keys may repeat.
type Header struct {
	Key   string
	Value []byte
}

// Record is one record as read. Its slices belong to the batch it came in: they
// are valid until that batch is released and must not be changed.
type Record struct {
	Offset int64
	// Timestamp is the log's own timestamp in Unix milliseconds, or NoTimestamp.
	Timestamp int64
	Key       []byte
	// Value is nil for a null value.
	Value   []byte
	Headers []Header
}

// Header returns the value of the last header with that key.
func (r *Record) Header(key string) (value []byte, ok bool) {
	for _, h := range slices.Backward(r.Headers) {
		if h.Key == key {
			return h.Value, true
		}
	}
	return nil, false
}

// Message is one record to be appended.
type Message struct {
	Topic string
	// Partition is the index, or ByKey.
	Partition int32
	// Timestamp in Unix milliseconds; 0 lets the log stamp the time of append.
	Timestamp int64
	Key       []byte
	Value     []byte
	Headers   []Header
}

// Change is one change of a publisher's memory. A nil value deletes the key.
type Change struct {
	Key   string
	Value []byte
}

// Topic is what the log says about a topic.
type Topic struct {
	Name string
	// ID changes when a topic is deleted and created again under its name.
	ID         string
	Partitions int32
}

// TopicSpec is a topic to be created where it is missing.
type TopicSpec struct {
	Name       string
	Partitions int32
	// Retention is how long the log keeps records. Zero: [RetentionDefault].
	// The embedded log is trimmed by its owner instead.
	Retention time.Duration
}

// RetentionDefault is the least retention with which a consumer that was away
// over a week-end still finds what it has not read.
const RetentionDefault = 7 * 24 * time.Hour

// PublisherSpec names a publisher.
type PublisherSpec struct {
	// ID is what publishers are fenced by; a publisher's memory is that of its id.
	ID string
	// Topic is the topic that the publisher mainly writes to. A log that keeps
	// memories in topics keeps this one beside it, as <topic>.ingest-state.
	Topic string
}

// Bounds are the limits of a partition: the offset of the first record that is
// still there (or that will be written next), and the offset after the last one.
// End counts transaction markers, so the last record may lie well below it.
type Bounds struct {
	Start int64
	End   int64
}

// BoundsOf asks a log for the bounds of one partition.
func BoundsOf(ctx context.Context, r Reader, p Partition) (Bounds, error) {
	bs, err := r.Bounds(ctx, p)
	if err != nil {
		return Bounds{}, err
	}
	return bs[0], nil
}

// Reader reads a log without taking part in a group. Safe for concurrent use.
type Reader interface {
	// Describe returns the named topics, in that order. A topic that does not
	// exist is an error that wraps [ErrNoTopic] and names it.
	Describe(ctx context.Context, names ...string) ([]Topic, error)
	// Topics lists the names of all topics, sorted.
	Topics(ctx context.Context) ([]string, error)
	// Bounds asks the log itself, never a cache, for the bounds of the
	// partitions, in that order; however many there are, it is one question.
	Bounds(ctx context.Context, ps ...Partition) ([]Bounds, error)
	// Read yields the committed records with from <= offset < to, in order. It
	// does not wait for records that are not there yet. from below the log
	// start is an error that wraps [ErrOutOfRange]. A yielded record is valid
	// until the next one is asked for. After an error the sequence ends.
	Read(ctx context.Context, p Partition, from, to int64) iter.Seq2[Record, error]
}

// Log is a log that can be written. Safe for concurrent use.
type Log interface {
	Reader
	// Create makes the topics that are missing; those that exist are left as
	// they are, whatever their number of partitions.
	Create(ctx context.Context, specs ...TopicSpec) error
	// Append writes the messages, all or none, and returns once they are
	// durable. It takes no part in fencing.
	Append(ctx context.Context, msgs ...Message) error
	// OpenPublisher fences earlier publishers of the id and loads its memory.
	OpenPublisher(ctx context.Context, spec PublisherSpec) (Publisher, error)
	// Consumer makes a member of a group; nothing is read before Run.
	Consumer(sub Subscription) (Consumer, error)
	// Close releases what the log holds. Idempotent.
	Close() error
}

// Publisher appends batches of messages with exactly-once effect. Not safe for
// concurrent use.
type Publisher interface {
	// Memory yields what the publisher id remembers, sorted by key. The values
	// may be kept by the caller.
	Memory() iter.Seq2[string, []byte]
	// Publish appends all messages, in order within each partition, and applies
	// all memory changes, or does neither. [ErrFenced] means that this
	// publisher is dead. After any other error the outcome may be unknown: the
	// publisher is then dead too, and a new one must be opened and its memory
	// read again.
	Publish(ctx context.Context, msgs []Message, changes []Change) error
	// Close ends the publisher. Idempotent.
	Close() error
}

// Subscription says what a consumer reads.
type Subscription struct {
	Group  string
	Topics []string
	// BatchBytes bounds one batch (soft: one record may exceed it). Zero: 1 MiB.
	BatchBytes int
}

// Batch is a run of records of one partition in offset order. It may be empty
// when only the position moved (transaction markers).
type Batch struct {
	Records []Record
	// Next is the position after the batch: the next offset to read.
	Next int64
	// LeaderEpoch of the last record, or -1 where the log has none.
	LeaderEpoch int32
	release     func()
}

// NewBatch makes a batch; release, if not nil, is called once by Release.
func NewBatch(records []Record, next int64, leaderEpoch int32, release func()) Batch {
	return Batch{Records: records, Next: next, LeaderEpoch: leaderEpoch, release: release}
}

// Release gives the batch's memory back. The records must not be used after it.
func (b *Batch) Release() {
	if b.release != nil {
		b.release()
		b.release = nil
	}
}

// Assignment is one stay of a partition with a consumer, from Assigned until
// Revoked or Lost. A partition that comes back gets a new Assignment.
type Assignment struct {
	Partition Partition
	TopicID   string
	// Start is the offset to read from; the handler sets it in Assigned.
	Start int64
	// StartEpoch is the leader epoch of the record before Start, or -1 where it
	// is not known, as it is at first; the handler may set it with Start. A log
	// that has epochs then finds out when it was cut and written anew below
	// Start.
	StartEpoch int32
	// Batches delivers the records. It is bounded: when the handler does not
	// read, the adapter pauses the partition and keeps the membership. It is
	// closed when the stay ends or the partition failed; then Err says why.
	Batches <-chan Batch
	// Err returns why Batches was closed: nil for a normal end. Valid after
	// the close.
	Err func() error
}

// Handler receives what happens to a consumer's partitions. Its methods are
// called one at a time.
type Handler interface {
	// Assigned is called with newly assigned partitions before any of their
	// records is delivered. The handler sets Start in each. It may block (the
	// database that holds the offsets may be away) until ctx is done, which
	// happens when the assignment is withdrawn. An error ends Run with it.
	Assigned(ctx context.Context, as []*Assignment) error
	// Revoked is called before other members may get the partitions; ctx ends
	// with the revoke timeout.
	Revoked(ctx context.Context, as []*Assignment)
	// Lost is called when others may already own the partitions.
	Lost(as []*Assignment)
}

// Consumer is a member of a consumer group.
type Consumer interface {
	// Run joins and delivers until ctx is done (then it revokes what it holds,
	// leaves, and returns nil) or an error that it cannot mend.
	Run(ctx context.Context, h Handler) error
	// Hint tells the log how far the group has durably come, for lag tools. It
	// never decides where a restart begins. Safe beside Run.
	Hint(ctx context.Context, next map[Partition]int64) error
}
