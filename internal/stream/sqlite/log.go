package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/peil-stream/peil/internal/sqlitefile"
	"github.com/peil-stream/peil/internal/stream"
)

// Options of [New]. The zero value is good.
type Options struct {
	// Now stamps the records whose message brings no timestamp. Defaults to
	// time.Now.
	Now func() time.Time
	// Logger receives life-cycle messages. Nil discards them.
	Logger *slog.Logger
}

// Log is the embedded log on a file that is open for writing. It borrows the
// file: whoever opened it closes it, after the log. Safe for concurrent use.
type Log struct {
	Reader

	now   func() time.Time
	log   *slog.Logger
	waker waker

	mu     sync.Mutex
	closed bool
	groups map[string]chan struct{} // by name; full while a consumer runs

	pool sync.Pool // of *fetched

	// writers are the chunks in the making, kept for their buffers. Guarded by
	// the file's write queue.
	writers []*partitionWriter
}

var _ stream.Log = (*Log)(nil)

// New makes the log on a file opened for writing and brings its schema up to
// date.
func New(ctx context.Context, f *sqlitefile.File, o Options) (*Log, error) {
	if f.ReadOnly() {
		return nil, fmt.Errorf("open embedded log: %w", sqlitefile.ErrReadOnly)
	}
	if err := f.Migrate(ctx, component, migrations()); err != nil {
		return nil, fmt.Errorf("open embedded log: %w", err)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	l := &Log{
		Reader: Reader{file: f},
		now:    o.Now,
		log:    o.Logger.With(slog.String("component", "embedded_log")),
		groups: make(map[string]chan struct{}),
	}
	l.waker.wake = make(chan struct{})
	l.pool.New = func() any { return new(fetched) }
	return l, nil
}

// Close refuses further work. Consumers end by their own contexts. It does not
// close the file. Idempotent.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return nil
}

func (l *Log) open() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return fmt.Errorf("embedded log: %w", sqlitefile.ErrClosed)
	}
	return nil
}

// Create makes the topics that are missing, each with a random id.
func (l *Log) Create(ctx context.Context, specs ...stream.TopicSpec) error {
	if err := l.open(); err != nil {
		return err
	}
	for _, s := range specs {
		if s.Name == "" || s.Partitions < 1 {
			return fmt.Errorf("create topic %q: a topic has a name and at least one partition, not %d", s.Name, s.Partitions)
		}
	}
	return l.file.Write(ctx, func(tx *sql.Tx) error {
		for _, s := range specs {
			if err := create(ctx, tx, s); err != nil {
				return fmt.Errorf("create topic %s: %w", s.Name, err)
			}
		}
		return nil
	})
}

func create(ctx context.Context, tx *sql.Tx, s stream.TopicSpec) error {
	id := randomID()
	res, err := tx.ExecContext(ctx,
		`INSERT INTO log_topics (name, id, partitions) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`, s.Name, id, s.Partitions)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return err
	}
	for i := range s.Partitions {
		_, err := tx.ExecContext(ctx, `INSERT INTO log_partitions (topic_id, partition) VALUES (?, ?)`, id, i)
		if err != nil {
			return err
		}
	}
	return nil
}

// randomID is 128 random bits.
func randomID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// Delete removes a topic with its records, in one transaction. A topic created
// under its name afterwards is another one. Publishers keep their memory.
func (l *Log) Delete(ctx context.Context, topic string) error {
	if err := l.open(); err != nil {
		return err
	}
	err := l.file.Write(ctx, func(tx *sql.Tx) error {
		var id string
		err := tx.QueryRowContext(ctx, `DELETE FROM log_topics WHERE name = ? RETURNING id`, topic).Scan(&id)
		if errors.Is(err, sql.ErrNoRows) {
			return stream.ErrNoTopic
		}
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM log_chunks WHERE number IN
			(SELECT number FROM log_partitions WHERE topic_id = ?)`, id)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM log_partitions WHERE topic_id = ?`, id)
		return err
	})
	if err != nil {
		return fmt.Errorf("delete topic %s: %w", topic, err)
	}
	l.waker.broadcast()
	return nil
}

// Consumer makes the consumer of a group. Its topics must exist when it runs.
func (l *Log) Consumer(sub stream.Subscription) (stream.Consumer, error) {
	if err := l.open(); err != nil {
		return nil, err
	}
	if sub.Group == "" || len(sub.Topics) == 0 {
		return nil, errors.New("make consumer: a subscription has a group and at least one topic")
	}
	if sub.BatchBytes <= 0 {
		sub.BatchBytes = batchBytesDefault
	}
	sub.Topics = slices.Clone(sub.Topics)
	slices.Sort(sub.Topics)
	sub.Topics = slices.Compact(sub.Topics)
	return &consumer{log: l, sub: sub}, nil
}

// group is the place of a group's one running consumer.
func (l *Log) group(name string) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	place, ok := l.groups[name]
	if !ok {
		place = make(chan struct{}, 1)
		l.groups[name] = place
	}
	return place
}

// waker tells everyone who waits that something was appended.
type waker struct {
	mu   sync.Mutex
	wake chan struct{}
}

// next is closed by the next broadcast. It must be taken before looking for
// records, so that an append between the look and the wait is not missed.
func (w *waker) next() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wake
}

func (w *waker) broadcast() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.wake)
	w.wake = make(chan struct{})
}
