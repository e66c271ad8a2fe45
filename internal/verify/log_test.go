package verify_test

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/peil-stream/peil/event"
	"github.com/peil-stream/peil/internal/stream"
)

// T0 is 2026-09-21T14:15:00Z, the start of a window of five minutes.
const T0 int64 = 1790000100_000

const (
	arrivals  = "arrival-predictions"
	positions = "vehicle-positions"
	topicID   = "id-1"
)

// at is T0 plus seconds.
func at(seconds float64) int64 { return T0 + int64(seconds*1000) }

// memoryLog is a log in memory that a test fills, cuts and leaves gaps in.
type memoryLog struct {
	topics map[string]int32
	ids    map[string]string
	parts  map[stream.Partition]*memoryPartition
	// broken is returned by Read before the record at offset brokenAt.
	broken   error
	brokenAt int64
}

type memoryPartition struct {
	start, end int64
	records    []stream.Record
}

func newLog() *memoryLog {
	return &memoryLog{topics: map[string]int32{}, ids: map[string]string{}, parts: map[stream.Partition]*memoryPartition{}}
}

// create makes a topic, or adds partitions to it.
func (l *memoryLog) create(topic string, partitions int32) {
	l.topics[topic], l.ids[topic] = partitions, topicID
	for i := range partitions {
		p := stream.Partition{Topic: topic, Index: i}
		if l.parts[p] == nil {
			l.parts[p] = &memoryPartition{}
		}
	}
}

// put appends records; each gets the next offset unless it has a greater one.
func (l *memoryLog) put(topic string, partition int32, records ...stream.Record) {
	p := l.parts[stream.Partition{Topic: topic, Index: partition}]
	for _, r := range records {
		r.Offset = max(r.Offset, p.end)
		p.end = r.Offset + 1
		p.records = append(p.records, r)
	}
}

// trim forgets the records below an offset.
func (l *memoryLog) trim(of stream.Partition, start int64) {
	p := l.parts[of]
	p.start = start
	p.records = slices.DeleteFunc(p.records, func(r stream.Record) bool { return r.Offset < start })
}

func (l *memoryLog) Describe(_ context.Context, names ...string) ([]stream.Topic, error) {
	var out []stream.Topic
	for _, name := range names {
		n, ok := l.topics[name]
		if !ok {
			return nil, fmt.Errorf("topic %s: %w", name, stream.ErrNoTopic)
		}
		out = append(out, stream.Topic{Name: name, ID: l.ids[name], Partitions: n})
	}
	return out, nil
}

func (l *memoryLog) Topics(context.Context) ([]string, error) { return nil, nil }

func (l *memoryLog) Bounds(_ context.Context, ps ...stream.Partition) ([]stream.Bounds, error) {
	bounds := make([]stream.Bounds, len(ps))
	for i, p := range ps {
		bounds[i] = stream.Bounds{Start: l.parts[p].start, End: l.parts[p].end}
	}
	return bounds, nil
}

func (l *memoryLog) Read(_ context.Context, p stream.Partition, from, to int64) iter.Seq2[stream.Record, error] {
	return func(yield func(stream.Record, error) bool) {
		if from < l.parts[p].start {
			yield(stream.Record{}, stream.ErrOutOfRange)
			return
		}
		for _, r := range l.parts[p].records {
			if l.broken != nil && r.Offset >= l.brokenAt {
				yield(stream.Record{}, l.broken)
				return
			}
			if r.Offset >= from && r.Offset < to && !yield(r, nil) {
				return
			}
		}
	}
}

// prediction is a delay of a trip on a line; change may set more.
func prediction(seconds float64, delay int32, trip, line string, change func(*event.Prediction)) stream.Record {
	p := event.Prediction{
		Feed: []byte("nl"), TripID: []byte(trip), LineID: []byte(line),
		DelayS: delay, PredictedTime: event.NoTime, Timestamp: at(seconds),
	}
	if change != nil {
		change(&p)
	}
	return stream.Record{Timestamp: p.Timestamp, Value: event.AppendPrediction(nil, &p)}
}

// sample is the simplest prediction: a trip of its own name on line nl:A.
func sample(seconds float64, delay int32) stream.Record {
	return prediction(seconds, delay, "nl:t", "nl:A", nil)
}

func position(seconds, lat, lon float64, vehicle string, change func(*event.Position)) stream.Record {
	p := event.Position{
		Feed: []byte("nl"), VehicleID: []byte(vehicle), Latitude: lat, Longitude: lon, Timestamp: at(seconds),
	}
	if change != nil {
		change(&p)
	}
	return stream.Record{Timestamp: p.Timestamp, Value: event.AppendPosition(nil, &p)}
}

func marker(seconds float64, kind string) stream.Record {
	return stream.Record{
		Timestamp: at(seconds),
		Value:     event.AppendMarker(nil, &event.Marker{Feed: []byte("nl"), Timestamp: at(seconds)}),
		Headers:   []stream.Header{{Key: event.MarkerHeader, Value: []byte(kind)}},
	}
}

func heartbeat(seconds float64) stream.Record { return marker(seconds, event.HeartbeatType) }

// logged gives a record another log timestamp.
func logged(seconds float64, r stream.Record) stream.Record {
	r.Timestamp = at(seconds)
	return r
}

// offset gives a record an offset, to leave a gap before it.
func offset(n int64, r stream.Record) stream.Record {
	r.Offset = n
	return r
}

func null(seconds float64) stream.Record { return stream.Record{Timestamp: at(seconds)} }

func garbage(seconds float64) stream.Record {
	return stream.Record{Timestamp: at(seconds), Value: []byte(`{"feed":`)}
}
