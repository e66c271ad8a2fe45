package ingest

import (
	"context"
	"fmt"

	"github.com/peil-stream/peil/event"
	"github.com/peil-stream/peil/internal/stream"
)

// feedLook is how many of the last offsets of a partition are looked at to see
// whose records a topic carries.
const feedLook = 100

// FeedError says that a topic carries another feed. Two feeds in one topic share
// one watermark, which makes the records of the slower one late (R12).
type FeedError struct {
	Topic         string
	Holds, Wanted string
}

// Error says which feeds do not go together.
func (e *FeedError) Error() string {
	return fmt.Sprintf("topic %s carries feed %s, and this is feed %s: one topic carries one feed", e.Topic, e.Holds, e.Wanted)
}

// Hint says what to do.
func (e *FeedError) Hint() string {
	return "give this feed another --data-dir, or topics of its own as in topics.arrivals: <feed>.arrival-predictions"
}

// checkFeed refuses topics that carry another feed, before anything is fenced or
// published.
func (i *Ingester) checkFeed(ctx context.Context) error {
	topics, err := i.log.Describe(ctx, i.cfg.ArrivalsTopic, i.cfg.PositionsTopic)
	if err != nil {
		return err
	}
	for _, t := range topics {
		for p := range t.Partitions {
			feed, err := i.feedOf(ctx, stream.Partition{Topic: t.Name, Index: p})
			if err != nil {
				return err
			}
			if feed == "" {
				continue
			}
			if feed != i.cfg.Feed {
				return &FeedError{Topic: t.Name, Holds: feed, Wanted: i.cfg.Feed}
			}
			break
		}
	}
	return nil
}

// feedOf is the feed of the last valid record among the last ones of a partition,
// or empty.
func (i *Ingester) feedOf(ctx context.Context, p stream.Partition) (feed string, err error) {
	b, err := stream.BoundsOf(ctx, i.log, p)
	if err != nil {
		return "", err
	}
	var d event.Decoder
	for rec, err := range i.log.Read(ctx, p, max(b.Start, b.End-feedLook), b.End) {
		if err != nil {
			return "", err
		}
		if f := feedIn(&d, p.Topic == i.cfg.PositionsTopic, &rec); f != "" {
			feed = f
		}
	}
	return feed, nil
}

// feedIn is the feed that a valid record names, or empty.
func feedIn(d *event.Decoder, positions bool, rec *stream.Record) string {
	_, marker := rec.Header(event.MarkerHeader)
	switch {
	case rec.Value == nil:
		return ""
	case marker:
		var m event.Marker
		if err := d.Marker(rec.Value, &m); err != nil {
			return ""
		}
		return string(m.Feed)
	case positions:
		var v event.Position
		if err := d.Position(rec.Value, &v); err != nil {
			return ""
		}
		return string(v.Feed)
	default:
		var v event.Prediction
		if err := d.Prediction(rec.Value, &v); err != nil {
			return ""
		}
		return string(v.Feed)
	}
}
