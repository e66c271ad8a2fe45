package streamtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/peil-stream/peil/internal/stream"
)

func consumeChecks() []Check {
	return []Check{
		{Name: "consume/everything once", Run: consumeAll},
		{Name: "consume/from an offset", Run: consumeFrom},
		{Name: "consume/from the next offset", Run: consumeAgain},
		{Name: "consume/null and headers", Run: consumeWhole},
		{Name: "consume/bounded batches", Run: consumeBounded},
		{Name: "consume/unread partition", Run: consumeUnread},
		{Name: "consume/different speeds", Run: consumeSpeeds},
		{Name: "consume/batches kept", Run: consumeKept},
		{Name: "consume/gaps", Run: consumeGaps, needs: needsGaps},
		{Name: "consume/below the start", Run: consumeBelow, needs: needsTrim},
		{Name: "consume/trimmed meanwhile", Run: consumeTrimmed, needs: needsTrim},
		{Name: "consume/beyond the end", Run: consumeBeyond},
	}
}

// consumeAll appends before and while a consumer runs. The last record of each
// partition shows that nothing came twice before it.
func consumeAll(ctx context.Context, h *Harness) error {
	const partitions = 3
	topic, err := h.topic(ctx, "t", partitions)
	if err != nil {
		return err
	}
	var wants [partitions][]string
	write := func(prefix string, n int) error {
		var msgs []stream.Message
		for i := range int32(partitions) {
			vs := numbered(prefix, n)
			wants[i] = append(wants[i], vs...)
			msgs = append(msgs, texts(topic, i, vs...)...)
		}
		return h.Log.Append(ctx, msgs...)
	}
	if err := write("before-", 300); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	sub := stream.Subscription{Group: h.name("g"), Topics: []string{topic}}
	m, err := join(ctx, h.Log, sub, &member{})
	if err != nil {
		return err
	}
	check := func() error {
		for i := range int32(partitions) {
			p := stream.Partition{Topic: topic, Index: i}
			if err := m.waitFor(ctx, p, len(wants[i])); err != nil {
				return err
			}
			if err := same(p.String(), m.got(p), wants[i]); err != nil {
				return err
			}
		}
		return nil
	}
	err = check()
	for round := 0; round < 3 && err == nil; round++ {
		if err = write(fmt.Sprintf("live-%d-", round), 20); err == nil {
			err = check()
		}
	}
	pub, perr := h.publisher(ctx, h.name("pub"))
	if err = errors.Join(err, perr); err == nil {
		wants[1] = append(wants[1], "published")
		err = errors.Join(pub.Publish(ctx, texts(topic, 1, "published"), nil), pub.Close(), check())
	}
	topics, derr := h.Log.Describe(ctx, topic)
	if derr == nil {
		for i := range int32(partitions) {
			a := m.at(stream.Partition{Topic: topic, Index: i}).a
			if a != nil && a.TopicID != topics[0].ID {
				err = errors.Join(err, fmt.Errorf("%s has the topic id %q, the topic %q", a.Partition, a.TopicID, topics[0].ID))
			}
		}
	}
	return errors.Join(err, derr, m.stop(ctx))
}

