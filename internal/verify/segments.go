package verify

import (
	"fmt"
	"maps"
	"slices"

	"github.com/peil-stream/peil/internal/sink"
)

// compareSegments compares the rows of window_segments with the windows that each
// partition has closed, in both directions.
func (v *verifier) compareSegments() {
	for _, t := range v.topics {
		if !t.windowed {
			continue
		}
		starts := make([]map[int64]bool, len(t.parts))
		for i, p := range t.parts {
			starts[i] = map[int64]bool{}
			if p.judged {
				for start := range p.windows {
					starts[i][start] = true
				}
			}
		}
		var beyond []segmentKey
		for key := range v.tables.segments[t.Name] {
			if key.partition < 0 || int(key.partition) >= len(starts) {
				beyond = append(beyond, key)
				continue
			}
			starts[key.partition][key.start] = true
		}
		for i, p := range t.parts {
			for _, start := range slices.Sorted(maps.Keys(starts[i])) {
				v.compareSegment(t, p, start)
			}
		}
		slices.SortFunc(beyond, func(a, b segmentKey) int { return slices.Compare(a.order(), b.order()) })
		for _, key := range beyond {
			v.report.differ(tableSegments, fmt.Sprintf("%s %s/%d", instant(key.start), t.Name, key.partition), WholeRow,
				"present", fmt.Sprintf("the log has %d partitions of this topic", t.Partitions))
		}
	}
}

func (k segmentKey) order() []int64 { return []int64{k.start, int64(k.partition)} }

// compareSegment compares what is stored of one window of one partition.
func (v *verifier) compareSegment(t *topic, p *partition, start int64) {
	stored, has := v.tables.segments[t.Name][segmentKey{start, p.id.Index}]
	w := p.closed(start)
	key := instant(start) + " " + p.id.String()
	differ := func(stored, expected string) { v.report.differ(tableSegments, key, WholeRow, stored, expected) }
	switch {
	case p.foreign:
		v.report.unjudge(tableSegments, key, "the partition's row belongs to an earlier topic of this name")
	case !p.judged:
		differ("present", "missing: nothing of the partition was stored")
	case start+v.size <= p.begins:
		switch {
		case has && p.known && stored.FirstOffset >= p.from && stored.TopicID == t.ID && !v.hasEarlierStay(p):
			differ("present", "missing: the window may have begun before the cold start")
		case has:
			v.report.unjudge(tableSegments, key, p.whyUnjudged())
		}
	case has && stored.TopicID != t.ID && w == nil:
		v.report.unjudge(tableSegments, key, "the segment belongs to an earlier topic of this name")
	case w == nil && p.windows[start] != nil && has:
		differ("present", "missing: the window is still open")
	case w == nil && has:
		differ("present", "missing: the partition has no accepted delay in the window")
	case w == nil:
		// Open, and nothing is stored of it: as it must be.
	case !has:
		v.report.Segments++
		differ("missing", fmt.Sprintf("first_offset %d, through_offset %d, records %d", w.first, w.through, w.records))
	default:
		v.report.Segments++
		v.report.compareColumns(tableSegments, key,
			segmentColumns(stored.End, stored.TopicID, stored.FirstOffset, stored.ThroughOffset, stored.Records, stored.Origin),
			// A window that was repaired has another origin, through offset and
			// content. Nothing repairs windows yet, so live is the only right one.
			segmentColumns(start+v.size, t.ID, w.first, w.through, w.records, sink.OriginLive))
	}
}

func segmentColumns(end int64, topicID string, first, through, records int64, origin string) []column {
	return []column{
		{"window_end", instant(end)},
		{"topic_id", topicID},
		{"first_offset", number(first)},
		{"through_offset", number(through)},
		{"records", number(records)},
		{"origin", origin},
	}
}

// closed is the partition's share of a window that it has closed, or nil.
func (p *partition) closed(start int64) *share {
	if w := p.windows[start]; p.judged && w != nil && w.through != stillOpen {
		return w
	}
	return nil
}

// whyUnjudged says why windows that end at or before p.begins are not compared.
func (p *partition) whyUnjudged() string {
	if p.trimmed() {
		return fmt.Sprintf("%s: the log begins at offset %d now, and the window may have begun before", p.id, p.from)
	}
	return fmt.Sprintf("%s: written before the cold start at offset %d", p.id, p.from)
}
