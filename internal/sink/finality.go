package sink

import (
	"cmp"
	"slices"

	"github.com/peil-stream/peil/internal/stream"
)

// Hold is why a partition holds the finality of its topic where it is. The
// values are stable: they are shown as they are by the API.
type Hold string

// The reasons to hold.
const (
	// HoldOtherTopic: the row was written for another topic of this name, which
	// was deleted and created again.
	HoldOtherTopic Hold = "other_topic_id"
	// HoldNotRead: nothing of the partition was ever written.
	HoldNotRead Hold = "not_read"
	// HoldNoTime: the partition was read, but no record has told a time yet.
	HoldNoTime Hold = "no_event_time"
	// HoldOpenWindow: the partition is idle, and its oldest open window with an
	// accepted record starts there.
	HoldOpenWindow Hold = "open_window"
	// HoldWatermark: the partition is being read, and its watermark stands there.
	HoldWatermark Hold = "watermark"
)

// Explain says the reason in words that continue "partition 3 …".
func (h Hold) Explain() string {
	switch h {
	case HoldOtherTopic:
		return "belongs to an earlier topic of the same name"
	case HoldNotRead:
		return "has not been read yet"
	case HoldNoTime:
		return "has no record with a time yet"
	case HoldOpenWindow:
		return "is idle with an open window"
	case HoldWatermark:
		return "has its watermark there"
	default:
		return string(h)
	}
}

// Holder is a partition beyond which no window of the topic is final.
type Holder struct {
	Partition stream.Partition
	// FinalTo of the partition in Unix milliseconds, or NoTime.
	FinalTo int64
	Hold    Hold
}

// Finality is how far a topic's windows are final, and who holds it there.
type Finality struct {
	// FinalTo in Unix milliseconds: a window is final when its end is not after
	// it. NoTime: no window is final. Infinity: every window is.
	FinalTo int64
	// Holders are the partitions with the least final_to, by index. There are
	// none if nothing is held or the topic has no rows.
	Holders []Holder
}

// Final says whether a window that ends at end, in Unix milliseconds, is final.
func (f Finality) Final(end int64) bool { return f.FinalTo != NoTime && end <= f.FinalTo }

// Holders finds how far the windows of a topic are final: up to the least
// final_to over all its partitions, where a partition without one, or with
// another topic id, holds everything (R2). An empty topicID stands for the id
// in the row that was written last.
func Holders(offsets []Offset, topic, topicID string) Finality {
	rows := make([]Offset, 0, len(offsets))
	for i := range offsets {
		if offsets[i].Partition.Topic == topic {
			rows = append(rows, offsets[i])
		}
	}
	if len(rows) == 0 {
		return Finality{FinalTo: NoTime}
	}
	slices.SortFunc(rows, func(a, b Offset) int { return cmp.Compare(a.Partition.Index, b.Partition.Index) })
	if topicID == "" {
		topicID = slices.MaxFunc(rows, func(a, b Offset) int { return cmp.Compare(a.UpdatedAt, b.UpdatedAt) }).TopicID
	}
	fin := Finality{FinalTo: Infinity}
	for i := range rows {
		at := rows[i].FinalTo
		if rows[i].TopicID != topicID {
			at = NoTime
		}
		// NoTime is the least number, so it wins over every instant.
		fin.FinalTo = min(fin.FinalTo, at)
	}
	if fin.FinalTo >= Infinity {
		return fin
	}
	for i := range rows {
		o := &rows[i]
		if why := hold(o, topicID); fin.FinalTo == o.FinalTo || why == HoldOtherTopic {
			fin.Holders = append(fin.Holders, Holder{Partition: o.Partition, FinalTo: o.FinalTo, Hold: why})
		}
	}
	return fin
}

func hold(o *Offset, topicID string) Hold {
	switch {
	case o.TopicID != topicID:
		return HoldOtherTopic
	case !o.Stored:
		return HoldNotRead
	case o.FinalTo == NoTime:
		return HoldNoTime
	case o.FinalTo == o.Watermark:
		return HoldWatermark
	default:
		return HoldOpenWindow
	}
}
