//go:build integration

package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/sink/postgres"
	"github.com/peil-stream/peil/internal/sink/sinktest"
	"github.com/peil-stream/peil/internal/testkit/services"
)

// relay stands between a sink and the server, and breaks the way between them
// when it sees certain bytes from the client.
type relay struct {
	listener net.Listener
	server   string
	work     sync.WaitGroup
	// muted keeps the answers of the server back.
	muted atomic.Bool
	// taking is held by who takes an answer from the server; whoever holds it
	// longer is a client that was stopped.
	taking sync.RWMutex

	mu    sync.Mutex
	conns []net.Conn
	// on is what to look for; nil: nothing. It is looked for once.
	on []byte
	// then handles the message that holds it. It returns false to end the
	// connection.
	then func(client, server net.Conn, message []byte) bool
}

// newRelay returns a relay before the server of an address, and the address that
// leads through it.
func newRelay(t *testing.T, address string) (*relay, string) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: l, server: u.Host}
	r.work.Go(r.accept)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		for _, c := range r.conns {
			_ = c.Close() // most are closed already
		}
		r.mu.Unlock()
		r.work.Wait()
	})
	u.Host = l.Addr().String()
	return r, u.String()
}

// arm makes the next message of a client that holds the bytes special.
func (r *relay) arm(on string, then func(client, server net.Conn, message []byte) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.on, r.then = []byte(on), then
}

func (r *relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		server, err := new(net.Dialer).DialContext(context.Background(), "tcp", r.server) // ends with the relay
		if err != nil {
			_ = client.Close() // the client sees it
			continue
		}
		r.mu.Lock()
		r.conns = append(r.conns, client, server)
		r.mu.Unlock()
		r.work.Go(func() {
			_, _ = io.Copy(muffled{client, r}, server) // ends with either connection
			_ = client.Close()                         // the other may have closed it
		})
		r.work.Go(func() { r.forward(client, server) })
	}
}

// muffled writes nothing while muted.
type muffled struct {
	io.Writer
	*relay
}

// stop lets no more answers be taken from the server.
func (r *relay) stop() { r.taking.Lock() }

// wake ends stop.
func (r *relay) wake() { r.taking.Unlock() }

func (m muffled) Write(p []byte) (int, error) {
	m.taking.RLock()
	defer m.taking.RUnlock()
	if m.muted.Load() {
		return len(p), nil
	}
	return m.Writer.Write(p)
}

// unheard lets a message through, waits until the server has done what the
// question asks for, and cuts the connection before the client hears of it.
func (r *relay) unheard(t *testing.T, pool *pgxpool.Pool, done string) func(client, server net.Conn, message []byte) bool {
	t.Helper()
	return func(client, server net.Conn, message []byte) bool {
		r.muted.Store(true)
		_, _ = server.Write(message) // seen by what it does
		waitUntil(t, pool, done)
		_ = client.Close() // the client sees it
		r.muted.Store(false)
		return false
	}
}

// unsent cuts the connection before a message has arrived.
func unsent(client, _ net.Conn, _ []byte) bool {
	_ = client.Close() // the client sees it
	return false
}

func (r *relay) forward(client, server net.Conn) {
	defer func() { _, _ = client.Close(), server.Close() }()
	buffer := make([]byte, 1<<20)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		r.mu.Lock()
		then := r.then
		if r.on == nil || !bytes.Contains(buffer[:n], r.on) {
			then = nil
		} else {
			r.on = nil
		}
		r.mu.Unlock()
		if then == nil {
			if _, err := server.Write(buffer[:n]); err != nil {
				return
			}
			continue
		}
		if !then(client, server, buffer[:n]) {
			return
		}
	}
}

