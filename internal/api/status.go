package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/peil-stream/peil/event"
	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/stream"
)

// countDefault bounds how many held records are counted in a partition.
const countDefault = 1_000_000

// StatusOptions say how a status is made. The zero value is good.
type StatusOptions struct {
	// CountMax bounds how many held records are read and counted in each
	// partition. Defaults to 1,000,000; below zero none are counted, and only
	// the oldest one is looked at.
	CountMax int64
	// WindowSize tells to which window the oldest held record belongs; zero
	// leaves that out.
	WindowSize time.Duration
	// Windowed says whether a topic is cut into windows; the others hold no
	// finality. Nil: all are.
	Windowed func(topic string) bool
	// Detail puts what the log said into problems. It is for a terminal: the
	// text may hold addresses that a client of the API has no business with.
	Detail bool
}

func (o StatusOptions) withDefaults() StatusOptions {
	if o.CountMax == 0 {
		o.CountMax = countDefault
	}
	if o.Windowed == nil {
		o.Windowed = func(string) bool { return true }
	}
	return o
}

// Status is how far every partition is, by the tables and the log.
type Status struct {
	Topics     []TopicStatus     `json:"topics"`
	Partitions []PartitionStatus `json:"partitions"`
}

// TopicStatus is how far a topic's windows are final.
type TopicStatus struct {
	Topic string `json:"topic"`
	// TopicID as the log has it now, or the one in the tables if the log cannot
	// say.
	TopicID    string `json:"topic_id"`
	Partitions int    `json:"partitions"`
	Windowed   bool   `json:"windowed"`
	// FinalTo: a window is final when its end is not after it. Null: none is.
	FinalTo Instant `json:"final_to"`
	// Holders are the partitions that hold finality where it is.
	Holders []Holder `json:"holders"`
}

// Holder is a partition that holds finality, and why.
type Holder struct {
	Partition int32   `json:"partition"`
	FinalTo   Instant `json:"final_to"`
	// Reason is one of watermark, open_window, no_event_time, not_read and
	// other_topic_id; Explanation says it in words after "partition 3".
	Reason      string `json:"reason"`
	Explanation string `json:"explanation"`
}

// Span is a window.
type Span struct {
	Start Instant `json:"window_start"`
	End   Instant `json:"window_end"`
}

// PartitionStatus is one partition. A number that is not known is null.
type PartitionStatus struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	GroupID   string `json:"group_id"`
	TopicID   string `json:"topic_id"`
	// NextOffset is where a restart begins, and Position the next offset that
	// was not read when that was stored; both null before the first flush.
	NextOffset *int64 `json:"next_offset"`
	Position   *int64 `json:"position"`
	// LogStart and LogEnd are the bounds of the log now.
	LogStart *int64 `json:"log_start"`
	LogEnd   *int64 `json:"log_end"`
	// Lag is LogEnd - Position; transaction markers of the log count in it.
	Lag *int64 `json:"lag"`
	// Uncommitted counts the records held: those in [NextOffset, Position), or
	// what the processor of this process says it holds now. It is a lower
	// bound if UncommittedExact is false.
	Uncommitted      *int64 `json:"uncommitted"`
	UncommittedExact bool   `json:"uncommitted_exact"`
	// HeldSince is the log's timestamp of the oldest held record, and
	// HeldWindow the window that holds it back.
	HeldSince  Instant `json:"held_since"`
	HeldWindow *Span   `json:"held_window"`
	Watermark  Instant `json:"watermark"`
	FinalTo    Instant `json:"final_to"`
	// HoldsFinality says that no window of the topic is final beyond this
	// partition; HoldReason and HoldExplanation say why, as in [Holder].
	HoldsFinality   bool   `json:"holds_finality"`
	HoldReason      string `json:"hold_reason,omitempty"`
	HoldExplanation string `json:"hold_explanation,omitempty"`
	// The records below Position, by outcome.
	Accepted  int64   `json:"accepted"`
	Late      int64   `json:"late"`
	Dead      int64   `json:"dead"`
	Ignored   int64   `json:"ignored"`
	Epoch     int64   `json:"epoch"`
	Owner     string  `json:"owner"`
	UpdatedAt Instant `json:"updated_at"`
	// Problem says what does not fit: a log that cannot be asked, lost offsets,
	// another topic of the same name.
	Problem string `json:"problem,omitempty"`
}

