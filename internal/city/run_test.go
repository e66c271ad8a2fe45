package city

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/peil-stream/peil/internal/ingest"
	"github.com/peil-stream/peil/internal/sqlitefile"
	"github.com/peil-stream/peil/internal/stream"
	streamsqlite "github.com/peil-stream/peil/internal/stream/sqlite"
	"github.com/peil-stream/peil/internal/transit/gtfsrt"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// published is one call of an ingester.
type published struct {
	Header  time.Time
	Fetched time.Time
	Extra   int
}

// fakeIngester remembers what it was given, and fails from a poll on.
type fakeIngester struct {
	last  int64
	polls []published
	fail  map[int]error
}

func (f *fakeIngester) Last(gtfsrt.Kind) int64 { return f.last }

func (f *fakeIngester) Publish(
	_ context.Context, s *gtfsrt.Snapshot, fetched time.Time, extra ...stream.Message,
) (ingest.Result, error) {
	if err := f.fail[len(f.polls)]; err != nil {
		return ingest.Result{}, err
	}
	f.last = s.Header
	f.polls = append(f.polls, published{time.UnixMilli(s.Header).UTC(), fetched.UTC(), len(extra)})
	return ingest.Result{Parts: 1}, nil
}

func (f *fakeIngester) headers() []time.Time {
	var at []time.Time
	for _, p := range f.polls {
		at = append(at, p.Header)
	}
	return at
}

// clock is a wall clock that moves only when somebody waits.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

func (c *clock) wait(ctx context.Context, until time.Time) error {
	if until.After(c.now) {
		c.now = until
	}
	return ctx.Err()
}

func grid(from time.Time, polls int) []time.Time {
	var at []time.Time
	for n := range polls {
		at = append(at, from.Add(time.Duration(n)*30*time.Second))
	}
	return at
}

func smallCity(t *testing.T) *City {
	t.Helper()
	return newCity(t, Config{Lines: 3})
}

