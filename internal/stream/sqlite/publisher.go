package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/peil-stream/peil/internal/sqlitefile"
	"github.com/peil-stream/peil/internal/stream"
)

// OpenPublisher raises the epoch of the id, which fences earlier publishers, and
// loads the memory, in one transaction.
func (l *Log) OpenPublisher(ctx context.Context, spec stream.PublisherSpec) (stream.Publisher, error) {
	if err := l.open(); err != nil {
		return nil, err
	}
	p := &publisher{log: l, id: spec.ID, memory: make(map[string][]byte)}
	err := l.file.Write(ctx, func(tx *sql.Tx) error {
		clear(p.memory)
		err := tx.QueryRowContext(ctx, `INSERT INTO log_publishers (id, epoch) VALUES (?, 1)
			ON CONFLICT (id) DO UPDATE SET epoch = epoch + 1 RETURNING epoch`, spec.ID).Scan(&p.epoch)
		if err != nil {
			return fmt.Errorf("raise epoch: %w", err)
		}
		return p.load(ctx, tx)
	})
	if err != nil {
		return nil, fmt.Errorf("open publisher %s: %w", spec.ID, err)
	}
	return p, nil
}

type publisher struct {
	log    *Log
	id     string
	epoch  int64
	memory map[string][]byte
	dead   error // why no further publish is possible
}

func (p *publisher) load(ctx context.Context, tx *sql.Tx) (err error) {
	rows, err := tx.QueryContext(ctx, `SELECT key, value FROM log_memory WHERE publisher = ?`, p.id)
	if err != nil {
		return fmt.Errorf("load memory: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var key string
		var value []byte
		if err := rows.Scan(&key, &value); err != nil {
			return fmt.Errorf("load memory: %w", err)
		}
		if value == nil {
			value = []byte{} // the driver reads an empty value so; NULL is not stored
		}
		p.memory[key] = value
	}
	return rows.Err()
}

// Memory yields what is remembered, this publisher's own changes included.
func (p *publisher) Memory() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for _, key := range slices.Sorted(maps.Keys(p.memory)) {
			if !yield(key, p.memory[key]) {
				return
			}
		}
	}
}

// Publish checks the epoch, appends and remembers in one transaction. After any
// error the publisher is dead.
func (p *publisher) Publish(ctx context.Context, msgs []stream.Message, changes []stream.Change) error {
	if p.dead != nil {
		return fmt.Errorf("publish as %s: publisher is dead: %w", p.id, p.dead)
	}
	last := make(map[string][]byte, len(changes))
	for _, c := range changes {
		last[c.Key] = slices.Clone(c.Value)
	}
	err := errors.Join(p.log.open(), checkSizes(msgs))
	if err == nil {
		err = p.log.file.Write(ctx, func(tx *sql.Tx) error {
			if err := p.check(ctx, tx); err != nil {
				return err
			}
			if err := p.log.append(ctx, tx, msgs); err != nil {
				return err
			}
			return p.remember(context.WithoutCancel(ctx), tx, last)
		})
		// Also after an error: the commit may have taken effect all the same.
		p.log.waker.broadcast()
	}
	if err != nil {
		p.dead = err
		return fmt.Errorf("publish as %s: %w", p.id, err)
	}
	for key, value := range last {
		if value == nil {
			delete(p.memory, key)
		} else {
			p.memory[key] = value
		}
	}
	return nil
}

// check compares the stored epoch with the publisher's own.
func (p *publisher) check(ctx context.Context, tx *sql.Tx) error {
	var epoch int64
	err := tx.QueryRowContext(ctx, `SELECT epoch FROM log_publishers WHERE id = ?`, p.id).Scan(&epoch)
	if err != nil {
		return fmt.Errorf("read epoch: %w", err)
	}
	if epoch != p.epoch {
		return fmt.Errorf("%w (epoch %d, now %d)", stream.ErrFenced, p.epoch, epoch)
	}
	return nil
}

// memoryRows is the number of keys that one statement writes.
const memoryRows = 100

const (
	memoryUpsert = `INSERT INTO log_memory (publisher, key, value) VALUES (?, ?, ?)`
	memoryMore   = `, (?, ?, ?)`
	memoryTail   = ` ON CONFLICT (publisher, key) DO UPDATE SET value = excluded.value`
)

// remember writes changes, one for each key, in order of the keys.
func (p *publisher) remember(ctx context.Context, tx *sql.Tx, changes map[string][]byte) error {
	var sets, deletes []string
	for _, key := range slices.Sorted(maps.Keys(changes)) {
		if changes[key] == nil {
			deletes = append(deletes, key)
		} else {
			sets = append(sets, key)
		}
	}
	args := make([]any, 0, 3*memoryRows)
	for keys := range slices.Chunk(sets, memoryRows) {
		args = args[:0]
		for _, key := range keys {
			args = append(args, p.id, key, changes[key])
		}
		//nolint:gosec // only more placeholders are added
		upsert := memoryUpsert + strings.Repeat(memoryMore, len(keys)-1) + memoryTail
		if _, err := tx.ExecContext(ctx, upsert, args...); err != nil {
			return fmt.Errorf("write memory: %w", err)
		}
	}
	for _, key := range deletes {
		_, err := tx.ExecContext(ctx, `DELETE FROM log_memory WHERE publisher = ? AND key = ?`, p.id, key)
		if err != nil {
			return fmt.Errorf("delete memory: %w", err)
		}
	}
	return nil
}

// Close ends the publisher; it fences nobody.
func (p *publisher) Close() error {
	if p.dead == nil {
		p.dead = sqlitefile.ErrClosed
	}
	return nil
}
