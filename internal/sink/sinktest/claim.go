package sinktest

import (
	"context"
	"errors"

	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/stream"
)

func claimChecks() []Check {
	return []Check{
		{"register inserts what is missing", registerInserts},
		{"register refuses another topic id or group", registerRefuses},
		{"a claim returns what is stored", claimReturns},
		{"a claim refuses what belongs to something else", claimRefuses},
		{"a claim takes final_to back to the watermark", claimClearsIdle},
		{"a late claim fences its rightful owner once", lateClaim},
	}
}

func registerInserts(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 2)
	for i := range int32(2) {
		o := s.offset(ctx, arrival(i))
		o.UpdatedAt = 0
		s.equal("new row", sink.Offset{
			Partition: arrival(i), Group: group, TopicID: topicID,
			LeaderEpoch: -1, Watermark: sink.NoTime, FinalTo: sink.NoTime,
		}, o)
	}
	a := s.claim(ctx, arrival(1))
	a.add(0, 10, 60)
	s.save(ctx, a)
	before := s.dump(ctx)
	again := stream.Topic{Name: arrivals, ID: topicID, Partitions: 2}
	s.must("register again", h.Sink.Register(ctx, again, group))
	s.unchanged(ctx, "registering again", before)

	again.Partitions = 3
	s.must("register a new partition", h.Sink.Register(ctx, again, group))
	s.equal("position of an old partition", int64(1), s.offset(ctx, arrival(1)).Point.Position)
	s.equal("new partition is stored", false, s.offset(ctx, arrival(2)).Stored)
	return s.err
}

func registerRefuses(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 1)
	before := s.dump(ctx)
	topic := stream.Topic{Name: arrivals, ID: otherID, Partitions: 3}
	s.mismatch("another topic id", h.Sink.Register(ctx, topic, group),
		sink.MismatchError{Partition: arrival(0), What: "topic_id", Stored: topicID, Wanted: otherID})
	// One group per database: another is refused for another topic too.
	topic = stream.Topic{Name: "positions", ID: otherID, Partitions: 3}
	s.mismatch("another group", h.Sink.Register(ctx, topic, "other"),
		sink.MismatchError{Partition: arrival(0), What: "group_id", Stored: group, Wanted: "other"})
	s.unchanged(ctx, "refused registering", before)
	s.must("register another topic", h.Sink.Register(ctx, topic, group))
	return s.err
}

// mismatch fails the scene unless err is the wanted [sink.MismatchError].
func (s *scene) mismatch(what string, err error, want sink.MismatchError) {
	got, ok := errors.AsType[*sink.MismatchError](err)
	if !ok {
		s.failf("%s: want a mismatch, got %v", what, err)
		return
	}
	s.equal(what, want, *got)
}

func claimReturns(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 1)
	p := arrival(0)
	first, err := h.Sink.Claim(ctx, request(p, topicID))
	s.must("first claim", err)
	s.equal("stored at the first claim", false, first.Stored)

	f := sink.PartitionFlush{
		Partition: p, TopicID: topicID, Epoch: first.Epoch,
		To: sink.Point{Next: 7, Position: 12}, LeaderEpoch: 3, Watermark: at(100), FinalTo: sink.Infinity,
		Counts: sink.Counts{Accepted: 5, Late: 4, Dead: 3, Ignored: 2},
	}
	s.flush(ctx, f)
	second, err := h.Sink.Claim(ctx, request(p, topicID))
	s.must("second claim", err)
	s.equal("claim", sink.Claim{
		Epoch: second.Epoch, Stored: true, Point: f.To, LeaderEpoch: 3, Watermark: at(100), Counts: f.Counts,
	}, second)
	if second.Epoch <= first.Epoch {
		s.failf("epoch went from %d to %d", first.Epoch, second.Epoch)
	}
	o := s.offset(ctx, p)
	s.equal("owner", "owner", o.Owner)
	s.equal("fingerprint", fingerprint, o.Fingerprint)
	s.equal("stored epoch", second.Epoch, o.Epoch)

	// Nothing known stays nothing known.
	f.Epoch, f.From, f.LeaderEpoch = second.Epoch, &second.Point, -1
	s.flush(ctx, f)
	third, err := h.Sink.Claim(ctx, request(p, topicID))
	s.must("third claim", err)
	s.equal("leader epoch that the log does not have", int32(-1), third.LeaderEpoch)
	return s.err
}

func claimRefuses(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 1)
	p := arrival(0)
	_, err := h.Sink.Claim(ctx, request(p, topicID))
	s.must("claim", err)
	before := s.dump(ctx)

	req := request(p, otherID)
	_, err = h.Sink.Claim(ctx, req)
	s.mismatch("another topic id", err,
		sink.MismatchError{Partition: p, What: "topic_id", Stored: topicID, Wanted: otherID})
	req = request(p, topicID)
	req.Group = "other"
	_, err = h.Sink.Claim(ctx, req)
	s.mismatch("another group", err,
		sink.MismatchError{Partition: p, What: "group_id", Stored: group, Wanted: "other"})
	req = request(p, topicID)
	req.Fingerprint = "10m/2m/5m"
	_, err = h.Sink.Claim(ctx, req)
	s.mismatch("another fingerprint", err,
		sink.MismatchError{Partition: p, What: "fingerprint", Stored: fingerprint, Wanted: "10m/2m/5m"})
	s.unchanged(ctx, "refused claims", before)

	// Whoever sees a partition first makes its row.
	_, err = h.Sink.Claim(ctx, request(arrival(5), topicID))
	s.must("claim of a partition without a row", err)
	s.equal("its group", group, s.offset(ctx, arrival(5)).Group)
	return s.err
}

func claimClearsIdle(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 2)
	a, b := s.claim(ctx, arrival(0)), s.claim(ctx, arrival(1))
	a.add(0, 10, 60)
	a.idle, b.idle = true, true
	s.save(ctx, a, b)
	s.equal("final_to of an idle partition with an open window", start(0), s.offset(ctx, arrival(0)).FinalTo)
	s.equal("final_to of an idle partition", sink.Infinity, s.offset(ctx, arrival(1)).FinalTo)
	s.claim(ctx, arrival(0))
	s.claim(ctx, arrival(1))
	s.equal("final_to after the claim", at(10-120), s.offset(ctx, arrival(0)).FinalTo)
	s.equal("final_to without a watermark", sink.NoTime, s.offset(ctx, arrival(1)).FinalTo)
	return s.err
}

// M05: the claim of A was sent before B took over, and applies last.
func lateClaim(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 1)
	p := arrival(0)
	b := s.claim(ctx, p)
	b.add(0, 10, 60)
	s.save(ctx, b)
	s.claim(ctx, p)
	b.heartbeat(1, 430)
	s.fenced(ctx, "the rightful owner", []stream.Partition{p}, b.snapshot())
	b = s.claim(ctx, p)
	b.add(0, 10, 60)
	b.heartbeat(1, 430)
	s.save(ctx, b)
	s.equal("position", int64(2), s.offset(ctx, p).Point.Position)
	s.equal("segments", 1, len(s.segments(ctx)))
	return s.err
}
