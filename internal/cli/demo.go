package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/peil-stream/peil"
	"github.com/peil-stream/peil/internal/city"
	"github.com/peil-stream/peil/internal/config"
)

const (
	// cityPoll is the time between two snapshots of it.
	cityPoll = 30 * time.Second
	// cityBack is how long before now a simulation begins.
	cityBack = time.Hour
	// demoWindows is how many final windows the summary shows.
	demoWindows = 8
)

type demoFlags struct {
	seed  uint64
	from  string
	polls int
	noise bool
}

func newDemoCommand(a *app) *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run the whole job on a simulated city: feed, log, windows, tables and API in one process.",
		Example: `# An hour of the city first, as fast as it goes, then in real time.
peil demo

# Another city, somewhere else, on a port that is free.
peil demo --seed 7 --data-dir ./my-city --listen 127.0.0.1:0

# A batch of 200 polls that ends by itself, the same every time.
peil demo --seed 7 --data-dir ./batch --from 2026-11-30T06:00:00Z --polls 200`,
		GroupID: groupRun,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := a.config(cmd)
			if err != nil {
				return err
			}
			return a.demo(cmd.Context(), l, f)
		},
	}
	flags := cmd.Flags()
	flags.Uint64Var(&f.seed, "seed", 1, "Which city, and everything that happens in it. Each but 1 is a feed of its own, city<seed>.")
	annotate(flags.Lookup("seed"), annotatePlaceholder, "N")
	flags.StringVar(&f.from, "from", "", "When the simulation begins, RFC 3339, in the past.")
	annotate(flags.Lookup("from"), annotatePlaceholder, "TIME")
	annotate(flags.Lookup("from"), annotateDefault, "an hour ago, or where the last run ended")
	flags.IntVar(&f.polls, "polls", 0, "End after so many polls from the beginning, once all is written. 0 goes on for ever.")
	annotate(flags.Lookup("polls"), annotatePlaceholder, "N")
	flags.BoolVar(&f.noise, "noise", true, "Add disorder, bad records and a wrong clock; --noise=false leaves them out.")
	settingFlag(flags, "partitions", "topics.partitions", "N")
	return cmd
}

func (a *app) demo(ctx context.Context, l *config.Loaded, f demoFlags) error {
	now := time.Now()
	from := city.FirstPoll(now, cityBack, l.Config.Window.Size.Std(), cityPoll)
	if f.from != "" {
		var err error
		if from, err = time.Parse(time.RFC3339, f.from); err != nil || from.After(now) {
			return usageError("give a time in the past, as in --from 2026-11-30T06:00:00Z", "--from %q is not a time in the past", f.from)
		}
	}
	if f.polls < 0 {
		return usageError("", "--polls %d is negative", f.polls)
	}
	feed := cityFeed(f.seed)
	c, err := city.New(city.Config{Seed: f.seed, Feed: feed})
	if err != nil {
		return explain(err)
	}
	src := &citySource{city: c, feed: feed, options: city.RunOptions{
		From: from, Poll: cityPoll, Polls: f.polls, Noise: f.noise,
	}}
	s := &summary{
		out: a.stdout, terminal: isTerminal(a.stdout) && a.env("TERM") != "dumb", style: a.styleOf(a.stdout),
		feed: feed, windows: demoWindows, polled: src.newest, next: src.next,
	}
	i, err := a.run(ctx, peil.Config{
		Settings: l.Config, Source: src, Process: true, Serve: f.polls == 0 || listens(l), UntilDone: f.polls > 0,
		Logger: a.demoLogger(s),
	}, s.run)
	if err != nil {
		return err
	}
	if f.polls > 0 && ctx.Err() != nil {
		return errors.Join(context.Cause(ctx), ctx.Err())
	}
	if f.polls > 0 {
		return a.printOpen(i.OpenWindows())
	}
	return nil
}

// demoLogger puts the log above the picture on a terminal, and leaves out lines
// that need nobody, but for a user who asks for them.
func (a *app) demoLogger(s *summary) *slog.Logger {
	if !s.terminal {
		return a.log
	}
	if !isTerminal(a.stderr) {
		return a.warnings(a.stderr)
	}
	return a.warnings(s.above(a.stderr))
}

// cityFeed is the name of the feed of a city. Each city has its own, because a
// topic carries one feed.
func cityFeed(seed uint64) string {
	if seed == 1 {
		return "city"
	}
	return "city" + strconv.FormatUint(seed, 10)
}

// newest is the time of the newest poll, or zero.
func (s *citySource) newest() time.Time {
	if ms := s.polled.Load(); ms != 0 {
		return time.UnixMilli(ms)
	}
	return time.Time{}
}

// next is the time of the poll to come, or zero after the last one.
func (s *citySource) next() time.Time {
	at := s.newest().Add(s.options.Poll)
	if s.newest().Before(s.options.From) {
		at = s.options.From
	}
	if n := s.options.Polls; n > 0 && !at.Before(s.options.From.Add(time.Duration(n)*s.options.Poll)) {
		return time.Time{}
	}
	return at
}

// printOpen lists the windows that are still open at the end of a batch.
func (a *app) printOpen(open []peil.OpenWindow) error {
	if len(open) == 0 {
		_, err := fmt.Fprintln(a.stdout, "Every window is closed and in the tables.")
		return err
	}
	if _, err := fmt.Fprintln(a.stdout, "Windows still open, their records are read again by the next run:"); err != nil {
		return err
	}
	l := listing{columns: []string{"window_start", "window_end", "records"}}
	for _, w := range open {
		l.add(time.UnixMilli(w.Start), time.UnixMilli(w.End), w.Records)
	}
	return (&output{format: formatTable, w: a.stdout, style: a.styleOf(a.stdout)}).list(l)
}
