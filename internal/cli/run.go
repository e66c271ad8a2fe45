package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/peil-stream/peil"
	"github.com/peil-stream/peil/internal/config"
	"github.com/peil-stream/peil/internal/ingest"
	"github.com/peil-stream/peil/internal/transit/gtfsrt"
)

// replayFlags choose the captures to play.
type replayFlags struct {
	paths        []string
	feed, emit   string
	speed        string
	closeAtEnd   bool
	untilDone    bool
	withDraining bool
}

func (f *replayFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.paths, "replay", nil, "Play captures: folders or files of GTFS-Realtime, .pb or .json, also .gz. More may follow as arguments.")
	annotate(flags.Lookup("replay"), annotatePlaceholder, "PATH…")
	flags.StringVar(&f.feed, "feed", "", "Name of the feed that the captures are of; it is the prefix of all ids.")
	annotate(flags.Lookup("feed"), annotatePlaceholder, "NAME")
	annotate(flags.Lookup("feed"), annotateDefault, "the only feed of the configuration")
	flags.StringVar(&f.emit, "emit", "", "What becomes an event: predictions (each that changed) or arrivals (each stop once it is passed).")
	annotate(flags.Lookup("emit"), annotatePlaceholder, "WHAT")
	annotate(flags.Lookup("emit"), annotateDefault, "that of the feed in the configuration, else predictions")
	flags.StringVar(&f.speed, "speed", "max", "max as fast as possible, 1 in real time, 60 a minute in a second.")
	annotate(flags.Lookup("speed"), annotatePlaceholder, "FACTOR")
	flags.BoolVar(&f.closeAtEnd, "close", false, "Close the windows at the end: the capture is complete.")
	if f.withDraining {
		flags.BoolVar(&f.untilDone, "until-done", false, "End once everything published is in the tables.")
	}
	settingFlag(flags, "partitions", "topics.partitions", "N")
	completeWords(cmd, "emit", []string{config.EmitPredictions, config.EmitArrivals})
}

// source makes the source of the captures, or nil without any.
func (f *replayFlags) source(a *app, l *config.Loaded, args []string) (*replaySource, error) {
	if len(f.paths) == 0 {
		switch {
		case len(args) > 0:
			return nil, usageError("name captures with --replay", "unexpected argument %q", args[0])
		case f.feed != "" || f.emit != "" || f.closeAtEnd || f.untilDone:
			return nil, usageError("name captures with --replay PATH", "--feed, --emit, --close and --until-done need --replay")
		}
		return nil, nil //nolint:nilnil // no captures is not an error
	}
	s := &replaySource{feed: f.feed, options: ingest.Options{
		Paths: append(append([]string(nil), f.paths...), args...), Close: f.closeAtEnd, Progress: a.progress(),
	}}
	var err error
	if s.emit, err = f.choose(l.Config, &s.feed); err != nil {
		return nil, err
	}
	if s.options.Speed, err = parseSpeed(f.speed); err != nil {
		return nil, err
	}
	return s, nil
}

// choose finds feed and emit from flags and configuration.
func (f *replayFlags) choose(c config.Config, feed *string) (gtfsrt.Emit, error) {
	if *feed == "" {
		if len(c.Feeds) != 1 {
			return 0, usageError("as in --feed nl", "--replay needs --feed, the name of the feed that the captures are of")
		}
		*feed = c.Feeds[0].Name
	}
	if err := config.CheckFeedName(*feed); err != nil {
		return 0, usageError("", "--feed: %w", err)
	}
	emit := f.emit
	for _, known := range c.Feeds {
		if emit == "" && known.Name == *feed {
			emit = known.Emit
		}
	}
	if emit == "" {
		emit = config.EmitPredictions
	}
	parsed, err := gtfsrt.ParseEmit(emit)
	if err != nil {
		return 0, usageError("", "--emit: %w", err)
	}
	return parsed, nil
}

