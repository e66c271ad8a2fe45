package verify

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/peil-stream/peil/internal/sink"
)

// compareOffsets compares the rows of consumer_offsets with what the log says
// about their partitions.
func (v *verifier) compareOffsets() {
	known := map[string]*topic{}
	for _, t := range v.topics {
		known[t.Name] = t
		for _, p := range t.parts {
			v.compareOffset(t, p)
		}
		v.unprocessed(t)
	}
	for _, o := range v.tables.offsetRows {
		key := o.Partition.String()
		switch t := known[o.Partition.Topic]; {
		case t == nil:
			v.report.unjudge(tableOffsets, key, "the topic is not among those to verify")
		case o.Partition.Index < 0 || o.Partition.Index >= t.Partitions:
			v.report.differ(tableOffsets, key, WholeRow, "present", fmt.Sprintf("the log has %d partitions of this topic", t.Partitions))
		}
	}
}

// unprocessed judges a topic whose log closes windows although nothing of it was
// ever stored. Empty tables are no right result for it, unless a process has
// claimed it: one that has just begun, or died before its first flush, leaves
// exactly that, and its windows are pending.
func (v *verifier) unprocessed(t *topic) {
	if !t.windowed || t.processed() {
		return
	}
	closed := map[int64][]int32{}
	for _, p := range t.parts {
		for start, w := range p.windows {
			if w.through != stillOpen {
				closed[start] = append(closed[start], p.id.Index)
			}
		}
	}
	if len(closed) == 0 {
		return
	}
	owner := ""
	for _, p := range t.parts {
		owner = cmp.Or(owner, p.row.Owner)
	}
	if owner == "" {
		v.report.differ(tableOffsets, t.Name, "position", "null",
			fmt.Sprintf("not null: nothing of the log was processed, and it closes windows (%d)", len(closed)))
		return
	}
	for _, start := range slices.Sorted(maps.Keys(closed)) {
		v.report.pend(Pending{
			Topic: t.Name, WindowStart: instant(start), WindowEnd: instant(v.end(start)), Partitions: closed[start],
			Reason: "nothing was flushed yet; " + owner + " has claimed the topic",
		})
	}
}

func (v *verifier) compareOffset(t *topic, p *partition) {
	key := p.id.String()
	differ := func(column, stored, expected string) { v.report.differ(tableOffsets, key, column, stored, expected) }
	switch {
	case !p.hasRow:
		if t.processed() {
			v.report.unjudge(tableOffsets, key, "the partition has no row: nothing of it was processed")
		}
		return
	case p.foreign:
		differ("topic_id", p.row.TopicID, t.ID)
		v.report.unjudge(tableOffsets, key, "the row belongs to an earlier topic of this name")
		return
	case !p.row.Stored:
		for _, c := range []struct {
			column string
			at     int64
		}{{"watermark", p.row.Watermark}, {"final_to", p.row.FinalTo}} {
			if c.at != sink.NoTime {
				differ(c.column, instant(c.at), instant(sink.NoTime))
			}
		}
		if p.row.Counts != (sink.Counts{}) {
			v.compareCounts(p, differ)
		}
		return
	}
	v.report.Partitions++
	if at := p.row.Point.Position; at < p.bounds.Start || at > p.bounds.End {
		differ("position", number(at), fmt.Sprintf("%d to %d, the bounds of the log", p.bounds.Start, p.bounds.End))
	}
	if p.known && p.firstTime != sink.NoTime && t.windowed {
		if least := v.end(p.firstTime + v.maxSkew); p.coldMark < least {
			v.report.differ("incidents", key, "detail", instant(p.coldMark), "a cold start at "+instant(least)+" or later")
		}
	}
	if v.untouched(p) {
		v.report.unjudge(tableOffsets, key, "nothing was read yet: reading begins at offset "+number(p.row.Point.Position))
	}
	v.compareWatermark(p, differ)
	v.compareNext(p, differ)
	v.compareCounts(p, differ)
	v.compareFinalTo(p, differ)
}

type differFunc func(column, stored, expected string)

