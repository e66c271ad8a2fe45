package streamtest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/peil-stream/peil/internal/stream"
)

// publisherChecks are of publishers that fail, die, or take over.
func publisherChecks() []Check {
	return []Check{
		{Name: "publisher/failed", Run: publisherFailed},
		{Name: "publisher/cancelled", Run: publisherCancelled},
		{Name: "publisher/dead in the middle", Run: publisherDead, needs: needsDeaths},
		{Name: "publisher/taken over at once", Run: publisherTakenOver},
		{Name: "publisher/published again", Run: publisherAgain, needs: needsLostAnswers},
		{Name: "publisher/names alike", Run: publisherNames},
		{Name: "publisher/much memory", Run: publisherMemory},
	}
}

// seenByAll says that readers and a new consumer see exactly these values.
func seenByAll(ctx context.Context, h *Harness, p stream.Partition, wanted ...string) error {
	if err := holds(ctx, h.Log, p, wanted...); err != nil {
		return err
	}
	// Whatever the consumer must not see lies before what it is waited for.
	if err := h.Log.Append(ctx, texts(p.Topic, p.Index, "last")...); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	b, err := stream.BoundsOf(ctx, h.Log, p)
	if err != nil {
		return fmt.Errorf("bounds: %w", err)
	}
	m, err := join(ctx, h.Log, stream.Subscription{Group: h.name("seen-by-all"), Topics: []string{p.Topic}}, &member{
		start: func(stream.Partition) int64 { return b.Start },
	})
	if err != nil {
		return err
	}
	wanted = append(slices.Clone(wanted), "last")
	if err = m.waitFor(ctx, p, len(wanted)); err == nil {
		err = same("consumer of "+p.String(), m.got(p), wanted)
	}
	return errors.Join(err, m.stop(ctx))
}

// publisherFailed fails a publish with its last message: nobody sees the others.
func publisherFailed(ctx context.Context, h *Harness) error {
	topic, err := h.topic(ctx, "t", 1)
	if err != nil {
		return err
	}
	id := h.name("pub")
	pub, err := h.publisher(ctx, id)
	if err != nil {
		return fmt.Errorf("open publisher: %w", err)
	}
	bad := append(texts(topic, 0, "a", "b"), texts(topic, 7, "c")...)
	if err := pub.Publish(ctx, bad, []stream.Change{set("k", "1")}); err == nil || errors.Is(err, stream.ErrFenced) {
		return fmt.Errorf("publish to a partition that does not exist: %w", orNone(err))
	}
	if err := pub.Close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	if err := holds(ctx, h.Log, stream.Partition{Topic: topic}); err != nil {
		return err
	}
	if pub, err = h.publisher(ctx, id); err != nil {
		return fmt.Errorf("open publisher: %w", err)
	}
	if err := same("memory", memory(pub), nil); err != nil {
		return err
	}
	if err := errors.Join(pub.Publish(ctx, texts(topic, 0, "d"), nil), pub.Close()); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	return seenByAll(ctx, h, stream.Partition{Topic: topic}, "d")
}

func publisherCancelled(ctx context.Context, h *Harness) error {
	topic, err := h.topic(ctx, "t", 1)
	if err != nil {
		return err
	}
	id := h.name("pub")
	pub, err := h.publisher(ctx, id)
	if err != nil {
		return fmt.Errorf("open publisher: %w", err)
	}
	done, cancel := context.WithCancel(ctx)
	cancel()
	err = pub.Publish(done, texts(topic, 0, "a", "b"), []stream.Change{set("k", "1")})
	if err := want("Publish under a context that is done", err, context.Canceled); err != nil {
		return err
	}
	if err := pub.Publish(ctx, texts(topic, 0, "c"), nil); err == nil {
		return errors.New("a publisher lived on after an error")
	}
	if err := pub.Close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	if err := remembers(ctx, h, id); err != nil {
		return err
	}
	return seenByAll(ctx, h, stream.Partition{Topic: topic})
}

// publisherDead leaves a transaction open: the next publisher of the id ends
// it, so that it holds nobody who reads what comes after it.
func publisherDead(ctx context.Context, h *Harness) error {
	topic, err := h.topic(ctx, "t", 1)
	if err != nil {
		return err
	}
	p := stream.Partition{Topic: topic}
	id := h.name("pub")
	pub, err := h.publisher(ctx, id)
	if err != nil {
		return fmt.Errorf("open publisher: %w", err)
	}
	if err := errors.Join(pub.Publish(ctx, texts(topic, 0, "a"), []stream.Change{set("k", "1")}), pub.Close()); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	if err := h.Die(ctx, id, p); err != nil {
		return fmt.Errorf("die: %w", err)
	}
	if pub, err = h.publisher(ctx, id); err != nil {
		return fmt.Errorf("open publisher: %w", err)
	}
	if err := same("memory", memory(pub), []string{"k=1"}); err != nil {
		return err
	}
	if err := h.Log.Append(ctx, texts(topic, 0, "b")...); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	if err := holds(ctx, h.Log, p, "a", "b"); err != nil {
		return err
	}
	if err := errors.Join(pub.Publish(ctx, texts(topic, 0, "c"), nil), pub.Close()); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	return seenByAll(ctx, h, p, "a", "b", "c")
}