// ReadStatus computes the status: the tables as of one moment, then the log,
// which may have grown in between. An error means that the tables could not be
// read; what is wrong with the log of a partition stands in its Problem. It only
// reads, so both may be open read-only beside a running process.
func ReadStatus(ctx context.Context, viewer sink.Viewer, reader stream.Reader, opts StatusOptions) (Status, error) {
	opts = opts.withDefaults()
	offsets, err := readOffsets(ctx, viewer)
	if err != nil {
		return Status{}, fmt.Errorf("read status: %w", err)
	}
	s := Status{Topics: []TopicStatus{}, Partitions: make([]PartitionStatus, 0, len(offsets))}
	for _, topic := range topicsOf(offsets) {
		t := topicStatus(ctx, reader, offsets, topic, opts)
		s.Topics = append(s.Topics, t)
		for i := range offsets {
			if offsets[i].Partition.Topic == topic {
				s.Partitions = append(s.Partitions, partitionStatus(ctx, reader, &offsets[i], &t, opts))
			}
		}
	}
	if err := ctx.Err(); err != nil {
		return Status{}, fmt.Errorf("read status: %w", err)
	}
	return s, nil
}

func readOffsets(ctx context.Context, viewer sink.Viewer) (offsets []sink.Offset, err error) {
	view, err := viewer.View(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, view.Close()) }()
	offsets, err = view.Offsets(ctx)
	if err != nil {
		return nil, err
	}
	sortOffsets(offsets)
	return offsets, nil
}

func sortOffsets(offsets []sink.Offset) {
	slices.SortFunc(offsets, func(a, b sink.Offset) int {
		return cmp.Or(cmp.Compare(a.Partition.Topic, b.Partition.Topic), cmp.Compare(a.Partition.Index, b.Partition.Index))
	})
}

// topicsOf lists the topics of sorted rows, each once.
func topicsOf(offsets []sink.Offset) []string {
	var topics []string
	for i := range offsets {
		topics = append(topics, offsets[i].Partition.Topic)
	}
	return slices.Compact(topics)
}

func topicStatus(
	ctx context.Context, reader stream.Reader, offsets []sink.Offset, topic string, opts StatusOptions,
) TopicStatus {
	t := TopicStatus{
		Topic:    topic,
		TopicID:  topicID(ctx, reader, offsets, topic),
		Windowed: opts.Windowed(topic),
		FinalTo:  Instant(sink.NoTime),
		Holders:  []Holder{},
	}
	for i := range offsets {
		if offsets[i].Partition.Topic == topic {
			t.Partitions++
		}
	}
	if !t.Windowed {
		return t
	}
	fin := sink.Holders(offsets, topic, t.TopicID)
	t.FinalTo = Instant(fin.FinalTo)
	t.Holders = holdersOf(fin)
	return t
}

func holdersOf(fin sink.Finality) []Holder {
	hs := make([]Holder, 0, len(fin.Holders))
	for _, h := range fin.Holders {
		hs = append(hs, Holder{
			Partition:   h.Partition.Index,
			FinalTo:     Instant(h.FinalTo),
			Reason:      string(h.Hold),
			Explanation: h.Hold.Explain(),
		})
	}
	return hs
}

// topicID asks the log, and falls back on the row that was written last.
func topicID(ctx context.Context, reader stream.Reader, offsets []sink.Offset, topic string) string {
	if described, err := reader.Describe(ctx, topic); err == nil && len(described) == 1 {
		return described[0].ID
	}
	// The log's failure shows in every partition of the topic.
	id, at := "", sink.NoTime
	for i := range offsets {
		if o := &offsets[i]; o.Partition.Topic == topic && o.UpdatedAt >= at {
			id, at = o.TopicID, o.UpdatedAt
		}
	}
	return id
}

