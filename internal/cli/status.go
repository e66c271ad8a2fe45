package cli

import (
	"errors"
	"fmt"
	"strconv"
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
	wide := cmd.Flags().Bool("wide", false, "All columns, on lines of some 250 characters. JSON and CSV always have them.")
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
		return printStatus(o, &st, *wide)
	}
	return cmd
}

func printStatus(o *output, st *api.Status, wide bool) error {
	switch {
	case o.format == formatJSON:
		return o.document(st)
	case o.format == formatTable && !wide:
		return o.write([]byte(statusText(st, o.style)))
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
	b.WriteString("\nTimes are in UTC.\n")
	for i := range st.Topics {
		finality(&b, printable(st.Topics[i].Topic)+": ", &st.Topics[i])
	}
	return o.write([]byte(b.String()))
}

// statusText is the status for a person: a table for each topic that fits 80
// columns, and below it who holds what.
func statusText(st *api.Status, s style) string {
	var b strings.Builder
	b.WriteString("Times are in UTC.\n")
	for i := range st.Topics {
		t := &st.Topics[i]
		b.WriteString("\n" + s.bold(printable(t.Topic)) + "\n")
		l := listing{columns: []string{"partition", "next_offset", "uncommitted", "lag", "late", "dead", "watermark"}}
		var notes folded
		for j := range st.Partitions {
			p := &st.Partitions[j]
			if p.Topic != t.Topic {
				continue
			}
			l.add(p.Partition, integer(p.NextOffset), integer(p.Uncommitted), integer(p.Lag), p.Late, p.Dead, moment(p.Watermark))
			if text := note(p); text != nil {
				notes.add(p.Partition, fmt.Sprint(text))
			}
		}
		b.Write(l.table(style{}))
		for _, n := range notes {
			fmt.Fprintf(&b, "%s: %s\n", n.who(), printable(n.text))
		}
		finality(&b, "", t)
	}
	return b.String()
}

// finality says, after a prefix, how far the windows of a topic are final, and who
// holds them.
func finality(b *strings.Builder, prefix string, t *api.TopicStatus) {
	if !t.Windowed {
		return
	}
	b.WriteString(prefix + finalTo(t.FinalTo) + "\n")
	var holders folded
	for _, h := range t.Holders {
		holders.add(h.Partition, h.Explanation)
	}
	for _, h := range holders {
		each := ""
		if len(h.partitions) > 1 {
			each = "each of "
		}
		fmt.Fprintf(b, "  %s%s %s\n", each, h.who(), h.text)
	}
}

// folded is texts about partitions, each once.
type folded []about

type about struct {
	text       string
	partitions []int32 // ascending
}

// add notes a text about a partition; partitions come in order.
func (f *folded) add(partition int32, text string) {
	for i := range *f {
		if a := &(*f)[i]; a.text == text {
			a.partitions = append(a.partitions, partition)
			return
		}
	}
	*f = append(*f, about{text, []int32{partition}})
}

// who gives partition 4, or partitions 0-2, 5.
func (a *about) who() string {
	var ranges []string
	for i := 0; i < len(a.partitions); i++ {
		first := i
		for i+1 < len(a.partitions) && a.partitions[i+1] == a.partitions[i]+1 {
			i++
		}
		text := strconv.Itoa(int(a.partitions[first]))
		if i > first {
			text += "-" + strconv.Itoa(int(a.partitions[i]))
		}
		ranges = append(ranges, text)
	}
	word := "partition "
	if len(a.partitions) > 1 {
		word = "partitions "
	}
	return word + strings.Join(ranges, ", ")
}

// note says what stands out about a partition.
func note(p *api.PartitionStatus) any {
	switch {
	case p.Problem != "":
		return p.Problem
	case p.HeldWindow != nil:
		start, end := clock(p.HeldWindow.Start), clock(p.HeldWindow.End)
		if day := start[:len(time.DateOnly)+1]; strings.HasPrefix(end, day) {
			end = end[len(day):]
		}
		return "held by the window " + start + " to " + end
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
func clock(i api.Instant) string { return time.UnixMilli(int64(i)).UTC().Format(time.DateTime) }
