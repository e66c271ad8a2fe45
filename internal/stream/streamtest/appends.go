package streamtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/peil-stream/peil/internal/stream"
)

// The largest message that every log takes, and the smallest that none does.
const (
	messageTaken   = 900_000
	messageRefused = 1_000_013
)

func appendChecks() []Check {
	return []Check{
		{Name: "append/order", Run: appendOrder},
		{Name: "append/stamps", Run: appendStamps},
		{Name: "append/brought timestamps", Run: appendBrought, needs: needsBrought},
		{Name: "append/null and empty", Run: appendNull},
		{Name: "append/headers", Run: appendHeaders},
		{Name: "append/by key", Run: appendByKey},
		{Name: "append/too large", Run: appendTooLarge},
		{Name: "append/all or none", Run: appendAllOrNone},
		{Name: "append/at once", Run: appendAtOnce},
	}
}

func appendOrder(ctx context.Context, h *Harness) error {
	topic, err := h.topic(ctx, "t", 3)
	if err != nil {
		return err
	}
	// Interleaved over two partitions, in several appends, over a reopen.
	var wants [3][]string
	for round := range 6 {
		if round == 3 {
			if _, err := h.Reopen(ctx); err != nil {
				return fmt.Errorf("reopen: %w", err)
			}
		}
		var msgs []stream.Message
		for i := range 50 {
			p := int32(i % 2)
			v := fmt.Sprintf("%d-%02d", round, i)
			wants[p] = append(wants[p], v)
			msgs = append(msgs, texts(topic, p, v)...)
		}
		if err := h.Log.Append(ctx, msgs...); err != nil {
			return fmt.Errorf("append: %w", err)
		}
	}
	for i, w := range wants {
		if err := holds(ctx, h.Log, stream.Partition{Topic: topic, Index: int32(i)}, w...); err != nil {
			return err
		}
	}
	if err := h.Log.Append(ctx); err != nil {
		return fmt.Errorf("append of nothing: %w", err)
	}
	return nil
}

func appendStamps(ctx context.Context, h *Harness) error {
	topic, err := h.topic(ctx, "t", 1)
	if err != nil {
		return err
	}
	p := stream.Partition{Topic: topic}
	if err := h.Log.Append(ctx, texts(topic, 0, "a", "b")...); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	records, err := readAll(ctx, h.Log, p)
	if err != nil {
		return err
	}
	for _, r := range records {
		if r.Timestamp <= 0 {
			return fmt.Errorf("a record without a brought timestamp is stamped %d", r.Timestamp)
		}
	}
	return same("values", values(records), []string{"a", "b"})
}

func appendBrought(ctx context.Context, h *Harness) error {
	topic, err := h.topic(ctx, "t", 1)
	if err != nil {
		return err
	}
	brought := []int64{5_000, 1, 1_796_040_000_123, 253_402_300_799_999, 4_999}
	msgs := texts(topic, 0, numbered("", len(brought))...)
	for i := range msgs {
		msgs[i].Timestamp = brought[i]
	}
	if err := h.Log.Append(ctx, msgs...); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	records, err := readAll(ctx, h.Log, stream.Partition{Topic: topic})
	if err != nil {
		return err
	}
	for i, r := range records {
		if r.Timestamp != brought[i] {
			return fmt.Errorf("record %d is stamped %d, brought %d", i, r.Timestamp, brought[i])
		}
	}
	return same("values", values(records), numbered("", len(brought)))
}

func appendNull(ctx context.Context, h *Harness) error {
	topic, err := h.topic(ctx, "t", 1)
	if err != nil {
		return err
	}
	msgs := []stream.Message{
		{Topic: topic, Key: nil, Value: nil},
		{Topic: topic, Key: nil, Value: []byte{}},
		{Topic: topic, Key: []byte("k"), Value: nil},
		{Topic: topic, Key: []byte{}, Value: []byte("v")},
		{Topic: topic, Key: []byte{0, 0xff}, Value: []byte{0xfe, 0}},
	}
	if err := h.Log.Append(ctx, msgs...); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	return wholes(ctx, h.Log, stream.Partition{Topic: topic}, msgs)
}

func appendHeaders(ctx context.Context, h *Harness) error {
	topic, err := h.topic(ctx, "t", 1)
	if err != nil {
		return err
	}
	msgs := []stream.Message{
		{Topic: topic, Value: []byte("1"), Headers: []stream.Header{
			{Key: "b", Value: []byte("1")}, {Key: "a", Value: []byte("2")}, {Key: "b", Value: []byte("3")}, {Key: "", Value: []byte{}},
		}},
		{Topic: topic, Value: []byte("2")},
		{Topic: topic, Value: []byte("3"), Headers: []stream.Header{{Key: "b", Value: []byte("4")}}},
	}
	if err := h.Log.Append(ctx, msgs...); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	if err := wholes(ctx, h.Log, stream.Partition{Topic: topic}, msgs); err != nil {
		return err
	}
	records, err := readAll(ctx, h.Log, stream.Partition{Topic: topic})
	if err != nil {
		return err
	}
	if v, ok := records[0].Header("b"); !ok || string(v) != "3" {
		return fmt.Errorf("header(b) = %q, %v, want the last one", v, ok)
	}
	return nil
}

