package processor

import (
	"time"

	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/telemetry"
)

// metrics says what the processor does in the words of package telemetry.
type metrics struct{ *telemetry.Metrics }

// consumed counts the records of one batch by what the task's counts became.
func (m metrics) consumed(topic string, records int, before, after sink.Counts) {
	m.Consumed.WithLabelValues(topic).Add(float64(records))
	m.Late.Add(float64(after.Late - before.Late))
	m.DecodeErrors.WithLabelValues(topic).Add(float64(after.Dead - before.Dead))
}

func (m metrics) dead(topic, reason string) {
	m.DeadLetters.WithLabelValues(topic, reason).Inc()
}

func (m metrics) flushed(took time.Duration) {
	m.Flushes.Inc()
	m.FlushSeconds.Observe(took.Seconds())
}

func (m metrics) committed(parts []sink.PartitionFlush, res sink.FlushResult) {
	m.RefusedSegments.Add(float64(len(res.Refused)))
	for i := range parts {
		p := &parts[i]
		m.Commits.Inc()
		m.CommittedOffset.WithLabelValues(p.Partition.Topic, telemetry.Partition(p.Partition.Index)).Set(float64(p.To.Next))
	}
}

func (m metrics) finalised(windows int, a sink.Applied) {
	m.WindowsFinalised.Add(float64(windows))
	m.Revisions.Add(float64(a.Revised))
}

// partition shows the live state of a partition.
func (m metrics) partition(s *PartitionStatus) {
	topic, index := s.Partition.Topic, telemetry.Partition(s.Partition.Index)
	m.Uncommitted.WithLabelValues(topic, index).Set(float64(s.Pending))
	m.OpenWindows.WithLabelValues(topic, index).Set(float64(len(s.Open)))
	if s.Watermark != sink.NoTime {
		m.Watermark.WithLabelValues(topic, index).Set(float64(s.Watermark) / 1000)
	}
	since := time.Time{}
	if s.HeldSince != sink.NoTime {
		since = time.UnixMilli(s.HeldSince)
	}
	m.Held.Since(since, topic, index)
}

// lag shows how far the log is ahead of what was read.
func (m metrics) lag(s *PartitionStatus, end int64) {
	m.ConsumerLag.WithLabelValues(s.Partition.Topic, telemetry.Partition(s.Partition.Index)).Set(float64(max(end-s.Position, 0)))
}
