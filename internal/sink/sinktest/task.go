package sinktest

import (
	"context"

	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/window"
)

// task is a processor in small: it owns a partition under one claim.
type task struct {
	scene     *scene
	partition stream.Partition
	topicID   string
	epoch     int64
	from      *sink.Point
	position  int64
	counts    sink.Counts
	windows   *window.Partition
	idle      bool
	state     sink.State
	incidents []sink.Incident
}

// claim claims a partition and resumes its windows.
func (s *scene) claim(ctx context.Context, p stream.Partition) *task {
	return s.claimAs(ctx, p, topicID)
}

func (s *scene) claimAs(ctx context.Context, p stream.Partition, id string) *task {
	t := &task{scene: s, partition: p, topicID: id}
	if s.err != nil {
		return t
	}
	c, err := s.h.Sink.Claim(ctx, request(p, id))
	if err != nil {
		s.must("claim", err)
		return t
	}
	resume := window.Resume{Watermark: sink.NoTime}
	t.epoch = c.Epoch
	if c.Stored {
		t.from = &c.Point
		t.position = c.Point.Position
		t.counts = c.Counts
		resume = window.Resume{Watermark: c.Watermark, Position: c.Point.Position}
	}
	t.windows, err = window.NewPartition(window.Config{}, resume)
	s.must("resume windows", err)
	return t
}

func request(p stream.Partition, id string) sink.ClaimRequest {
	return sink.ClaimRequest{Partition: p, TopicID: id, Group: group, Owner: "owner", Fingerprint: fingerprint}
}

// forget makes the task read the log from its start, as a process does that was
// told to or that lost its memory. Its claim and stored point stay.
func (t *task) forget() {
	if t.scene.err != nil {
		return
	}
	var err error
	t.windows, err = window.NewPartition(window.Config{}, window.Resume{Watermark: sink.NoTime})
	t.scene.must("forget windows", err)
}

// add reads a record with delays of one line of the network nl, event time so
// many seconds after the start of W0; several delays are records at consecutive
// offsets.
func (t *task) add(offset, second int64, delays ...int32) {
	if t.scene.err != nil {
		return
	}
	for i, d := range delays {
		v := t.windows.Add(&window.Record{
			Offset: offset + int64(i), Time: at(second), LogTime: at(second), HasValue: true, Value: d,
			Label: []byte("nl:GVB"),
			Group: []window.Cell{{Dimension: "line", ID: []byte("nl:GVB:7")}, {Dimension: "network", ID: []byte("nl")}},
		})
		switch v {
		case window.Accepted:
			t.counts.Accepted++
		case window.Late:
			t.counts.Late++
		default: // judged before
		}
		t.read(offset + int64(i))
	}
}

// heartbeat reads a heartbeat. One at +420 s closes W0.
func (t *task) heartbeat(offset, second int64) {
	if t.scene.err != nil {
		return
	}
	t.windows.Heartbeat(offset, at(second), at(second))
	t.read(offset)
}

func (t *task) read(offset int64) { t.position = max(t.position, offset+1) }

// snapshot is the flush of all that was read; what it holds is handed over.
func (t *task) snapshot() sink.PartitionFlush {
	if t.scene.err != nil {
		return sink.PartitionFlush{Partition: t.partition}
	}
	f := sink.PartitionFlush{
		Partition: t.partition, TopicID: t.topicID, Epoch: t.epoch,
		From: t.from, To: sink.Point{Next: t.position, Position: t.position}, LeaderEpoch: -1,
		Watermark: t.windows.Watermark(), FinalTo: t.windows.Watermark(), Counts: t.counts,
		State: t.state, Incidents: t.incidents,
	}
	for _, w := range t.windows.Open() {
		f.To.Next = min(f.To.Next, w.FirstOffset)
	}
	if t.idle {
		f.FinalTo = sink.Infinity
		if oldest, ok := t.windows.OldestOpen(); ok {
			f.FinalTo = oldest
		}
	}
	for _, c := range t.windows.TakeClosed() {
		f.Segments = append(f.Segments, sink.Segment{
			Start: c.Start, End: c.End, FirstOffset: c.FirstOffset, ThroughOffset: c.ThroughOffset,
			Records: c.Records, Origin: sink.OriginLive, Data: c.Data,
		})
	}
	t.state, t.incidents = sink.State{}, nil
	return f
}

// wrote takes note that a snapshot is durable.
func (t *task) wrote(f sink.PartitionFlush) { t.from = &f.To }

// save writes snapshots of the tasks in one flush.
func (s *scene) save(ctx context.Context, tasks ...*task) sink.FlushResult {
	parts := make([]sink.PartitionFlush, len(tasks))
	for i, t := range tasks {
		parts[i] = t.snapshot()
	}
	result := s.flush(ctx, parts...)
	for i, t := range tasks {
		t.wrote(parts[i])
	}
	return result
}

// rewrite flushes segments that the task's windows did not close; the stored
// point stays.
func (s *scene) rewrite(ctx context.Context, t *task, segments ...sink.Segment) sink.FlushResult {
	f := t.snapshot()
	f.Segments = append(f.Segments, segments...)
	result := s.flush(ctx, f)
	t.wrote(f)
	return result
}

// segment is the segment of window n from records at consecutive offsets.
func (s *scene) segment(n, first, through int64, delays ...int32) sink.Segment {
	if s.err != nil {
		return sink.Segment{}
	}
	w, err := window.NewPartition(window.Config{}, window.Resume{Watermark: sink.NoTime})
	if err != nil {
		s.must("make segment", err)
		return sink.Segment{}
	}
	t := &task{scene: s, windows: w}
	t.add(first, n*300, delays...)
	w.CloseMarker(through, start(n+1))
	f := t.snapshot()
	if len(f.Segments) != 1 {
		s.failf("make segment: got %d", len(f.Segments))
		return sink.Segment{}
	}
	return f.Segments[0]
}

// backfill is a segment of window 0 that a backfill has computed.
func (s *scene) backfill(first, through int64, delays ...int32) sink.Segment {
	g := s.segment(0, first, through, delays...)
	g.Origin = sink.OriginBackfill
	return g
}
