package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/stream"
)

// insertOffset makes the row of a partition of which nothing was written yet.
const insertOffset = `
INSERT INTO consumer_offsets (topic, partition, group_id, topic_id, accepted, late, dead, ignored,
	fingerprint, epoch, owner, updated_at)
VALUES (?1, ?2, ?3, ?4, 0, 0, 0, 0, '', 0, '', ?5)
ON CONFLICT (topic, partition) DO NOTHING`

const (
	selectOtherGroup = `
SELECT topic, partition, group_id FROM consumer_offsets
WHERE group_id <> ? ORDER BY topic, partition LIMIT 1`

	selectOtherTopicID = `
SELECT topic, partition, topic_id FROM consumer_offsets
WHERE topic = ? AND topic_id <> ? ORDER BY topic, partition LIMIT 1`

	selectClaim = `
SELECT topic_id, fingerprint, epoch, next_offset, position, leader_epoch, watermark,
	accepted, late, dead, ignored
FROM consumer_offsets WHERE topic = ? AND partition = ?`

	// updateClaim also takes final_to back to the watermark: the partition is no
	// longer idle (R9).
	updateClaim = `
UPDATE consumer_offsets SET epoch = ?3, owner = ?4, fingerprint = ?5, final_to = watermark, updated_at = ?6
WHERE topic = ?1 AND partition = ?2`
)

// Register implements [sink.Sink]. A row of the topic with another topic id, and
// a row of any topic with another group, is a [*sink.MismatchError]: one
// database serves one consumer group. Then nothing is inserted.
func (s *Sink) Register(ctx context.Context, topic stream.Topic, group string) error {
	now := s.stamp()
	return s.write(ctx, "register "+topic.Name, func(tx *sql.Tx) (bool, error) {
		if err := otherGroup(ctx, tx, group); err != nil {
			return false, err
		}
		err := mismatch(tx.QueryRowContext(ctx, selectOtherTopicID, topic.Name, topic.ID), "topic_id", topic.ID)
		if err != nil {
			return false, err
		}
		return true, prepared(ctx, tx, insertOffset, func(insert *sql.Stmt) error {
			for i := range topic.Partitions {
				if _, err := insert.ExecContext(ctx, topic.Name, i, group, topic.ID, now); err != nil {
					return fmt.Errorf("partition %d: %w", i, err)
				}
			}
			return nil
		})
	})
}

// Claim implements [sink.Sink]. The row is made where it is missing.
func (s *Sink) Claim(ctx context.Context, req sink.ClaimRequest) (sink.Claim, error) {
	now := s.stamp()
	var claim sink.Claim
	p := req.Partition
	err := s.write(ctx, "claim "+p.String(), func(tx *sql.Tx) (bool, error) {
		if err := otherGroup(ctx, tx, req.Group); err != nil {
			return false, err
		}
		if _, err := tx.ExecContext(ctx, insertOffset, p.Topic, p.Index, req.Group, req.TopicID, now); err != nil {
			return false, err
		}
		var err error
		if claim, err = stored(ctx, tx, req); err != nil {
			return false, err
		}
		claim.Epoch++
		_, err = tx.ExecContext(ctx, updateClaim, p.Topic, p.Index, claim.Epoch, req.Owner, req.Fingerprint, now)
		return true, err
	})
	if err != nil {
		return sink.Claim{}, err
	}
	return claim, nil
}

// stored reads a partition's row and holds it against the request. The epoch is
// the one that stands.
func stored(ctx context.Context, tx *sql.Tx, req sink.ClaimRequest) (sink.Claim, error) {
	var (
		c                    sink.Claim
		topicID, fingerprint string
		next, position       sql.NullInt64
		leaderEpoch          sql.NullInt64
	)
	err := tx.QueryRowContext(ctx, selectClaim, req.Partition.Topic, req.Partition.Index).Scan(
		&topicID, &fingerprint, &c.Epoch, &next, &position, &leaderEpoch, timeColumn{&c.Watermark},
		&c.Counts.Accepted, &c.Counts.Late, &c.Counts.Dead, &c.Counts.Ignored)
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
	c.Stored = position.Valid
	c.Point = sink.Point{Next: next.Int64, Position: position.Int64}
	c.LeaderEpoch = int32(orMinus1(leaderEpoch))
	return c, nil
}

func otherGroup(ctx context.Context, tx *sql.Tx, group string) error {
	return mismatch(tx.QueryRowContext(ctx, selectOtherGroup, group), "group_id", group)
}

// mismatch turns a row (topic, partition, stored value) into an error, and no
// row into none.
func mismatch(row *sql.Row, what, wanted string) error {
	e := &sink.MismatchError{What: what, Wanted: wanted}
	err := row.Scan(&e.Partition.Topic, &e.Partition.Index, &e.Stored)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return err
	default:
		return e
	}
}
