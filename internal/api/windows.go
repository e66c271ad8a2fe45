package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"

	"github.com/peil-stream/peil/internal/sink"
)

// Windows in an answer of /api/v1/windows.
const (
	windowsDefault = 24
	windowsMax     = 500
	// pendingMax bounds the windows that are listed as pending or open.
	pendingMax = 500
)

// States of a window that is not among the final rows.
const (
	// StateWaiting: a partition of the topic has not closed it.
	StateWaiting = "waiting"
	// StateMerging: it is final, and its rows are about to be written.
	StateMerging = "merging"
)

// Windows is the answer of /api/v1/windows.
type Windows struct {
	// Final are the newest final windows: the rows of the network, newest first.
	Final []AggregateRow `json:"final"`
	// Pending are the windows that some partition has closed but whose rows are
	// not written, oldest first, without values.
	Pending []PendingWindow `json:"pending"`
	// Open are the windows that the processor of this process has in memory,
	// oldest first; null if no processor runs in this process.
	Open []OpenWindow `json:"open"`
	// Truncated says that Pending or Open was cut at its bound.
	Truncated bool `json:"truncated"`
}

// PendingWindow is a window whose rows are not written yet, and why.
type PendingWindow struct {
	Topic string `json:"topic"`

	Span

	// PartitionsClosed of Partitions have written their part of it, with
	// Records records.
	PartitionsClosed int   `json:"partitions_closed"`
	Partitions       int   `json:"partitions"`
	Records          int64 `json:"records"`
	// State is waiting or merging, and Holders are the partitions that it waits
	// for.
	State   string   `json:"state"`
	Holders []Holder `json:"holders"`
}

// OpenWindow is a window that is still taking records.
type OpenWindow struct {
	Topic string `json:"topic"`

	Span

	// Partitions of this process that have it open, with Records records.
	Partitions int   `json:"partitions"`
	Records    int64 `json:"records"`
}

func (s *server) windows(r *http.Request, query url.Values) (any, error) {
	limit, err := limitParam(query, windowsDefault, windowsMax)
	if err != nil {
		return nil, err
	}
	return s.readWindows(r.Context(), limit)
}

func (s *server) readWindows(ctx context.Context, limit int) (out Windows, err error) {
	// The log is asked with no view open: on the embedded log both borrow from
	// the same few connections, and one request must not wait for a second one
	// while it keeps the first.
	ids, err := s.topicIDs(ctx)
	if err != nil {
		return out, err
	}
	view, err := s.Viewer.View(ctx)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, view.Close()) }()
	out.Final = []AggregateRow{}
	q := sink.AggregateQuery{Dimension: "network", From: sink.NoTime, To: sink.NoTime, Limit: limit, Newest: true}
	for a, err := range view.Aggregates(ctx, q) {
		if err != nil {
			return out, err
		}
		out.Final = append(out.Final, aggregateRow(&a))
	}
	offsets, err := view.Offsets(ctx)
	if err != nil {
		return out, err
	}
	sortOffsets(offsets)
	out.Pending = []PendingWindow{}
	for _, topic := range topicsOf(offsets) {
		if s.Windowed != nil && !s.Windowed(topic) {
			continue
		}
		if err := out.addPending(ctx, view, offsets, topic, ids[topic]); err != nil {
			return out, err
		}
	}
	out.addOpen(s)
	return out, nil
}

// topicIDs gives the current ids of the topics that have rows.
func (s *server) topicIDs(ctx context.Context) (map[string]string, error) {
	offsets, err := readOffsets(ctx, s.Viewer)
	if err != nil {
		return nil, err
	}
	ids := map[string]string{}
	for _, topic := range topicsOf(offsets) {
		ids[topic] = topicID(ctx, s.Reader, offsets, topic)
	}
	return ids, nil
}

// addPending lists the windows of a topic with a segment that is not merged.
func (w *Windows) addPending(
	ctx context.Context, view sink.View, offsets []sink.Offset, topic, id string,
) error {
	partitions := slices.DeleteFunc(slices.Clone(offsets), func(o sink.Offset) bool { return o.Partition.Topic != topic })
	current := PendingWindow{}
	unmerged := false
	done := func() {
		if !unmerged {
			return
		}
		if len(w.Pending) == pendingMax {
			w.Truncated = true
			return
		}
		current.Partitions = len(partitions)
		current.Holders = holding(partitions, topic, id, int64(current.End))
		current.State = StateMerging
		if len(current.Holders) > 0 {
			current.State = StateWaiting
		}
		w.Pending = append(w.Pending, current)
	}
	for seg, err := range view.Segments(ctx, topic, false) {
		if err != nil {
			return err
		}
		if seg.TopicID != id {
			continue // of an earlier topic of this name: void
		}
		if Instant(seg.Start) != current.Start || current.Topic == "" {
			done()
			current = PendingWindow{Topic: topic, Span: Span{Instant(seg.Start), Instant(seg.End)}}
			unmerged = false
		}
		current.PartitionsClosed++
		current.Records += seg.Records
		unmerged = unmerged || seg.MergedAt == sink.NoTime
	}
	done()
	return nil
}

// holding lists the partitions that keep a window with this end from being final.
func holding(partitions []sink.Offset, topic, id string, end int64) []Holder {
	holders := []Holder{}
	for i := range partitions {
		fin := sink.Holders(partitions[i:i+1], topic, id)
		if !fin.Final(end) {
			holders = append(holders, holdersOf(fin)...)
		}
	}
	return holders
}

// addOpen lists what the processor has open, the windows of all its partitions
// together.
func (w *Windows) addOpen(s *server) {
	if s.Live == nil {
		return
	}
	type key struct {
		topic      string
		start, end int64
	}
	by := map[key]*OpenWindow{}
	for _, p := range s.Live().Partitions {
		for _, open := range p.OpenWindows {
			k := key{p.Partition.Topic, open.Start, open.End}
			if by[k] == nil {
				by[k] = &OpenWindow{Topic: k.topic, Span: Span{Instant(open.Start), Instant(open.End)}}
			}
			by[k].Partitions++
			by[k].Records += open.Records
		}
	}
	w.Open = make([]OpenWindow, 0, len(by))
	for _, o := range by {
		w.Open = append(w.Open, *o)
	}
	slices.SortFunc(w.Open, func(a, b OpenWindow) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Start, b.Start))
	})
	if len(w.Open) > pendingMax {
		w.Open, w.Truncated = w.Open[:pendingMax], true
	}
}