func consumeFrom(ctx context.Context, h *Harness) error {
	topic, err := h.topic(ctx, "t", 3)
	if err != nil {
		return err
	}
	var offsets [3][]stream.Record
	for i := range int32(3) {
		if err := h.Log.Append(ctx, texts(topic, i, numbered("", 100)...)...); err != nil {
			return fmt.Errorf("append: %w", err)
		}
		if offsets[i], err = readAll(ctx, h.Log, stream.Partition{Topic: topic, Index: i}); err != nil {
			return err
		}
	}
	end, err := stream.BoundsOf(ctx, h.Log, stream.Partition{Topic: topic, Index: 2})
	if err != nil {
		return fmt.Errorf("bounds: %w", err)
	}
	starts := map[int32]int64{0: offsets[0][0].Offset, 1: offsets[1][57].Offset, 2: end.End}
	m, err := join(ctx, h.Log, stream.Subscription{Group: h.name("g"), Topics: []string{topic}}, &member{
		start: func(p stream.Partition) int64 { return starts[p.Index] },
	})
	if err != nil {
		return err
	}
	for i, skipped := range []int{0, 57, 100} {
		p := stream.Partition{Topic: topic, Index: int32(i)}
		wanted := append(slices.Clone(numbered("", 100)[skipped:]), "new")
		err = errors.Join(err, h.Log.Append(ctx, texts(topic, p.Index, "new")...))
		if err == nil {
			err = m.waitFor(ctx, p, len(wanted))
		}
		if err == nil {
			err = same(p.String(), m.got(p), wanted)
		}
	}
	return errors.Join(err, m.stop(ctx))
}

// consumeAgain stops in the middle and goes on from the position reached.
func consumeAgain(ctx context.Context, h *Harness) error {
	topic, err := h.topic(ctx, "t", 1)
	if err != nil {
		return err
	}
	p := stream.Partition{Topic: topic}
	sub := stream.Subscription{Group: h.name("g"), Topics: []string{topic}, BatchBytes: 100}
	var got []string
	next := int64(0)
	for round := range 3 {
		if err := h.Log.Append(ctx, texts(topic, 0, numbered(fmt.Sprintf("%d-", round), 200)...)...); err != nil {
			return fmt.Errorf("append: %w", err)
		}
		m, err := join(ctx, h.Log, sub, &member{start: func(stream.Partition) int64 { return next }})
		if err != nil {
			return err
		}
		if err := errors.Join(m.waitFor(ctx, p, 100), m.stop(ctx)); err != nil {
			return err
		}
		got = append(got, m.got(p)...)
		next = m.at(p).next
		if _, err := h.Reopen(ctx); err != nil {
			return fmt.Errorf("reopen: %w", err)
		}
	}
	m, err := join(ctx, h.Log, sub, &member{start: func(stream.Partition) int64 { return next }})
	if err != nil {
		return err
	}
	if err := errors.Join(m.waitFor(ctx, p, 600-len(got)), m.stop(ctx)); err != nil {
		return err
	}
	var wanted []string
	for round := range 3 {
		wanted = append(wanted, numbered(fmt.Sprintf("%d-", round), 200)...)
	}
	return same("over all runs", append(got, m.got(p)...), wanted)
}

func consumeWhole(ctx context.Context, h *Harness) error {
	topic, err := h.topic(ctx, "t", 1)
	if err != nil {
		return err
	}
	p := stream.Partition{Topic: topic}
	msgs := []stream.Message{
		{Topic: topic, Value: nil},
		{Topic: topic, Value: []byte{}},
		{Topic: topic, Key: []byte("k"), Value: []byte("v"), Headers: []stream.Header{
			{Key: "b", Value: []byte("1")}, {Key: "a", Value: []byte("2")}, {Key: "b", Value: []byte("3")},
		}},
	}
	if err := h.Log.Append(ctx, msgs...); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	m, err := join(ctx, h.Log, stream.Subscription{Group: h.name("g"), Topics: []string{topic}}, &member{})
	if err != nil {
		return err
	}
	if err := errors.Join(m.waitFor(ctx, p, len(msgs)), m.stop(ctx)); err != nil {
		return err
	}
	for i, r := range m.at(p).records {
		got, wanted := whole(r.Key, r.Value, r.Headers), whole(msgs[i].Key, msgs[i].Value, msgs[i].Headers)
		if got != wanted {
			return fmt.Errorf("record %d is %q, want %q", i, got, wanted)
		}
	}
	return nil
}

