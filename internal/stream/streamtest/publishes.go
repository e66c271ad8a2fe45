package streamtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/peil-stream/peil/internal/stream"
)

func publishChecks() []Check {
	return []Check{
		{Name: "publish/messages and memory", Run: publishTogether},
		{Name: "publish/refused whole", Run: publishRefused},
		{Name: "publish/seen whole", Run: publishSeenWhole},
		{Name: "publish/fencing", Run: publishFencing},
		{Name: "publish/ids apart", Run: publishIDsApart},
		{Name: "publish/memory of deletes", Run: publishDeletes},
		{Name: "publish/answer lost before", Run: answerLost(false), needs: needsLostAnswers},
		{Name: "publish/answer lost after", Run: answerLost(true), needs: needsLostAnswers},
		{Name: "publish/closed", Run: publishClosed},
	}
}

// set is a change of the memory.
func set(key, value string) stream.Change { return stream.Change{Key: key, Value: []byte(value)} }

func publishTogether(ctx context.Context, h *Harness) error {
	topic, err := h.topic(ctx, "t", 2)
	if err != nil {
		return err
	}
	id := h.name("pub")
	pub, err := h.publisher(ctx, id)
	if err != nil {
		return fmt.Errorf("open publisher: %w", err)
	}
	if err := same("memory of a new id", memory(pub), nil); err != nil {
		return err
	}
	msgs := append(texts(topic, 0, "a", "b"), texts(topic, 1, "c")...)
	if err := pub.Publish(ctx, msgs, []stream.Change{set("k2", "1"), set("k1", "2"), set("k2", "3"), set("k3", "")}); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	// What returned is readable.
	if err := errors.Join(
		holds(ctx, h.Log, stream.Partition{Topic: topic, Index: 0}, "a", "b"),
		holds(ctx, h.Log, stream.Partition{Topic: topic, Index: 1}, "c"),
	); err != nil {
		return err
	}
	remembered := []string{"k1=2", "k2=3", "k3="}
	if err := same("memory after its own publish", memory(pub), remembered); err != nil {
		return err
	}
	// Memory alone, nothing at all, and messages alone.
	if err := errors.Join(
		pub.Publish(ctx, nil, []stream.Change{set("k4", "4")}),
		pub.Publish(ctx, nil, nil),
		pub.Publish(ctx, texts(topic, 1, "d"), nil),
		pub.Close(), pub.Close(),
	); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	if _, err := h.Reopen(ctx); err != nil {
		return fmt.Errorf("reopen: %w", err)
	}
	if err := remembers(ctx, h, id, append(remembered, "k4=4")...); err != nil {
		return err
	}
	return holds(ctx, h.Log, stream.Partition{Topic: topic, Index: 1}, "c", "d")
}

// remembers opens a publisher and holds its memory against key=value, sorted.
func remembers(ctx context.Context, h *Harness, id string, wanted ...string) error {
	pub, err := h.publisher(ctx, id)
	if err != nil {
		return fmt.Errorf("open publisher(%s): %w", id, err)
	}
	return errors.Join(same("memory of "+id, memory(pub), wanted), pub.Close())
}

func publishRefused(ctx context.Context, h *Harness) error {
	topic, err := h.topic(ctx, "t", 1)
	if err != nil {
		return err
	}
	id := h.name("pub")
	pub, err := h.publisher(ctx, id)
	if err != nil {
		return fmt.Errorf("open publisher: %w", err)
	}
	if err := pub.Publish(ctx, texts(topic, 0, "a"), []stream.Change{set("k", "1")}); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	bad := append(texts(topic, 0, "b", "c"), texts(h.name("none"), 0, "d")...)
	err = pub.Publish(ctx, bad, []stream.Change{set("k", "2"), set("l", "3")})
	if err := want("Publish to no topic", err, stream.ErrNoTopic); err != nil {
		return err
	}
	if err := pub.Publish(ctx, texts(topic, 0, "e"), nil); err == nil {
		return errors.New("a publisher lived on after an error")
	}
	if err := pub.Close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	if err := remembers(ctx, h, id, "k=1"); err != nil {
		return err
	}
	return holds(ctx, h.Log, stream.Partition{Topic: topic}, "a")
}

