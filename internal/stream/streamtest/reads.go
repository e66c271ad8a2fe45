package streamtest

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/peil-stream/peil/internal/stream"
)

func readChecks() []Check {
	return []Check{
		{Name: "read/ranges", Run: readRanges},
		{Name: "read/bounds of the call", Run: readBoundsOfCall},
		{Name: "read/stopped early", Run: readStopped},
		{Name: "read/trimmed", Run: readTrimmed, needs: needsTrim},
		{Name: "read/gaps", Run: readGaps, needs: needsGaps},
		{Name: "read/gaps alone", Run: readGapsAlone, needs: needsGaps},
	}
}

func readRanges(ctx context.Context, h *Harness) error {
	topic, err := h.topic(ctx, "t", 2)
	if err != nil {
		return err
	}
	p := stream.Partition{Topic: topic, Index: 1}
	if err := h.Log.Append(ctx, texts(topic, 1, numbered("", 20)...)...); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	all, err := readAll(ctx, h.Log, p)
	if err != nil {
		return err
	}
	if err := same("all", values(all), numbered("", 20)); err != nil {
		return err
	}
	b, err := stream.BoundsOf(ctx, h.Log, p)
	if err != nil {
		return fmt.Errorf("bounds: %w", err)
	}
	if b.Start != all[0].Offset || b.End <= all[19].Offset {
		return fmt.Errorf("bounds = %+v, the records are at %d to %d", b, all[0].Offset, all[19].Offset)
	}
	for _, r := range []struct{ from, to, lo, hi int64 }{
		{all[0].Offset, all[1].Offset, 0, 1},
		{all[7].Offset, all[12].Offset, 7, 12},
		{all[7].Offset, all[7].Offset, 7, 7},
		{all[12].Offset, all[7].Offset, 12, 12},
		{all[19].Offset, b.End, 19, 20},
		{all[19].Offset, math.MaxInt64, 19, 20},
		{b.End, math.MaxInt64, 20, 20},
	} {
		got, err := readRange(ctx, h.Log, p, r.from, r.to)
		if err != nil {
			return fmt.Errorf("read(%d, %d): %w", r.from, r.to, err)
		}
		if err := same(fmt.Sprintf("Read(%d, %d)", r.from, r.to), values(got), values(all[r.lo:r.hi])); err != nil {
			return err
		}
	}
	return holds(ctx, h.Log, stream.Partition{Topic: topic, Index: 0})
}

// readBoundsOfCall appends while a sequence is read: the new records are not
// part of it.
func readBoundsOfCall(ctx context.Context, h *Harness) error {
	topic, err := h.topic(ctx, "t", 1)
	if err != nil {
		return err
	}
	p := stream.Partition{Topic: topic}
	if err := h.Log.Append(ctx, texts(topic, 0, "a", "b")...); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	before, err := stream.BoundsOf(ctx, h.Log, p)
	if err != nil {
		return fmt.Errorf("bounds: %w", err)
	}
	var got []string
	for rec, err := range h.Log.Read(ctx, p, before.Start, math.MaxInt64) {
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
		got = append(got, string(rec.Value))
		if err := h.Log.Append(ctx, texts(topic, 0, "later")...); err != nil {
			return fmt.Errorf("append: %w", err)
		}
	}
	if err := same("Read", got, []string{"a", "b"}); err != nil {
		return err
	}
	after, err := stream.BoundsOf(ctx, h.Log, p)
	if err != nil {
		return fmt.Errorf("bounds: %w", err)
	}
	if after.End < before.End+2 {
		return fmt.Errorf("bounds went from %+v to %+v over two appends", before, after)
	}
	return nil
}

