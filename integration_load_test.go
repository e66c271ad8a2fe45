//go:build integration

package peil_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/peil-stream/peil/event"
)

const (
	windowMS   = int64(5 * time.Minute / time.Millisecond)
	latenessMS = int64(2 * time.Minute / time.Millisecond)
)

// loader writes records of its own to the brokers, and keeps count of them.
type loader struct {
	client *kgo.Client
	admin  *kadm.Client
	topic  string
	// begin is the start of the first window, hours ago, in Unix milliseconds.
	begin int64
	// network is what the network's rows must say, by start of the window.
	network map[int64]networkSums
	sent    int64
}

// networkSums is a row without its mean and P90, which the batch job checks.
type networkSums struct{ count, sum, max, min int64 }

// newProducer is a client that writes to the partitions that there are now.
func newProducer(t *testing.T, brokers []string) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MetadataMinAge(50*time.Millisecond), kgo.UnknownTopicRetries(100), kgo.ProducerLinger(5*time.Millisecond),
		kgo.ProducerBatchCompression(kgo.Lz4Compression()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// newLoader makes the topics of a place.
func newLoader(t *testing.T, p *place, partitions int32) *loader {
	t.Helper()
	client := newProducer(t, p.brokers)
	l := &loader{
		client: client, admin: kadm.NewClient(client), topic: p.arrivals(), network: map[int64]networkSums{},
		begin: time.Now().Add(-3 * time.Hour).Truncate(5 * time.Minute).UnixMilli(),
	}
	stamped := map[string]*string{"message.timestamp.type": new("LogAppendTime"), "retention.ms": new("604800000")}
	for topic, n := range map[string]int32{p.arrivals(): partitions, p.positions(): 1} {
		if _, err := l.admin.CreateTopic(t.Context(), n, 1, stamped, topic); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// send writes one prediction, without waiting for it.
func (l *loader) send(t *testing.T, partition int32, at, delay int64, n int) {
	t.Helper()
	// A trip stays on its partition, as keys see to it.
	trip := strconv.AppendInt(append(strconv.AppendInt([]byte("x:"), int64(partition), 10), '-'), int64(n%500), 10)
	p := event.Prediction{
		Feed: []byte("x"), TripID: trip, StartDate: []byte("20261207"),
		StationID:    strconv.AppendInt([]byte("x:s"), int64(n%211), 10),
		LineID:       strconv.AppendInt([]byte("x:l"), int64(n%53), 10),
		Operator:     strconv.AppendInt([]byte("x:o"), int64(n%5), 10),
		StopSequence: int64(n % 40), HasStopSequence: true, DelayS: int32(delay), Timestamp: at,
	}
	l.produce(t, &kgo.Record{
		Topic: l.topic, Partition: partition, Key: event.PredictionKey(nil, &p), Value: event.AppendPrediction(nil, &p),
	})
	start := at - (at-l.begin)%windowMS
	if at < l.begin {
		t.Fatalf("an event before the first window: %d", at)
	}
	s, ok := l.network[start]
	if !ok {
		s.max, s.min = delay, delay
	}
	l.network[start] = networkSums{count: s.count + 1, sum: s.sum + delay, max: max(s.max, delay), min: min(s.min, delay)}
	l.sent++
}

// mark writes a heartbeat or a close marker.
func (l *loader) mark(t *testing.T, kind string, at int64, partitions ...int32) {
	t.Helper()
	for _, p := range partitions {
		l.produce(t, &kgo.Record{
			Topic: l.topic, Partition: p, Headers: []kgo.RecordHeader{{Key: event.MarkerHeader, Value: []byte(kind)}},
			Value: event.AppendMarker(nil, &event.Marker{Feed: []byte("x"), Timestamp: at}),
		})
	}
	l.flush(t)
}

func (l *loader) produce(t *testing.T, r *kgo.Record) {
	t.Helper()
	l.client.Produce(t.Context(), r, func(r *kgo.Record, err error) {
		if err != nil {
			t.Errorf("produce to partition %d: %v", r.Partition, err)
		}
	})
}

func (l *loader) flush(t *testing.T) {
	t.Helper()
	if err := l.client.Flush(t.Context()); err != nil {
		t.Error(err) // a loader may run beside the test
	}
}

// load spreads records over partitions of very different sizes, each of which covers
// the same span of event time with 90 s of disorder. Part i of n is part of the span.
func (l *loader) load(t *testing.T, records int, partitions int32, span time.Duration, part, parts int) {
	t.Helper()
	const disorder = 90
	random := rand.New(rand.NewPCG(uint64(records), uint64(part)))
	// The last partition gets twenty times what the first one gets.
	var weights int
	weight := func(p int32) int { return int(partitions-1) + 19*int(p) }
	for p := range partitions {
		weights += weight(p)
	}
	left := records
	from := l.begin + disorder*1000 + span.Milliseconds()*int64(part)/int64(parts)
	for p := range partitions {
		n := records * weight(p) / weights
		if p == partitions-1 {
			n = left
		}
		left -= n
		for i := range n {
			at := from + span.Milliseconds()*int64(i)/int64(parts*n) - 1000*random.Int64N(disorder+1)
			l.send(t, p, at/1000*1000, random.Int64N(900)-180, int(random.Uint32()>>1))
		}
	}
	l.flush(t)
}

// all lists partitions.
func all(partitions int32) (ps []int32) {
	for p := range partitions {
		ps = append(ps, p)
	}
	return ps
}

// end is the end of the last window that holds a record.
func (l *loader) end() int64 { return slices.Max(slices.Collect(maps.Keys(l.network))) + windowMS }

// check holds the network's rows and the counts against what was sent, and every
// row against the batch job.
func (l *loader) check(t *testing.T, p *place) {
	t.Helper()
	var want []string
	for start, s := range l.network {
		want = append(want, fmt.Sprintf("window_start=%s event_count=%d sum=%d max_delay_s=%d min_delay_s=%d ",
			instant(start), s.count, s.sum, s.max, s.min))
	}
	slices.Sort(want)
	got := p.rows(t, "SELECT window_start, event_count, cast(round(mean_delay_s * event_count) AS bigint) AS sum, max_delay_s, min_delay_s FROM delay_aggregates WHERE dimension = 'network'")
	if joined := strings.Join(want, "\n"); got != joined {
		t.Errorf("the network's rows differ from what was sent:\n%s", firstDifference(joined, got))
	}
	if got := p.counts(t); got != [4]int64{l.sent, 0, 0, 0} {
		t.Errorf("accepted, late, dead and ignored: %d, sent %d", got, l.sent)
	}
	p.verify(t)
}

// counted is the number of records in final rows.
func (p *place) counted(t *testing.T) int64 {
	t.Helper()
	return p.number(t, "SELECT sum(event_count) FROM delay_aggregates WHERE dimension = 'network'")
}

// TestBacklogOfDisorder reads a backlog whose partitions differ twenty times in size,
// so that they are read at very different speeds.
func TestBacklogOfDisorder(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int32{4, 12} {
		t.Run(strconv.Itoa(int(partitions)), func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, true, true)
			l := newLoader(t, p, partitions)
			l.load(t, 300_000, partitions, time.Hour, 0, 1)
			l.mark(t, event.CloseType, l.end(), all(partitions)...)
			pr := p.processor(t)
			await(t, "all records in final rows", func() bool { return p.counted(t) >= l.sent }, pr)
			pr.stop(t)
			l.check(t, p)
		})
	}
}

// TestSeveralProcessors has processors come, go and die while two million records
// are written and read.
func TestSeveralProcessors(t *testing.T) {
	t.Parallel()
	const (
		partitions = 12
		parts      = 5
		records    = 2_000_000 / parts
	)
	p := newPlace(t, true, true)
	l := newLoader(t, p, partitions)
	accepted := func() int64 { return p.counts(t)[0] }
	works := func(pr *process) func() bool {
		return func() bool {
			return p.number(t, "SELECT count(*) FROM consumer_offsets WHERE position > 0 AND "+pr.owns()) > 0
		}
	}
	load := func(part int) { l.load(t, records, partitions, time.Hour, part, parts) }
	// during runs a function once a quarter of what is being written has been read.
	during := func(part int, fn func(), running ...*process) {
		before, loaded := l.sent, make(chan struct{})
		go func() {
			defer close(loaded)
			load(part)
		}()
		await(t, "work to disturb", func() bool { return accepted() > before+records/4 }, running...)
		if n := accepted(); n == before+records {
			t.Errorf("all %d records were read already: nothing is disturbed", n)
		}
		fn()
		<-loaded
	}

	first := p.processor(t)
	load(0)
	await(t, "the first processor", func() bool { return accepted() > 0 }, first)
	second := p.processor(t)
	load(1)
	await(t, "the second processor", works(second), first, second)
	third := p.processor(t)
	load(2)
	await(t, "the third processor", works(third), first, second, third)

	// One leaves in order while there is work, another one dies, and a new one comes.
	during(3, func() { first.stop(t) }, first, second, third)
	await(t, "others to have its partitions", func() bool { return !works(first)() }, second, third)
	during(4, second.kill, second, third)
	fourth := p.processor(t)
	await(t, "the fourth processor", works(fourth), third, fourth)

	l.mark(t, event.CloseType, l.end(), all(partitions)...)
	await(t, "all records in final rows", func() bool { return p.counted(t) >= l.sent }, third, fourth)
	third.stop(t)
	fourth.stop(t)
	l.check(t, p)
}

// watermarks are those of the arrivals' partitions, by partition.
func (p *place) watermarks(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for line := range strings.Lines(p.rows(t, "SELECT partition, watermark FROM consumer_offsets WHERE watermark IS NOT NULL AND topic = '"+p.arrivals()+"'")) {
		partition, watermark, _ := strings.Cut(line, " ")
		found[partition] = watermark
	}
	return found
}

// TestK07NewPartition adds a partition to a topic that is being read. A hundred
// records of a window that is final already are written to it within its first
// second, before anybody can have noticed it.
func TestK07NewPartition(t *testing.T) {
	t.Parallel()
	p := newPlace(t, true, true)
	l := newLoader(t, p, 3)
	for n := range 300 {
		l.send(t, int32(n%3), l.begin+900*int64(n), int64(n), n)
	}
	w1 := l.begin + windowMS
	l.mark(t, event.HeartbeatType, w1+latenessMS, all(3)...)
	pr := p.processor(t)
	first := fmt.Sprintf("FROM delay_aggregates WHERE dimension = 'network' AND window_start = '%s'", instant(l.begin))
	await(t, "the first window to be final", func() bool { return p.number(t, "SELECT event_count "+first) == 300 }, pr)
	finals, before := p.number(t, "SELECT count(*) FROM delay_aggregates"), p.watermarks(t)
	revision := p.number(t, "SELECT revision "+first)

	if _, err := l.admin.UpdatePartitions(t.Context(), 4, l.topic); err != nil {
		t.Fatal(err)
	}
	l.client = newProducer(t, p.brokers)
	for n := range 100 {
		l.send(t, 3, l.begin+int64(n)*1000, int64(n), n)
	}
	l.flush(t)
	await(t, "the new partition to be read", func() bool { return p.counts(t)[0] == 400 }, pr)
	if got := p.number(t, "SELECT event_count "+first); got != 300 {
		t.Errorf("the new partition has not closed the window, and %d events are in its row", got)
	}
	// What the others close next is not final before the new one has closed it too.
	for n := range 3 {
		l.send(t, int32(n), w1+1000, 5, n)
	}
	w2 := w1 + windowMS
	l.mark(t, event.HeartbeatType, w2+latenessMS, all(3)...)
	await(t, "the others to close the second window", func() bool {
		return p.number(t, "SELECT count(*) FROM window_segments WHERE records = 1") == 3
	}, pr)
	if n := p.counted(t); n != 300 {
		t.Errorf("%d events in final rows while the new partition holds finality, want 300", n)
	}
	l.mark(t, event.HeartbeatType, w2+latenessMS, 3)
	await(t, "all records in final rows", func() bool { return p.counted(t) == l.sent }, pr)
	if got := p.number(t, "SELECT revision "+first); got != revision+1 {
		t.Errorf("revision %d after the new partition's records, %d before", got, revision)
	}
	if n := p.number(t, "SELECT count(*) FROM delay_aggregates"); n < finals {
		t.Errorf("%d final rows, %d before", n, finals)
	}
	for partition, at := range p.watermarks(t) {
		if at < before[partition] {
			t.Errorf("the watermark of %s went back from %s to %s", partition, before[partition], at)
		}
	}
	pr.stop(t)
	l.check(t, p)
}

// TestK27OneNetworkTwoInstances has two processes fill the same network's row, each
// from a partition of its own, in either order of their flushes, and across a change
// of owner.
func TestK27OneNetworkTwoInstances(t *testing.T) {
	t.Parallel()
	p := newPlace(t, true, true)
	// Four partitions beside the only one of the positions: whichever way they are
	// shared, each process has one of them.
	const partitions = 4
	l := newLoader(t, p, partitions)
	a, b := p.processor(t), p.processor(t)
	owned := func(pr *process) int64 {
		return p.number(t, "SELECT count(*) FROM consumer_offsets WHERE topic = '"+p.arrivals()+"' AND "+pr.owns())
	}
	await(t, "both processes to have partitions", func() bool {
		return owned(a) > 0 && owned(b) > 0 && owned(a)+owned(b) == partitions
	}, a, b)
	some := func(pr *process) int32 {
		return int32(p.number(t, "SELECT min(partition) FROM consumer_offsets WHERE topic = '"+p.arrivals()+"' AND "+pr.owns()))
	}
	p0, p1 := some(a), some(b)
	rest := slices.DeleteFunc(all(partitions), func(q int32) bool { return q == p0 || q == p1 })

	window := func(n int64) int64 { return l.begin + n*windowMS }
	ofA := func(n int64) { l.send(t, p0, window(n)+1000, 0, 1); l.send(t, p0, window(n)+2000, 60, 2) }
	ofB := func(n int64) { l.send(t, p1, window(n)+3000, 600, 3) }
	closed := func(n int64, ps ...int32) {
		l.mark(t, event.HeartbeatType, window(n+1)+latenessMS, ps...)
		for _, q := range ps {
			await(t, fmt.Sprintf("partition %d to close window %d", q, n), func() bool {
				return p.number(t, fmt.Sprintf("SELECT count(*) FROM consumer_offsets WHERE topic = '%s' AND partition = %d AND watermark >= '%s'",
					p.arrivals(), q, instant(window(n+1)))) == 1
			}, a)
		}
	}
	// A first, then B first.
	ofA(0)
	closed(0, p0)
	ofB(0)
	closed(0, append(rest, p1)...)
	ofB(1)
	closed(1, p1)
	ofA(1)
	closed(1, append(rest, p0)...)
	// B has read its record when its partition moves to A.
	ofB(2)
	l.flush(t)
	await(t, "B to read its record", func() bool { return p.counts(t)[0] == 7 }, a, b)
	b.stop(t)
	await(t, "A to have all partitions", func() bool { return owned(a) == partitions }, a)
	ofA(2)
	closed(2, all(partitions)...)
	await(t, "all records in final rows", func() bool { return p.counted(t) == l.sent }, a)
	a.stop(t)

	const row = "event_count=3 mean_delay_s=220 p90_delay_s=600 max_delay_s=600 min_delay_s=0 "
	want := strings.Join([]string{row, row, row}, "\n")
	if got := p.rows(t, "SELECT event_count, mean_delay_s, p90_delay_s, max_delay_s, min_delay_s FROM delay_aggregates WHERE dimension = 'network'"); got != want {
		t.Errorf("the network's rows are\n%s\nwant\n%s", got, want)
	}
	l.check(t, p)
}
