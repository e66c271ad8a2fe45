package postgres

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/peil-stream/peil/internal/sink"
)

const (
	insertIncidents = `
INSERT INTO incidents (kind, topic, partition, from_offset, to_offset, detail, at)
SELECT k, t, p, f, o, d, $7
FROM unnest($1::text[], $2::text[], $3::integer[], $4::bigint[], $5::bigint[], $6::text[])
	WITH ORDINALITY AS u (k, t, p, f, o, d, n) ORDER BY n`

	insertIncidentsOnce = `
INSERT INTO incidents (kind, topic, partition, from_offset, to_offset, detail, at)
SELECT k, t, p, f, o, d, $7
FROM unnest($1::text[], $2::text[], $3::integer[], $4::bigint[], $5::bigint[], $6::text[])
	WITH ORDINALITY AS u (k, t, p, f, o, d, n)
WHERE NOT EXISTS (SELECT FROM incidents AS i
	WHERE i.topic = u.t AND i.kind = u.k AND COALESCE(i.partition, -1) = COALESCE(u.p, -1)
		AND COALESCE(i.from_offset, -1) = COALESCE(u.f, -1)
		AND i.to_offset IS NOT DISTINCT FROM u.o AND i.detail = u.d)
ORDER BY n
RETURNING kind, topic, partition, from_offset, to_offset, detail`

	// deleteIncidents keeps the newest ones, and the newest cold start of each
	// partition. Ids have gaps, so it counts rows.
	deleteIncidents = `
DELETE FROM incidents WHERE id < (SELECT id FROM incidents ORDER BY id DESC OFFSET $1 - 1 LIMIT 1)
	AND id NOT IN (SELECT max(id) FROM incidents WHERE kind = '` + sink.IncidentColdStart + `' GROUP BY topic, partition)`
)

// Record implements [sink.Sink]. The newest [sink.IncidentsMax] are kept. After
// an unknown outcome a second call may store the incident twice.
func (s *Sink) Record(ctx context.Context, in sink.Incident) error {
	now := s.stamp()
	err := s.write(ctx, "record incident "+in.Kind, func(tx *transaction) (bool, error) {
		if err := addIncidents(ctx, tx, []sink.Incident{in}, now, true); err != nil {
			return false, err
		}
		return true, trimIncidents(ctx, tx, 1)
	})
	if err != nil {
		return err
	}
	s.warn(ctx, []sink.Incident{in})
	return nil
}

func incidents(write func(context.Context, *transaction, []sink.Incident) error) table[sink.Incident] {
	return table[sink.Incident]{
		name:  "incidents",
		key:   func(in *sink.Incident) string { return "incident " + label(in.Kind) + " of " + label(in.Topic) },
		write: write,
	}
}

func addIncidents(ctx context.Context, tx *transaction, ins []sink.Incident, now pgtype.Timestamptz, careful bool) error {
	return incidents(func(ctx context.Context, t *transaction, rows []sink.Incident) error {
		_, err := t.exec(ctx, insertIncidents, incidentArgs(rows, now)...)
		return err
	}).put(ctx, tx, ins, careful)
}

// writeIncidents adds the incidents of a flush, but not one whose content is kept
// already.
func (f *flush) writeIncidents(ctx context.Context) error {
	var ins []sink.Incident
	seen := map[sink.Incident]bool{}
	for i := range f.parts {
		for _, in := range f.parts[i].Incidents {
			in.ID, in.At = 0, 0
			if !seen[in] {
				seen[in] = true
				ins = append(ins, in)
			}
		}
	}
	return incidents(func(ctx context.Context, t *transaction, rows []sink.Incident) error {
		added, err := collect(ctx, t, func(row pgx.CollectableRow) (in sink.Incident, err error) {
			err = scanIncident(row, &in)
			return in, err
		}, insertIncidentsOnce, incidentArgs(rows, f.now)...)
		f.recorded = append(f.recorded, added...)
		return err
	}).put(ctx, f.tx, ins, f.careful)
}

// scanIncident scans the columns of an incident's content, and more after them.
func scanIncident(row pgx.CollectableRow, in *sink.Incident, more ...any) error {
	partition := int64(-1)
	err := row.Scan(append([]any{
		&in.Kind, &in.Topic, numberColumn{&partition}, numberColumn{&in.FromOffset}, numberColumn{&in.ToOffset}, &in.Detail,
	}, more...)...)
	in.Partition = int32(partition)
	return err
}

func incidentArgs(rows []sink.Incident, now pgtype.Timestamptz) []any {
	return []any{
		column(rows, func(in *sink.Incident) string { return in.Kind }),
		column(rows, func(in *sink.Incident) string { return in.Topic }),
		column(rows, func(in *sink.Incident) pgtype.Int8 { return known(int64(in.Partition)) }),
		column(rows, func(in *sink.Incident) pgtype.Int8 { return known(in.FromOffset) }),
		column(rows, func(in *sink.Incident) pgtype.Int8 { return known(in.ToOffset) }),
		column(rows, func(in *sink.Incident) string { return in.Detail }),
		now,
	}
}

// trimIncidents deletes what is too old once incidents were added. It comes last
// in its transaction: two may want to delete the same rows.
func trimIncidents(ctx context.Context, tx *transaction, added int) error {
	if added == 0 {
		return nil
	}
	if _, err := tx.exec(ctx, deleteIncidents, sink.IncidentsMax); err != nil {
		return fmt.Errorf("trim incidents: %w", err)
	}
	return nil
}

// warn logs incidents that have become durable: one line for a call, however
// many there are, since a partition that wakes up after retention can bring
// thousands.
func (s *Sink) warn(ctx context.Context, ins []sink.Incident) {
	if len(ins) == 0 {
		return
	}
	in := ins[0]
	s.log.LogAttrs(ctx, slog.LevelWarn, "incident recorded", slog.Int("count", len(ins)),
		slog.String("kind", in.Kind), slog.String("topic", in.Topic), slog.Int("partition", int(in.Partition)),
		slog.Int64("from_offset", in.FromOffset), slog.Int64("to_offset", in.ToOffset), slog.String("detail", in.Detail))
}