func consumeBounded(ctx context.Context, h *Harness) error {
	topic, err := h.topic(ctx, "t", 1)
	if err != nil {
		return err
	}
	p := stream.Partition{Topic: topic}
	const n, size, perBatch = 60, 1000, 10
	vs := numbered(strings.Repeat("x", size-4), n)
	if err := h.Log.Append(ctx, texts(topic, 0, vs...)...); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	m, err := join(ctx, h.Log, stream.Subscription{
		Group: h.name("g"), Topics: []string{topic}, BatchBytes: perBatch * size,
	}, &member{})
	if err != nil {
		return err
	}
	if err := errors.Join(m.waitFor(ctx, p, n), m.stop(ctx)); err != nil {
		return err
	}
	if v := m.at(p); v.largest > perBatch+1 {
		return fmt.Errorf("a batch of %d bytes at most held %d records of %d bytes", perBatch*size, v.largest, size)
	}
	return same(p.String(), m.got(p), vs)
}

// consumeUnread leaves one partition's channel unread: the others flow, and
// nothing of it is lost.
func consumeUnread(ctx context.Context, h *Harness) error {
	topic, err := h.topic(ctx, "t", 2)
	if err != nil {
		return err
	}
	held, free := stream.Partition{Topic: topic, Index: 0}, stream.Partition{Topic: topic, Index: 1}
	vs := noise(2000) // 2 MB, far more than any buffer here
	for _, p := range []stream.Partition{held, free} {
		if err := h.appendParts(ctx, p, vs); err != nil {
			return err
		}
	}
	m, err := join(ctx, h.Log, stream.Subscription{
		Group: h.name("g"), Topics: []string{topic}, BatchBytes: 10_000,
	}, &member{hold: func(p stream.Partition) bool { return p == held }})
	if err != nil {
		return err
	}
	err = m.waitFor(ctx, free, len(vs))
	if err == nil {
		// Now the held one is read after all.
		m.mu.Lock()
		v := m.stays[held]
		m.mu.Unlock()
		m.pumping.Go(func() { m.pump(v) })
		err = m.waitFor(ctx, held, len(vs))
	}
	m.mu.Lock()
	m.hold = nil
	m.mu.Unlock()
	return errors.Join(err, m.stop(ctx),
		same(free.String(), m.got(free), vs), same(held.String(), m.got(held), vs))
}

// consumeSpeeds reads one partition a batch at a time while others are read as
// fast as they come: what is appended to those arrives, however little of the slow
// one was taken, and the slow one misses nothing.
func consumeSpeeds(ctx context.Context, h *Harness) error {
	topic, err := h.topic(ctx, "t", 3)
	if err != nil {
		return err
	}
	slow := stream.Partition{Topic: topic}
	vs := noise(1500)
	if err := h.appendParts(ctx, slow, vs); err != nil {
		return err
	}
	m, err := join(ctx, h.Log, stream.Subscription{Group: h.name("g"), Topics: []string{topic}, BatchBytes: 20_000},
		&member{hold: func(p stream.Partition) bool { return p == slow }})
	if err != nil {
		return err
	}
	err = m.wait(ctx, "the assignment", func() bool { return m.stays[slow] != nil })
	a := m.at(slow).a
	var got, fast []string
	take := func(least int) {
		for n := 0; err == nil && n < least; {
			select {
			case b, ok := <-a.Batches:
				if !ok {
					err = fmt.Errorf("%s ended: %w", slow, orNone(a.Err()))
					return
				}
				got = append(got, values(b.Records)...)
				n += len(b.Records)
				b.Release()
			case <-ctx.Done():
				err = fmt.Errorf("%d records of %s came: %w", len(got), slow, ctx.Err())
			}
		}
	}
	for round := 0; err == nil && round < 10; round++ {
		take(1)
		more := numbered(fmt.Sprintf("%d-", round), 20)
		fast = append(fast, more...)
		for i := int32(1); i < 3 && err == nil; i++ {
			if err = h.Log.Append(ctx, texts(topic, i, more...)...); err == nil {
				err = m.waitFor(ctx, stream.Partition{Topic: topic, Index: i}, len(fast))
			}
		}
	}
	take(len(vs) - len(got))
	return errors.Join(err, m.stop(ctx), same(slow.String(), got, vs),
		same("partition 1", m.got(stream.Partition{Topic: topic, Index: 1}), fast),
		same("partition 2", m.got(stream.Partition{Topic: topic, Index: 2}), fast))
}

