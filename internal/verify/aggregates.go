package verify

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/peil-stream/peil/internal/sink"
)

// row is what a cell's row must say.
type row struct {
	end      int64
	operator string
	count    int64
	mean     float64
	p90      float64
	max, min int32
	topic    string
}

func (r row) columns() []column {
	return []column{
		{"window_end", instant(r.end)},
		{"operator", text(r.operator)},
		{"event_count", number(r.count)},
		{"mean_delay_s", float(r.mean)},
		{"p90_delay_s", float(r.p90)},
		{"max_delay_s", number(r.max)},
		{"min_delay_s", number(r.min)},
		{"topic", r.topic},
	}
}

func (r row) String() string {
	return fmt.Sprintf("event_count %d, mean_delay_s %s, p90_delay_s %s, max_delay_s %d, min_delay_s %d",
		r.count, float(r.mean), float(r.p90), r.max, r.min)
}

func (s *storedRow) row() row {
	return row{
		end: s.End, operator: s.Operator, count: s.Count, mean: s.Mean, p90: s.P90,
		max: s.Max, min: s.Min, topic: s.Topic,
	}
}

// merged is what all shares together say about one window: each cell's delays as
// one sorted list.
func merged(shares []*share, end int64, topic string) map[cell]row {
	all := map[cell]*delays{}
	for _, s := range shares {
		for c, d := range s.cells {
			sum := all[c]
			if sum == nil {
				sum = &delays{operator: d.operator}
				all[c] = sum
			}
			sum.operator = smaller(sum.operator, d.operator)
			sum.values = append(sum.values, d.values...)
		}
	}
	rows := make(map[cell]row, len(all))
	for c, d := range all {
		rows[c] = aggregate(d, end, topic)
	}
	return rows
}

// aggregate sorts the delays of a cell and reads its row off them.
func aggregate(d *delays, end int64, topic string) row {
	slices.Sort(d.values)
	n := len(d.values)
	var sum int64
	for _, x := range d.values {
		sum += int64(x)
	}
	nearestRank := (9*n + 9) / 10 // ceil(0.9 n), counted from 1
	return row{
		end: end, operator: d.operator, topic: topic,
		count: int64(n),
		mean:  float64(sum) / float64(n),
		p90:   float64(d.values[nearestRank-1]),
		max:   d.values[n-1],
		min:   d.values[0],
	}
}

// compareAggregates compares the rows of delay_aggregates, window by window.
func (v *verifier) compareAggregates() {
	expected := map[string]map[int64]map[cell]row{}
	for _, t := range v.topics {
		if t.windowed {
			expected[t.Name] = v.judgeWindows(t)
		}
	}
	for _, t := range v.topics {
		windows := expected[t.Name]
		for _, start := range slices.Sorted(maps.Keys(windows)) {
			v.compareWindow(t, start, windows[start], expected)
		}
	}
	v.compareLeftovers()
}

// judgeWindows says which rows each window of a topic must have, and names what
// is pending, to be revised or cannot be judged. The latter's rows are taken out
// of the comparison.
func (v *verifier) judgeWindows(t *topic) map[int64]map[cell]row {
	starts := map[int64]bool{}
	for start, rows := range v.tables.aggregates {
		for _, r := range rows {
			if r.Topic == t.Name {
				starts[start] = true
			}
		}
	}
	for _, p := range t.parts {
		if p.judged {
			for start := range p.windows {
				starts[start] = true
			}
		}
	}
	final := t.finalTo()
	out := make(map[int64]map[cell]row, len(starts))
	for _, start := range slices.Sorted(maps.Keys(starts)) {
		w := v.judgeWindow(t, start, start+v.size <= final)
		if w.unjudged != "" {
			for _, r := range v.tables.aggregates[start] {
				r.seen = r.seen || r.Topic == t.Name
			}
			v.report.unjudge(tableAggregates, instant(start)+" "+t.Name, w.unjudged)
			continue
		}
		v.reportWaiting(t, start, w)
		out[start] = merged(w.merged, start+v.size, t.Name)
	}
	return out
}

// verdict is what is known of one window of a topic.
type verdict struct {
	final bool
	// stored: delay_aggregates has rows of it.
	stored bool
	// merged are the shares that its rows must hold, waiting the partitions whose
	// segments are not merged yet, open those that have not closed it.
	merged  []*share
	waiting []int32
	sealed  bool
	open    []*partition
	// unjudged says why its rows cannot be compared, or is empty.
	unjudged string
}

func (v *verifier) judgeWindow(t *topic, start int64, final bool) verdict {
	w := verdict{final: final}
	for _, r := range v.tables.aggregates[start] {
		w.stored = w.stored || r.Topic == t.Name
	}
	earlier := false
	for _, p := range t.parts {
		segment, has := v.tables.segments[t.Name][segmentKey{start, p.id.Index}]
		earlier = earlier || has && segment.TopicID != t.ID
		switch {
		case p.foreign && has:
			w.unjudged = "the row of " + p.id.String() + " in consumer_offsets belongs to an earlier topic of this name"
		case !p.judged:
		case start+v.size <= p.begins:
			if p.trimmed() || has {
				w.unjudged = p.whyUnjudged()
			}
		case p.windows[start] == nil:
		case p.closed(start) == nil:
			w.open = append(w.open, p)
		case has && segment.MergedAt == sink.NoTime:
			w.waiting = append(w.waiting, p.id.Index)
			w.sealed = w.sealed || v.tables.sealed[sealedKey{p.id, segment.FirstOffset}]
		case has || final || w.stored:
			w.merged = append(w.merged, p.closed(start))
		}
	}
	if earlier && len(w.merged) == 0 {
		w.unjudged = "the window was written by an earlier topic of this name"
	}
	return w
}

