//go:build integration

package postgres_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/sink/postgres"
	"github.com/peil-stream/peil/internal/testkit/services"
)

// TestOpenAtOnce has instances start together on an empty database: one makes
// the tables, all have them.
func TestOpenAtOnce(t *testing.T) {
	t.Parallel()
	const instances = 5
	url := services.Postgres(t)
	sinks := make([]*postgres.Sink, instances)
	var all errgroup.Group
	for i := range instances {
		all.Go(func() (err error) {
			sinks[i], err = postgres.Open(t.Context(), postgres.Options{URL: url})
			return err
		})
	}
	if err := all.Wait(); err != nil {
		t.Errorf("Open: %v", err)
	}
	for _, s := range sinks {
		if s != nil {
			claimOnce(t, s)
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	var steps int
	if err := openPool(t, url).QueryRow(t.Context(), "SELECT count(*) FROM peil_schema").Scan(&steps); err != nil || steps != 1 {
		t.Errorf("steps taken: %d, %v", steps, err)
	}
	if from, to, err := postgres.Migrate(t.Context(), postgres.Options{URL: url}); err != nil || from != to || to != steps {
		t.Errorf("Migrate of what is migrated = %d, %d, %v", from, to, err)
	}
}

func claimOnce(t *testing.T, s sink.Sink) {
	t.Helper()
	_, err := s.Claim(t.Context(), sink.ClaimRequest{Partition: part(0).Partition, TopicID: "id", Group: "peil"})
	if err != nil {
		t.Errorf("Claim: %v", err)
	}
}

// TestClaimsAtOnce has instances register and claim the same partitions in
// opposite order, while another group tries to get in first. One group has it.
func TestClaimsAtOnce(t *testing.T) {
	t.Parallel()
	const partitions, rounds = 4, 5
	h, _ := open(t, services.Postgres(t))
	topic := streamTopic(partitions)
	var all errgroup.Group
	groups := []string{"first", "second", "first", "second"}
	errs := make([]error, len(groups))
	for i, group := range groups {
		all.Go(func() error {
			s := []sink.Sink{h.Sink, h.Second}[i%2]
			if errs[i] = s.Register(t.Context(), topic, group); errs[i] != nil {
				return nil //nolint:nilerr // looked at below: one group is to be refused
			}
			for round := range rounds * partitions {
				p := int32(round % partitions)
				if i == 0 {
					p = partitions - 1 - p
				}
				_, err := s.Claim(t.Context(), sink.ClaimRequest{Partition: part(p).Partition, TopicID: topic.ID, Group: group})
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		t.Errorf("Claim: %v", err)
	}
	refused := 0
	for _, err := range errs {
		if e, ok := errors.AsType[*sink.MismatchError](err); ok && e.What == "group_id" {
			refused++
		} else if err != nil {
			t.Errorf("Register: %v", err)
		}
	}
	if refused != 2 || (errs[0] == nil) != (errs[2] == nil) {
		t.Errorf("Register: %v; want one group refused", errs)
	}
}

// TestSchemas sees that the first schema of search_path counts, and only that.
func TestSchemas(t *testing.T) {
	t.Parallel()
	database := services.Postgres(t)
	public := openSink(t, postgres.Options{URL: database})
	claimOnce(t, public)
	own := schema(t, database)
	if _, err := postgres.OpenViewer(t.Context(), postgres.Options{URL: own + ",public"}); !errors.Is(err, postgres.ErrNoSchema) {
		t.Errorf("OpenViewer of an empty schema before one with tables: got %v", err)
	}
	_, err := postgres.Open(t.Context(), postgres.Options{URL: database + "&search_path=nowhere"})
	if !errors.Is(err, postgres.ErrNoSchema) {
		t.Errorf("Open of a schema that does not exist: got %v", err)
	}
	wantHint(t, err, "CREATE SCHEMA")
	for _, address := range []string{own + ",public", database + "&options=-csearch_path%3D" + searchPath(t, own)} {
		s := openSink(t, postgres.Options{URL: address})
		v, err := s.View(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if offsets, err := v.Offsets(t.Context()); err != nil || len(offsets) != 0 {
			t.Errorf("Offsets of the new schema = %+v, %v", offsets, err)
		}
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	}
	// A lock is of its schema.
	req := sink.FinalRequest{Topic: "arrivals", TopicID: "id", Limit: 1}
	f, err := public.Final(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	other, err := openSink(t, postgres.Options{URL: own}).Final(t.Context(), req)
	if err != nil {
		t.Fatalf("Final in another schema: %v", err)
	}
	if err := errors.Join(f.Rollback(t.Context()), other.Rollback(t.Context())); err != nil {
		t.Error(err)
	}
}

func searchPath(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Query().Get("search_path")
}

// TestOpenRefuses has tables that are newer, a database that cannot hold every
// id, and one that does not exist.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	address := services.Postgres(t)
	openSink(t, postgres.Options{URL: address})
	pool := openPool(t, address)
	if _, err := pool.Exec(t.Context(), "INSERT INTO peil_schema (version) VALUES (99)"); err != nil {
		t.Fatal(err)
	}
	_, err := postgres.Open(t.Context(), postgres.Options{URL: address})
	wantHint(t, err, "version of peil")
	_, err = postgres.OpenViewer(t.Context(), postgres.Options{URL: address})
	wantHint(t, err, "version of peil")
	_, _, err = postgres.Migrate(t.Context(), postgres.Options{URL: address})
	wantHint(t, err, "version of peil")

	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.Path += "_latin"
	latin := pgx.Identifier{strings.TrimPrefix(u.Path, "/")}.Sanitize()
	if _, err := pool.Exec(t.Context(), "CREATE DATABASE "+latin+" ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0"); err != nil {
		t.Fatal(err)
	}
	_, err = postgres.Open(t.Context(), postgres.Options{URL: u.String()})
	wantHint(t, err, "UTF8")
	if _, err := pool.Exec(t.Context(), "DROP DATABASE "+latin+" WITH (FORCE)"); err != nil {
		t.Error(err)
	}
	_, err = postgres.Open(t.Context(), postgres.Options{URL: u.String()})
	if err == nil || !strings.Contains(err.Error(), u.Host+u.Path) {
		t.Errorf("Open of a database that does not exist: got %v", err)
	}
}

// TestColumns holds the tables against the design: names, order and types.
func TestColumns(t *testing.T) {
	t.Parallel()
	address := services.Postgres(t)
	openSink(t, postgres.Options{URL: address})
	const at, txt, big, small, double = "timestamp with time zone", "text", "bigint", "integer", "double precision"
	want := map[string][]string{
		"delay_aggregates": {
			"window_start " + at, "window_end " + at, "dimension " + txt, "dimension_id " + txt, "operator " + txt,
			"event_count " + big, "mean_delay_s " + double, "p90_delay_s " + double, "max_delay_s " + small, "min_delay_s " + small,
			"revision " + small, "topic " + txt, "computed_at " + at,
		},
		"vehicle_latest": {
			"vehicle_id " + txt, "trip_id " + txt, "line_id " + txt, "operator " + txt, "latitude " + double, "longitude " + double,
			"bearing " + double, "speed_mps " + double, "stop_id " + txt, "current_status " + txt, "occupancy " + txt,
			"observed_at " + at, "tie " + big, "updated_at " + at,
		},
		"trip_delay_latest": {
			"trip_id " + txt, "start_date " + txt, "line_id " + txt, "operator " + txt, "stop_id " + txt, "station_id " + txt,
			"stop_sequence " + big, "delay_s " + small, "predicted_time " + at, "observed_at " + at, "tie " + big, "updated_at " + at,
		},
		"window_segments": {
			"window_start " + at, "topic " + txt, "partition " + small, "window_end " + at, "topic_id " + txt,
			"first_offset " + big, "through_offset " + big, "records " + big, "origin " + txt, "merged_at " + at, "data bytea",
		},
		"consumer_offsets": {
			"topic " + txt, "partition " + small, "group_id " + txt, "topic_id " + txt, "next_offset " + big, "position " + big,
			"leader_epoch " + small, "watermark " + at, "final_to " + at, "accepted " + big, "late " + big, "dead " + big,
			"ignored " + big, "fingerprint " + txt, "epoch " + big, "owner " + txt, "updated_at " + at,
		},
		"incidents": {
			"id " + big, "kind " + txt, "topic " + txt, "partition " + small, "from_offset " + big, "to_offset " + big,
			"detail " + txt, "at " + at,
		},
	}
	rows, err := openPool(t, address).Query(t.Context(), `SELECT table_name, column_name || ' ' || data_type
		FROM information_schema.columns WHERE table_schema = 'public' AND table_name <> 'peil_schema'
		ORDER BY table_name, ordinal_position`)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	var table, column string
	_, err = pgx.ForEachRow(rows, []any{&table, &column}, func() error {
		got[table] = append(got[table], column)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("columns mismatch (-want +got):\n%s", diff)
	}
}
