package ingest

import (
	"context"

	"github.com/peil-stream/peil/event"
	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/internal/transit/gtfsrt"
)

// publish publishes the events of a delta, and the tail with the last of them, in
// as few transactions as the bounds allow.
func (i *Ingester) publish(ctx context.Context, delta *gtfsrt.Delta, tail []stream.Message, r *Result) error {
	messages := i.messages(delta.Events)
	for from := 0; ; {
		to := i.cut(messages, from)
		part, last := messages[from:to], to == len(messages)
		if last {
			part = append(part, tail...)
		}
		if err := i.publisher.Publish(ctx, part, changes(delta.Changes(from, to))); err != nil {
			return err
		}
		r.Parts++
		if last {
			return nil
		}
		from = to
	}
}

// cut gives the end of the part that begins at from. A part holds at least one
// message, however large.
func (i *Ingester) cut(messages []stream.Message, from int) int {
	bytes := 0
	for to := from; to < len(messages); to++ {
		bytes += len(messages[to].Key) + len(messages[to].Value)
		if to > from && (to-from >= i.cfg.PartEvents || bytes > i.cfg.PartBytes) {
			return to
		}
	}
	return len(messages)
}

// messages encodes the events.
func (i *Ingester) messages(events []gtfsrt.Event) []stream.Message {
	out := make([]stream.Message, 0, len(events)+16) // room for a tail
	var arena []byte
	take := func(encode func([]byte) []byte) []byte {
		if cap(arena)-len(arena) < 1<<10 {
			arena = make([]byte, 0, 1<<18)
		}
		start := len(arena)
		arena = encode(arena)
		return arena[start:len(arena):len(arena)]
	}
	for n := range events {
		m := stream.Message{Topic: i.cfg.ArrivalsTopic, Partition: stream.ByKey}
		if p := events[n].Prediction; p != nil {
			m.Key = take(func(b []byte) []byte { return event.PredictionKey(b, p) })
			m.Value = take(func(b []byte) []byte { return event.AppendPrediction(b, p) })
		} else {
			p := events[n].Position
			m.Topic = i.cfg.PositionsTopic
			m.Key = take(func(b []byte) []byte { return event.PositionKey(b, p) })
			m.Value = take(func(b []byte) []byte { return event.AppendPosition(b, p) })
		}
		out = append(out, m)
	}
	return out
}

func changes(in []gtfsrt.Change) []stream.Change {
	out := make([]stream.Change, len(in))
	for n, c := range in {
		out[n] = stream.Change{Key: c.Key, Value: c.Value}
	}
	return out
}
