package sqlite

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/peil-stream/peil/internal/stream"
)

// A chunk is a run of records of one partition, encoded as one byte of version
// and then for each record, with the unsigned and zigzag varints of
// encoding/binary:
//
//	uvarint  offset minus the offset after the previous record
//	varint   timestamp minus the previous timestamp (the first: minus zero)
//	bytes    key
//	bytes    value
//	uvarint  number of headers, and for each:
//	           uvarint length of the key, the key
//	           bytes   value
//
// where bytes is a uvarint, 0 for null and otherwise the length plus one, and
// the bytes themselves.
const (
	chunkVersion = 1
	// chunkBytes is the size at which a chunk is full.
	chunkBytes = 64 << 10
	// headerBytesMin is the least that an encoded header takes.
	headerBytesMin = 2
)

// errCorrupt says that a stored chunk cannot be what this package wrote.
var errCorrupt = errors.New("stored chunk is damaged")

// chunkWriter collects the records of a chunk.
type chunkWriter struct {
	buf          []byte
	first        int64
	next         int64
	records      int64
	timestamp    int64
	maxTimestamp int64
}

func (w *chunkWriter) reset() {
	w.buf = w.buf[:0]
	w.records = 0
}

func (w *chunkWriter) add(offset, timestamp int64, m *stream.Message) {
	if w.records == 0 {
		w.buf = append(w.buf[:0], chunkVersion)
		w.first, w.next, w.timestamp, w.maxTimestamp = offset, offset, 0, math.MinInt64
	}
	w.buf = binary.AppendUvarint(w.buf, uint64(offset-w.next))
	w.buf = binary.AppendVarint(w.buf, timestamp-w.timestamp)
	w.buf = appendBytes(w.buf, m.Key)
	w.buf = appendBytes(w.buf, m.Value)
	w.buf = binary.AppendUvarint(w.buf, uint64(len(m.Headers)))
	for i := range m.Headers {
		w.buf = binary.AppendUvarint(w.buf, uint64(len(m.Headers[i].Key)))
		w.buf = append(w.buf, m.Headers[i].Key...)
		w.buf = appendBytes(w.buf, m.Headers[i].Value)
	}
	w.next = offset + 1
	w.timestamp = timestamp
	w.maxTimestamp = max(w.maxTimestamp, timestamp)
	w.records++
}

func appendBytes(buf, b []byte) []byte {
	if b == nil {
		return append(buf, 0)
	}
	return append(binary.AppendUvarint(buf, uint64(len(b))+1), b...)
}

// chunkReader goes through the records of a chunk.
type chunkReader struct {
	data      []byte
	next      int64
	last      int64
	timestamp int64
	bad       bool
}

// newChunkReader reads the chunk whose row has these first and last offsets.
func newChunkReader(first, last int64, data []byte) (chunkReader, error) {
	if len(data) == 0 || data[0] != chunkVersion || first < 0 || last < first || last == math.MaxInt64 {
		return chunkReader{}, errCorrupt
	}
	return chunkReader{data: data[1:], next: first, last: last}, nil
}

// read fills rec with the next record; its slices lie in the chunk's data and
// its headers at the end of the returned headers. more is false at the end.
func (r *chunkReader) read(rec *stream.Record, headers []stream.Header) (_ []stream.Header, more bool, err error) {
	if len(r.data) == 0 {
		if r.next != r.last+1 {
			return headers, false, errCorrupt
		}
		return headers, false, nil
	}
	gap := r.uvarint()
	rec.Offset = r.next + int64(gap)
	r.timestamp += r.varint()
	rec.Timestamp = r.timestamp
	rec.Key = r.bytes()
	rec.Value = r.bytes()
	rec.Headers = nil
	if n := r.uvarint(); n > 0 && !r.bad {
		if n > uint64(len(r.data)/headerBytesMin) {
			return headers, false, errCorrupt
		}
		from := len(headers)
		for range n {
			key := r.take(r.uvarint())
			headers = append(headers, stream.Header{Key: string(key), Value: r.bytes()})
		}
		rec.Headers = headers[from:len(headers):len(headers)]
	}
	if r.bad || rec.Offset < r.next || rec.Offset > r.last {
		return headers, false, errCorrupt
	}
	r.next = rec.Offset + 1
	return headers, true, nil
}

func (r *chunkReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.data)
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.data = r.data[n:]
	return v
}

func (r *chunkReader) varint() int64 {
	v, n := binary.Varint(r.data)
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.data = r.data[n:]
	return v
}

func (r *chunkReader) bytes() []byte {
	n := r.uvarint()
	if n == 0 {
		return nil
	}
	return r.take(n - 1)
}

func (r *chunkReader) take(n uint64) []byte {
	if r.bad || n > uint64(len(r.data)) {
		r.bad = true
		return nil
	}
	b := r.data[:n:n]
	r.data = r.data[n:]
	return b
}