// TestUnknownOutcomeOfCommit cuts the connection before the COMMIT of a flush has
// reached the server, and after the server has applied it. The client cannot tell
// them apart. The redo of the same flush has one effect in both.
func TestUnknownOutcomeOfCommit(t *testing.T) {
	t.Parallel()
	database := services.Postgres(t)
	for name, arrives := range map[string]bool{"before it arrives": false, "after it was applied": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := schema(t, database)
			r, through := newRelay(t, address)
			pool := openPool(t, address)
			s := openSink(t, postgres.Options{URL: through, Now: new(sinktest.Clock).Now})
			p := part(0)
			claimAll(t, s, p)
			p.Segments = []sink.Segment{segment()}
			p.State.Vehicles = []sink.Vehicle{{VehicleID: "v"}}
			p.Incidents = []sink.Incident{{Kind: "test", Topic: "arrivals"}}
			nothing := mustDump(t, pool)

			r.arm("commit\x00", unsent)
			if arrives {
				r.arm("commit\x00", r.unheard(t, pool, "SELECT EXISTS (SELECT FROM vehicle_latest)"))
			}
			_, err := s.Flush(t.Context(), []sink.PartitionFlush{p})
			if !errors.Is(err, sink.ErrTransient) {
				t.Fatalf("Flush: got %v, want an error that may pass", err)
			}
			after := mustDump(t, pool)
			if (after != nothing) != arrives {
				t.Fatalf("written: %v, want %v:\n%s", after != nothing, arrives, cmp.Diff(nothing, after))
			}
			mustFlush(t, s, p)
			redone := mustDump(t, pool)
			if arrives && redone != after {
				t.Errorf("the redo has changed something:\n%s", cmp.Diff(after, redone))
			}
			mustFlush(t, s, p)
			if again := mustDump(t, pool); again != redone {
				t.Errorf("one more redo has changed something:\n%s", cmp.Diff(redone, again))
			}
			wantCounts(t, pool, "SELECT position FROM consumer_offsets", 5)
			wantCounts(t, pool, "SELECT count(*) FROM window_segments", 1)
			wantCounts(t, pool, "SELECT count(*) FROM incidents", 1)
		})
	}
}

func wantCounts(t *testing.T, pool *pgxpool.Pool, query string, want int64) {
	t.Helper()
	var got int64
	if err := pool.QueryRow(t.Context(), query).Scan(&got); err != nil || got != want {
		t.Errorf("%s = %d, %v; want %d", query, got, err, want)
	}
}

