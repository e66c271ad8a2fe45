//go:build integration

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/sink/postgres"
	"github.com/peil-stream/peil/internal/sink/sinktest"
	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/internal/testkit/services"
)

// roles is a database whose roles are those of the documentation.
type roles struct {
	admin                *pgxpool.Pool // a superuser, on the schema of the tables
	owner, process, read string        // addresses
}

// documentedRoles runs the SQL of docs/postgres.md. Roles belong to the whole
// server, so they get names of their own.
func documentedRoles(t *testing.T) roles {
	t.Helper()
	doc, err := os.ReadFile("../../../docs/postgres.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(string(doc), -1)
	if len(blocks) != 2 {
		t.Fatalf("docs/postgres.md has %d blocks of SQL, want those before and after the migration", len(blocks))
	}
	database := services.Postgres(t)
	at, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	suffix := "_" + strings.TrimPrefix(at.Path, "/peil_")
	own := func(text string) string {
		return regexp.MustCompile(`\bpeil_(owner|process|read)\b`).ReplaceAllString(text, "${0}"+suffix)
	}
	super := openPool(t, database)
	run := func(pool *pgxpool.Pool, text string) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), own(text)); err != nil {
			t.Fatalf("%s: %v", own(text), err)
		}
	}
	run(super, blocks[0][1])
	t.Cleanup(func() {
		ctx := context.Background() // the test's own has ended
		for _, role := range []string{"peil_process", "peil_read", "peil_owner"} {
			for _, statement := range []string{"DROP OWNED BY %s CASCADE", "DROP ROLE %s"} {
				if _, err := super.Exec(ctx, own(fmt.Sprintf(statement, role))); err != nil {
					t.Error(err)
				}
			}
		}
	})
	as := func(role string) string {
		password := regexp.MustCompile(role + ` +LOGIN PASSWORD '(.*?)'`).FindStringSubmatch(blocks[0][1])[1]
		u := *at
		u.User = url.UserPassword(own(role), password)
		return u.String() + "&search_path=peil"
	}
	r := roles{
		admin: openPool(t, database+"&search_path=peil"),
		owner: as("peil_owner"), process: as("peil_process"), read: as("peil_read"),
	}
	if from, to, err := postgres.Migrate(t.Context(), postgres.Options{URL: r.owner}); err != nil || from != 0 || to < 1 {
		t.Fatalf("Migrate = %d, %d, %v", from, to, err)
	}
	owner := openPool(t, r.owner)
	run(owner, blocks[1][1])
	owner.Close()
	return r
}

// TestRolesProcess runs the whole suite with the rights that the documentation
// gives to a process.
func TestRolesProcess(t *testing.T) {
	t.Parallel()
	r := documentedRoles(t)
	for _, c := range sinktest.Checks() {
		clock := new(sinktest.Clock)
		first, err := postgres.Open(t.Context(), postgres.Options{URL: r.process, Now: clock.Now})
		if err != nil {
			t.Fatalf("Open: %v", err)
		}
		second, err := postgres.Open(t.Context(), postgres.Options{URL: r.process, Now: clock.Now})
		if err != nil {
			t.Fatalf("Open: %v", err)
		}
		err = c.Run(t.Context(), sinktest.Harness{
			Sink: first, Second: second, Interleaves: true,
			Dump: func(ctx context.Context) (string, error) { return dump(ctx, r.admin) },
			Void: func(ctx context.Context, p stream.Partition, id string) error { return void(ctx, r.admin, p, id) },
		})
		if err := errors.Join(err, first.Close(), second.Close()); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
		if _, err := r.admin.Exec(t.Context(), "TRUNCATE "+strings.Join(tableNames(), ", ")); err != nil {
			t.Fatal(err)
		}
	}
	// And no more rights than these.
	process := openPool(t, r.process)
	for _, statement := range []string{
		"CREATE TABLE more (a int)", "TRUNCATE incidents", "DELETE FROM consumer_offsets", "DELETE FROM window_segments",
		"UPDATE incidents SET detail = ''", "INSERT INTO peil_schema VALUES (9)", "DROP TABLE incidents",
	} {
		wantForbidden(t, statement, func() error {
			_, err := process.Exec(t.Context(), statement)
			return err
		})
	}
}

