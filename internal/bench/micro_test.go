package bench

import (
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/peil-stream/peil/internal/job"
	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/internal/stream/kafka"
	"github.com/peil-stream/peil/ledger"
	"github.com/peil-stream/peil/window"
)

// microRecords is how many records the benchmarks of a single step go round in: an
// hour of event time, too large for the caches near a core.
const microRecords = 1 << 16

// records are those that partition 0 of 4 gets.
func records() []stream.Record {
	e := newEncoder(4)
	var all []stream.Record
	var one sample
	for g := newGenerator(Shape{Seed: 1, Records: 5 * microRecords, Partitions: 4}); len(all) < microRecords && g.draw(&one); {
		if e.partitions[one.trip] == 0 {
			all = append(all, stream.Record{
				Offset: int64(len(all)), Timestamp: one.logged, Key: e.keys[one.trip], Value: e.value(nil, &one),
			})
		}
	}
	return all
}

// decoded is what one record is for the steps behind the decoder.
type decoded struct {
	rec   window.Record
	group []window.Cell
	end   int64
}

func decodeAll(tb testing.TB, all []stream.Record) []decoded {
	tb.Helper()
	j, _ := jobs()("t")
	out := make([]decoded, len(all))
	var d job.Decoded
	for i := range all {
		j.Decode(&all[i], &d)
		if d.Kind != job.Event {
			tb.Fatalf("record %d is dead: %s", i, d.Detail)
		}
		out[i] = decoded{rec: d.Record, group: slices.Clone(d.Record.Group), end: window.Start(d.Record.Time, windowMS) + windowMS}
		out[i].rec.Offset, out[i].rec.LogTime, out[i].rec.Group = all[i].Offset, all[i].Timestamp, out[i].group
	}
	return out
}

// around calls step with 0, 1, … microRecords-1 and calls again before each turn,
// which is not measured.
func around(b *testing.B, again func(), step func(i int)) {
	b.Helper()
	b.ReportAllocs()
	again()
	i := 0
	for b.Loop() {
		step(i)
		if i++; i == microRecords {
			i = 0
			b.StopTimer()
			again()
			b.StartTimer()
		}
	}
}

// BenchmarkDecode decodes and judges a record as the job does.
func BenchmarkDecode(b *testing.B) {
	all := records()
	j, _ := jobs()("t")
	var d job.Decoded
	around(b, func() {}, func(i int) { j.Decode(&all[i], &d) })
}

// BenchmarkKeep decodes a record and keeps the newest row of its trip.
func BenchmarkKeep(b *testing.B) {
	all := records()
	j, _ := jobs()("t")
	var d job.Decoded
	around(b, func() { j.Take() }, func(i int) {
		j.Decode(&all[i], &d)
		j.Keep(all[i].Offset)
	})
}

// BenchmarkAdd puts a record into its window, which gets as many as a partition
// does of some 3,000,000 an hour. Windows close on the way.
func BenchmarkAdd(b *testing.B) {
	all := decodeAll(b, records())
	for i := range all {
		r := &all[i].rec
		r.Time, r.LogTime = begin+(r.Time-begin)*windowMS/spanMS, begin+(r.LogTime-begin)*windowMS/spanMS
	}
	p, err := window.NewPartition(window.Config{}, window.Resume{Watermark: window.NoTime})
	if err != nil {
		b.Fatal(err)
	}
	again := func() { // the next window
		for i := range all {
			all[i].rec.Time += windowMS
			all[i].rec.LogTime += windowMS
		}
		p.TakeClosed()
	}
	around(b, again, func(i int) { p.Add(&all[i].rec) })
}

// BenchmarkLedger notes a record.
func BenchmarkLedger(b *testing.B) {
	all := decodeAll(b, records())
	var l *ledger.Ledger
	around(b, func() { l = ledger.New(0) }, func(i int) { l.Window(int64(i), all[i].end) })
}

// BenchmarkLedgerToDecode reports how much of the decoder's time the ledger takes,
// both measured in turns in this one run: it is to be at most a tenth.
func BenchmarkLedgerToDecode(b *testing.B) {
	all := records()
	ends := decodeAll(b, all)
	j, _ := jobs()("t")
	var d job.Decoded
	var decoding, noting time.Duration
	b.ReportAllocs()
	for b.Loop() {
		begun := time.Now()
		for i := range all {
			j.Decode(&all[i], &d)
		}
		between := time.Now()
		l := ledger.New(0)
		for i := range all {
			l.Window(int64(i), ends[i].end)
		}
		decoding += between.Sub(begun)
		noting += time.Since(between)
	}
	b.ReportMetric(float64(noting)/float64(decoding), "ledger/decode")
}

// Not parallel: it counts allocations.
func TestNoStepAllocatesForARecord(t *testing.T) {
	all := records()
	ends := decodeAll(t, all)
	j, _ := jobs()("t")
	l := ledger.New(0)
	var d job.Decoded
	offset := int64(0)
	turn := func() {
		for i := range all {
			j.Decode(&all[i], &d)
			j.Keep(offset)
			l.Window(offset, ends[i].end)
			offset++
		}
	}
	turn() // the windows, the rows of trips
	if n := testing.AllocsPerRun(2, turn); n > 10 {
		t.Errorf("%v allocations for %d records, want none", n, len(all))
	}
}

// BenchmarkHandOver reads records from brokers in memory through the consumer, and
// does nothing with them.
func BenchmarkHandOver(b *testing.B) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		b.Fatal(err)
	}
	defer cluster.Close()
	shape := Shape{Seed: 1, Records: 200_000, Partitions: 4}
	o := Options{Kafka: kafka.Options{Brokers: cluster.ListenAddrs()}, Shape: shape, Rounds: 1, Topic: "t"}
	r, tidy, err := start(b.Context(), o)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := tidy(); err != nil {
			b.Error(err)
		}
	}()
	for _, stage := range []string{StageRaw, StageBatches} {
		b.Run(stage, func(b *testing.B) {
			took := 0.0
			for b.Loop() {
				m, err := RunStage(b.Context(), Spec{
					Stage: stage, Brokers: r.Kafka.Brokers, Topic: "t", Group: stage, Partitions: 4, Messages: 200_004,
				}, o.Kafka)
				if err != nil {
					b.Fatal(err)
				}
				took += m.Seconds
			}
			b.ReportMetric(took*1e9/float64(b.N)/float64(shape.Records), "ns/record")
		})
	}
}
