package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peil-stream/peil/internal/sqlitefile"
	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/internal/stream/sqlite"
)

// handler is a consumer's handler of functions.
type handler struct {
	assigned func(ctx context.Context, as []*stream.Assignment) error
	revoked  func(ctx context.Context, as []*stream.Assignment)
}

func (h handler) Assigned(ctx context.Context, as []*stream.Assignment) error {
	return h.assigned(ctx, as)
}

func (h handler) Revoked(ctx context.Context, as []*stream.Assignment) {
	if h.revoked != nil {
		h.revoked(ctx, as)
	}
}

func (h handler) Lost([]*stream.Assignment) {}

func create(t *testing.T, l *sqlite.Log, topic string, partitions int32) {
	t.Helper()
	if err := l.Create(t.Context(), stream.TopicSpec{Name: topic, Partitions: partitions}); err != nil {
		t.Fatal(err)
	}
}

func scan(t *testing.T, h *harness, query string, args ...any) (n int64) {
	t.Helper()
	tx, end, err := h.file.BeginRead(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(tx.QueryRowContext(t.Context(), query, args...).Scan(&n), end()); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestNewNeedsAWriter(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "peil.db")
	f, err := sqlitefile.Open(t.Context(), path, sqlitefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := sqlitefile.OpenReadOnly(t.Context(), path, sqlitefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := sqlite.New(t.Context(), r, sqlite.Options{}); !errors.Is(err, sqlitefile.ErrReadOnly) {
		t.Errorf("New on a read-only file: %v", err)
	}
	if _, err := sqlite.NewReader(t.Context(), r); !errors.Is(err, sqlitefile.ErrOlder) {
		t.Errorf("NewReader on a file without a log: %v", err)
	}
}

func TestBadArguments(t *testing.T) {
	t.Parallel()
	h := openHarness(t)
	create(t, h.log, "t", 1)
	for _, spec := range []stream.TopicSpec{{Name: "", Partitions: 1}, {Name: "x"}, {Name: "x", Partitions: -1}} {
		if err := h.log.Create(t.Context(), spec); err == nil {
			t.Errorf("Create(%+v) gave no error", spec)
		}
	}
	for _, sub := range []stream.Subscription{{}, {Group: "g"}, {Topics: []string{"t"}}} {
		if _, err := h.log.Consumer(sub); err == nil {
			t.Errorf("Consumer(%+v) gave no error", sub)
		}
	}
	for _, index := range []int32{-2, 1, math.MaxInt32} {
		err := h.log.Append(t.Context(), stream.Message{Topic: "t", Partition: index})
		if !errors.Is(err, stream.ErrNoTopic) || !strings.Contains(err.Error(), "message 0") {
			t.Errorf("Append to partition %d: %v", index, err)
		}
	}
	if err := h.log.Trim(t.Context(), stream.Partition{Topic: "t"}, 1); !errors.Is(err, stream.ErrOutOfRange) {
		t.Errorf("Trim beyond the end: %v", err)
	}
	if err := h.log.Delete(t.Context(), "none"); !errors.Is(err, stream.ErrNoTopic) {
		t.Errorf("Delete of no topic: %v", err)
	}
}

func TestClosedLog(t *testing.T) {
	t.Parallel()
	h := openHarness(t)
	create(t, h.log, "t", 1)
	p, err := h.log.OpenPublisher(t.Context(), stream.PublisherSpec{ID: "p"})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.log.Close(); err != nil {
		t.Fatal(err)
	}
	_, perr := h.log.OpenPublisher(t.Context(), stream.PublisherSpec{ID: "q"})
	_, cerr := h.log.Consumer(stream.Subscription{Group: "g", Topics: []string{"t"}})
	at := stream.Partition{Topic: "t"}
	for what, err := range map[string]error{
		"Append":        h.log.Append(t.Context(), stream.Message{Topic: "t"}),
		"Create":        h.log.Create(t.Context()),
		"Delete":        h.log.Delete(t.Context(), "t"),
		"Trim":          h.log.Trim(t.Context(), at, 0),
		"TrimOlder":     h.log.TrimOlder(t.Context(), at, 0, 0),
		"OpenPublisher": perr,
		"Consumer":      cerr,
		"Publish":       p.Publish(t.Context(), nil, nil),
	} {
		if !errors.Is(err, sqlitefile.ErrClosed) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A trim deletes what lies below the start, many rows too, and keeps the chunk
// that the start lies in.
func TestTrimDeletesRows(t *testing.T) {
	t.Parallel()
	h := openHarness(t)
	create(t, h.log, "t", 1)
	const n = 600 // more than two transactions of a trim delete
	for range n {
		if err := h.log.Append(t.Context(), stream.Message{Topic: "t", Value: []byte("a")}, stream.Message{Topic: "t", Value: []byte("b")}); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.log.Trim(t.Context(), stream.Partition{Topic: "t"}, 2*n-3); err != nil {
		t.Fatal(err)
	}
	if rows := scan(t, h, "SELECT count(*) FROM log_chunks"); rows != 2 {
		t.Errorf("%d rows stayed, want the last two", rows)
	}
	var got []string
	for r, err := range h.log.Read(t.Context(), stream.Partition{Topic: "t"}, 2*n-3, math.MaxInt64) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(r.Value))
	}
	if strings.Join(got, "") != "bab" {
		t.Errorf("after the trim: %q", got)
	}
}

// Rows that a crash left below the start are deleted by the next trim, and never
// read before.
func TestTrimAfterCrash(t *testing.T) {
	t.Parallel()
	h := openHarness(t)
	create(t, h.log, "t", 1)
	for range 4 {
		if err := h.log.Append(t.Context(), stream.Message{Topic: "t", Value: []byte("a")}); err != nil {
			t.Fatal(err)
		}
	}
	err := h.file.Write(t.Context(), func(tx *sql.Tx) error { // what the first transaction of a trim does
		_, err := tx.ExecContext(t.Context(), "UPDATE log_partitions SET log_start = 3")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range h.log.Read(t.Context(), stream.Partition{Topic: "t"}, 2, 4) {
		if !errors.Is(err, stream.ErrOutOfRange) {
			t.Errorf("read below the start: %v", err)
		}
	}
	if err := h.log.Trim(t.Context(), stream.Partition{Topic: "t"}, 0); err != nil {
		t.Fatal(err)
	}
	if rows := scan(t, h, "SELECT count(*) FROM log_chunks"); rows != 1 {
		t.Errorf("%d rows stayed, want 1", rows)
	}
}

func TestDeleteLeavesNothing(t *testing.T) {
	t.Parallel()
	h := openHarness(t)
	create(t, h.log, "t", 3)
	create(t, h.log, "u", 1)
	if err := h.log.Append(t.Context(), stream.Message{Topic: "t", Partition: 2}, stream.Message{Topic: "u"}); err != nil {
		t.Fatal(err)
	}
	if err := h.log.Delete(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	for table, want := range map[string]int64{"log_topics": 1, "log_partitions": 1, "log_chunks": 1} {
		if rows := scan(t, h, "SELECT count(*) FROM "+table); rows != want {
			t.Errorf("%s: %d rows, want %d", table, rows, want)
		}
	}
}

// An append that finds the disk full has no effect, says that it may be tried
// again, and works once there is room.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	h := openHarness(t)
	create(t, h.log, "t", 1)
	pages := func(n int64) {
		err := h.file.Write(t.Context(), func(tx *sql.Tx) error {
			var got int64
			return tx.QueryRowContext(t.Context(), "PRAGMA max_page_count = "+strconv.FormatInt(n, 10)).Scan(&got)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	pages(40)
	big := stream.Message{Topic: "t", Value: make([]byte, 500_000)}
	err := h.log.Append(t.Context(), stream.Message{Topic: "t", Value: []byte("a")}, big)
	if err == nil || !sqlitefile.Transient(err) {
		t.Fatalf("error is %v", err)
	}
	if b, err := stream.BoundsOf(t.Context(), h.log, stream.Partition{Topic: "t"}); err != nil || b.End != 0 {
		t.Fatalf("Bounds = %+v, %v", b, err)
	}
	pages(100_000)
	if err := h.log.Append(t.Context(), big); err != nil {
		t.Fatal(err)
	}
}

// An append whose context ends in the middle has no effect.
func TestAppendCancelled(t *testing.T) {
	t.Parallel()
	h := openHarness(t)
	ctx, cancel := context.WithCancel(t.Context())
	l, err := sqlite.New(t.Context(), h.file, sqlite.Options{Now: func() time.Time {
		cancel() // the append has begun
		return time.UnixMilli(1)
	}})
	if err != nil {
		t.Fatal(err)
	}
	create(t, l, "t", 1)
	msgs := []stream.Message{{Topic: "t", Value: make([]byte, 70_000)}, {Topic: "t", Value: make([]byte, 70_000)}}
	if err := l.Append(ctx, msgs...); !errors.Is(err, context.Canceled) {
		t.Fatalf("error is %v", err)
	}
	if n := scan(t, h, "SELECT count(*) FROM log_chunks"); n != 0 {
		t.Fatalf("%d rows stayed", n)
	}
}

func TestDamagedChunk(t *testing.T) {
	t.Parallel()
	h := openHarness(t)
	create(t, h.log, "t", 1)
	if err := h.log.Append(t.Context(), stream.Message{Topic: "t", Value: []byte("abc")}); err != nil {
		t.Fatal(err)
	}
	err := h.file.Write(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(t.Context(), "UPDATE log_chunks SET data = substr(data, 1, length(data) - 2)")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err := range h.log.Read(t.Context(), stream.Partition{Topic: "t"}, 0, 1) {
		n++
		if err == nil || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("error is %v", err)
		}
	}
	if n != 1 {
		t.Errorf("%d steps, want the error alone", n)
	}
}

// TestConsumerFails says what a running consumer does when its partition is
// trimmed away under it or its topic is deleted.
func TestConsumerFails(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		do   func(ctx context.Context, l *sqlite.Log) error
		want error
	}{
		{"trimmed", func(ctx context.Context, l *sqlite.Log) error {
			return l.Trim(ctx, stream.Partition{Topic: "t"}, 100)
		}, stream.ErrOutOfRange},
		{"deleted", func(ctx context.Context, l *sqlite.Log) error { return l.Delete(ctx, "t") }, stream.ErrNoTopic},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := openHarness(t)
			create(t, h.log, "t", 1)
			for range 100 {
				if err := h.log.Append(t.Context(), stream.Message{Topic: "t", Value: []byte("0123456789")}); err != nil {
					t.Fatal(err)
				}
			}
			c, err := h.log.Consumer(stream.Subscription{Group: "g", Topics: []string{"t"}, BatchBytes: 10})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			assigned, done := make(chan *stream.Assignment, 1), make(chan error, 1)
			go func() {
				done <- c.Run(ctx, handler{assigned: func(_ context.Context, as []*stream.Assignment) error {
					assigned <- as[0]
					return nil
				}})
			}()
			a := <-assigned
			<-a.Batches // it runs, and cannot have read far ahead
			if err := tt.do(ctx, h.log); err != nil {
				t.Fatal(err)
			}
			for range a.Batches {
			}
			if err := a.Err(); !errors.Is(err, tt.want) {
				t.Errorf("Err() = %v, want %v", err, tt.want)
			}
			select {
			case err := <-done:
				t.Errorf("Run ended with its partition: %v", err)
			default:
			}
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// A revoke that takes its time is waited for, up to its bound, and only then may
// the next consumer of the group come.
func TestRevokeHoldsTheGroup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := openHarness(t)
		create(t, h.log, "t", 1)
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		events := make(chan string, 10)
		run := func(ctx context.Context, name string) {
			c, err := h.log.Consumer(stream.Subscription{Group: "g", Topics: []string{"t"}})
			if err != nil {
				t.Error(err)
				return
			}
			err = c.Run(ctx, handler{
				assigned: func(context.Context, []*stream.Assignment) error {
					events <- name + " assigned at " + time.Since(began).String()
					return nil
				},
				revoked: func(ctx context.Context, _ []*stream.Assignment) {
					<-ctx.Done()
					events <- name + " revoked at " + time.Since(began).String()
				},
			})
			if err != nil {
				t.Error(err)
			}
		}
		go run(ctx, "first")
		synctest.Wait()
		ctx2, cancel2 := context.WithCancel(t.Context())
		go run(ctx2, "second")
		synctest.Wait()
		<-time.After(time.Hour) // the second one stands by
		cancel()
		for _, want := range []string{"first assigned at 0s", "first revoked at 1h0m12s", "second assigned at 1h0m12s"} {
			if got := <-events; got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
		cancel2()
		synctest.Wait()
		<-time.After(time.Hour)
		if got := <-events; got != "second revoked at 1h0m24s" {
			t.Errorf("%q", got)
		}
	})
}

// A commit whose answer was lost wakes the consumers all the same.
func TestLostAnswerWakes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := openHarness(t)
		create(t, h.log, "t", 1)
		c, err := h.log.Consumer(stream.Subscription{Group: "g", Topics: []string{"t"}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var a *stream.Assignment
		done := make(chan error, 1)
		go func() {
			done <- c.Run(ctx, handler{assigned: func(_ context.Context, as []*stream.Assignment) error {
				a = as[0]
				return nil
			}})
		}()
		synctest.Wait() // at the end of the log
		h.LoseAnswer(true)
		if err := h.log.Append(ctx, stream.Message{Topic: "t", Value: []byte("a")}); !errors.Is(err, errAnswerLost) {
			t.Errorf("Append: %v", err)
		}
		synctest.Wait()
		select {
		case b := <-a.Batches:
			if len(b.Records) != 1 || b.Next != 1 {
				t.Errorf("batch %+v", b)
			}
			b.Release()
		default:
			t.Error("the consumer sleeps on")
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