// TestRolesRead sees that a reader reads everything and writes nothing.
func TestRolesRead(t *testing.T) {
	t.Parallel()
	r := documentedRoles(t)
	claimAll(t, openSink(t, postgres.Options{URL: r.process}), part(0))
	viewer, err := postgres.OpenViewer(t.Context(), postgres.Options{URL: r.read})
	if err != nil {
		t.Fatalf("OpenViewer: %v", err)
	}
	v, err := viewer.View(t.Context())
	if err != nil {
		t.Fatalf("View: %v", err)
	}
	offsets, err := v.Offsets(t.Context())
	if err != nil || len(offsets) != 1 {
		t.Errorf("Offsets = %+v, %v", offsets, err)
	}
	for _, err := range []error{
		drain(v.Aggregates(t.Context(), sink.AggregateQuery{From: sink.NoTime, To: sink.NoTime})), drain(v.Vehicles(t.Context())),
		drain(v.Trips(t.Context())), drain(v.Segments(t.Context(), "arrivals", true)),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	if _, err := v.Incidents(t.Context(), 0); err != nil {
		t.Error(err)
	}
	if err := errors.Join(v.Close(), viewer.Close()); err != nil {
		t.Error(err)
	}
	s := openSink(t, postgres.Options{URL: r.read})
	wantForbidden(t, "a claim by a reader", func() error {
		_, err := s.Claim(t.Context(), sink.ClaimRequest{Partition: part(0).Partition, TopicID: "id", Group: "peil"})
		return err
	})
}

func drain[T any](seq func(func(T, error) bool)) error {
	for _, err := range seq {
		if err != nil {
			return err
		}
	}
	return nil
}

func wantForbidden(t *testing.T, what string, do func() error) {
	t.Helper()
	err := do()
	if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Code != "42501" || errors.Is(err, sink.ErrTransient) {
		t.Errorf("%s: got %v, want a lack of rights", what, err)
	}
}

// TestRolesOutdatedTables has a process find tables that it may not change.
func TestRolesOutdatedTables(t *testing.T) {
	t.Parallel()
	r := documentedRoles(t)
	if _, err := r.admin.Exec(t.Context(), "DELETE FROM peil_schema"); err != nil {
		t.Fatal(err)
	}
	_, err := postgres.Open(t.Context(), postgres.Options{URL: r.process})
	wantHint(t, err, "peil migrate")
	_, err = postgres.OpenViewer(t.Context(), postgres.Options{URL: r.read})
	wantHint(t, err, "peil migrate")
	if _, err := r.admin.Exec(t.Context(), "REVOKE SELECT ON peil_schema FROM PUBLIC; DROP TABLE peil_schema"); err != nil {
		t.Fatal(err)
	}
	_, err = postgres.Open(t.Context(), postgres.Options{URL: r.process})
	wantHint(t, err, "peil migrate")
	_, err = postgres.OpenViewer(t.Context(), postgres.Options{URL: r.read})
	wantHint(t, err, "peil migrate")
	if !errors.Is(err, postgres.ErrNoSchema) {
		t.Errorf("OpenViewer without tables: got %v", err)
	}
}

func wantHint(t *testing.T, err error, want string) {
	t.Helper()
	h, ok := errors.AsType[interface {
		error
		Hint() string
	}](err)
	if !ok || !strings.Contains(h.Hint(), want) || errors.Is(err, sink.ErrTransient) {
		t.Errorf("got %v, want a lasting error with a hint of %q", err, want)
		return
	}
	t.Logf("%v; hint: %s", err, h.Hint())
}
