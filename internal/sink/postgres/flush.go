package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/peil-stream/peil/internal/sink"
)

// fence moves a partition's row from the point that was last written to the one
// being written. A row that is already there is hit too, which makes the redo
// after an unknown outcome safe (R4); then every value is equal and updated_at
// stays. The watermark never goes back, and neither does the position: what may
// be stored is only From or To, and sink.SortFlush refused a To behind From.
const fence = `
UPDATE consumer_offsets SET
	next_offset = $5, position = $6, leader_epoch = $7,
	watermark = GREATEST(watermark, $8), final_to = $9,
	accepted = $10, late = $11, dead = $12, ignored = $13,
	updated_at = CASE WHEN
		(next_offset, position, leader_epoch, watermark, final_to, accepted, late, dead, ignored)
		IS NOT DISTINCT FROM ($5::bigint, $6::bigint, $7::integer, GREATEST(watermark, $8::timestamptz), $9::timestamptz,
			$10::bigint, $11::bigint, $12::bigint, $13::bigint)
		THEN updated_at ELSE $14 END
WHERE topic = $1 AND partition = $2 AND epoch = $3 AND topic_id = $4
	AND ((next_offset, position) IS NOT DISTINCT FROM ($15::bigint, $16::bigint)
		OR (next_offset, position) IS NOT DISTINCT FROM ($5::bigint, $6::bigint))`

// flush is one flush transaction.
type flush struct {
	tx    *transaction
	now   pgtype.Timestamptz
	parts []sink.PartitionFlush // by topic and partition
	// careful: look for the row that the database refuses.
	careful  bool
	result   sink.FlushResult
	recorded []sink.Incident
}

// Flush implements [sink.Sink]. A To.Position below From.Position, a partition
// given twice, and what else no correct caller does is an error before anything
// is written. To.Next may lie below From.Next: reading can begin lower than the
// row says, and a lower start only reads more.
//
// Incidents of a flush are compared with those kept, so that a redo writes none
// a second time. After an error that wraps [sink.ErrTransient] the flush may have
// taken effect all the same: the same flush is to be made again.
func (s *Sink) Flush(ctx context.Context, parts []sink.PartitionFlush) (sink.FlushResult, error) {
	if len(parts) == 0 {
		return sink.FlushResult{}, nil
	}
	sorted, err := sink.SortFlush(parts)
	if err != nil {
		return sink.FlushResult{}, fmt.Errorf("flush: %w", err)
	}
	f := &flush{now: s.stamp(), parts: sorted}
	if err = s.write(ctx, "flush", f.run(ctx)); badData(err) {
		// Once more, and it will fail again: but with the row's name.
		f = &flush{now: f.now, parts: sorted, careful: true}
		err = s.write(ctx, "flush", f.run(ctx))
	}
	if err != nil {
		return sink.FlushResult{}, err
	}
	s.warn(ctx, f.recorded)
	return f.result, nil
}

func (f *flush) run(ctx context.Context) func(*transaction) (bool, error) {
	return func(tx *transaction) (bool, error) {
		f.tx = tx
		if err := f.fence(ctx); err != nil || len(f.result.Fenced) > 0 {
			return false, err
		}
		return true, f.apply(ctx)
	}
}

// fence updates the rows of all partitions and notes those that it did not hit.
func (f *flush) fence(ctx context.Context) error {
	return f.tx.each(ctx, fence, len(f.parts), func(i int) []any {
		p := &f.parts[i]
		from := sink.Point{Next: -1, Position: -1}
		if p.From != nil {
			from = *p.From
		}
		return []any{
			p.Partition.Topic, p.Partition.Index, p.Epoch, p.TopicID,
			p.To.Next, p.To.Position, known(int64(p.LeaderEpoch)), instant(p.Watermark), instant(p.FinalTo),
			p.Counts.Accepted, p.Counts.Late, p.Counts.Dead, p.Counts.Ignored, f.now, known(from.Next), known(from.Position),
		}
	}, func(i int) string {
		return "partition " + f.parts[i].Partition.String()
	}, func(i int, n int64) {
		if n == 0 {
			f.result.Fenced = append(f.result.Fenced, f.parts[i].Partition)
		}
	})
}

func (f *flush) apply(ctx context.Context) error {
	if err := f.writeSegments(ctx); err != nil {
		return err
	}
	if err := f.writeVehicles(ctx); err != nil {
		return err
	}
	if err := f.writeTrips(ctx); err != nil {
		return err
	}
	if err := f.writeIncidents(ctx); err != nil {
		return err
	}
	return trimIncidents(ctx, f.tx, len(f.recorded))
}