// consumeKept keeps batches without releasing them: their records stay as they
// were while others are read.
func consumeKept(ctx context.Context, h *Harness) error {
	topic, err := h.topic(ctx, "t", 1)
	if err != nil {
		return err
	}
	p := stream.Partition{Topic: topic}
	vs := numbered("", 400)
	for part := range slices.Chunk(vs, 10) { // however the log stores them, not all in one piece
		if err := h.Log.Append(ctx, texts(topic, 0, part...)...); err != nil {
			return fmt.Errorf("append: %w", err)
		}
	}
	m, err := join(ctx, h.Log, stream.Subscription{Group: h.name("g"), Topics: []string{topic}, BatchBytes: 80},
		&member{hold: func(stream.Partition) bool { return true }})
	if err != nil {
		return err
	}
	err = m.wait(ctx, "the assignment", func() bool { return m.stays[p] != nil })
	var kept []stream.Batch
	a := m.at(p).a
	for n := 0; err == nil && n < len(vs); {
		select {
		case b, ok := <-a.Batches:
			if !ok {
				return errors.Join(errors.New("batches was closed"), m.stop(ctx))
			}
			kept = append(kept, b)
			n += len(b.Records)
		case <-ctx.Done():
			err = fmt.Errorf("%d of %d records came: %w", n, len(vs), ctx.Err())
		}
	}
	var got []string
	for i := range kept {
		got = append(got, values(kept[i].Records)...)
	}
	for i := range kept {
		kept[i].Release()
		kept[i].Release() // once is enough
	}
	return errors.Join(err, m.stop(ctx), same("kept batches", got, vs))
}

// consumeGaps says that Next moves over offsets without records, also at the
// end of the log.
func consumeGaps(ctx context.Context, h *Harness) error {
	topic, err := h.topic(ctx, "t", 1)
	if err != nil {
		return err
	}
	p := stream.Partition{Topic: topic}
	for _, v := range []string{"a", "b"} {
		if err := errors.Join(h.Log.Append(ctx, texts(topic, 0, v)...), h.Gap(ctx, p)); err != nil {
			return fmt.Errorf("append and Gap: %w", err)
		}
	}
	b, err := stream.BoundsOf(ctx, h.Log, p)
	if err != nil {
		return fmt.Errorf("bounds: %w", err)
	}
	m, err := join(ctx, h.Log, stream.Subscription{Group: h.name("g"), Topics: []string{topic}}, &member{})
	if err != nil {
		return err
	}
	err = m.wait(ctx, "the end of the log", func() bool { return m.stays[p] != nil && m.stays[p].next >= b.End })
	if next := m.at(p).next; err == nil && next > b.End {
		err = fmt.Errorf("the next offset is %d, the end is %d", next, b.End)
	}
	if err == nil {
		err = errors.Join(h.Log.Append(ctx, texts(topic, 0, "c")...), m.waitFor(ctx, p, 3))
	}
	return errors.Join(err, m.stop(ctx), same(p.String(), m.got(p), []string{"a", "b", "c"}))
}

func consumeBelow(ctx context.Context, h *Harness) error {
	topic, err := h.topic(ctx, "t", 2)
	if err != nil {
		return err
	}
	for i := range int32(2) {
		if err := h.Log.Append(ctx, texts(topic, i, numbered("", 10)...)...); err != nil {
			return fmt.Errorf("append: %w", err)
		}
	}
	p := stream.Partition{Topic: topic}
	all, err := readAll(ctx, h.Log, p)
	if err != nil {
		return err
	}
	if err := h.Trim(ctx, p, all[5].Offset); err != nil {
		return fmt.Errorf("trim: %w", err)
	}
	return failsAlone(ctx, h, topic, all[4].Offset)
}

