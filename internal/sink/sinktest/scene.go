package sinktest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/window"
)

// The world of the checks.
const (
	arrivals    = "arrivals"
	topicID     = "topic-id-1"
	otherID     = "topic-id-2"
	group       = "peil"
	fingerprint = "5m/2m/5m"

	windowSize = 300_000        // milliseconds
	base       = 1796040000_000 // 2026-11-30T12:00:00Z, the start of W0
)

// at is an instant so many seconds after the start of W0.
func at(second int64) int64 { return base + second*1000 }

// start is the start of window n.
func start(n int64) int64 { return base + n*windowSize }

// arrival is a partition of the topic of the checks.
func arrival(index int32) stream.Partition { return stream.Partition{Topic: arrivals, Index: index} }

// scene is one check in progress. After its first error it does nothing any
// more, so that a check reads as a script and returns err at its end.
type scene struct {
	h   Harness
	err error
}

// newScene registers the topic with so many partitions.
func newScene(ctx context.Context, h Harness, partitions int32) *scene {
	s := &scene{h: h}
	s.must("register", h.Sink.Register(ctx, stream.Topic{Name: arrivals, ID: topicID, Partitions: partitions}, group))
	return s
}

// other is the same scene as another instance plays it. Its errors are its own.
func (s *scene) other() *scene { return &scene{h: s.h.second(), err: s.err} }

func (s *scene) failf(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf(format, args...)
	}
}

// must fails the scene with err if there is one.
func (s *scene) must(doing string, err error) {
	if err != nil {
		s.failf("%s: %w", doing, err)
	}
}

// refuse fails the scene if err is nil.
func (s *scene) refuse(doing string, err error) {
	if err == nil {
		s.failf("%s: no error", doing)
	}
}

func (s *scene) equal(what string, want, got any) {
	if diff := cmp.Diff(want, got); diff != "" {
		s.failf("%s mismatch (-want +got):\n%s", what, diff)
	}
}

// dump returns all tables as text.
func (s *scene) dump(ctx context.Context) string {
	if s.err != nil {
		return ""
	}
	text, err := s.h.Dump(ctx)
	s.must("dump tables", err)
	return text
}

// unchanged fails the scene if the tables differ from a dump.
func (s *scene) unchanged(ctx context.Context, after, before string) {
	if now := s.dump(ctx); s.err == nil && now != before {
		s.failf("%s: the tables have changed (-before +after):\n%s",
			after, cmp.Diff(strings.Split(before, "\n"), strings.Split(now, "\n")))
	}
}

// try flushes and returns what came of it.
func (s *scene) try(ctx context.Context, parts ...sink.PartitionFlush) sink.FlushResult {
	if s.err != nil {
		return sink.FlushResult{}
	}
	result, err := s.h.Sink.Flush(ctx, parts)
	s.must("flush", err)
	return result
}

// flush flushes and fails the scene if a partition is fenced.
func (s *scene) flush(ctx context.Context, parts ...sink.PartitionFlush) sink.FlushResult {
	result := s.try(ctx, parts...)
	if len(result.Fenced) > 0 {
		s.failf("flush: fenced %v", result.Fenced)
	}
	return result
}

// fenced fails the scene unless exactly the wanted partitions are fenced and
// nothing was written.
func (s *scene) fenced(ctx context.Context, why string, want []stream.Partition, parts ...sink.PartitionFlush) {
	before := s.dump(ctx)
	s.equal(why+": flush", sink.FlushResult{Fenced: want}, s.try(ctx, parts...))
	s.unchanged(ctx, why, before)
}

// look opens a view for as long as see runs.
func (s *scene) look(ctx context.Context, see func(sink.View) error) {
	if s.err != nil {
		return
	}
	v, err := s.h.Sink.View(ctx)
	if err != nil {
		s.must("open view", err)
		return
	}
	s.must("view", errors.Join(see(v), v.Close()))
}

// offset returns the row of a partition.
func (s *scene) offset(ctx context.Context, p stream.Partition) (row sink.Offset) {
	s.look(ctx, func(v sink.View) error {
		offsets, err := v.Offsets(ctx)
		if err != nil {
			return err
		}
		for _, o := range offsets {
			if o.Partition == p {
				row = o
				return nil
			}
		}
		return fmt.Errorf("no row of partition %s", p)
	})
	return row
}

// aggregates returns all rows but for the time at which they were computed.
func (s *scene) aggregates(ctx context.Context) (rows []sink.Aggregate) {
	s.look(ctx, func(v sink.View) error {
		for a, err := range v.Aggregates(ctx, all()) {
			if err != nil {
				return err
			}
			a.ComputedAt = 0
			rows = append(rows, a)
		}
		return nil
	})
	return rows
}

// network returns the row of the whole network in window n.
func (s *scene) network(ctx context.Context, n int64) sink.Aggregate {
	for _, a := range s.aggregates(ctx) {
		if a.Start == start(n) && a.Dimension == "network" {
			return a
		}
	}
	s.failf("no network row in window %d", n)
	return sink.Aggregate{}
}

// segments returns the stored segments, with data.
func (s *scene) segments(ctx context.Context) (segments []sink.StoredSegment) {
	s.look(ctx, func(v sink.View) error {
		for g, err := range v.Segments(ctx, arrivals, true) {
			if err != nil {
				return err
			}
			segments = append(segments, g)
		}
		return nil
	})
	return segments
}

// incidents returns all incidents, newest first.
func (s *scene) incidents(ctx context.Context) (ins []sink.Incident) {
	s.look(ctx, func(v sink.View) (err error) {
		ins, err = v.Incidents(ctx, 0)
		return err
	})
	return ins
}

// final runs fn in a finalising transaction, which is committed if fn succeeds.
func (s *scene) final(ctx context.Context, id string, limit int, fn func(sink.Finaliser, []sink.PendingWindow) error) {
	if s.err != nil {
		return
	}
	f, err := s.h.Sink.Final(ctx, sink.FinalRequest{Topic: arrivals, TopicID: id, Limit: limit})
	if err != nil {
		s.must("begin finalising", err)
		return
	}
	windows, err := f.Pending(ctx)
	if err == nil {
		err = fn(f, windows)
	}
	if err == nil {
		err = f.Commit(ctx)
	}
	s.must("finalise", errors.Join(err, f.Rollback(ctx)))
}

// pending returns the starts of the pending windows and applies none.
func (s *scene) pending(ctx context.Context, id string, limit int) (starts []int64) {
	s.final(ctx, id, limit, func(_ sink.Finaliser, windows []sink.PendingWindow) error {
		for _, w := range windows {
			starts = append(starts, w.Start)
		}
		return nil
	})
	return starts
}

// finalise merges what is pending, as the processor does, and sums up what
// changed.
func (s *scene) finalise(ctx context.Context, id string) (windows int, total sink.Applied) {
	s.final(ctx, id, 100, func(f sink.Finaliser, pending []sink.PendingWindow) error {
		for _, w := range pending {
			rows, err := merge(w)
			if err != nil {
				return err
			}
			a, err := f.Apply(ctx, w, rows)
			if err != nil {
				return err
			}
			total.Inserted += a.Inserted
			total.Revised += a.Revised
			total.Removed += a.Removed
			total.Foreign += a.Foreign
		}
		windows = len(pending)
		return nil
	})
	return windows, total
}

// merge computes the rows of a pending window.
func merge(w sink.PendingWindow) ([]window.Row, error) {
	data := make([][]byte, len(w.Segments))
	for i := range w.Segments {
		data[i] = w.Segments[i].Data
	}
	return window.Merge(data...)
}