func readStopped(ctx context.Context, h *Harness) error {
	topic, err := h.topic(ctx, "t", 1)
	if err != nil {
		return err
	}
	p := stream.Partition{Topic: topic}
	if err := h.Log.Append(ctx, texts(topic, 0, numbered("", 10)...)...); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	// Many times, so that whatever one of them kept would run out.
	for range 20 {
		n := 0
		for _, err := range h.Log.Read(ctx, p, 0, math.MaxInt64) {
			if err != nil {
				return fmt.Errorf("read: %w", err)
			}
			if n++; n == 3 {
				break
			}
		}
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := readRange(ended, h.Log, p, 0, math.MaxInt64); !errors.Is(err, context.Canceled) {
		return fmt.Errorf("read under a context that is done: %w", orNone(err))
	}
	return holds(ctx, h.Log, p, numbered("", 10)...)
}

func readTrimmed(ctx context.Context, h *Harness) error {
	topic, err := h.topic(ctx, "t", 1)
	if err != nil {
		return err
	}
	p := stream.Partition{Topic: topic}
	if err := h.Log.Append(ctx, texts(topic, 0, numbered("", 10)...)...); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	all, err := readAll(ctx, h.Log, p)
	if err != nil {
		return err
	}
	cut := all[4].Offset
	for _, before := range []int64{cut, all[2].Offset} { // the start never goes back
		if err := h.Trim(ctx, p, before); err != nil {
			return fmt.Errorf("trim: %w", err)
		}
		b, err := stream.BoundsOf(ctx, h.Log, p)
		if err != nil || b.Start != cut {
			return fmt.Errorf("after a trim below %d Bounds = %+v, %w; want a start of %d", before, b, orNone(err), cut)
		}
	}
	if err := holds(ctx, h.Log, p, numbered("", 10)[4:]...); err != nil {
		return err
	}
	got, err := readRange(ctx, h.Log, p, all[3].Offset, math.MaxInt64)
	if len(got) > 0 {
		return fmt.Errorf("read below the start gave %d records", len(got))
	}
	if err := want("Read below the start", err, stream.ErrOutOfRange); err != nil {
		return err
	}
	// Trimmed to the end, the partition goes on where it was.
	b, err := stream.BoundsOf(ctx, h.Log, p)
	if err != nil {
		return fmt.Errorf("bounds: %w", err)
	}
	if err := h.Trim(ctx, p, b.End); err != nil {
		return fmt.Errorf("trim: %w", err)
	}
	if _, err := h.Reopen(ctx); err != nil {
		return fmt.Errorf("reopen: %w", err)
	}
	if err := h.Log.Append(ctx, texts(topic, 0, "new")...); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	records, err := readAll(ctx, h.Log, p)
	if err != nil {
		return err
	}
	if len(records) != 1 || records[0].Offset < b.End {
		return fmt.Errorf("after a trim to the end at %d the log holds %+v", b.End, records)
	}
	return nil
}

func readGaps(ctx context.Context, h *Harness) error {
	topic, err := h.topic(ctx, "t", 1)
	if err != nil {
		return err
	}
	p := stream.Partition{Topic: topic}
	var ends []int64
	seen := []string{"a", "b"}
	for i, v := range seen {
		if err := h.Log.Append(ctx, texts(topic, 0, v)...); err != nil {
			return fmt.Errorf("append: %w", err)
		}
		if err := h.Gap(ctx, p); err != nil {
			return fmt.Errorf("gap: %w", err)
		}
		b, err := stream.BoundsOf(ctx, h.Log, p)
		if err != nil {
			return fmt.Errorf("bounds: %w", err)
		}
		ends = append(ends, b.End)
		// A gap at the end is not waited for.
		if err := holds(ctx, h.Log, p, seen[:i+1]...); err != nil {
			return err
		}
	}
	if err := h.Log.Append(ctx, texts(topic, 0, "c")...); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	records, err := readAll(ctx, h.Log, p)
	if err != nil {
		return err
	}
	if err := same("values", values(records), []string{"a", "b", "c"}); err != nil {
		return err
	}
	for i, end := range ends {
		if records[i].Offset >= end-1 || records[i+1].Offset < end {
			return fmt.Errorf("records at %d and %d around a gap that ends at %d", records[i].Offset, records[i+1].Offset, end)
		}
	}
	// From inside of a gap.
	got, err := readRange(ctx, h.Log, p, ends[0]-1, math.MaxInt64)
	if err != nil {
		return fmt.Errorf("read from inside of a gap: %w", err)
	}
	return same("from inside of a gap", values(got), []string{"b", "c"})
}

// readGapsAlone reads where there are offsets and no record.
func readGapsAlone(ctx context.Context, h *Harness) error {
	topic, err := h.topic(ctx, "t", 1)
	if err != nil {
		return err
	}
	p := stream.Partition{Topic: topic}
	for range 3 {
		if err := h.Gap(ctx, p); err != nil {
			return fmt.Errorf("gap: %w", err)
		}
	}
	b, err := stream.BoundsOf(ctx, h.Log, p)
	if err != nil || b.End <= b.Start {
		return fmt.Errorf("bounds = %+v, %w, want offsets", b, orNone(err))
	}
	return errors.Join(holds(ctx, h.Log, p), seenByAll(ctx, h, p))
}
