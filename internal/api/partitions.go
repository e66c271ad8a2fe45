package api

import (
	"net/http"
	"net/url"

	"github.com/peil-stream/peil/internal/stream"
)

// Partitions is the answer of /api/v1/partitions.
type Partitions struct {
	Topics     []TopicStatus    `json:"topics"`
	Partitions []PartitionState `json:"partitions"`
}

// PartitionState is a partition's status, with what the processor of this process
// holds in memory, or null if it does not own the partition.
type PartitionState struct {
	PartitionStatus

	Live *LiveState `json:"live"`
}

// LiveState is what a processor has read but not yet written.
type LiveState struct {
	Position    int64   `json:"position"`
	Committed   int64   `json:"committed"`
	Pending     int64   `json:"pending"`
	Watermark   Instant `json:"watermark"`
	HeldSince   Instant `json:"held_since"`
	OpenWindows int     `json:"open_windows"`
}

func (s *server) partitions(r *http.Request, _ url.Values) (any, error) {
	live := s.live()
	opts := StatusOptions{CountMax: countServed, WindowSize: s.WindowSize, Windowed: s.Windowed}
	if s.Live != nil {
		// The processor knows it better, and for nothing.
		opts.CountMax = -1
	}
	status, err := ReadStatus(r.Context(), s.Viewer, s.Reader, opts)
	if err != nil {
		return nil, err
	}
	out := Partitions{Topics: status.Topics, Partitions: make([]PartitionState, 0, len(status.Partitions))}
	for i := range status.Partitions {
		p := PartitionState{PartitionStatus: status.Partitions[i]}
		if l, ok := live[stream.Partition{Topic: p.Topic, Index: p.Partition}]; ok {
			p.Live = &LiveState{
				Position: l.Position, Committed: l.Committed, Pending: l.Pending,
				Watermark: Instant(l.Watermark), HeldSince: Instant(l.OldestHeldSince),
				OpenWindows: len(l.OpenWindows),
			}
			pending := l.Pending
			p.Uncommitted, p.UncommittedExact = &pending, true
		}
		out.Partitions = append(out.Partitions, p)
	}
	return out, nil
}

// live gives what the processor of this process holds, by partition.
func (s *server) live() map[stream.Partition]*LivePartition {
	if s.Live == nil {
		return nil
	}
	live := s.Live()
	by := make(map[stream.Partition]*LivePartition, len(live.Partitions))
	for i := range live.Partitions {
		by[live.Partitions[i].Partition] = &live.Partitions[i]
	}
	return by
}
