package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"

	"github.com/peil-stream/peil/internal/sink"
)

const (
	insertIncident = `
INSERT INTO incidents (kind, topic, partition, from_offset, to_offset, detail, at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)`

	insertIncidentOnce = `
INSERT INTO incidents (kind, topic, partition, from_offset, to_offset, detail, at)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7 WHERE NOT EXISTS (SELECT 1 FROM incidents
	WHERE kind = ?1 AND topic = ?2 AND partition IS ?3 AND from_offset IS ?4 AND to_offset IS ?5 AND detail = ?6)`

	// deleteIncidents keeps the newest ones, and the newest cold start of each
	// partition. Ids rise by one, because the newest row is never deleted.
	deleteIncidents = `
DELETE FROM incidents WHERE id <= (SELECT max(id) FROM incidents) - ?
	AND id NOT IN (SELECT max(id) FROM incidents WHERE kind = '` + sink.IncidentColdStart + `' GROUP BY topic, partition)`
)

// Record implements [sink.Sink]. The newest [sink.IncidentsMax] are kept. After
// an unknown outcome a second call may store the incident twice.
func (s *Sink) Record(ctx context.Context, in sink.Incident) error {
	now := s.stamp()
	err := s.write(ctx, "record incident "+in.Kind, func(tx *sql.Tx) (bool, error) {
		if err := addIncident(ctx, tx, in, now); err != nil {
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

func addIncident(ctx context.Context, tx *sql.Tx, in sink.Incident, now string) error {
	if _, err := tx.ExecContext(ctx, insertIncident, incidentArgs(in, now)...); err != nil {
		return fmt.Errorf("add incident %s: %w", in.Kind, err)
	}
	return nil
}

// writeIncidents adds the incidents of a flush, but not one whose content is kept
// already.
func (f *flush) writeIncidents(ctx context.Context) error {
	var ins []sink.Incident
	for i := range f.parts {
		ins = append(ins, f.parts[i].Incidents...)
	}
	return each{
		query:   insertIncidentOnce,
		n:       len(ins),
		row:     func(i int) []any { return incidentArgs(ins[i], f.now) },
		name:    func(i int) string { return "incident " + ins[i].Kind },
		changed: func(i int) { f.recorded = append(f.recorded, ins[i]) },
	}.run(ctx, f.tx)
}

func incidentArgs(in sink.Incident, now string) []any {
	return []any{
		in.Kind, in.Topic, known(int64(in.Partition)), known(in.FromOffset), known(in.ToOffset), in.Detail, now,
	}
}

// trimIncidents deletes what is too old once incidents were added.
func trimIncidents(ctx context.Context, tx *sql.Tx, added int) error {
	if added == 0 {
		return nil
	}
	if _, err := tx.ExecContext(ctx, deleteIncidents, sink.IncidentsMax); err != nil {
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
