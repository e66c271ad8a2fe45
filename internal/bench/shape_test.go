package bench

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/peil-stream/peil/event"
	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/window"
)

// each draws all samples of a shape.
func each(s Shape, f func(*sample)) {
	var one sample
	for g := newGenerator(s); g.draw(&one); {
		f(&one)
	}
}

func TestRecordsAreWhatTheyAreSaidToBe(t *testing.T) {
	t.Parallel()
	shape := Shape{Seed: 1, Records: 200_000, Partitions: 4}
	e := newEncoder(shape.Partitions)
	var (
		d                          event.Decoder
		got                        event.Prediction
		value, canonical           []byte
		bytes, newest, worst, last int64
		trips, lines               = map[int]bool{}, map[int]bool{}
		stations, operators        = map[int]bool{}, map[int]bool{}
		perPartition               = make([]int, shape.Partitions)
	)
	each(shape, func(s *sample) {
		value = e.value(value[:0], s)
		bytes += int64(len(value))
		if err := d.Prediction(value, &got); err != nil {
			t.Fatalf("%s: %v", value, err)
		}
		want := event.Prediction{
			Feed: []byte(feed), TripID: []byte(tripID(s.trip)), StartDate: []byte(startDate),
			StopSequence: int64(s.sequence), HasStopSequence: true,
			StationID: []byte(stationID(s.station)), LineID: []byte(lineID(s.line())), Operator: []byte(operatorID(s.operator())),
			DelayS: s.delay, PredictedTime: event.NoTime, Timestamp: s.at,
		}
		canonical = event.AppendPrediction(canonical[:0], &want)
		if string(value) != string(canonical) {
			t.Fatalf("%s is not %s", value, canonical)
		}
		if got.Timestamp != s.at || got.DelayS != s.delay || s.trip%1000 == 0 && !cmp.Equal(want, got, cmpopts.EquateEmpty()) {
			t.Fatalf("decoded %s: %+v, want %+v", value, got, want)
		}
		key := event.PredictionKey(nil, &want)
		if string(e.keys[s.trip]) != string(key) || e.partitions[s.trip] != stream.PartitionFor(key, shape.Partitions) {
			t.Fatalf("key %s in partition %d", e.keys[s.trip], e.partitions[s.trip])
		}
		if s.logged < last || s.at > s.logged || s.at < begin || s.logged >= begin+spanMS {
			t.Fatalf("event of %d logged at %d after %d", s.at, s.logged, last)
		}
		last, newest = s.logged, max(newest, s.at)
		worst = max(worst, newest-s.at)
		trips[s.trip], lines[s.line()], stations[s.station], operators[s.operator()] = true, true, true, true
		perPartition[e.partitions[s.trip]]++
	})
	if size := bytes / shape.Records; size != 188 {
		t.Errorf("a record has %d bytes, want 188", size)
	}
	if worst < 80_000 || worst > 91_000 {
		t.Errorf("events lie up to %d ms behind, want 90 s", worst)
	}
	if len(lines) != Lines || len(stations) != Stations || len(operators) != Operators || len(trips) < Trips*99/100 {
		t.Errorf("%d lines, %d stations, %d operators, %d trips", len(lines), len(stations), len(operators), len(trips))
	}
	for p, n := range perPartition {
		if n < 40_000 || n > 60_000 {
			t.Errorf("partition %d gets %d of %d records", p, n, shape.Records)
		}
	}
	if begin != window.Start(begin, 300_000) {
		t.Error("the hour does not begin with a window")
	}
}

func TestTheSeedDecidesEveryRecord(t *testing.T) {
	t.Parallel()
	hash := func(seed uint64) (all [3]int64) {
		each(Shape{Seed: seed, Records: 1_000, Partitions: 4}, func(s *sample) {
			all[0] = all[0]*31 + int64(s.trip)
			all[1] = all[1]*31 + int64(s.delay)
			all[2] = all[2]*31 + s.at
		})
		return all
	}
	one, again, other := hash(1), hash(1), hash(2)
	if one != again || one == other {
		t.Errorf("seed 1 gives %v and %v, seed 2 %v", one, again, other)
	}
}

func BenchmarkGenerate(b *testing.B) {
	e := newEncoder(4)
	g := newGenerator(Shape{Seed: 1, Records: 1 << 62, Partitions: 4})
	g.shape.Records = 1 << 40
	var s sample
	var value []byte
	b.ReportAllocs()
	for b.Loop() {
		g.next %= 1 << 39
		g.draw(&s)
		value = e.value(value[:0], &s)
	}
	b.SetBytes(int64(len(value)))
}