func partitionStatus(
	ctx context.Context, reader stream.Reader, o *sink.Offset, t *TopicStatus, opts StatusOptions,
) PartitionStatus {
	p := PartitionStatus{
		Topic: o.Partition.Topic, Partition: o.Partition.Index, GroupID: o.Group, TopicID: o.TopicID,
		Watermark: Instant(o.Watermark), FinalTo: Instant(o.FinalTo), HeldSince: Instant(sink.NoTime),
		Accepted: o.Counts.Accepted, Late: o.Counts.Late, Dead: o.Counts.Dead, Ignored: o.Counts.Ignored,
		Epoch: o.Epoch, Owner: o.Owner, UpdatedAt: Instant(o.UpdatedAt),
	}
	for _, h := range t.Holders {
		if h.Partition == p.Partition {
			p.HoldsFinality, p.HoldReason, p.HoldExplanation = true, h.Reason, h.Explanation
		}
	}
	if o.Stored {
		p.NextOffset, p.Position = &o.Point.Next, &o.Point.Position
	}
	bounds, err := stream.BoundsOf(ctx, reader, o.Partition)
	if err != nil {
		p.Problem = opts.problem("ask the log for its bounds", err)
		return p
	}
	p.LogStart, p.LogEnd = &bounds.Start, &bounds.End
	if o.TopicID != t.TopicID {
		p.Problem = "the row belongs to an earlier topic of the same name; its offsets say nothing about this one"
		return p
	}
	p.measure(ctx, reader, o, bounds, opts)
	return p
}

// measure fills in lag and what is held.
func (p *PartitionStatus) measure(
	ctx context.Context, reader stream.Reader, o *sink.Offset, bounds stream.Bounds, opts StatusOptions,
) {
	position := bounds.Start
	if o.Stored {
		position = o.Point.Position
	}
	lag := max(bounds.End-position, 0)
	p.Lag = &lag
	switch {
	case !o.Stored:
		var none int64
		p.Uncommitted, p.UncommittedExact = &none, true
		return
	case o.Point.Next < bounds.Start:
		p.Problem = "the log begins at " + strconv.FormatInt(bounds.Start, 10) +
			" and no longer holds next_offset: records were lost"
		return
	case bounds.End < o.Point.Position:
		p.Problem = "the log ends at " + strconv.FormatInt(bounds.End, 10) + ", below the stored position: it was truncated"
		return
	}
	if err := p.count(ctx, reader, o, opts); err != nil {
		p.Problem = opts.problem("read the held records", err)
	}
}

// count reads what is held, oldest first, up to the bound.
func (p *PartitionStatus) count(ctx context.Context, reader stream.Reader, o *sink.Offset, opts StatusOptions) error {
	var n int64
	for rec, err := range reader.Read(ctx, o.Partition, o.Point.Next, o.Point.Position) {
		if err != nil {
			return err
		}
		if n == 0 {
			p.HeldSince = orNoTime(rec.Timestamp)
			p.HeldWindow = windowOf(&rec, opts.WindowSize)
		}
		if opts.CountMax < 0 {
			return nil
		}
		if n == opts.CountMax {
			p.Uncommitted = &n
			return nil
		}
		n++
	}
	p.Uncommitted, p.UncommittedExact = &n, true
	return nil
}

func orNoTime(logTime int64) Instant {
	if logTime == stream.NoTimestamp {
		return Instant(sink.NoTime)
	}
	return Instant(logTime)
}

// windowOf finds the window of a prediction; a record that is none has none.
func windowOf(rec *stream.Record, size time.Duration) *Span {
	ms := size.Milliseconds()
	if _, marked := rec.Header(event.MarkerHeader); marked || rec.Value == nil || ms <= 0 {
		return nil
	}
	var decoder event.Decoder
	var p event.Prediction
	if decoder.Prediction(rec.Value, &p) != nil {
		return nil
	}
	start := p.Timestamp - (p.Timestamp%ms+ms)%ms
	return &Span{Start: Instant(start), End: Instant(start + ms)}
}

// problem says what went wrong with the log.
func (o StatusOptions) problem(doing string, err error) string {
	switch {
	case errors.Is(err, stream.ErrNoTopic):
		return "the log has no such topic"
	case errors.Is(err, stream.ErrOutOfRange):
		return "the log no longer holds next_offset: records were lost"
	case o.Detail:
		return "could not " + doing + ": " + err.Error()
	default:
		return "could not " + doing
	}
}
