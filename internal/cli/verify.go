package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/peil-stream/peil"
	"github.com/peil-stream/peil/internal/config"
	"github.com/peil-stream/peil/internal/dlq"
	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/internal/verify"
)

func newVerifyCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Compute every row anew from the log and compare; exit 3 if anything differs.",
		Example: `# Beside a running process, or after it.
peil verify --data-dir ./peil-data

# Which tables differ, and how often.
peil verify -o csv | cut -d, -f1 | sort | uniq -c

# Windows that wait, and for what.
peil verify -o json | jq '.pending[]'`,
		GroupID: groupCheck,
		Args:    noArgs,
	}
	out := a.outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o, err := out()
		if err != nil {
			return err
		}
		l, err := a.config(cmd)
		if err != nil {
			return err
		}
		report, err := a.verify(cmd.Context(), l.Config.WithDefaults())
		if err != nil {
			return err
		}
		if err := a.printVerify(o, &report); err != nil {
			return err
		}
		if !report.Clean() {
			return &ExitError{Code: ExitFindings}
		}
		return nil
	}
	return cmd
}

// verify runs the batch job over the log and the tables of a configuration.
func (a *app) verify(ctx context.Context, c config.Config) (report verify.Report, err error) {
	r, err := peil.OpenReaders(ctx, c, a.log)
	if err != nil {
		return report, explain(err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	arrivals, positions, err := verifiedTopics(ctx, c, r.Log)
	if err != nil {
		return report, explain(err)
	}
	report, err = verify.Run(ctx, verify.Options{
		Viewer: r.Tables, Reader: r.Log,
		ArrivalsTopics: arrivals, PositionsTopics: positions,
		WindowSize: c.Window.Size.Std(), Lateness: c.Window.Lateness.Std(), MaxSkew: c.Future.MaxSkew.Std(),
		Fingerprint: c.Fingerprint(),
		Progress:    a.verifyProgress(),
	})
	if _, ok := errors.AsType[*verify.FingerprintError](err); ok {
		return report, &ExitError{
			Code: ExitUsage, Err: err,
			Hint: "set window.size, window.lateness and future.max_skew to what the rows were made with",
		}
	}
	return report, explain(err)
}

// verifiedTopics are the topics of the configured feeds. Where topics carry the
// name of their feed and no feed is configured, as after a replay, they are those
// of the log that have the form.
func verifiedTopics(ctx context.Context, c config.Config, log stream.Reader) (arrivals, positions []string, err error) {
	feeds := map[string]bool{}
	for _, f := range c.Feeds {
		feeds[f.Name] = true
	}
	const anyFeed = "\x00" // in no topic's name
	form, _ := c.TopicsOf(anyFeed)
	before, after, named := strings.Cut(form, anyFeed)
	switch {
	case !named:
		feeds = map[string]bool{"": true} // all feeds share the topics
	default:
		// The log may carry feeds that the configuration does not name.
		names, err := log.Topics(ctx)
		if err != nil {
			return nil, nil, fmt.Errorf("list topics: %w", err)
		}
		for _, name := range names {
			feed, ok := strings.CutPrefix(name, before)
			feed, ends := strings.CutSuffix(feed, after)
			if ok && ends && config.CheckFeedName(feed) == nil && !strings.HasPrefix(name, dlq.Topic("")) {
				feeds[feed] = true
			}
		}
	}
	for feed := range feeds {
		a, p := c.TopicsOf(feed)
		arrivals, positions = append(arrivals, a), append(positions, p)
	}
	slices.Sort(arrivals)
	slices.Sort(positions)
	return arrivals, positions, nil
}

// verifyProgress shows how far the reading is, on a terminal.
func (a *app) verifyProgress() func(done, total int64) {
	if !isTerminal(a.stderr) {
		return nil
	}
	var last time.Time
	return func(done, total int64) {
		// Only a picture: nobody is harmed if it cannot be drawn.
		switch now := time.Now(); {
		case done >= total:
			_, _ = io.WriteString(a.stderr, "\r\x1b[K")
		case now.Sub(last) > 200*time.Millisecond:
			last = now
			_, _ = fmt.Fprintf(a.stderr, "\r\x1b[K%d of %d offsets read", done, total)
		}
	}
}

// waitingShown is how many entries of each list that is no difference a table
// shows; JSON has more.
const waitingShown = 20

// printVerify prints the differences as a listing, and around them what was
// compared. JSON is the whole report. In CSV standard output is the differences
// alone, and the rest a message.
func (a *app) printVerify(o *output, r *verify.Report) error {
	differences := listing{columns: []string{"table", "key", "column", "stored", "expected"}}
	for _, d := range r.Differences {
		differences.add(d.Table, d.Key, d.Column, d.Stored, d.Expected)
	}
	switch o.format {
	case formatJSON:
		return o.document(r)
	case formatCSV:
		// Standard error may be closed; the data goes on.
		_, _ = io.WriteString(a.stderr, verifySummary(r))
		return o.list(differences)
	}
	if err := o.write([]byte(verifySummary(r))); err != nil {
		return err
	}
	if len(differences.rows) > 0 {
		if err := o.write([]byte("\n")); err != nil {
			return err
		}
		if err := o.list(differences); err != nil {
			return err
		}
		if err := o.more(len(differences.rows), r.DifferenceCount); err != nil {
			return err
		}
	}
	return o.waiting(r)
}

// verifySummary says what was compared, and with what outcome.
func verifySummary(r *verify.Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "read %s; compared %s, %s, %s, %s and %s\n",
		count(r.Records, "record"), count(int64(r.Partitions), "stored position"), count(r.Segments, "segment"),
		count(r.Windows, "window"), count(r.Rows, "row"), count(r.StateRows, "newest row"))
	if r.Windows == 0 {
		b.WriteString("nothing to compare in delay_aggregates: no window is closed and merged\n")
	}
	for _, n := range []struct {
		count int64
		what  string
	}{
		{r.PendingCount, "closed and not yet merged"},
		{r.ToBeRevisedCount, "to be revised"},
	} {
		if n.count > 0 {
			fmt.Fprintf(&b, "%s %s\n", count(n.count, "window"), n.what)
		}
	}
	if r.UnjudgedCount > 0 {
		fmt.Fprintf(&b, "%s cannot be judged\n", count(r.UnjudgedCount, "entry"))
	}
	if r.Clean() {
		b.WriteString("no differences\n")
	} else {
		b.WriteString(count(r.DifferenceCount, "difference") + "\n")
	}
	return b.String()
}

// waiting prints what is neither right nor wrong.
func (o *output) waiting(r *verify.Report) error {
	pending := listing{columns: []string{"pending_window", "topic", "partitions", "reason"}}
	for _, p := range head(r.Pending) {
		partitions := strings.Trim(fmt.Sprint(p.Partitions), "[]")
		pending.add(p.WindowStart, p.Topic, partitions, p.Reason)
	}
	revised := listing{columns: []string{"window_to_be_revised", "topic", "partition", "records"}}
	for _, v := range head(r.ToBeRevised) {
		revised.add(v.WindowStart, v.Topic, v.Partition, v.Records)
	}
	unjudged := listing{columns: []string{"not_judged_in", "key", "reason"}}
	for _, u := range head(r.Unjudged) {
		unjudged.add(u.Table, u.Key, u.Reason)
	}
	for _, part := range []struct {
		listing
		total int64
	}{{pending, r.PendingCount}, {revised, r.ToBeRevisedCount}, {unjudged, r.UnjudgedCount}} {
		if len(part.rows) == 0 {
			continue
		}
		if err := o.write([]byte("\n")); err != nil {
			return err
		}
		if err := o.list(part.listing); err != nil {
			return err
		}
		if err := o.more(len(part.rows), part.total); err != nil {
			return err
		}
	}
	return nil
}

// more says how many entries of a list are not shown.
func (o *output) more(shown int, total int64) error {
	if left := total - int64(shown); left > 0 {
		return o.write(fmt.Appendf(nil, "… and %d more\n", left))
	}
	return nil
}

func head[T any](list []T) []T { return list[:min(len(list), waitingShown)] }

// count gives 1 window, 2 windows.
func count(n int64, what string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(what, "y"):
		what = strings.TrimSuffix(what, "y") + "ies"
	default:
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
