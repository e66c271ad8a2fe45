package streamtest

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/peil-stream/peil/internal/stream"
)

// clone copies a record out of its batch.
func clone(r stream.Record) stream.Record {
	r.Key = bytes.Clone(r.Key)
	r.Value = bytes.Clone(r.Value)
	r.Headers = slices.Clone(r.Headers)
	for i := range r.Headers {
		r.Headers[i].Value = bytes.Clone(r.Headers[i].Value)
	}
	return r
}

// readAll reads a whole partition and holds every record against the order of
// offsets.
func readAll(ctx context.Context, r stream.Reader, p stream.Partition) ([]stream.Record, error) {
	b, err := stream.BoundsOf(ctx, r, p)
	if err != nil {
		return nil, fmt.Errorf("bounds(%s): %w", p, err)
	}
	return readRange(ctx, r, p, b.Start, math.MaxInt64)
}

func readRange(ctx context.Context, r stream.Reader, p stream.Partition, from, to int64) ([]stream.Record, error) {
	var records []stream.Record
	var failed error
	next := from
	for rec, err := range r.Read(ctx, p, from, to) {
		if failed != nil {
			return nil, fmt.Errorf("read(%s): the sequence went on after %w", p, failed)
		}
		if err != nil {
			failed = err
			continue
		}
		if rec.Offset < next || rec.Offset >= to {
			return nil, fmt.Errorf("read(%s, %d, %d): offset %d after %d", p, from, to, rec.Offset, next)
		}
		next = rec.Offset + 1
		records = append(records, clone(rec))
	}
	return records, failed
}

// values are the values of records as text, with null told apart from empty.
func values(records []stream.Record) []string {
	vs := make([]string, len(records))
	for i, r := range records {
		vs[i] = text(r.Value)
	}
	return vs
}

func text(b []byte) string {
	if b == nil {
		return "(null)"
	}
	return string(b)
}

// holds says that a partition holds exactly these values in order.
func holds(ctx context.Context, r stream.Reader, p stream.Partition, want ...string) error {
	records, err := readAll(ctx, r, p)
	if err != nil {
		return err
	}
	return same(p.String(), values(records), want)
}

// same says that two lists of values are equal, or where they differ.
func same(what string, got, want []string) error {
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			return fmt.Errorf("%s: %d values, want %d; missing from %q on", what, len(got), len(want), want[i])
		case i >= len(want):
			return fmt.Errorf("%s: %d values, want %d; too much from %q on", what, len(got), len(want), got[i])
		case got[i] != want[i]:
			return fmt.Errorf("%s: value %d is %q, want %q", what, i, got[i], want[i])
		}
	}
	return nil
}

// whole is a record in full, for comparison.
func whole(key, value []byte, headers []stream.Header) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s=%s", text(key), text(value))
	for _, h := range headers {
		fmt.Fprintf(&b, " %s:%s", h.Key, h.Value)
	}
	return b.String()
}

// memory is what a publisher remembers, as key=value.
func memory(p stream.Publisher) []string {
	var m []string
	for k, v := range p.Memory() {
		m = append(m, k+"="+text(v))
	}
	return m
}

// noise are values of 1 kB in order, none alike and none that compresses: what is
// compressed fits into buffers that it should be too large for.
func noise(n int) []string {
	random := rand.New(rand.NewPCG(1, 2))
	values := make([]string, n)
	for i := range values {
		var b strings.Builder
		fmt.Fprintf(&b, "%06d-", i)
		for b.Len() < 1000 {
			b.WriteString(strconv.FormatUint(random.Uint64(), 36))
		}
		values[i] = b.String()[:1000]
	}
	return values
}

// appendParts appends values in parts that a log may store and fetch apart.
func (h *Harness) appendParts(ctx context.Context, p stream.Partition, values []string) error {
	for part := range slices.Chunk(values, 50) {
		if err := h.Log.Append(ctx, texts(p.Topic, p.Index, part...)...); err != nil {
			return fmt.Errorf("append: %w", err)
		}
	}
	return nil
}