// consumeTrimmed trims a partition above where it was read to: it delivers what it
// had, without a gap, and fails alone.
func consumeTrimmed(ctx context.Context, h *Harness) error {
	topic, err := h.topic(ctx, "t", 2)
	if err != nil {
		return err
	}
	bad, good := stream.Partition{Topic: topic, Index: 0}, stream.Partition{Topic: topic, Index: 1}
	vs := noise(2000) // 2 MB, far more than any buffer here
	if err := h.appendParts(ctx, bad, vs); err != nil {
		return err
	}
	m, err := join(ctx, h.Log, stream.Subscription{Group: h.name("g"), Topics: []string{topic}, BatchBytes: 10_000},
		&member{hold: func(p stream.Partition) bool { return p == bad }})
	if err != nil {
		return err
	}
	err = m.wait(ctx, "the assignment", func() bool { return m.stays[bad] != nil })
	if err == nil {
		err = errors.Join(h.Log.Append(ctx, texts(topic, 1, "a")...), m.waitFor(ctx, good, 1), h.Trim(ctx, bad, 1900))
	}
	m.mu.Lock()
	v := m.stays[bad]
	m.mu.Unlock()
	if err == nil {
		m.pumping.Go(func() { m.pump(v) })
		err = m.wait(ctx, "the failure of "+bad.String(), func() bool { return v.closed })
	}
	if err == nil {
		got := m.got(bad)
		err = errors.Join(
			want("Err of "+bad.String(), m.at(bad).err, stream.ErrOutOfRange),
			same(bad.String(), got, vs[:len(got)]),
			h.Log.Append(ctx, texts(topic, 1, "b")...),
			m.waitFor(ctx, good, 2),
		)
	}
	return errors.Join(err, m.stop(ctx), same(good.String(), m.got(good), []string{"a", "b"}))
}

func consumeBeyond(ctx context.Context, h *Harness) error {
	topic, err := h.topic(ctx, "t", 2)
	if err != nil {
		return err
	}
	for i := range int32(2) {
		if err := h.Log.Append(ctx, texts(topic, i, numbered("", 10)...)...); err != nil {
			return fmt.Errorf("append: %w", err)
		}
	}
	b, err := stream.BoundsOf(ctx, h.Log, stream.Partition{Topic: topic})
	if err != nil {
		return fmt.Errorf("bounds: %w", err)
	}
	return failsAlone(ctx, h, topic, b.End+1)
}

// failsAlone starts partition 0 at an offset that the log does not hold: it
// fails without a record, and partition 1 flows.
func failsAlone(ctx context.Context, h *Harness, topic string, start int64) error {
	bad, good := stream.Partition{Topic: topic, Index: 0}, stream.Partition{Topic: topic, Index: 1}
	m, err := join(ctx, h.Log, stream.Subscription{Group: h.name("g"), Topics: []string{topic}}, &member{
		start: func(p stream.Partition) int64 {
			if p == bad {
				return start
			}
			return 0
		},
	})
	if err != nil {
		return err
	}
	err = m.wait(ctx, "the failure of "+bad.String(), func() bool { return m.stays[bad] != nil && m.stays[bad].closed })
	if err == nil {
		err = errors.Join(
			want("Err of "+bad.String(), m.at(bad).err, stream.ErrOutOfRange),
			same(bad.String(), m.got(bad), nil),
			h.Log.Append(ctx, texts(topic, 1, "new")...),
			m.waitFor(ctx, good, 11),
		)
	}
	return errors.Join(err, m.stop(ctx), same(good.String(), m.got(good), append(numbered("", 10), "new")))
}