func TestRunCatchesUpAndNeverPassesTheClock(t *testing.T) {
	t.Parallel()
	c := smallCity(t)
	wall := &clock{now: monday.Add(10 * time.Minute)}
	ing := &fakeIngester{last: gtfsrt.NoTime}
	var seen []time.Time
	waits := 0
	err := c.Run(t.Context(), ing, RunOptions{
		From: monday.Add(-11 * time.Second), Polls: 25, Now: wall.Now,
		Wait: func(ctx context.Context, until time.Time) error {
			if until.After(wall.now) {
				waits++
			}
			return wall.wait(ctx, until)
		},
		OnPoll: func(at time.Time, r ingest.Result) {
			seen = append(seen, at)
			if r.Parts != 1 {
				t.Errorf("result %+v", r)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := grid(monday, 25)
	if diff := cmp.Diff(want, ing.headers()); diff != "" {
		t.Errorf("polls mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("OnPoll mismatch (-want +got):\n%s", diff)
	}
	for _, p := range ing.polls {
		if p.Header.After(p.Fetched) {
			t.Errorf("the poll of %v was published at %v", p.Header, p.Fetched)
		}
	}
	// The first 21 lie in the past; only the rest has to be waited for.
	if waits != 4 || !ing.polls[20].Fetched.Equal(monday.Add(10*time.Minute)) {
		t.Errorf("waited %d times; poll 21 at %v", waits, ing.polls[20].Fetched)
	}
}

func TestRunGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	c := smallCity(t)
	for _, tt := range []struct {
		name string
		last time.Time
		from time.Time
		want []time.Time
	}{
		{"after the last poll", monday.Add(90 * time.Second), monday, grid(monday.Add(2*time.Minute), 6)},
		{"all published", monday.Add(270 * time.Second), monday, nil},
		{"last off the grid", monday.Add(91 * time.Second), monday, grid(monday.Add(2*time.Minute), 6)},
		{"asleep for longer than it is to catch up with", monday.Add(-5 * time.Hour), monday, grid(monday, 10)},
		{"just before the beginning", monday.Add(-30 * time.Second), monday, grid(monday, 10)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wall := &clock{now: monday.Add(time.Hour)}
			ing := &fakeIngester{last: tt.last.UnixMilli()}
			if err := c.Run(t.Context(), ing, RunOptions{From: tt.from, Polls: 10, Now: wall.Now, Wait: wall.wait}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, ing.headers()); diff != "" {
				t.Errorf("polls mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRunAddsNoiseOnceWindowsCanClose(t *testing.T) {
	t.Parallel()
	c := smallCity(t)
	wall := &clock{now: monday.Add(time.Hour)}
	for _, noise := range []bool{true, false} {
		ing := &fakeIngester{last: gtfsrt.NoTime}
		err := c.Run(t.Context(), ing, RunOptions{
			From: monday, Polls: 20, Now: wall.Now, Wait: wall.wait,
			Noise: noise, Topics: Topics{Arrivals: "a"}, Partitions: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range ing.polls {
			if want := noise && !p.Header.Before(monday.Add(noiseAfter)); (p.Extra > 0) != want {
				t.Errorf("the poll of %v has %d messages of noise", p.Header, p.Extra)
			}
		}
	}
}

func TestRunEndsWithItsContextAndReportsFailures(t *testing.T) {
	t.Parallel()
	c := smallCity(t)
	broken := errors.New("disk on fire")
	wall := &clock{now: monday.Add(time.Hour)}
	o := RunOptions{From: monday, Now: wall.Now, Wait: wall.wait}

	ing := &fakeIngester{last: gtfsrt.NoTime, fail: map[int]error{3: fmt.Errorf("publish: %w", stream.ErrFenced)}}
	if err := c.Run(t.Context(), ing, o); !errors.Is(err, stream.ErrFenced) || len(ing.polls) != 3 {
		t.Errorf("fenced: %v after %d polls", err, len(ing.polls))
	}

	ctx, cancel := context.WithCancelCause(t.Context())
	ing = &fakeIngester{last: gtfsrt.NoTime}
	stopping := o
	stopping.OnPoll = func(time.Time, ingest.Result) {
		if len(ing.polls) == 5 {
			cancel(broken)
		}
	}
	if err := c.Run(ctx, ing, stopping); err != nil || len(ing.polls) != 5 {
		t.Errorf("stopped: %v after %d polls", err, len(ing.polls))
	}
	// A failure is one, also while stopping; the cause of the stop is none.
	for _, tt := range []struct {
		name string
		err  error
		want error
	}{{"cause", broken, nil}, {"canceled", context.Canceled, nil}, {"other", stream.ErrFenced, stream.ErrFenced}} {
		late := o
		late.Wait = func(context.Context, time.Time) error { return nil }
		ing = &fakeIngester{last: gtfsrt.NoTime, fail: map[int]error{0: tt.err}}
		if err := c.Run(ctx, ing, late); !errors.Is(err, tt.want) || tt.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
}

func TestRunRefusesImpossibleOptions(t *testing.T) {
	t.Parallel()
	c := smallCity(t)
	for name, o := range map[string]RunOptions{
		"no beginning":      {},
		"half a second":     {From: monday, Poll: 500 * time.Millisecond},
		"a second and more": {From: monday, Poll: 1500 * time.Millisecond},
		"negative polls":    {From: monday, Polls: -1},
		"noise to nowhere":  {From: monday, Noise: true},
	} {
		ing := &fakeIngester{last: gtfsrt.NoTime}
		if err := c.Run(t.Context(), ing, o); err == nil || len(ing.polls) > 0 {
			t.Errorf("%s: %v after %d polls", name, err, len(ing.polls))
		}
	}
}

func TestRunKeepsPaceWithTheClock(t *testing.T) {
	t.Parallel()
	c := smallCity(t)
	synctest.Test(t, func(t *testing.T) {
		<-time.After(time.Hour) // a bubble begins with 2000, and nothing older is plausible
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute+10*time.Second)
		defer cancel()
		ing := &fakeIngester{last: gtfsrt.NoTime}
		if err := c.Run(ctx, ing, RunOptions{From: start.Add(-2 * time.Minute)}); err != nil {
			t.Fatal(err)
		}
		if got := time.Since(start); got != 5*time.Minute+10*time.Second {
			t.Errorf("ended after %v", got)
		}
		if want := grid(start.Add(-2*time.Minute).UTC(), 15); !slices.Equal(ing.headers(), want) {
			t.Errorf("polls at %v, want %v", ing.headers(), want)
		}
		for n, p := range ing.polls {
			if want := start.Add(max(0, time.Duration(n-4)*30*time.Second)); !p.Fetched.Equal(want) {
				t.Errorf("poll %d at %v, want %v", n, p.Fetched, want)
			}
		}
	})
}

func TestWaiterWaitsAgainWhenTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		now := func() time.Time {
			if time.Since(start) >= time.Minute {
				return time.Now().Add(-time.Hour)
			}
			return time.Now()
		}
		if err := waiter(now)(t.Context(), start.Add(2*time.Minute)); err != nil {
			t.Fatal(err)
		}
		if got := time.Since(start); got != time.Hour+2*time.Minute {
			t.Errorf("waited %v", got)
		}
	})
}

func TestFirstPollHasAWholeWindowBeforeIt(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name               string
		now                time.Duration
		back, window, poll time.Duration
		want               time.Duration
	}{
		{"an hour back", 8*time.Hour + 3*time.Minute, time.Hour, 5 * time.Minute, 30 * time.Second, 7*time.Hour + 30*time.Second},
		{"on the edge", 8 * time.Hour, time.Hour, 5 * time.Minute, 30 * time.Second, 7*time.Hour + 30*time.Second},
		{"slow polls", 8 * time.Hour, time.Hour, 5 * time.Minute, 60 * time.Second, 7*time.Hour + time.Minute},
		{"fast polls", 8 * time.Hour, time.Hour, 5 * time.Minute, 10 * time.Second, 7*time.Hour + 30*time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := FirstPoll(monday.Add(tt.now), tt.back, tt.window, tt.poll)
			if want := monday.Add(tt.want); !got.Equal(want) {
				t.Errorf("FirstPoll = %v, want %v", got, want)
			}
		})
	}
}

// world is a log that a city is played into.
type world struct {
	log *streamsqlite.Log
}

func newWorld(t *testing.T) *world {
	t.Helper()
	file, err := sqlitefile.Open(t.Context(), filepath.Join(t.TempDir(), "peil.db"), sqlitefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &world{}
	if w.log, err = streamsqlite.New(t.Context(), file, streamsqlite.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.log.Close(); err != nil {
			t.Error(err)
		}
	})
	err = w.log.Create(t.Context(), stream.TopicSpec{Name: "arrivals", Partitions: 3}, stream.TopicSpec{Name: "positions", Partitions: 3})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// play runs the city up to a total of polls, and stops it after some of them.
func (w *world) play(t *testing.T, c *City, polls, stopAfter int) (played int) {
	t.Helper()
	ing, err := ingest.Open(t.Context(), w.log, ingest.Config{
		Feed: "city", ArrivalsTopic: "arrivals", PositionsTopic: "positions",
	}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := ing.Close(); err != nil {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	wall := &clock{now: monday.Add(9 * time.Hour)}
	err = c.Run(ctx, ing, RunOptions{
		From: monday.Add(8 * time.Hour), Polls: polls, Now: wall.Now, Wait: wall.wait,
		Noise: true, Topics: Topics{Arrivals: "arrivals", Positions: "positions"}, Partitions: 3,
		OnPoll: func(time.Time, ingest.Result) {
			if played++; played == stopAfter {
				cancel()
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return played
}

// records reads the whole log, without the log's own timestamps.
func (w *world) records(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, topic := range []string{"arrivals", "positions"} {
		for p := range int32(3) {
			part := stream.Partition{Topic: topic, Index: p}
			bounds, err := stream.BoundsOf(t.Context(), w.log, part)
			if err != nil {
				t.Fatal(err)
			}
			for rec, err := range w.log.Read(t.Context(), part, bounds.Start, bounds.End) {
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, fmt.Sprintf("%v@%d %q %q %q", part, rec.Offset, rec.Key, rec.Value, rec.Headers))
			}
		}
	}
	return all
}

// How: one log gets 16 polls in one go; the other one's player is stopped three
// times and begins anew, with a new city and a new ingester, in the same place.
func TestStoppedCityGoesOnExactly(t *testing.T) {
	t.Parallel()
	cfg := Config{Seed: 11, Lines: 6}
	const polls = 16
	whole, pieces := newWorld(t), newWorld(t)
	if n := whole.play(t, newCity(t, cfg), polls, 0); n != polls {
		t.Fatalf("%d polls", n)
	}
	played := 0
	for _, stop := range []int{5, 1, 7, 0, 0} {
		played += pieces.play(t, newCity(t, cfg), polls, stop)
	}
	if played != polls {
		t.Errorf("%d polls in pieces", played)
	}
	want, got := whole.records(t), pieces.records(t)
	if len(want) < 5000 {
		t.Errorf("only %d records", len(want))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("logs differ (-whole +pieces):\n%s", diff)
	}
}