// publishSeenWhole reads beside a publisher: of each published batch a reader
// sees all records in a partition or none.
func publishSeenWhole(ctx context.Context, h *Harness) error {
	const batches, each = 15, 4
	topic, err := h.topic(ctx, "t", 1)
	if err != nil {
		return err
	}
	p := stream.Partition{Topic: topic}
	pub, err := h.publisher(ctx, h.name("pub"))
	if err != nil {
		return fmt.Errorf("open publisher: %w", err)
	}
	published := make(chan error, 1)
	go func() {
		var err error
		for b := range batches {
			err = errors.Join(err, pub.Publish(ctx, texts(topic, 0, slices.Repeat([]string{strconv.Itoa(b)}, each)...), nil))
		}
		published <- errors.Join(err, pub.Close())
	}()
	var torn error
	for done := false; !done; {
		select {
		case err := <-published:
			if err != nil {
				return fmt.Errorf("publish: %w", err)
			}
			done = true
		default:
		}
		records, err := readAll(ctx, h.Log, p)
		if err != nil {
			torn = errors.Join(torn, err)
		}
		if len(records)%each != 0 {
			torn = errors.Join(torn, fmt.Errorf("a reader saw %d records of batches of %d", len(records), each))
		}
		if done && len(records) != batches*each {
			torn = errors.Join(torn, fmt.Errorf("%d records in the end, want %d", len(records), batches*each))
		}
	}
	return torn
}

func publishFencing(ctx context.Context, h *Harness) error {
	topic, err := h.topic(ctx, "t", 1)
	if err != nil {
		return err
	}
	id := h.name("pub")
	older, err := h.publisher(ctx, id)
	if err != nil {
		return fmt.Errorf("open publisher: %w", err)
	}
	if err := older.Publish(ctx, texts(topic, 0, "a"), []stream.Change{set("k", "1")}); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	newer, err := h.publisher(ctx, id)
	if err != nil {
		return fmt.Errorf("open publisher: %w", err)
	}
	if err := same("memory of the newer", memory(newer), []string{"k=1"}); err != nil {
		return err
	}
	for range 2 { // it stays dead
		err := older.Publish(ctx, texts(topic, 0, "zombie"), []stream.Change{set("k", "2"), set("z", "3")})
		if err := want("Publish of the older publisher", err, stream.ErrFenced); err != nil {
			return err
		}
	}
	if err := newer.Publish(ctx, texts(topic, 0, "b"), []stream.Change{set("l", "4")}); err != nil {
		return fmt.Errorf("publish of the newer publisher: %w", err)
	}
	// Closing the older one must not harm the newer one.
	if err := older.Close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	if err := errors.Join(newer.Publish(ctx, texts(topic, 0, "c"), nil), newer.Close()); err != nil {
		return fmt.Errorf("publish of the newer publisher: %w", err)
	}
	if err := remembers(ctx, h, id, "k=1", "l=4"); err != nil {
		return err
	}
	return holds(ctx, h.Log, stream.Partition{Topic: topic}, "a", "b", "c")
}

func publishIDsApart(ctx context.Context, h *Harness) error {
	topic, err := h.topic(ctx, "t", 1)
	if err != nil {
		return err
	}
	one, err := h.publisher(ctx, h.name("one"))
	if err != nil {
		return fmt.Errorf("open publisher: %w", err)
	}
	two, err := h.publisher(ctx, h.name("two"))
	if err != nil {
		return fmt.Errorf("open publisher: %w", err)
	}
	if err := errors.Join(
		one.Publish(ctx, texts(topic, 0, "a"), []stream.Change{set("k", "1")}),
		two.Publish(ctx, texts(topic, 0, "b"), []stream.Change{set("k", "2")}),
		one.Publish(ctx, texts(topic, 0, "c"), []stream.Change{set("l", "3")}),
		one.Close(), two.Close(),
	); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	return errors.Join(
		remembers(ctx, h, h.name("one"), "k=1", "l=3"),
		remembers(ctx, h, h.name("two"), "k=2"),
		holds(ctx, h.Log, stream.Partition{Topic: topic}, "a", "b", "c"),
	)
}

