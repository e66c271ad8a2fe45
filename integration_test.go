//go:build integration

package peil_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx

	"github.com/peil-stream/peil/internal/testkit/services"
)

// patience is how long a test waits for something to happen.
const patience = 2 * time.Minute

// place is where a log and its tables are. Topics and group are named after the
// test: brokers are shared.
type place struct {
	name    string
	dir     string
	brokers []string // none: embedded
	url     string   // of Postgres; "": SQLite
	db      *sql.DB  // of url
	env     []string // more settings
}

// newPlace makes an empty place.
func newPlace(t *testing.T, onKafka, onPostgres bool) *place {
	t.Helper()
	dir := t.TempDir()
	p := &place{name: strings.ReplaceAll(t.Name(), "/", "."), dir: filepath.Join(dir, "data")}
	// Brokers may outlive the test.
	p.name += "." + strconv.FormatInt(time.Now().UnixMilli(), 36)
	if onKafka {
		p.brokers = services.Kafka(t)
	}
	if onPostgres {
		p.url = services.Postgres(t)
		var err error
		if p.db, err = sql.Open("pgx", p.url); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := p.db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return p
}

func (p *place) arrivals() string  { return p.name + ".arrivals" }
func (p *place) positions() string { return p.name + ".positions" }

// command is a peil process at this place.
func (p *place) command(ctx context.Context, args ...string) *exec.Cmd {
	args = append(slices.Clone(args), "--data-dir", p.dir)
	if len(p.brokers) > 0 {
		args = append(args, "--brokers", strings.Join(p.brokers, ","))
	}
	if p.url != "" {
		args = append(args, "--sink", p.url)
	}
	cmd := peilCommand(ctx, args...)
	cmd.Env = append(cmd.Env, "PEIL_KAFKA_GROUP="+p.name, "PEIL_TOPICS_ARRIVALS="+p.arrivals(),
		"PEIL_TOPICS_POSITIONS="+p.positions(), "PEIL_KAFKA_SESSION_TIMEOUT=3s")
	cmd.Env = append(cmd.Env, p.env...)
	return cmd
}

// run runs peil to its end, with an exit code, and returns what it printed.
func (p *place) run(t *testing.T, code int, args ...string) string {
	t.Helper()
	out, err := p.command(t.Context(), args...).CombinedOutput()
	if got := exitCode(err); got != code {
		t.Fatalf("peil %s: exit %d (%v), want %d\n%s", strings.Join(args, " "), got, err, code, out)
	}
	return string(out)
}

// verify holds that every row is what the log says.
func (p *place) verify(t *testing.T) {
	t.Helper()
	if out := p.run(t, 0, "verify"); !strings.Contains(out, "no differences") {
		t.Fatalf("verify: %s", out)
	}
}

// process is a running peil.
type process struct {
	cmd   *exec.Cmd
	out   safeBuffer
	ended chan struct{}
	err   error // once ended
}

// start starts peil; what is still running when the test ends is killed.
func (p *place) start(t *testing.T, args ...string) *process {
	t.Helper()
	pr := &process{cmd: p.command(context.WithoutCancel(t.Context()), args...), ended: make(chan struct{})}
	pr.cmd.Stdout, pr.cmd.Stderr = &pr.out, &pr.out
	if err := pr.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(pr.ended)
		pr.err = pr.cmd.Wait()
	}()
	t.Cleanup(func() {
		pr.kill()
		if t.Failed() {
			t.Logf("peil %d said:\n%s", pr.cmd.Process.Pid, pr.out.String())
		}
	})
	return pr
}

// processor starts a process that reads the log into the tables.
func (p *place) processor(t *testing.T) *process {
	t.Helper()
	return p.start(t, "process", "--listen", "127.0.0.1:0")
}

// kill ends a process at once.
func (pr *process) kill() {
	_ = pr.cmd.Process.Kill() // it may have ended
	<-pr.ended
}

// stop ends a process in order.
func (pr *process) stop(t *testing.T) {
	t.Helper()
	if err := pr.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	<-pr.ended
	if pr.err != nil {
		t.Fatalf("peil ended with %v after an interrupt\n%s", pr.err, pr.out.String())
	}
}

// owns gives the SQL condition that a row of consumer_offsets was claimed by this
// process.
func (pr *process) owns() string {
	return fmt.Sprintf("owner LIKE '%%:%d'", pr.cmd.Process.Pid)
}

// await waits for a condition while processes run.
func await(t *testing.T, what string, met func() bool, running ...*process) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for !met() {
		for _, pr := range running {
			select {
			case <-pr.ended:
				t.Fatalf("waiting for %s: peil ended by itself: %v\n%s", what, pr.err, pr.out.String())
			default:
			}
		}
		select {
		case <-deadline.C:
			t.Fatalf("waiting for %s: it does not come", what)
		case <-again.C:
		}
	}
}

// inTables runs a function in a read transaction of the tables; false: there are
// none yet.
func (p *place) inTables(t *testing.T, fn func(context.Context, *sql.Tx)) bool {
	t.Helper()
	if p.db == nil {
		return inTables(t, p.dir, fn)
	}
	tx, err := p.db.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	fn(t.Context(), tx)
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	return true
}