func parseSpeed(text string) (float64, error) {
	if text == "max" {
		return 0, nil
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || !(x > 0 && x <= 1e9) {
		return 0, usageError("", "--speed %q is neither max nor a factor above 0 such as 1 or 60", text)
	}
	return x, nil
}

// progress shows how far a replay is, on a terminal.
func (a *app) progress() func(ingest.Progress) {
	if !isTerminal(a.stderr) {
		return nil
	}
	var last time.Time
	return func(p ingest.Progress) {
		end := p.Done == p.Total
		if now := time.Now(); end || now.Sub(last) > progressEvery {
			last = now
			text := fmt.Sprintf("%d of %d snapshots, %d events", p.Done, p.Total, p.Events)
			if p.Reading {
				text = fmt.Sprintf("%d of %d headers read", p.Done, p.Total)
			}
			if end && !p.Reading {
				text += "\n"
			}
			_, _ = io.WriteString(a.stderr, "\r\x1b[K"+text) // only a picture
		}
	}
}

// progressEvery is how often a picture of the progress is redrawn.
const progressEvery = 200 * time.Millisecond

// printReport says what a replay did: what was left out and what could not be
// read, by name, and then the sum.
func (a *app) printReport(s *replaySource) {
	r := &s.report
	var b strings.Builder
	for _, s := range r.Skipped {
		fmt.Fprintf(&b, "skipped %s: %s\n", s.Path, strings.ReplaceAll(string(s.Reason), "_", " "))
	}
	for _, f := range r.Failures {
		fmt.Fprintf(&b, "not decoded %s: %v\n", f.Path, f.Err)
	}
	for reason, n := range r.Tally.All() {
		fmt.Fprintf(&b, "in the snapshots: %s %s\n", counted(n, "time"), strings.ReplaceAll(reason.String(), "_", " "))
	}
	what := "prediction"
	if s.emit == gtfsrt.Arrivals {
		what = "arrival"
	}
	fmt.Fprintf(&b, "published %s and %s of %s", counted(r.Predictions, what), counted(r.Positions, "position"), counted(r.Snapshots, "snapshot"))
	if r.NotNewer > 0 {
		fmt.Fprintf(&b, "; not newer than what the topic holds: %s", counted(r.NotNewer, "snapshot"))
	}
	if r.CloseMarkers > 0 {
		fmt.Fprintf(&b, "; windows closed")
	}
	if r.Interrupted {
		fmt.Fprintf(&b, "; interrupted, the same command goes on from here")
	}
	b.WriteByte('\n')
	_, _ = io.WriteString(a.stderr, b.String()) // standard error may be closed; the exit code says the rest
}

// printLosses says what of a batch is in no row: a person would miss it.
func (a *app) printLosses(i *peil.Instance) {
	var b strings.Builder
	if n := i.Late(); n > 0 {
		fmt.Fprintf(&b, "%s in no row: late, the log had closed their windows before they came\n", counted(int(n), "record"))
	}
	for _, d := range i.DeadLetters() {
		fmt.Fprintf(&b, "%s in no row: dead letters, %s\n", counted(int(d.N), "record"), d.Name)
	}
	_, _ = io.WriteString(a.stderr, b.String()) // as above
}

// counted gives "1 file" and "2 files".
func counted(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + one + "s"
}

func newRunCommand(a *app) *cobra.Command {
	f := replayFlags{withDraining: true}
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Ingest, process and serve in one process, by one configuration.",
		Example: `# A batch job: a capture in, its rows out; killed, the same command goes on.
peil run --replay ./capture --feed nl --emit arrivals --close --until-done

# By a configuration file, until stopped.
peil run --config peil.yaml`,
		GroupID: groupRun,
		Args:    cobra.ArbitraryArgs, // more paths
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := a.config(cmd)
			if err != nil {
				return err
			}
			src, err := f.source(a, l, args)
			if err != nil {
				return err
			}
			if src == nil && len(l.Config.Feeds) > 0 {
				return explain(fmt.Errorf("feeds: polling over HTTP is %w; play captures with --replay", peil.ErrUnsupported))
			}
			cfg := peil.Config{
				Settings: l.Config, Process: true, Serve: !f.untilDone || listens(l), UntilDone: f.untilDone,
			}
			if f.untilDone {
				cfg.Logger = a.warnings(a.stderr)
			}
			if src == nil {
				a.log.Warn("nothing to ingest, only what is in the log is processed; play captures with --replay")
			}
			return a.runReplay(cmd.Context(), src, f.untilDone, cfg)
		},
	}
	f.add(cmd)
	return cmd
}

func newIngestCommand(a *app) *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "ingest",
		Short: "Turn GTFS-Realtime snapshots into events on the log, each once.",
		Example: `# Play recorded snapshots as fast as they go.
peil ingest --replay ./capture --feed nl

# A minute of the recording in a second, and close its windows at the end.
peil ingest --replay ./monday ./tuesday --feed nl --speed 60 --close`,
		GroupID: groupRun,
		Args:    cobra.ArbitraryArgs, // more paths
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := a.config(cmd)
			if err != nil {
				return err
			}
			src, err := f.source(a, l, args)
			if err != nil {
				return err
			}
			if src == nil {
				return usageError("peil ingest --replay ./capture --feed nl", "nothing to ingest: name captures with --replay")
			}
			return a.runReplay(cmd.Context(), src, false, peil.Config{Settings: l.Config, Serve: listens(l), Logger: a.warnings(a.stderr)})
		},
	}
	f.add(cmd)
	return cmd
}

// runReplay runs an instance with a replay, if there is one, and says what was
// played. A capture of which a file could not be decoded ends in exit code 1.
func (a *app) runReplay(ctx context.Context, src *replaySource, untilDone bool, cfg peil.Config) error {
	if src != nil {
		cfg.Source = src
	}
	i, err := a.run(ctx, cfg, nil)
	if src != nil && src.report.Files > 0 {
		a.printReport(src)
	}
	if err != nil {
		return err
	}
	if ctx.Err() != nil && untilDone {
		return errors.Join(context.Cause(ctx), ctx.Err())
	}
	if untilDone {
		a.printLosses(i)
		if err := a.printOpen(i.OpenWindows()); err != nil {
			return err
		}
	}
	if src != nil && src.report.Failed > 0 {
		return &ExitError{
			Code: ExitFailure, Err: fmt.Errorf("%s of the capture could not be decoded", counted(src.report.Failed, "file")),
			Hint: "named above; everything else was published",
		}
	}
	return nil
}