// TestUnknownOutcomeOfFinal does the same with a finaliser: the next one merges
// what is not merged, and the row has one revision.
func TestUnknownOutcomeOfFinal(t *testing.T) {
	t.Parallel()
	address := services.Postgres(t)
	r, through := newRelay(t, address)
	pool := openPool(t, address)
	s := openSink(t, postgres.Options{URL: through})
	p := part(0)
	claimAll(t, s, p)
	p.Segments, p.FinalTo = []sink.Segment{segment()}, 300_000
	mustFlush(t, s, p)
	r.arm("commit\x00", r.unheard(t, pool, "SELECT EXISTS (SELECT FROM window_segments WHERE merged_at IS NOT NULL)"))
	for i, want := range []int{1, 0} {
		f, err := s.Final(t.Context(), sink.FinalRequest{Topic: "arrivals", TopicID: "id", Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		windows, err := f.Pending(t.Context())
		if err != nil || len(windows) != want {
			t.Fatalf("finaliser %d: %d windows, %v; want %d", i, len(windows), err, want)
		}
		for _, w := range windows {
			if _, err := f.Apply(t.Context(), w, nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Commit(t.Context()); errors.Is(err, sink.ErrTransient) != (i == 0) {
			t.Errorf("finaliser %d: Commit: %v", i, err)
		}
		if err := f.Rollback(t.Context()); err != nil {
			t.Errorf("finaliser %d: Rollback: %v", i, err)
		}
	}
}

// TestStoppedFlushLosesItsLocks stops a process in the middle of a flush: what it
// sends no longer arrives. Another process waits for its locks no longer than the
// session timeout, claims the partition, and what the first one does when it
// wakes up is fenced.
func TestStoppedFlushLosesItsLocks(t *testing.T) {
	t.Parallel()
	const session = 6 * time.Second
	address := services.Postgres(t)
	r, through := newRelay(t, address)
	zombie := openSink(t, postgres.Options{URL: through, SessionTimeout: session})
	heir := openSink(t, postgres.Options{URL: address, SessionTimeout: session})
	p := part(0)
	claimAll(t, zombie, p)
	p.State.Vehicles = []sink.Vehicle{{VehicleID: "v"}}

	stopped, wake := make(chan struct{}), make(chan struct{})
	r.arm("INSERT INTO vehicle_latest", func(_, server net.Conn, message []byte) bool {
		close(stopped)
		<-wake
		_, err := server.Write(message)
		return err == nil
	})
	flushed := make(chan error, 1)
	go func() {
		_, err := zombie.Flush(t.Context(), []sink.PartitionFlush{p})
		flushed <- err
	}()
	<-stopped
	// The fencing update is done, so the row is locked.
	waits := 0
	for {
		c, err := heir.Claim(t.Context(), sink.ClaimRequest{Partition: p.Partition, TopicID: "id", Group: "peil", Fingerprint: "5m/2m/5m"})
		if err == nil {
			if c.Epoch != 2 || c.Stored {
				t.Errorf("Claim = %+v", c)
			}
			break
		}
		if !errors.Is(err, sink.ErrTransient) {
			t.Fatalf("Claim: %v", err)
		}
		waits++
	}
	if waits == 0 {
		t.Error("the row was not locked by the stopped flush")
	}
	close(wake)
	if err := <-flushed; !errors.Is(err, sink.ErrTransient) {
		t.Errorf("the stopped flush: got %v, want an error that may pass", err)
	}
	result, err := zombie.Flush(t.Context(), []sink.PartitionFlush{p})
	if err != nil || len(result.Fenced) != 1 {
		t.Errorf("its redo = %+v, %v; want it fenced", result, err)
	}
	wantCounts(t, openPool(t, address), "SELECT count(*) FROM vehicle_latest", 0)
}

// TestStoppedFinaliserLosesItsLock: another process finalises once the server has
// ended the session of one that does nothing.
func TestStoppedFinaliserLosesItsLock(t *testing.T) {
	t.Parallel()
	const session = 4 * time.Second
	address := services.Postgres(t)
	req := sink.FinalRequest{Topic: "arrivals", TopicID: "id", Limit: 1}
	f, err := openSink(t, postgres.Options{URL: address, SessionTimeout: session}).Final(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	heir := openSink(t, postgres.Options{URL: address, SessionTimeout: session})
	busy := 0
	for {
		next, err := heir.Final(t.Context(), req)
		if err == nil {
			if err := next.Rollback(t.Context()); err != nil {
				t.Error(err)
			}
			break
		}
		if !errors.Is(err, sink.ErrBusy) {
			t.Fatalf("Final: %v", err)
		}
		busy++
	}
	if busy == 0 {
		t.Error("the topic was never busy")
	}
	if _, err := f.Pending(t.Context()); !errors.Is(err, sink.ErrTransient) {
		t.Errorf("Pending of the stopped one: got %v, want an error that may pass", err)
	}
	if err := f.Rollback(t.Context()); err != nil {
		t.Errorf("Rollback of the stopped one: %v", err)
	}
}

// TestStoppedReaderLosesItsLock stops a finaliser while it takes the segments from
// the server, which then waits not for a statement but for its answer to go.
func TestStoppedReaderLosesItsLock(t *testing.T) {
	t.Parallel()
	const session = 8 * time.Second
	address := services.Postgres(t)
	r, through := newRelay(t, address)
	req := sink.FinalRequest{Topic: "arrivals", TopicID: "id", Limit: 1}
	s := openSink(t, postgres.Options{URL: through + "&pool_max_conns=1", SessionTimeout: session})
	heir := openSink(t, postgres.Options{URL: address, SessionTimeout: session})
	p := part(0)
	claimAll(t, s, p)
	// More than the buffers between server and client hold.
	g := segment()
	g.Data = make([]byte, 40<<20)
	p.Segments, p.FinalTo = []sink.Segment{g}, 300_000
	mustFlush(t, openSink(t, postgres.Options{URL: address}), p)
	// Once before, so that the statements are prepared.
	f, err := s.Final(t.Context(), req)
	if err == nil {
		_, err = f.Pending(t.Context())
	}
	if err == nil {
		err = f.Rollback(t.Context())
	}
	if err == nil {
		f, err = s.Final(t.Context(), req)
	}
	if err != nil {
		t.Fatal(err)
	}
	// The topic is an argument of the statement that looks for windows, and then of
	// the one that reads their segments.
	stopped := make(chan struct{})
	r.arm("arrivals", func(_, server net.Conn, message []byte) bool {
		_, err := server.Write(message)
		r.arm("arrivals", func(_, server net.Conn, message []byte) bool {
			r.stop()
			_, err := server.Write(message)
			close(stopped)
			return err == nil
		})
		return err == nil
	})
	read := make(chan error, 1)
	go func() {
		_, err := f.Pending(t.Context())
		read <- err
	}()
	<-stopped
	waitUntil(t, openPool(t, address), "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() "+
		"AND application_name = 'peil' AND wait_event = 'ClientWrite')")
	for {
		next, err := heir.Final(t.Context(), req)
		if err == nil {
			if err := next.Rollback(t.Context()); err != nil {
				t.Error(err)
			}
			break
		}
		if !errors.Is(err, sink.ErrBusy) {
			t.Fatalf("Final: %v", err)
		}
	}
	select {
	case err := <-read:
		t.Fatalf("the stopped one gave up by itself: %v", err)
	default:
	}
	r.wake()
	if err := <-read; !errors.Is(err, sink.ErrTransient) {
		t.Errorf("Pending of the stopped one: got %v, want an error that may pass", err)
	}
	if err := f.Rollback(t.Context()); err != nil {
		t.Errorf("Rollback of the stopped one: %v", err)
	}
}

// TestRollbackAfterTheEndOfTheContext frees lock and connection: more often than
// the pool has connections.
func TestRollbackAfterTheEndOfTheContext(t *testing.T) {
	t.Parallel()
	s := openSink(t, postgres.Options{URL: services.Postgres(t) + "&pool_max_conns=2"})
	for range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		f, err := s.Final(ctx, sink.FinalRequest{Topic: "arrivals", TopicID: "id", Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if _, err := f.Pending(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, sink.ErrTransient) {
			t.Errorf("Pending after the end of the context: %v", err)
		}
		if err := f.Rollback(ctx); err != nil {
			t.Errorf("Rollback: %v", err)
		}
	}
}

// TestStandby has the server refuse to write, as it does when it has become a
// standby. The error may pass, and no connection to it is used again.
func TestStandby(t *testing.T) {
	t.Parallel()
	address := services.Postgres(t)
	pool := openPool(t, address+"&options=-cdefault_transaction_read_only%3Doff")
	claimAll(t, openSink(t, postgres.Options{URL: address}), part(0))
	readOnly := openSinkReadOnly(t, address)
	p := part(1)
	req := sink.ClaimRequest{Partition: p.Partition, TopicID: "id", Group: "peil"}
	if _, err := readOnly.Claim(t.Context(), req); !errors.Is(err, sink.ErrTransient) {
		t.Errorf("Claim on a standby: got %v, want an error that may pass", err)
	}
	if _, err := pool.Exec(t.Context(), "ALTER DATABASE "+databaseName(t, address)+" RESET default_transaction_read_only"); err != nil {
		t.Fatal(err)
	}
	if _, err := readOnly.Claim(t.Context(), req); err != nil {
		t.Errorf("Claim once the server accepts writes: %v", err)
	}
}

// openSinkReadOnly opens a sink whose sessions begin read-only.
func openSinkReadOnly(t *testing.T, address string) *postgres.Sink {
	t.Helper()
	pool := openPool(t, address)
	if _, err := pool.Exec(t.Context(), "ALTER DATABASE "+databaseName(t, address)+" SET default_transaction_read_only = on"); err != nil {
		t.Fatal(err)
	}
	if _, err := postgres.Open(t.Context(), postgres.Options{URL: address}); !errors.Is(err, sink.ErrTransient) {
		t.Errorf("Open for writing of a server that refuses it: got %v, want an error that may pass", err)
	}
	return openSink(t, postgres.Options{URL: address + "&target_session_attrs=any"})
}

func databaseName(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return pgx.Identifier{u.Path[1:]}.Sanitize()
}

// TestRetentionWaitsForFlushes: a flush that brings a segment for a window is
// under way, unseen, when retention wants to empty that window. Retention waits,
// and finds the window unmerged.
func TestRetentionWaitsForFlushes(t *testing.T) {
	t.Parallel()
	address := services.Postgres(t)
	pool := openPool(t, address)
	r, through := newRelay(t, address)
	flusher, retainer := openSink(t, postgres.Options{URL: through}), openSink(t, postgres.Options{URL: address})
	p, q := part(0), part(1)
	claimAll(t, retainer, p, q)
	p.Segments = []sink.Segment{segment()}
	mustFlush(t, retainer, p)
	if _, err := pool.Exec(t.Context(), "UPDATE window_segments SET merged_at = '2020-01-01Z'"); err != nil {
		t.Fatal(err)
	}
	q.Segments = []sink.Segment{segment()}
	written, goOn := make(chan struct{}), make(chan struct{})
	r.arm("commit\x00", func(_, server net.Conn, message []byte) bool {
		close(written)
		<-goOn
		_, err := server.Write(message)
		return err == nil
	})
	flushed := make(chan error, 1)
	go func() {
		_, err := flusher.Flush(t.Context(), []sink.PartitionFlush{q})
		flushed <- err
	}()
	<-written
	retained := make(chan error, 1)
	go func() {
		n, err := retainer.Retain(t.Context(), sink.Infinity)
		if err == nil && n != 0 {
			err = errors.New("it has emptied a window that was to be merged again")
		}
		retained <- err
	}()
	waitUntil(t, pool, "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted "+
		"AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))")
	close(goOn)
	if err := errors.Join(<-flushed, <-retained); err != nil {
		t.Error(err)
	}
}

// TestTwoGroupsAtOnce: while one group registers its partitions, unseen, another
// comes. It waits, and is refused, although it began with an empty table.
func TestTwoGroupsAtOnce(t *testing.T) {
	t.Parallel()
	database := services.Postgres(t)
	second := map[string]func(sink.Sink) error{
		"registers": func(s sink.Sink) error { return s.Register(t.Context(), streamTopic(1), "second") },
		"claims": func(s sink.Sink) error {
			_, err := s.Claim(t.Context(), sink.ClaimRequest{Partition: part(0).Partition, TopicID: "id", Group: "second"})
			return err
		},
	}
	for name, comes := range second {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := schema(t, database)
			pool := openPool(t, address)
			r, through := newRelay(t, address)
			first, other := openSink(t, postgres.Options{URL: through}), openSink(t, postgres.Options{URL: address + "&application_name=" + name})
			written, goOn := make(chan struct{}), make(chan struct{})
			r.arm("commit\x00", func(_, server net.Conn, message []byte) bool {
				close(written)
				<-goOn
				_, err := server.Write(message)
				return err == nil
			})
			registered, came := make(chan error, 1), make(chan error, 1)
			go func() { registered <- first.Register(t.Context(), streamTopic(2), "first") }()
			<-written
			go func() { came <- comes(other) }()
			waitUntil(t, pool, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = '"+name+"' AND wait_event_type = 'Lock')")
			close(goOn)
			if err := <-registered; err != nil {
				t.Errorf("the first group: %v", err)
			}
			e, ok := errors.AsType[*sink.MismatchError](<-came)
			if !ok || e.What != "group_id" || e.Stored != "first" {
				t.Errorf("the second group: got %v, want it refused", e)
			}
		})
	}
}