// noTable says whether a query failed because its table is not there yet.
func noTable(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code == "42P01"
	}
	return err != nil && strings.Contains(err.Error(), "no such table")
}

// number runs a query that gives one integer; NULL is 0, and so is a row or table
// that is not there yet.
func (p *place) number(t *testing.T, query string) int64 {
	t.Helper()
	var n sql.NullInt64
	p.inTables(t, func(ctx context.Context, tx *sql.Tx) {
		if err := tx.QueryRowContext(ctx, query).Scan(&n); err != nil && !noTable(err) && !errors.Is(err, sql.ErrNoRows) {
			t.Fatalf("%s: %v", query, err)
		}
	})
	return n.Int64
}

// rows gives the rows of a query as lines, the same for either database: in byte
// order, instants in UTC.
func (p *place) rows(t *testing.T, query string) string {
	t.Helper()
	var lines []string
	if !p.inTables(t, func(ctx context.Context, tx *sql.Tx) {
		rows, err := tx.QueryContext(ctx, query)
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		defer func() {
			if err := errors.Join(rows.Err(), rows.Close()); err != nil {
				t.Fatal(err)
			}
		}()
		lines = appendRows(t, lines, rows)
	}) {
		t.Fatal("there are no tables")
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func appendRows(t *testing.T, lines []string, rows *sql.Rows) []string {
	t.Helper()
	names, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		cells, into := make([]any, len(names)), make([]any, len(names))
		for i := range cells {
			into[i] = &cells[i]
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		var line strings.Builder
		for i, c := range cells {
			fmt.Fprintf(&line, "%s=%v ", names[i], plain(c))
		}
		lines = append(lines, line.String())
	}
	return lines
}

// plain gives a value as SQLite has it.
func plain(cell any) any {
	switch c := cell.(type) {
	case time.Time:
		return instant(c.UnixMilli())
	case bool:
		if c {
			return 1
		}
		return 0
	default:
		return c
	}
}

// instant writes Unix milliseconds as SQLite has them.
func instant(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

// What rows say, but for where and when they were computed.
const (
	aggregateColumns = "window_start, window_end, dimension, dimension_id, operator, event_count, mean_delay_s, p90_delay_s, max_delay_s, min_delay_s"
	vehicleColumns   = "vehicle_id, trip_id, line_id, operator, latitude, longitude, bearing, speed_mps, stop_id, current_status, occupancy, observed_at"
	tripColumns      = "trip_id, start_date, line_id, operator, stop_id, station_id, stop_sequence, delay_s, predicted_time, observed_at, tie"
)

// results are the rows that must be the same at every place.
func (p *place) results(t *testing.T) string {
	t.Helper()
	return p.rows(t, "SELECT "+aggregateColumns+" FROM delay_aggregates") + "\n" +
		p.rows(t, "SELECT "+vehicleColumns+" FROM vehicle_latest") + "\n" +
		p.rows(t, "SELECT "+tripColumns+" FROM trip_delay_latest")
}

// dump is everything that must be the same at one place when nothing has happened.
func (p *place) dump(t *testing.T) string {
	t.Helper()
	return p.rows(t, "SELECT "+aggregateColumns+", revision, topic, computed_at FROM delay_aggregates") + "\n" +
		p.rows(t, "SELECT "+vehicleColumns+", tie, updated_at FROM vehicle_latest") + "\n" +
		p.rows(t, "SELECT "+tripColumns+", updated_at FROM trip_delay_latest") + "\n" +
		p.rows(t, "SELECT window_start, topic, partition, window_end, first_offset, through_offset, records, origin, merged_at FROM window_segments") + "\n" +
		p.rows(t, "SELECT topic, partition, next_offset, position, watermark, final_to, accepted, late, dead, ignored FROM consumer_offsets")
}

// counts are accepted, late, dead and ignored of all partitions of the arrivals.
func (p *place) counts(t *testing.T) (c [4]int64) {
	t.Helper()
	p.inTables(t, func(ctx context.Context, tx *sql.Tx) {
		query := "SELECT coalesce(sum(accepted), 0), coalesce(sum(late), 0), coalesce(sum(dead), 0), coalesce(sum(ignored), 0) FROM consumer_offsets WHERE topic = '" + p.arrivals() + "'"
		if err := tx.QueryRowContext(ctx, query).Scan(&c[0], &c[1], &c[2], &c[3]); err != nil && !noTable(err) {
			t.Fatal(err)
		}
	})
	return c
}

// published is the number of offsets of the log, as peil status has it.
func (p *place) published(t *testing.T) (end int64) {
	t.Helper()
	var status struct {
		Partitions []struct {
			End *int64 `json:"log_end"`
		} `json:"partitions"`
	}
	var out bytes.Buffer
	cmd := p.command(t.Context(), "status", "-o", "json")
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out.Bytes(), &status); err != nil {
		t.Fatal(err)
	}
	for _, s := range status.Partitions {
		if s.End == nil {
			t.Fatalf("status names no end of a partition:\n%s", &out)
		}
		end += *s.End
	}
	return end
}

// safeBuffer may be read while a process writes it.
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
