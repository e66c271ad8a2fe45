package processor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/stream"
)

// Error is an error that a person can do something about.
type Error struct {
	Err  error
	hint string
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Hint says what to do, in one sentence.
func (e *Error) Hint() string { return e.hint }

// Errors that end a processor.
var (
	// ErrFenced: another process has claimed a partition of this one.
	ErrFenced = errors.New("another process has claimed the partition")
	// ErrLost: the log no longer holds what must be read.
	ErrLost = errors.New("the log no longer holds records that were not processed")
	// ErrTruncated: the log ends before the position that was already read.
	ErrTruncated = errors.New("the log ends below what was already read")
	// ErrInconsistent: the stored row of a partition contradicts itself.
	ErrInconsistent = errors.New("the stored row of the partition contradicts itself")
	errTaskEnded    = errors.New("task ended")
)

const freshSchema = "start over with an empty database (another data_dir or sink.url); everything that the log still holds is then computed anew"

// mismatch explains a stored row that belongs to something else.
func mismatch(err *sink.MismatchError) error {
	hint := freshSchema
	switch err.What {
	case "topic_id":
		hint = "the topic was deleted and created again, so every stored offset and segment of it is void: " + freshSchema
	case "group_id":
		hint = "one consumer group per database: set kafka.group to the stored one, or use another database"
	case "fingerprint":
		hint = "window size, lateness and max_skew cannot change for stored windows: set them back, or " + freshSchema
	}
	return &Error{Err: err, hint: hint}
}

func lost(p stream.Partition, next, start int64) error {
	return &Error{
		Err:  fmt.Errorf("partition %s: %w: offsets %d to %d (%d offsets) are gone", p, ErrLost, next, start-1, start-next),
		hint: "a longer retention of the topic prevents this; " + freshSchema,
	}
}

func truncated(p stream.Partition, position, end int64) error {
	return &Error{
		Err:  fmt.Errorf("partition %s: %w: it ends at %d, and %d was read", p, ErrTruncated, end, position),
		hint: "the log was cut or replaced, and stored rows may count records that are no longer there: " + freshSchema,
	}
}

func fenced(ps []stream.Partition) error {
	return &Error{
		Err:  fmt.Errorf("partition %s: %w; nothing more is written", ps[0], ErrFenced),
		hint: "see who owns it in consumer_offsets.owner, stop one of the two processes, and start this one again",
	}
}

// patiently calls f until it succeeds, fails for good, or database or log have
// not answered for the given time. The pause grows to a second.
func patiently(ctx context.Context, patience time.Duration, waiting func(error), f func() error) error {
	const first, most = 50 * time.Millisecond, time.Second
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for pause := first; ; pause = min(pause*2, most) {
		err := f()
		if err == nil || !errors.Is(err, sink.ErrTransient) && !errors.Is(err, stream.ErrUnavailable) {
			return err
		}
		waiting(err)
		retry := time.NewTimer(pause)
		select {
		case <-retry.C:
		case <-deadline.C:
			retry.Stop()
			return &Error{
				Err:  fmt.Errorf("no answer for %s: %w", patience, err),
				hint: "nothing was committed past what is written; start again when database and log are back",
			}
		case <-ctx.Done():
			retry.Stop()
			return errors.Join(context.Cause(ctx), err)
		}
	}
}