func publishDeletes(ctx context.Context, h *Harness) error {
	id := h.name("pub")
	pub, err := h.publisher(ctx, id)
	if err != nil {
		return fmt.Errorf("open publisher: %w", err)
	}
	// More keys than go into one statement or one batch of anything.
	var changes []stream.Change
	for i := range 250 {
		changes = append(changes, set(fmt.Sprintf("key-%03d", i), "old"))
	}
	if err := pub.Publish(ctx, nil, changes); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	changes = changes[:0]
	var wanted []string
	for i := range 250 {
		key := fmt.Sprintf("key-%03d", i)
		switch i % 3 {
		case 0:
			changes = append(changes, stream.Change{Key: key})
		case 1:
			changes = append(changes, stream.Change{Key: key}, set(key, "new"))
			wanted = append(wanted, key+"=new")
		default:
			wanted = append(wanted, key+"=old")
		}
	}
	changes = append(changes, stream.Change{Key: "never there"})
	if err := errors.Join(pub.Publish(ctx, nil, changes), pub.Close()); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	if err := same("memory of the same publisher", memory(pub), wanted); err != nil {
		return err
	}
	if _, err := h.Reopen(ctx); err != nil {
		return fmt.Errorf("reopen: %w", err)
	}
	return remembers(ctx, h, id, wanted...)
}

// answerLost loses the answer of a commit: the publisher is dead, and the next
// one finds the messages if and only if it finds the memory.
func answerLost(afterEffect bool) func(context.Context, *Harness) error {
	return func(ctx context.Context, h *Harness) error {
		topic, err := h.topic(ctx, "t", 2)
		if err != nil {
			return err
		}
		id := h.name("pub")
		pub, err := h.publisher(ctx, id)
		if err != nil {
			return fmt.Errorf("open publisher: %w", err)
		}
		if err := pub.Publish(ctx, texts(topic, 0, "a"), []stream.Change{set("k", "1"), set("d", "1")}); err != nil {
			return fmt.Errorf("publish: %w", err)
		}
		h.LoseAnswer(afterEffect)
		msgs := append(texts(topic, 0, "b"), texts(topic, 1, "c")...)
		if err := pub.Publish(ctx, msgs, []stream.Change{set("k", "2"), {Key: "d"}}); err == nil {
			return errors.New("publish without an answer gave no error")
		} else if errors.Is(err, stream.ErrFenced) {
			return fmt.Errorf("publish without an answer says that it was fenced: %w", err)
		}
		if err := pub.Publish(ctx, texts(topic, 0, "d"), nil); err == nil {
			return errors.New("a publisher lived on after an unknown outcome")
		}
		if err := pub.Close(); err != nil {
			return fmt.Errorf("close: %w", err)
		}
		zero, one, remembered := []string{"a"}, []string(nil), []string{"d=1", "k=1"}
		if afterEffect {
			zero, one, remembered = []string{"a", "b"}, []string{"c"}, []string{"k=2"}
		}
		return errors.Join(
			remembers(ctx, h, id, remembered...),
			holds(ctx, h.Log, stream.Partition{Topic: topic, Index: 0}, zero...),
			holds(ctx, h.Log, stream.Partition{Topic: topic, Index: 1}, one...),
		)
	}
}

func publishClosed(ctx context.Context, h *Harness) error {
	topic, err := h.topic(ctx, "t", 1)
	if err != nil {
		return err
	}
	pub, err := h.publisher(ctx, h.name("pub"))
	if err != nil {
		return fmt.Errorf("open publisher: %w", err)
	}
	if err := pub.Close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	if err := pub.Publish(ctx, texts(topic, 0, "a"), nil); err == nil {
		return errors.New("a closed publisher published")
	}
	return holds(ctx, h.Log, stream.Partition{Topic: topic})
}
