package sink

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/peil-stream/peil/window"
)

// SortFlush returns the partitions of a flush by topic and index, the order in
// which every adapter locks their rows. What no correct caller does is an error: a
// partition given twice, a point that goes back, a segment that cannot be. The
// snapshots themselves are shared, not copied: they are immutable.
func SortFlush(parts []PartitionFlush) ([]PartitionFlush, error) {
	sorted := slices.Clone(parts)
	slices.SortStableFunc(sorted, func(a, b PartitionFlush) int { return a.Partition.Compare(b.Partition) })
	for i := range sorted {
		p := &sorted[i]
		if i > 0 && sorted[i-1].Partition == p.Partition {
			return nil, fmt.Errorf("partition %s: given twice", p.Partition)
		}
		if err := checkPoint(p); err != nil {
			return nil, fmt.Errorf("partition %s: %w", p.Partition, err)
		}
		if err := checkSegments(p.Segments); err != nil {
			return nil, fmt.Errorf("partition %s: %w", p.Partition, err)
		}
	}
	return sorted, nil
}

func checkPoint(p *PartitionFlush) error {
	switch {
	case p.To.Next < 0 || p.To.Next > p.To.Position:
		return fmt.Errorf("next offset %d does not lie between 0 and position %d", p.To.Next, p.To.Position)
	case p.From != nil && p.To.Position < p.From.Position:
		return fmt.Errorf("position would go back from %d to %d", p.From.Position, p.To.Position)
	default:
		return nil
	}
}

func checkSegments(segments []Segment) error {
	starts := make(map[int64]struct{}, len(segments))
	for i := range segments {
		s := &segments[i]
		_, twice := starts[s.Start]
		starts[s.Start] = struct{}{}
		switch {
		case twice:
			return fmt.Errorf("window %s: two segments in one flush", TimeText(s.Start))
		case s.Start == NoTime || s.End <= s.Start:
			return fmt.Errorf("window %s: ends at %s", TimeText(s.Start), TimeText(s.End))
		case s.FirstOffset > s.ThroughOffset:
			return fmt.Errorf("window %s: first offset %d lies after through offset %d",
				TimeText(s.Start), s.FirstOffset, s.ThroughOffset)
		case s.Data == nil:
			return fmt.Errorf("window %s: segment without data", TimeText(s.Start))
		}
	}
	return nil
}

// SortRows returns the rows of a window by dimension and id. A key given twice is
// an error.
func SortRows(rows []window.Row) ([]window.Row, error) {
	compare := func(a, b window.Row) int {
		return cmp.Or(cmp.Compare(a.Dimension, b.Dimension), cmp.Compare(a.ID, b.ID))
	}
	sorted := slices.Clone(rows)
	slices.SortFunc(sorted, compare)
	for i := 1; i < len(sorted); i++ {
		if compare(sorted[i-1], sorted[i]) == 0 {
			return nil, fmt.Errorf("two rows for %s %q", sorted[i].Dimension, sorted[i].ID)
		}
	}
	return sorted, nil
}

// TimeText is an instant in messages and incidents, as the API writes it. It is
// the same in every adapter.
func TimeText(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }
