package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/peil-stream/peil/internal/stream"
)

// messageBytesMax is the largest message, key, value and headers together: the
// limit of a Kafka broker, so that what the embedded log takes, Kafka takes.
const messageBytesMax = 1_000_012

// Append writes the messages in one transaction and wakes the consumers.
func (l *Log) Append(ctx context.Context, msgs ...stream.Message) error {
	if err := l.open(); err != nil {
		return err
	}
	if err := checkSizes(msgs); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	err := l.file.Write(ctx, func(tx *sql.Tx) error { return l.append(ctx, tx, msgs) })
	// Also after an error: the commit may have taken effect all the same.
	l.waker.broadcast()
	if err != nil {
		return fmt.Errorf("append: %w", err)
	}
	return nil
}

func checkSizes(msgs []stream.Message) error {
	for i := range msgs {
		m := &msgs[i]
		size := len(m.Key) + len(m.Value)
		for _, h := range m.Headers {
			size += len(h.Key) + len(h.Value)
		}
		if size > messageBytesMax {
			return fmt.Errorf("message %d: %w: %d bytes, the limit is %d", i, stream.ErrTooLarge, size, messageBytesMax)
		}
	}
	return nil
}

// append runs inside the file's write queue.
func (l *Log) append(ctx context.Context, tx *sql.Tx, msgs []stream.Message) error {
	if len(msgs) == 0 {
		return nil
	}
	a := appender{tx: tx, log: l, topics: make(map[string][]*partitionWriter)}
	return errors.Join(a.write(ctx, msgs), a.close())
}

// appender is one append.
type appender struct {
	tx     *sql.Tx
	log    *Log
	insert *sql.Stmt
	topics map[string][]*partitionWriter // by name, then by partition
	used   int                           // writers taken from the log
}

// partitionWriter is a partition that an append touches.
type partitionWriter struct {
	number  int64
	end     int64
	touched bool
	chunk   chunkWriter
}

func (a *appender) write(ctx context.Context, msgs []stream.Message) (err error) {
	// Statements without the cancellation, which costs the driver a goroutine
	// for each; a chunk is the unit at which the context is looked at.
	ctxExec := context.WithoutCancel(ctx)
	a.insert, err = a.tx.PrepareContext(ctxExec, `INSERT INTO log_chunks
		(number, last_offset, first_offset, records, max_timestamp, data) VALUES (?, ?, ?, ?, ?, ?)`)
	if err != nil {
		return err
	}
	now := a.log.now().UnixMilli()
	for i := range msgs {
		m := &msgs[i]
		w, err := a.writer(ctxExec, m)
		if err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
		timestamp := m.Timestamp
		if timestamp == 0 {
			timestamp = now
		}
		w.chunk.add(w.end, timestamp, m)
		w.end++
		w.touched = true
		if len(w.chunk.buf) >= chunkBytes {
			if err := ctx.Err(); err != nil {
				return context.Cause(ctx)
			}
			if err := a.flush(ctxExec, w); err != nil {
				return err
			}
		}
	}
	for _, partitions := range a.topics {
		for _, w := range partitions {
			if !w.touched {
				continue
			}
			if err := a.flush(ctxExec, w); err != nil {
				return err
			}
			_, err := a.tx.ExecContext(ctxExec, `UPDATE log_partitions SET log_end = ? WHERE number = ?`, w.end, w.number)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// writer finds the partition of a message.
func (a *appender) writer(ctx context.Context, m *stream.Message) (*partitionWriter, error) {
	partitions, ok := a.topics[m.Topic]
	if !ok {
		var err error
		if partitions, err = a.load(ctx, m.Topic); err != nil {
			return nil, err
		}
		a.topics[m.Topic] = partitions
	}
	index := m.Partition
	if index == stream.ByKey {
		index = stream.PartitionFor(m.Key, int32(len(partitions)))
	}
	if index < 0 || int(index) >= len(partitions) {
		return nil, noPartition(stream.Partition{Topic: m.Topic, Index: index})
	}
	return partitions[index], nil
}

func (a *appender) load(ctx context.Context, topic string) (_ []*partitionWriter, err error) {
	rows, err := a.tx.QueryContext(ctx, `SELECT p.number, p.log_end FROM log_topics t
		JOIN log_partitions p ON p.topic_id = t.id WHERE t.name = ? ORDER BY p.partition`, topic)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var partitions []*partitionWriter
	for rows.Next() {
		w := a.take()
		if err := rows.Scan(&w.number, &w.end); err != nil {
			return nil, err
		}
		partitions = append(partitions, w)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	if len(partitions) == 0 {
		return nil, noTopic(topic)
	}
	return partitions, nil
}

// take is a writer with a buffer of an earlier append, if there is one.
func (a *appender) take() *partitionWriter {
	if a.used == len(a.log.writers) {
		a.log.writers = append(a.log.writers, new(partitionWriter))
	}
	w := a.log.writers[a.used]
	a.used++
	w.touched = false
	w.chunk.reset()
	return w
}

func (a *appender) flush(ctx context.Context, w *partitionWriter) error {
	c := &w.chunk
	if c.records == 0 {
		return nil
	}
	_, err := a.insert.ExecContext(ctx, w.number, c.next-1, c.first, c.records, c.maxTimestamp, c.buf)
	c.reset()
	return err
}

func (a *appender) close() error {
	if a.insert == nil {
		return nil
	}
	return a.insert.Close()
}