// publisherTakenOver fences a publisher between its read-back and its first
// publish.
func publisherTakenOver(ctx context.Context, h *Harness) error {
	topic, err := h.topic(ctx, "t", 1)
	if err != nil {
		return err
	}
	id := h.name("pub")
	older, err := h.publisher(ctx, id)
	if err != nil {
		return fmt.Errorf("open publisher: %w", err)
	}
	newer, err := h.publisher(ctx, id)
	if err != nil {
		return fmt.Errorf("open publisher: %w", err)
	}
	if err := newer.Publish(ctx, texts(topic, 0, "a", "b"), []stream.Change{set("k", "1")}); err != nil {
		return fmt.Errorf("publish of the newer publisher: %w", err)
	}
	err = older.Publish(ctx, texts(topic, 0, "a", "b"), []stream.Change{set("k", "1")})
	if err := want("Publish of the older publisher", err, stream.ErrFenced); err != nil {
		return err
	}
	if err := errors.Join(older.Close(), newer.Publish(ctx, texts(topic, 0, "c"), nil), newer.Close()); err != nil {
		return fmt.Errorf("publish of the newer publisher: %w", err)
	}
	if err := remembers(ctx, h, id, "k=1"); err != nil {
		return err
	}
	return seenByAll(ctx, h, stream.Partition{Topic: topic}, "a", "b", "c")
}

// publisherAgain loses answers and publishes what the memory says is missing:
// everything is there once.
func publisherAgain(ctx context.Context, h *Harness) error {
	topic, err := h.topic(ctx, "t", 1)
	if err != nil {
		return err
	}
	id := h.name("pub")
	var wanted []string
	for i, step := range numbered("", 4) {
		pub, err := h.publisher(ctx, id)
		if err != nil {
			return fmt.Errorf("open publisher: %w", err)
		}
		batch := []string{step + "-x", step + "-y"}
		wanted = append(wanted, batch...)
		h.LoseAnswer(i%2 == 0)
		if err := pub.Publish(ctx, texts(topic, 0, batch...), []stream.Change{set(step, "done")}); err == nil {
			return errors.New("publish without an answer gave no error")
		}
		if err := pub.Close(); err != nil {
			return fmt.Errorf("close: %w", err)
		}
		if pub, err = h.publisher(ctx, id); err != nil {
			return fmt.Errorf("open publisher: %w", err)
		}
		if !slices.Contains(memory(pub), step+"=done") {
			err = pub.Publish(ctx, texts(topic, 0, batch...), []stream.Change{set(step, "done")})
		}
		if err := errors.Join(err, pub.Close()); err != nil {
			return fmt.Errorf("publish: %w", err)
		}
	}
	return seenByAll(ctx, h, stream.Partition{Topic: topic}, wanted...)
}

// publisherNames has publishers whose ids and keys read the same when they are
// joined.
func publisherNames(ctx context.Context, h *Harness) error {
	topic, err := h.topic(ctx, "t", 1)
	if err != nil {
		return err
	}
	keys := map[string]string{"p": "q:r:k", "p:q": "r:k", "p:q:r": "k", "p:": "q:r:k"}
	pubs := make(map[string]stream.Publisher)
	for id := range keys {
		if pubs[id], err = h.publisher(ctx, h.name(id)); err != nil {
			return fmt.Errorf("open publisher: %w", err)
		}
	}
	for id, key := range keys {
		if err := pubs[id].Publish(ctx, texts(topic, 0, id), []stream.Change{set(key, id), set("gone", id)}); err != nil {
			return fmt.Errorf("publish as %q: %w", id, err)
		}
	}
	err = errors.Join(
		pubs["p"].Publish(ctx, nil, []stream.Change{{Key: "gone"}}),
		pubs["p"].Close(), pubs["p:q"].Close(), pubs["p:q:r"].Close(), pubs["p:"].Close(),
		remembers(ctx, h, h.name("p"), "q:r:k=p"),
	)
	for id, key := range keys {
		if id != "p" {
			err = errors.Join(err, remembers(ctx, h, h.name(id), "gone="+id, key+"="+id))
		}
	}
	return err
}

// publisherMemory remembers 10,000 keys, the most that a feed of a country has
// trips at a time.
func publisherMemory(ctx context.Context, h *Harness) error {
	const keys = 10_000
	id := h.name("pub")
	var wanted []string
	for round := range 2 {
		pub, err := h.publisher(ctx, id)
		if err != nil {
			return fmt.Errorf("open publisher: %w", err)
		}
		if err := same("memory", memory(pub), wanted); err != nil {
			return err
		}
		changes := make([]stream.Change, keys)
		wanted = wanted[:0]
		for i := range changes {
			changes[i] = set(fmt.Sprintf("nl:trip-%05d|20261207|", i), fmt.Sprintf("%0100d", i+round))
			wanted = append(wanted, changes[i].Key+"="+string(changes[i].Value))
		}
		if err := errors.Join(pub.Publish(ctx, nil, changes), pub.Close()); err != nil {
			return fmt.Errorf("publish: %w", err)
		}
	}
	if _, err := h.Reopen(ctx); err != nil {
		return fmt.Errorf("reopen: %w", err)
	}
	return remembers(ctx, h, id, wanted...)
}