// compareWatermark compares the stored watermark. What was trimmed from the log
// can have set it too, but not higher than its records' log timestamps allow.
func (v *verifier) compareWatermark(p *partition, differ differFunc) {
	stored := p.row.Watermark
	if !p.trimmed() {
		if stored != p.watermark {
			differ("watermark", instant(stored), instant(p.watermark))
		}
		return
	}
	if stored < p.raised {
		differ("watermark", instant(stored), instant(p.raised)+" or later")
		return
	}
	if stored == p.raised {
		return
	}
	if p.firstTime != sink.NoTime && stored > p.firstTime+max(v.maxSkew, v.size) {
		differ("watermark", instant(stored), instant(p.raised))
		return
	}
	v.report.unjudge(tableOffsets, p.id.String(), "watermark "+instant(stored)+" was set by records that the log no longer holds")
}

// compareNext compares next_offset with the first record that a restart must read
// again: the first one of a window that is still open.
func (v *verifier) compareNext(p *partition, differ differFunc) {
	stored := p.row.Point.Next
	if stored < p.bounds.Start {
		differ("next_offset", number(stored), fmt.Sprintf("at least %d, where the log begins", p.bounds.Start))
		return
	}
	if p.trimmed() && p.row.Watermark < p.begins {
		v.report.unjudge(tableOffsets, p.id.String(), "next_offset "+number(stored)+
			" may stand at a window that began before the log does")
		return
	}
	if next := p.next(); stored != next {
		differ("next_offset", number(stored), number(next))
	}
}

func (p *partition) next() int64 {
	next := p.row.Point.Position
	for _, w := range p.open {
		next = min(next, w.first)
	}
	return next
}

// compareCounts compares the counts. Where records are missing from what was read
// they can only be too small.
func (v *verifier) compareCounts(p *partition, differ differFunc) {
	stored, least := p.row.Counts, p.counts
	if p.trimmed() || p.known && v.hasEarlierStay(p) {
		v.report.unjudge(tableOffsets, p.id.String(), fmt.Sprintf("counts include records before offset %d, which were not read", p.from))
		// A record that was accepted may be judged late now, not the reverse.
		if total := least.Accepted + least.Late; stored.Accepted+stored.Late < total {
			differ("accepted", number(stored.Accepted), fmt.Sprintf("at least %d with late", total))
		}
		least.Accepted, least.Late = stored.Accepted, stored.Late
		if stored.Dead < least.Dead {
			differ("dead", number(stored.Dead), "at least "+number(least.Dead))
		}
		if stored.Ignored < least.Ignored {
			differ("ignored", number(stored.Ignored), "at least "+number(least.Ignored))
		}
		return
	}
	for _, c := range []struct {
		column           string
		stored, expected int64
	}{
		{"accepted", stored.Accepted, least.Accepted},
		{"late", stored.Late, least.Late},
		{"dead", stored.Dead, least.Dead},
		{"ignored", stored.Ignored, least.Ignored},
	} {
		if c.stored != c.expected {
			differ(c.column, number(c.stored), number(c.expected))
		}
	}
}

// hasEarlierStay says whether the partition has segments from before its cold
// start: then its processor had been there before.
func (v *verifier) hasEarlierStay(p *partition) bool {
	for key, s := range v.tables.segments[p.id.Topic] {
		if key.partition == p.id.Index && s.FirstOffset < p.from {
			return true
		}
	}
	return false
}

// compareFinalTo compares final_to with the two values that it can have: the
// watermark, or for an idle partition the start of its oldest open window, or
// infinity without one.
func (v *verifier) compareFinalTo(p *partition, differ differFunc) {
	stored, active := p.row.FinalTo, p.watermark
	if p.trimmed() {
		active = p.row.Watermark
	}
	if stored == active {
		return
	}
	oldest := int64(math.MaxInt64)
	for start := range p.open {
		oldest = min(oldest, start)
	}
	idle := instant(sink.Infinity)
	switch {
	case oldest == math.MaxInt64 && stored == sink.Infinity, stored == oldest:
		return
	case oldest != math.MaxInt64:
		idle = instant(oldest)
	}
	if p.trimmed() && p.row.Watermark < p.begins {
		v.report.unjudge(tableOffsets, p.id.String(), "final_to "+instant(stored)+" may stand at a window that began before the log does")
		return
	}
	differ("final_to", instant(stored), instant(active)+", or "+idle+" while idle")
}