// wholes says that a partition holds exactly the messages, keys and headers too.
func wholes(ctx context.Context, r stream.Reader, p stream.Partition, msgs []stream.Message) error {
	records, err := readAll(ctx, r, p)
	if err != nil {
		return err
	}
	var got, wanted []string
	for _, r := range records {
		got = append(got, whole(r.Key, r.Value, r.Headers))
	}
	for _, m := range msgs {
		wanted = append(wanted, whole(m.Key, m.Value, m.Headers))
	}
	return same(p.String(), got, wanted)
}

func appendByKey(ctx context.Context, h *Harness) error {
	const partitions = 5
	topic, err := h.topic(ctx, "t", partitions)
	if err != nil {
		return err
	}
	var wants [partitions][]string
	var msgs []stream.Message
	for i := range 200 {
		key := fmt.Appendf(nil, "nl|trip-%d|20261130", i%40)
		v := fmt.Sprintf("%s %d", key, i)
		p := stream.PartitionFor(key, partitions)
		wants[p] = append(wants[p], v)
		msgs = append(msgs, stream.Message{Topic: topic, Partition: stream.ByKey, Key: key, Value: []byte(v)})
	}
	if err := h.Log.Append(ctx, msgs[:100]...); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	pub, err := h.publisher(ctx, h.name("pub"))
	if err != nil {
		return fmt.Errorf("open publisher: %w", err)
	}
	if err := errors.Join(pub.Publish(ctx, msgs[100:], nil), pub.Close()); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	for i, w := range wants {
		if err := holds(ctx, h.Log, stream.Partition{Topic: topic, Index: int32(i)}, w...); err != nil {
			return err
		}
	}
	return nil
}

func appendTooLarge(ctx context.Context, h *Harness) error {
	topic, err := h.topic(ctx, "t", 1)
	if err != nil {
		return err
	}
	big := stream.Message{Topic: topic, Key: []byte("key"), Headers: []stream.Header{{Key: "h", Value: []byte("header")}}}
	rest := len("key") + len("h") + len("header")
	big.Value = bytes.Repeat([]byte("x"), messageTaken-rest)
	if err := h.Log.Append(ctx, big); err != nil {
		return fmt.Errorf("append of %d bytes: %w", messageTaken, err)
	}
	good := texts(topic, 0, "good")[0]
	big.Value = bytes.Repeat([]byte("x"), messageRefused-rest)
	pub, err := h.publisher(ctx, h.name("pub"))
	if err != nil {
		return fmt.Errorf("open publisher: %w", err)
	}
	for what, err := range map[string]error{
		"Append":  h.Log.Append(ctx, good, good, big),
		"Publish": pub.Publish(ctx, []stream.Message{good, good, big}, nil),
	} {
		if err := want(what, err, stream.ErrTooLarge); err != nil {
			return err
		}
		if !strings.Contains(err.Error(), "message 2") {
			return fmt.Errorf("%s: the error does not name message 2: %w", what, err)
		}
	}
	if err := pub.Close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	records, err := readAll(ctx, h.Log, stream.Partition{Topic: topic})
	if err != nil {
		return err
	}
	if len(records) != 1 || len(records[0].Value) != messageTaken-rest {
		return fmt.Errorf("%d records, want the one of %d bytes alone", len(records), messageTaken)
	}
	return nil
}

func appendAllOrNone(ctx context.Context, h *Harness) error {
	topic, err := h.topic(ctx, "t", 2)
	if err != nil {
		return err
	}
	bad := append(texts(topic, 0, "a", "b"), texts(h.name("none"), 0, "c")...)
	if err := want("Append", h.Log.Append(ctx, bad...), stream.ErrNoTopic); err != nil {
		return err
	}
	bad = append(texts(topic, 0, "a", "b"), texts(topic, 2, "c")...)
	if err := h.Log.Append(ctx, bad...); err == nil {
		return errors.New("append to a partition that does not exist gave no error")
	}
	if err := h.Log.Append(ctx, texts(topic, 0, "d")...); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	return holds(ctx, h.Log, stream.Partition{Topic: topic}, "d")
}

func appendAtOnce(ctx context.Context, h *Harness) error {
	topic, err := h.topic(ctx, "t", 1)
	if err != nil {
		return err
	}
	const writers, rounds = 4, 10
	var all sync.WaitGroup
	errs := make([]error, writers)
	for w := range writers {
		all.Go(func() {
			for i := range rounds {
				errs[w] = errors.Join(errs[w], h.Log.Append(ctx, texts(topic, 0, fmt.Sprintf("%d-%04d", w, i))...))
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	records, err := readAll(ctx, h.Log, stream.Partition{Topic: topic})
	if err != nil {
		return err
	}
	var by [writers][]string
	for _, v := range values(records) {
		var w, i int
		if _, err := fmt.Sscanf(v, "%d-%d", &w, &i); err != nil || w >= writers {
			return fmt.Errorf("value %q was never appended", v)
		}
		by[w] = append(by[w], v)
	}
	for w := range by {
		if err := same("one writer", by[w], numbered(fmt.Sprintf("%d-", w), rounds)); err != nil {
			return err
		}
	}
	return nil
}
