package streamtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/peil-stream/peil/internal/stream"
)

func topicChecks() []Check {
	return []Check{
		{Name: "topics/created", Run: topicsCreated},
		{Name: "topics/unknown", Run: topicsUnknown},
		{Name: "topics/made again", Run: topicsAgain, needs: needsDelete},
	}
}

func topicsCreated(ctx context.Context, h *Harness) error {
	a, b := h.name("a"), h.name("b")
	err := h.Log.Create(ctx, stream.TopicSpec{Name: b, Partitions: 3}, stream.TopicSpec{Name: a, Partitions: 1})
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	first, err := h.Log.Describe(ctx, b, a)
	if err != nil {
		return fmt.Errorf("describe: %w", err)
	}
	if len(first) != 2 || first[0].Name != b || first[0].Partitions != 3 || first[1].Name != a || first[1].Partitions != 1 {
		return fmt.Errorf("describe(b, a) = %+v", first)
	}
	if first[0].ID == "" || first[0].ID == first[1].ID {
		return fmt.Errorf("topic ids %q and %q tell nothing apart", first[0].ID, first[1].ID)
	}
	// Topics that exist stay as they are.
	if err := h.Log.Create(ctx, stream.TopicSpec{Name: b, Partitions: 7}); err != nil {
		return fmt.Errorf("create of an existing topic: %w", err)
	}
	if _, err := h.Reopen(ctx); err != nil {
		return fmt.Errorf("reopen: %w", err)
	}
	again, err := h.Log.Describe(ctx, b, a)
	if err != nil {
		return fmt.Errorf("describe: %w", err)
	}
	if !slices.Equal(first, again) {
		return fmt.Errorf("topics changed from %+v to %+v", first, again)
	}
	names, err := h.Log.Topics(ctx)
	if err != nil {
		return fmt.Errorf("topics: %w", err)
	}
	if !slices.IsSorted(names) || !slices.Contains(names, a) || !slices.Contains(names, b) {
		return fmt.Errorf("topics() = %q", names)
	}
	return nil
}

func topicsUnknown(ctx context.Context, h *Harness) error {
	known, err := h.topic(ctx, "known", 1)
	if err != nil {
		return err
	}
	none := h.name("none")
	_, err = h.Log.Describe(ctx, known, none)
	if err := want("Describe", err, stream.ErrNoTopic); err != nil {
		return err
	}
	if !strings.Contains(err.Error(), none) {
		return fmt.Errorf("describe: the error does not name the topic: %w", err)
	}
	_, err = stream.BoundsOf(ctx, h.Log, stream.Partition{Topic: none})
	_, rerr := readRange(ctx, h.Log, stream.Partition{Topic: none}, 0, 1)
	return errors.Join(
		want("Bounds", err, stream.ErrNoTopic),
		want("Read", rerr, stream.ErrNoTopic),
		want("Append", h.Log.Append(ctx, texts(none, 0, "x")...), stream.ErrNoTopic),
	)
}

func topicsAgain(ctx context.Context, h *Harness) error {
	name, err := h.topic(ctx, "t", 1)
	if err != nil {
		return err
	}
	p := stream.Partition{Topic: name}
	if err := h.Log.Append(ctx, texts(name, 0, "old", "older")...); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	before, err := h.Log.Describe(ctx, name)
	if err != nil {
		return fmt.Errorf("describe: %w", err)
	}
	if err := h.Delete(ctx, name); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	_, err = h.Log.Describe(ctx, name)
	if err := want("Describe of the deleted topic", err, stream.ErrNoTopic); err != nil {
		return err
	}
	if _, err := h.topic(ctx, "t", 1); err != nil {
		return err
	}
	after, err := h.Log.Describe(ctx, name)
	if err != nil {
		return fmt.Errorf("describe: %w", err)
	}
	if after[0].ID == before[0].ID {
		return fmt.Errorf("the topic that was made again has the old id %s", after[0].ID)
	}
	b, err := stream.BoundsOf(ctx, h.Log, p)
	if err != nil || b != (stream.Bounds{}) {
		return fmt.Errorf("bounds = %+v, %w, want an empty partition", b, orNone(err))
	}
	if err := h.Log.Append(ctx, texts(name, 0, "new")...); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	return holds(ctx, h.Log, p, "new")
}