// reportWaiting names what is not in the rows of a window and need not be yet.
func (v *verifier) reportWaiting(t *topic, start int64, w verdict) {
	from, to := instant(start), instant(start+v.size)
	if len(w.waiting) > 0 {
		p := Pending{Topic: t.Name, WindowStart: from, WindowEnd: to, Partitions: w.waiting, Final: w.final && !w.sealed}
		switch {
		case w.sealed:
			p.Reason = "sealed: the segment came after retention had emptied the window; it is stored and not merged"
		case w.final:
			p.Reason = "final, not merged yet"
		default:
			p.Reason = t.holder(start + v.size)
		}
		v.report.pend(p)
	}
	if !w.final && len(w.merged) == 0 {
		return // what is open of it is simply open
	}
	for _, p := range w.open {
		v.report.revise(Revision{
			Topic: t.Name, WindowStart: from, WindowEnd: to,
			Partition: p.id.Index, Records: p.windows[start].records,
		})
	}
}

// finalTo is up to where the windows of a topic are final: the least final_to of
// its partitions. One that is not known or belongs to another topic holds all;
// NoTime, which stands for that, is the least instant of all.
func (t *topic) finalTo() int64 {
	least := sink.Infinity
	for _, p := range t.parts {
		least = min(least, p.finalTo())
	}
	return least
}

func (p *partition) finalTo() int64 {
	if !p.hasRow || p.foreign {
		return sink.NoTime
	}
	return p.row.FinalTo
}

// holder names the partitions that keep a window from being final.
func (t *topic) holder(end int64) string {
	var names []string
	for _, p := range t.parts {
		if at := p.finalTo(); at < end {
			names = append(names, p.id.String()+" (final_to "+instant(at)+")")
		}
	}
	return "held by " + strings.Join(names, ", ")
}

// compareWindow compares the rows of one window of one topic, in both directions.
func (v *verifier) compareWindow(t *topic, start int64, rows map[cell]row, all map[string]map[int64]map[cell]row) {
	stored := v.tables.aggregates[start]
	cells := map[cell]bool{}
	for c := range rows {
		cells[c] = true
	}
	for c, r := range stored {
		if r.Topic == t.Name {
			cells[c] = true
		}
	}
	if len(cells) == 0 {
		return
	}
	v.report.Windows++
	v.report.Rows += int64(len(cells))
	for _, c := range slices.SortedFunc(maps.Keys(cells), compareCells) {
		want, expected := rows[c]
		have, has := stored[c]
		key := strings.Join([]string{instant(start), c.dimension, c.id}, " ")
		switch {
		case !has:
			v.report.differ(tableAggregates, key, WholeRow, "missing", want.String())
		case !expected:
			have.seen = true
			v.report.differ(tableAggregates, key, WholeRow, have.row().String(), "missing")
		case have.Topic != t.Name && belongs(all, have.Topic, start, c):
			// A row belongs to the topic that wrote it first, and the other one
			// leaves it alone.
			v.report.unjudge(tableAggregates, key, "topic "+t.Name+" has this key too; the row belongs to topic "+have.Topic)
		default:
			have.seen = true
			if have.row() != want {
				v.report.compareColumns(tableAggregates, key, have.row().columns(), want.columns())
			}
		}
	}
}

// belongs says whether a topic must have a row of that key.
func belongs(all map[string]map[int64]map[cell]row, topic string, start int64, c cell) bool {
	_, ok := all[topic][start][c]
	return ok
}

func compareCells(a, b cell) int {
	return cmp.Or(cmp.Compare(a.dimension, b.dimension), cmp.Compare(a.id, b.id))
}

// compareLeftovers looks at the rows of topics that are not verified. Those of a
// topic that was processed once may stand; no others.
func (v *verifier) compareLeftovers() {
	elsewhere := map[string]bool{}
	for _, o := range v.tables.offsetRows {
		elsewhere[o.Partition.Topic] = true
	}
	for _, t := range v.topics {
		delete(elsewhere, t.Name)
	}
	others := map[string]int64{}
	for _, start := range slices.Sorted(maps.Keys(v.tables.aggregates)) {
		rows := v.tables.aggregates[start]
		for _, c := range slices.SortedFunc(maps.Keys(rows), compareCells) {
			r := rows[c]
			switch {
			case r.seen:
			case elsewhere[r.Topic]:
				others[r.Topic]++
			default:
				v.report.Rows++
				v.report.differ(tableAggregates, strings.Join([]string{instant(start), c.dimension, c.id}, " "),
					WholeRow, "topic "+r.Topic, "missing: nothing of that topic goes into windows")
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(others)) {
		v.report.unjudge(tableAggregates, name, fmt.Sprintf("%d rows of a topic that is not among those to verify", others[name]))
	}
}
