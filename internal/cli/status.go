package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/peil-stream/peil"
	"github.com/peil-stream/peil/internal/api"
	"github.com/peil-stream/peil/internal/sink"
)

func newStatusCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show how far every partition is, what is held and why, and who holds finality.",
		Example: `# Beside a running process, or after it.
peil status --data-dir ./peil-data

# For a script: partitions whose log is ahead of what was read.
peil status -o json | jq '.partitions[] | select(.lag > 0)'`,
		GroupID: groupCheck,
		Args:    noArgs,
	}
	out := a.outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		o, err := out()
		if err != nil {
			return err
		}
		l, err := a.config(cmd)
		if err != nil {
			return err
		}
		r, err := peil.OpenReaders(cmd.Context(), l.Config, a.log)
		if err != nil {
			return explain(err)
		}
		defer func() { err = errors.Join(err, r.Close()) }()
		st, err := api.ReadStatus(cmd.Context(), r.Tables, r.Log, api.StatusOptions{
			WindowSize: l.Config.Window.Size.Std(), Windowed: peil.Windowed(l.Config), Detail: true,
		})
		if err != nil {
			return explain(err)
		}
		return a.printStatus(o, st)
	}
	return cmd
}

func (a *app) printStatus(o *output, st api.Status) error {
	if o.format == formatJSON {
		return o.document(st)
	}
	l := listing{columns: []string{
		"topic", "partition", "next_offset", "position", "log_end", "lag", "uncommitted", "held_since",
		"watermark", "final_to", "accepted", "late", "dead", "ignored", "epoch", "owner", "note",
	}}
	for i := range st.Partitions {
		p := &st.Partitions[i]
		l.add(p.Topic, p.Partition, integer(p.NextOffset), integer(p.Position), integer(p.LogEnd), integer(p.Lag),
			integer(p.Uncommitted), moment(p.HeldSince), moment(p.Watermark), moment(p.FinalTo),
			p.Accepted, p.Late, p.Dead, p.Ignored, p.Epoch, p.Owner, note(p))
	}
	if err := o.list(l); err != nil || o.format != formatTable {
		return err
	}
	var b strings.Builder
	for _, t := range st.Topics {
		if !t.Windowed {
			continue
		}
		fmt.Fprintf(&b, "\n%s: %s", t.Topic, finalTo(t.FinalTo))
		for _, h := range t.Holders {
			fmt.Fprintf(&b, "; partition %d %s", h.Partition, h.Explanation)
		}
	}
	if b.Len() > 0 {
		b.WriteByte('\n')
	}
	return o.write([]byte(b.String()))
}

// note says what stands out about a partition.
func note(p *api.PartitionStatus) any {
	switch {
	case p.Problem != "":
		return p.Problem
	case p.HeldWindow != nil:
		return fmt.Sprintf("held by the window %s to %s", clock(p.HeldWindow.Start), clock(p.HeldWindow.End))
	default:
		return nil
	}
}

func finalTo(i api.Instant) string {
	switch {
	case !i.Known():
		return "no window is final yet"
	case int64(i) == sink.Infinity:
		return "every closed window is final"
	default:
		return "windows are final up to " + clock(i)
	}
}

func integer(x *int64) any {
	if x == nil {
		return nil
	}
	return *x
}

func moment(i api.Instant) any {
	switch {
	case !i.Known():
		return nil
	case int64(i) == sink.Infinity:
		return "∞"
	default:
		return clock(i)
	}
}

// clock prints an instant for people, in UTC.
func clock(i api.Instant) string { return time.UnixMilli(int64(i)).UTC().Format("2006-01-02 15:04:05") }
