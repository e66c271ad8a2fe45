package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"

	"github.com/peil-stream/peil/internal/sqlitefile"
	"github.com/peil-stream/peil/internal/stream"
)

// Reader reads the embedded log, also beside the process that writes it. It
// borrows the file. Safe for concurrent use.
type Reader struct {
	file *sqlitefile.File
}

var _ stream.Reader = (*Reader)(nil)

// NewReader makes a reader. On a file that is open for reading only and whose
// log schema is older than the program, or was never made, the error wraps
// [sqlitefile.ErrOlder].
func NewReader(ctx context.Context, f *sqlitefile.File) (*Reader, error) {
	if err := f.Migrate(ctx, component, migrations()); err != nil {
		return nil, fmt.Errorf("open embedded log: %w", err)
	}
	return &Reader{file: f}, nil
}

// view runs fn in a read transaction.
func (r *Reader) view(ctx context.Context, fn func(tx *sql.Tx) error) (err error) {
	tx, end, err := r.file.BeginRead(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	return fn(tx)
}

// Describe returns the named topics, all as of one moment.
func (r *Reader) Describe(ctx context.Context, names ...string) ([]stream.Topic, error) {
	topics := make([]stream.Topic, 0, len(names))
	err := r.view(ctx, func(tx *sql.Tx) error {
		for _, name := range names {
			t := stream.Topic{Name: name}
			err := tx.QueryRowContext(ctx, `SELECT id, partitions FROM log_topics WHERE name = ?`, name).Scan(&t.ID, &t.Partitions)
			if errors.Is(err, sql.ErrNoRows) {
				return noTopic(name)
			}
			if err != nil {
				return err
			}
			topics = append(topics, t)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("describe topics: %w", err)
	}
	return topics, nil
}

// Topics lists the names of all topics, sorted.
func (r *Reader) Topics(ctx context.Context) ([]string, error) {
	var names []string
	err := r.view(ctx, func(tx *sql.Tx) (err error) {
		rows, err := tx.QueryContext(ctx, `SELECT name FROM log_topics ORDER BY name`)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, rows.Close()) }()
		for rows.Next() {
			var name string
			if err := rows.Scan(&name); err != nil {
				return err
			}
			names = append(names, name)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	return names, nil
}

// Bounds reads the stored limits of the partitions, as of one moment.
func (r *Reader) Bounds(ctx context.Context, ps ...stream.Partition) ([]stream.Bounds, error) {
	bounds := make([]stream.Bounds, len(ps))
	err := r.view(ctx, func(tx *sql.Tx) error {
		for i, p := range ps {
			at, err := find(ctx, tx, p)
			if err != nil {
				return fmt.Errorf("bounds of %s: %w", p, err)
			}
			bounds[i] = at.Bounds
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return bounds, nil
}

// place is a partition in the file.
type place struct {
	number int64
	stream.Bounds
}

func (r *Reader) find(ctx context.Context, p stream.Partition) (at place, err error) {
	err = r.view(ctx, func(tx *sql.Tx) error {
		at, err = find(ctx, tx, p)
		return err
	})
	return at, err
}

func find(ctx context.Context, tx *sql.Tx, p stream.Partition) (place, error) {
	var at place
	err := tx.QueryRowContext(ctx, `SELECT p.number, p.log_start, p.log_end FROM log_topics t
		JOIN log_partitions p ON p.topic_id = t.id WHERE t.name = ? AND p.partition = ?`, p.Topic, p.Index).
		Scan(&at.number, &at.Start, &at.End)
	if errors.Is(err, sql.ErrNoRows) {
		return at, noPartition(p)
	}
	return at, err
}

func noTopic(name string) error { return fmt.Errorf("%w: %s", stream.ErrNoTopic, name) }

func noPartition(p stream.Partition) error {
	return fmt.Errorf("%w with that partition: %s", stream.ErrNoTopic, p)
}

func outOfRange(offset int64, b stream.Bounds) error {
	return fmt.Errorf("%w: offset %d, the log holds %d to %d", stream.ErrOutOfRange, offset, b.Start, b.End)
}

// Read yields the records of a range, up to the end that the partition had at
// the call. It holds no transaction while it yields, so a trim that overtakes it
// ends it with [stream.ErrOutOfRange].
func (r *Reader) Read(ctx context.Context, p stream.Partition, from, to int64) iter.Seq2[stream.Record, error] {
	at, err := r.find(ctx, p)
	switch {
	case err != nil:
	case from >= min(to, at.End):
		to = from
	case from < at.Start:
		err = outOfRange(from, at.Bounds)
	default:
		to = min(to, at.End)
	}
	return func(yield func(stream.Record, error) bool) {
		if err != nil {
			yield(stream.Record{}, fmt.Errorf("read %s: %w", p, err))
			return
		}
		var f fetched
		for pos := from; pos < to; {
			next, err := r.fetch(ctx, at.number, pos, to, batchBytesDefault, &f)
			if err != nil {
				yield(stream.Record{}, fmt.Errorf("read %s: %w", p, err))
				return
			}
			for i := range f.records {
				if !yield(f.records[i], nil) {
					return
				}
			}
			pos = next
		}
	}
}

// batchBytesDefault bounds a batch whose reader does not say.
const batchBytesDefault = 1 << 20

// fetched is the memory of a batch, to be used again.
type fetched struct {
	data    []byte // chunks, one after the other
	chunks  []chunkSpan
	records []stream.Record
	headers []stream.Header
}

type chunkSpan struct {
	first, last int64
	end         int // in fetched.data
}

// fetch reads records with from <= offset < to, about maxBytes of them and at
// least one if there is one, and returns the offset to go on from. from outside
// of the log is an error that wraps [stream.ErrOutOfRange].
func (r *Reader) fetch(ctx context.Context, number, from, to int64, maxBytes int, f *fetched) (int64, error) {
	f.data, f.chunks, f.records, f.headers = f.data[:0], f.chunks[:0], f.records[:0], f.headers[:0]
	if err := ctx.Err(); err != nil {
		return 0, context.Cause(ctx)
	}
	next := from
	err := r.view(ctx, func(tx *sql.Tx) (err error) {
		// Short reads of a few rows: not worth a cancellation inside.
		next, err = f.load(context.WithoutCancel(ctx), tx, number, from, to, maxBytes)
		return err
	})
	if err != nil {
		return 0, err
	}
	return f.parse(from, to, next, maxBytes)
}

// load copies the chunks that hold the range and returns the offset after them.
func (f *fetched) load(ctx context.Context, tx *sql.Tx, number, from, to int64, maxBytes int) (next int64, err error) {
	var b stream.Bounds
	err = tx.QueryRowContext(ctx, `SELECT log_start, log_end FROM log_partitions WHERE number = ?`, number).
		Scan(&b.Start, &b.End)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, fmt.Errorf("%w: deleted meanwhile", stream.ErrNoTopic)
	}
	if err != nil {
		return 0, err
	}
	if from < b.Start || from > b.End {
		return 0, outOfRange(from, b)
	}
	to = min(to, b.End)
	if from >= to {
		return from, nil
	}
	rows, err := tx.QueryContext(ctx, `SELECT first_offset, last_offset, data FROM log_chunks
		WHERE number = ? AND last_offset >= ? ORDER BY last_offset`, number, from)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var first, last int64
		var data sql.RawBytes
		if err := rows.Scan(&first, &last, &data); err != nil {
			return 0, err
		}
		if first >= to {
			return to, nil
		}
		f.data = append(f.data, data...)
		f.chunks = append(f.chunks, chunkSpan{first: first, last: last, end: len(f.data)})
		if len(f.data) >= maxBytes || last+1 >= to {
			return min(last+1, to), nil
		}
	}
	return to, rows.Err()
}

// parse decodes the copied chunks. next is the offset after them; an earlier one
// is returned if the batch is full before.
func (f *fetched) parse(from, to, next int64, maxBytes int) (int64, error) {
	start, size := 0, 0
	var rec stream.Record
	for _, c := range f.chunks {
		r, err := newChunkReader(c.first, c.last, f.data[start:c.end])
		if err != nil {
			return 0, err
		}
		start = c.end
		for {
			kept := len(f.headers)
			headers, more, err := r.read(&rec, f.headers)
			if err != nil {
				return 0, err
			}
			if !more {
				break
			}
			if rec.Offset < from {
				f.headers = headers[:kept]
				continue
			}
			if rec.Offset >= to {
				return to, nil
			}
			if size >= maxBytes {
				return rec.Offset, nil
			}
			f.headers = headers
			f.records = append(f.records, rec)
			size += recordBytes(&rec)
		}
	}
	return next, nil
}

func recordBytes(r *stream.Record) int {
	size := len(r.Key) + len(r.Value)
	for i := range r.Headers {
		size += len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return size
}
