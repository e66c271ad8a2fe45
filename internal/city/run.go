package city

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/peil-stream/peil/internal/ingest"
	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/internal/transit/gtfsrt"
)

// pollDefault is how often real feeds are commonly polled.
const pollDefault = 30 * time.Second

// noiseAfter is how long a simulation runs before its noise begins: until then an
// event far behind would not be late, but would open a window of its own.
const noiseAfter = 3 * time.Minute

// Ingester is what a simulation publishes through; an [ingest.Ingester] is one.
type Ingester interface {
	// Publish turns a snapshot into events and publishes them with the extra
	// messages in one transaction.
	Publish(ctx context.Context, s *gtfsrt.Snapshot, fetched time.Time, extra ...stream.Message) (ingest.Result, error)
	// Last is the header time of the last snapshot that was published, in Unix
	// milliseconds, or [gtfsrt.NoTime].
	Last(kind gtfsrt.Kind) int64
}

// RunOptions say how a simulation runs.
type RunOptions struct {
	// From is where it begins: with the first multiple of Poll since the epoch
	// that is not before it. See [FirstPoll]. Required.
	From time.Time
	// Poll is the time between two polls, whole seconds. Defaults to 30 s.
	Poll time.Duration
	// Polls is the number of polls from From on, those of earlier runs
	// included, after which it ends; 0 is none.
	Polls int
	// Noise adds [City.Noise], from three minutes after the beginning on.
	Noise bool
	// Topics and Partitions are where noise goes.
	Topics     Topics
	Partitions int32
	// Now is the wall clock. Defaults to time.Now.
	Now func() time.Time
	// Wait returns at an instant of that clock, or with an error when ctx ends.
	// Defaults to a timer.
	Wait func(ctx context.Context, until time.Time) error
	// OnPoll is called after each poll with its time and what was published.
	OnPoll func(at time.Time, r ingest.Result)
}

func (o RunOptions) withDefaults() RunOptions {
	if o.Poll == 0 {
		o.Poll = pollDefault
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Wait == nil {
		o.Wait = waiter(o.Now)
	}
	if o.OnPoll == nil {
		o.OnPoll = func(time.Time, ingest.Result) {}
	}
	return o
}

func (o RunOptions) validate() error {
	switch {
	case o.From.IsZero():
		return errors.New("from is missing")
	case o.Poll < time.Second || o.Poll%time.Second != 0:
		return fmt.Errorf("poll: %v is not whole seconds", o.Poll)
	case o.Polls < 0:
		return fmt.Errorf("polls: %d is below zero", o.Polls)
	case o.Noise && o.Topics == Topics{}:
		return errors.New("noise needs the names of topics")
	}
	return nil
}

// waiter waits by a timer, again if the clock was set back meanwhile.
func waiter(now func() time.Time) func(ctx context.Context, until time.Time) error {
	return func(ctx context.Context, until time.Time) error {
		for left := until.Sub(now()); left > 0; left = until.Sub(now()) {
			timer := time.NewTimer(left)
			select {
			case <-ctx.Done():
				timer.Stop()
				return ctx.Err()
			case <-timer.C:
			}
		}
		return ctx.Err()
	}
}

// Run polls the town and publishes what it says. It goes on after the last poll
// that the ingester knows of, as fast as it can until it has caught up with the
// wall clock, then in its pace; no poll is published before its time. It returns
// nil when ctx ends or all polls are published.
func (c *City) Run(ctx context.Context, ing Ingester, o RunOptions) error {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return fmt.Errorf("run the city: %w", err)
	}
	begin := gridded(o.From, o.Poll)
	at, quiet := begin, begin.Add(noiseAfter)
	if last := ing.Last(gtfsrt.TripUpdates); last != gtfsrt.NoTime && last >= at.UnixMilli() {
		at = gridded(time.UnixMilli(last+1), o.Poll)
	}
	for ; o.Polls == 0 || at.Before(begin.Add(time.Duration(o.Polls)*o.Poll)); at = at.Add(o.Poll) {
		err := o.Wait(ctx, at)
		if err == nil {
			err = c.poll(ctx, ing, &o, at, !at.Before(quiet))
		}
		switch {
		case err == nil:
		case ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))):
			return nil // stopping is no failure; what was published stays
		default:
			return fmt.Errorf("poll of %s: %w", at.Format(time.RFC3339), err)
		}
	}
	return nil
}

// poll publishes one poll.
func (c *City) poll(ctx context.Context, ing Ingester, o *RunOptions, at time.Time, noisy bool) error {
	body, err := proto.Marshal(c.Message(at))
	if err != nil {
		return fmt.Errorf("encode the feed: %w", err)
	}
	s, err := gtfsrt.Decode(body)
	if err != nil {
		return fmt.Errorf("decode the feed: %w", err)
	}
	var noise []stream.Message
	if o.Noise && noisy {
		noise = c.Noise(at, o.Topics, o.Partitions)
	}
	r, err := ing.Publish(ctx, s, o.Now(), noise...)
	if err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	o.OnPoll(at, r)
	return nil
}

// FirstPoll chooses where a simulation begins that has some time to catch up: the
// first poll whose vehicles have all reported within one window, at least back
// before now. So its first window is a whole one.
func FirstPoll(now time.Time, back, window, poll time.Duration) time.Time {
	start := floorDiv(now.Add(-back).UnixNano(), int64(window)) * int64(window)
	return gridded(time.Unix(0, start).Add(reportOldest*time.Second), poll)
}

// gridded rounds an instant up to a multiple of the poll interval since the epoch.
func gridded(t time.Time, poll time.Duration) time.Time {
	return time.Unix(0, -floorDiv(-t.UnixNano(), int64(poll))*int64(poll)).UTC()
}
