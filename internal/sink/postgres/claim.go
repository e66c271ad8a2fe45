package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/stream"
)

const (
	// lockRows lets one instance at a time make rows, so that two groups cannot
	// both find the table empty. Nothing else waits for it: a claim of a row that
	// exists does not take it.
	lockRows = `SELECT pg_advisory_xact_lock(hashtextextended('peil rows ' || current_schema(), 0))`

	// insertOffsets makes rows of which nothing was written yet.
	insertOffsets = `
INSERT INTO consumer_offsets (topic, partition, group_id, topic_id, accepted, late, dead, ignored,
	fingerprint, epoch, owner, updated_at)
SELECT $1, p, $3, $4, 0, 0, 0, 0, '', 0, '', $5 FROM unnest($2::integer[]) AS p
ON CONFLICT (topic, partition) DO NOTHING`

	selectOtherGroup = `
SELECT topic, partition, group_id FROM consumer_offsets
WHERE group_id <> $1 ORDER BY topic, partition LIMIT 1`

	selectOtherTopicID = `
SELECT topic, partition, topic_id FROM consumer_offsets
WHERE topic = $1 AND topic_id <> $2 ORDER BY topic, partition LIMIT 1`

	// selectClaim waits for a flush under way, so that the point which it returns
	// is the one after it.
	selectClaim = `
SELECT topic_id, fingerprint, epoch, next_offset, position, leader_epoch, watermark,
	accepted, late, dead, ignored
FROM consumer_offsets WHERE topic = $1 AND partition = $2 FOR UPDATE`

	// updateClaim also takes final_to back to the watermark: the partition is no
	// longer idle (R9).
	updateClaim = `
UPDATE consumer_offsets SET epoch = $3, owner = $4, fingerprint = $5, final_to = watermark, updated_at = $6
WHERE topic = $1 AND partition = $2`
)

// Register implements [sink.Sink]. A row of the topic with another topic id, and
// a row of any topic with another group, is a [*sink.MismatchError]: one schema
// serves one consumer group. Then nothing is inserted.
func (s *Sink) Register(ctx context.Context, topic stream.Topic, group string) error {
	now := s.stamp()
	return s.write(ctx, "register "+topic.Name, func(tx *transaction) (bool, error) {
		if _, err := tx.exec(ctx, lockRows); err != nil {
			return false, err
		}
		if err := otherGroup(ctx, tx, group); err != nil {
			return false, err
		}
		if err := mismatch(ctx, tx, "topic_id", topic.ID, selectOtherTopicID, topic.Name, topic.ID); err != nil {
			return false, err
		}
		partitions := make([]int32, topic.Partitions)
		for i := range partitions {
			partitions[i] = int32(i)
		}
		_, err := tx.exec(ctx, insertOffsets, topic.Name, partitions, group, topic.ID, now)
		return true, err
	})
}

// Claim implements [sink.Sink]. The row is made where it is missing.
func (s *Sink) Claim(ctx context.Context, req sink.ClaimRequest) (sink.Claim, error) {
	now := s.stamp()
	var claim sink.Claim
	p := req.Partition
	err := s.write(ctx, "claim "+p.String(), func(tx *transaction) (bool, error) {
		if err := otherGroup(ctx, tx, req.Group); err != nil {
			return false, err
		}
		var err error
		claim, err = stored(ctx, tx, req)
		if errors.Is(err, pgx.ErrNoRows) {
			if err := makeRow(ctx, tx, req, now); err != nil {
				return false, err
			}
			claim, err = stored(ctx, tx, req)
		}
		if err != nil {
			return false, err
		}
		claim.Epoch++
		_, err = tx.exec(ctx, updateClaim, p.Topic, p.Index, claim.Epoch, req.Owner, req.Fingerprint, now)
		return true, err
	})
	if err != nil {
		return sink.Claim{}, err
	}
	return claim, nil
}

func makeRow(ctx context.Context, tx *transaction, req sink.ClaimRequest, now pgtype.Timestamptz) error {
	if _, err := tx.exec(ctx, lockRows); err != nil {
		return err
	}
	if err := otherGroup(ctx, tx, req.Group); err != nil {
		return err
	}
	_, err := tx.exec(ctx, insertOffsets, req.Partition.Topic, []int32{req.Partition.Index}, req.Group, req.TopicID, now)
	return err
}

// stored reads a partition's row, locks it and holds it against the request. The
// epoch is the one that stands.
func stored(ctx context.Context, tx *transaction, req sink.ClaimRequest) (sink.Claim, error) {
	var (
		c                           sink.Claim
		topicID, fingerprint        string
		next, position, leaderEpoch int64
	)
	err := tx.one(ctx, selectClaim, []any{req.Partition.Topic, req.Partition.Index}, []any{
		&topicID, &fingerprint, &c.Epoch,
		numberColumn{&next},
		numberColumn{&position},
		numberColumn{&leaderEpoch},
		timeColumn{&c.Watermark},
		&c.Counts.Accepted, &c.Counts.Late, &c.Counts.Dead, &c.Counts.Ignored,
	})
	switch {
	case err != nil:
		return c, err
	case topicID != req.TopicID:
		return c, &sink.MismatchError{Partition: req.Partition, What: "topic_id", Stored: topicID, Wanted: req.TopicID}
	case fingerprint != "" && fingerprint != req.Fingerprint:
		return c, &sink.MismatchError{
			Partition: req.Partition, What: "fingerprint", Stored: fingerprint, Wanted: req.Fingerprint,
		}
	}
	c.LeaderEpoch = int32(leaderEpoch)
	if position >= 0 {
		c.Stored = true
		c.Point = sink.Point{Next: next, Position: position}
	}
	return c, nil
}

func otherGroup(ctx context.Context, tx *transaction, group string) error {
	return mismatch(ctx, tx, "group_id", group, selectOtherGroup, group)
}

// mismatch turns a row (topic, partition, stored value) into an error, and no
// row into none.
func mismatch(ctx context.Context, tx *transaction, what, wanted, query string, args ...any) error {
	e := &sink.MismatchError{What: what, Wanted: wanted}
	err := tx.one(ctx, query, args, []any{&e.Partition.Topic, &e.Partition.Index, &e.Stored})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("look for another %s: %w", what, err)
	default:
		return e
	}
}
