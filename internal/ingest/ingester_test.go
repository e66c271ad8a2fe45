package ingest_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/peil-stream/peil/internal/ingest"
	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/internal/transit/gtfsrt"
	"github.com/peil-stream/peil/internal/transit/gtfsrt/pb"
)

func wantSays(t *testing.T, r *rig, topic string, want ...string) {
	t.Helper()
	if want == nil {
		want = []string{}
	}
	if diff := cmp.Diff(want, r.says(topic)); diff != "" {
		t.Errorf("%s mismatch (-want +got):\n%s", topic, diff)
	}
}

// TestPollOrder holds what a poll writes where: events by their time, messages of
// the caller, heartbeats last, one to every partition.
func TestPollOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t, 3)
	m := feed(60, vehicle("v", 50, 52))
	for i := range 40 {
		m.Entity = append(m.Entity, trip(strings.Repeat("x", i%7+1), int64(59-i), stop(uint32(40-i), 600, int32(i))))
	}
	extra := stream.Message{Topic: arrivals, Partition: 1, Key: []byte("noise"), Value: []byte(`{"timestamp":"2026-09-21T14:15:01Z"}`)}
	result := r.publish(r.open(), m, extra)
	if result.Skipped != "" || result.Parts != 1 || result.Heartbeats != 3 || result.Events() != 41 || result.Stats.Predictions != 40 {
		t.Errorf("result %+v", result)
	}
	total := 0
	for p, records := range r.records(arrivals) {
		if got := short(t, records[len(records)-1]); got != "60 <heartbeat>" {
			t.Errorf("partition %d ends with %s", p, got)
		}
		events := records[:len(records)-1]
		if p == 1 {
			if got := short(t, events[len(events)-1]); got != "1 noise" {
				t.Errorf("before the heartbeat stands %s", got)
			}
			events = events[:len(events)-1]
		}
		times := make([]string, len(events))
		for i, record := range events {
			times[i] = record[strings.LastIndex(record, `"timestamp"`):]
			key, _, _ := strings.Cut(record, " ")
			if want := int(stream.PartitionFor([]byte(key), 3)); want != p {
				t.Errorf("a record of partition %d lies in %d", want, p)
			}
		}
		if !slices.IsSorted(times) {
			t.Errorf("partition %d is not in order: %v", p, times)
		}
		total += len(events)
	}
	if total != 40 {
		t.Errorf("%d events, want 40", total)
	}
	if got := r.says(positions); !slices.Equal(got, []string{"50 f|f:v 52"}) {
		t.Errorf("positions %v", got)
	}
}

// TestHeartbeats holds which polls bring heartbeats and with which time: that of
// the trip updates' header, never after the fetch.
func TestHeartbeats(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	ing := r.open()
	r.publish(ing, feed(30))                       // a header alone, at night
	r.publish(ing, feed(60, vehicle("v", -1, 52))) // positions move no arrivals
	r.publish(ing, feed(90, trip("a", -1)))        // nothing new
	if got := r.publish(ing, feed(90)); got.Skipped != ingest.Unchanged {
		t.Errorf("the same header: %+v", got)
	}
	if got := r.publish(ing, feed(70)); got.Skipped != ingest.OutOfOrder {
		t.Errorf("an older header: %+v", got)
	}
	if got := r.publish(ing, feed(120, &pb.FeedEntity{Id: new("a"), Alert: &pb.Alert{}})); got.Skipped != ingest.AlertsOnly {
		t.Errorf("alerts: %+v", got)
	}
	ahead := decode(t, feed(10_100))
	if _, err := ing.Publish(t.Context(), ahead, now()); err != nil {
		t.Fatal(err)
	}
	wantSays(t, r, arrivals, "30 <heartbeat>", "90 <heartbeat>", "10000 <heartbeat>")
	if ing.Last(gtfsrt.TripUpdates) != (t0+10_100)*1000 || ing.Last(gtfsrt.VehiclePositions) != (t0+60)*1000 {
		t.Errorf("last %d and %d", ing.Last(gtfsrt.TripUpdates), ing.Last(gtfsrt.VehiclePositions))
	}
}

// TestNewPartition holds that a partition that was added gets heartbeats too.
func TestNewPartition(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	r.cfg.ArrivalsTopic = "grows"
	grown := &growing{Log: r.log, partitions: 1}
	if err := r.log.Create(t.Context(), stream.TopicSpec{Name: "grows", Partitions: 2}); err != nil {
		t.Fatal(err)
	}
	ing, err := ingest.Open(t.Context(), grown, r.cfg, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.publish(ing, feed(30))
	grown.partitions = 2
	r.publish(ing, feed(60))
	wantSays(t, r, "grows", "30 <heartbeat>", "60 <heartbeat>", "60 <heartbeat>")
}

// TestPollsThroughTheLog holds the cases of single polls as they arrive in the log.
func TestPollsThroughTheLog(t *testing.T) {
	t.Parallel()
	label := vehicle("", 0, 53)
	label.Vehicle.Vehicle = &pb.VehicleDescriptor{Label: new("7602")}
	nameless := trip("b", -1, stop(1, 60, 5))
	nameless.Id = nil
	for _, test := range []struct {
		name      string
		polls     []*pb.FeedMessage
		arrivals  []string
		positions []string
	}{
		{
			"G02",
			[]*pb.FeedMessage{feed(100, vehicle("x", -1, 1)), feed(160, vehicle("x", -1, 2)), feed(130, vehicle("x", -1, 3)), feed(190, vehicle("x", -1, 4))},
			nil,
			[]string{"100 f|f:x 1", "160 f|f:x 2", "190 f|f:x 4"},
		},
		{
			"G12",
			[]*pb.FeedMessage{feed(10, related(trip("a", -1), pb.TripDescriptor_CANCELED), related(trip("b", -1, stop(1, 60, 300)), pb.TripDescriptor_CANCELED))},
			[]string{"10 f|f:a| canceled", "10 f|f:b| #1 canceled", "10 <heartbeat>"},
			nil,
		},
		{
			"G14",
			[]*pb.FeedMessage{feed(10, related(trip("a", -1, stop(1, 60, 5)), 7), related(trip("b", -1, stop(1, 60, 5)), 8), related(trip("c", -1, stop(1, 60, 5)), 99))},
			[]string{"10 f|f:a| #1 canceled", "10 f|f:b| #1 unknown", "10 f|f:c| #1 unknown", "10 <heartbeat>"},
			nil,
		},
		{
			"G22",
			[]*pb.FeedMessage{feed(10, trip("a", -1, stop(1, 600, 5)), trip("b", -1, stop(1, 600, 5))), feed(20, trip("a", -1, stop(1, 600, 5))), feed(30, trip("a", -1, stop(1, 600, 5)), trip("b", -1, stop(1, 600, 5)))},
			[]string{"10 f|f:a| #1 5", "10 f|f:b| #1 5", "10 <heartbeat>", "20 <heartbeat>", "30 <heartbeat>"},
			nil,
		},
		{
			"G23",
			[]*pb.FeedMessage{feed(10, label), feed(20, label)},
			nil,
			[]string{"0 f|f:7602 53"},
		},
		{
			"G28",
			[]*pb.FeedMessage{feed(10, trip("a", -1, stop(1, 60, 5)), nameless, trip("c", -1, stop(1, 60, 5)))},
			[]string{"10 f|f:a| #1 5", "10 f|f:c| #1 5", "10 <heartbeat>"},
			nil,
		},
		{
			"G34",
			[]*pb.FeedMessage{feed(20, trip("a", 10, stop(1, 300, 5), stop(2, 3900, 5)))},
			[]string{"10 f|f:a| #1 5", "10 f|f:a| #2 5", "20 <heartbeat>"},
			nil,
		},
		{
			"G35",
			[]*pb.FeedMessage{
				feed(20, trip("a", 10, stop(1, 600, 60))), feed(40, trip("a", 10, stop(1, 600, 60))),
				feed(310, trip("a", 301, stop(1, 600, 60))), feed(340, trip("a", 331, stop(1, 600, 62))), feed(370, trip("a", 361, stop(1, 600, 65))),
			},
			[]string{"10 f|f:a| #1 60", "20 <heartbeat>", "40 <heartbeat>", "301 f|f:a| #1 60", "310 <heartbeat>", "331 f|f:a| #1 62", "340 <heartbeat>", "361 f|f:a| #1 65", "370 <heartbeat>"},
			nil,
		},
		{
			"M20",
			[]*pb.FeedMessage{feed(20, trip("a", 24*3600, stop(1, 60, 5)), trip("b", 10, stop(1, 60, 5)))},
			[]string{"10 f|f:b| #1 5", "20 f|f:a| #1 5", "20 <heartbeat>"},
			nil,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, 1)
			for _, m := range test.polls {
				ing := r.open() // as after a kill, with every poll
				r.publish(ing, m)
			}
			wantSays(t, r, arrivals, test.arrivals...)
			wantSays(t, r, positions, test.positions...)
		})
	}
}

func drawMessage(t *rapid.T, header int64) *pb.FeedMessage {
	m := feed(header)
	for range rapid.IntRange(0, 3).Draw(t, "trips") {
		e := trip(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "trip"), header-rapid.Int64Range(0, 9).Draw(t, "age"))
		for n := range rapid.Uint32Range(0, 3).Draw(t, "stops") {
			e.TripUpdate.StopTimeUpdate = append(e.TripUpdate.StopTimeUpdate,
				stop(n+1, header+10*rapid.Int64Range(-1, 3).Draw(t, "at"), rapid.Int32Range(0, 1).Draw(t, "delay")))
		}
		m.Entity = append(m.Entity, e)
	}
	for range rapid.IntRange(0, 2).Draw(t, "vehicles") {
		m.Entity = append(m.Entity, vehicle(rapid.SampledFrom([]string{"v", "w"}).Draw(t, "vehicle"), header, rapid.Float32Range(1, 2).Draw(t, "lat")))
	}
	return m
}

// TestM12KilledAnywhere holds that whatever is killed when, the log ends exactly
// as an undisturbed one: every record once, in the same order. How: publishes fail
// before or after they take effect, also in the middle of a poll in parts; then
// the feed is opened again and the same snapshot published again.
func TestM12KilledAnywhere(t *testing.T) {
	t.Parallel()
	for _, emit := range []gtfsrt.Emit{gtfsrt.Predictions, gtfsrt.Arrivals} {
		t.Run(emit.String(), func(t *testing.T) {
			t.Parallel()
			// All checks share a log: each has a feed and topics of its own.
			r, n := newRig(t, 1), 0
			rapid.Check(t, func(rt *rapid.T) {
				n++
				calm, killed := r.sibling(fmt.Sprint("calm", n), 2), r.sibling(fmt.Sprint("killed", n), 2)
				calm.cfg.Emit, killed.cfg.Emit = emit, emit
				killed.cfg.PartEvents = rapid.IntRange(1, 3).Draw(rt, "part")
				killed.faults = func() int {
					return rapid.SampledFrom([]int{0, 0, 0, -1, 1}).Draw(rt, "fault")
				}
				one, other := calm.open(), killed.open()
				header := int64(0)
				for range rapid.IntRange(1, 4).Draw(rt, "polls") {
					header += rapid.Int64Range(1, 30).Draw(rt, "step")
					m := drawMessage(rt, header)
					calm.publish(one, m)
					other = killed.insist(rt, other, m)
				}
				for i, topic := range calm.topics() {
					want, got := calm.records(topic), killed.records(killed.topics()[i])
					if diff := cmp.Diff(want, got); diff != "" {
						rt.Fatalf("%s mismatch (-calm +killed):\n%s", topic, diff)
					}
				}
			})
		})
	}
}

// insist publishes a message until that works, with a new ingester after every
// kill, and gives the one that lives.
func (r *rig) insist(t *rapid.T, ing *ingest.Ingester, m *pb.FeedMessage) *ingest.Ingester {
	for {
		_, err := ing.Publish(r.tb.Context(), decode(r.tb, m), now())
		if err == nil {
			return ing
		}
		if !errors.Is(err, errKilled) {
			t.Fatalf("publish: %v", err)
		}
		if _, err := ing.Publish(r.tb.Context(), decode(r.tb, m), now()); !errors.Is(err, errKilled) {
			t.Fatalf("a dead ingester publishes: %v", err)
		}
		ing = r.open()
	}
}

// TestM12TwoIngesters holds that the newer ingester of a feed fences the older
// one, in the middle of its polls, and back.
func TestM12TwoIngesters(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	a := r.open()
	r.publish(a, feed(10, trip("a", 10, stop(1, 600, 1))))
	b := r.open()
	if _, err := a.Publish(t.Context(), decode(t, feed(20, trip("a", 20, stop(1, 600, 2)))), now()); !errors.Is(err, stream.ErrFenced) {
		t.Fatalf("the older one: %v, want fenced", err)
	}
	r.publish(b, feed(20, trip("a", 20, stop(1, 600, 2))))
	a = r.open()
	if _, err := b.CloseMarkers(t.Context()); !errors.Is(err, stream.ErrFenced) {
		t.Fatalf("the newer one, fenced in turn: %v", err)
	}
	if got := r.publish(a, feed(20, trip("a", 20, stop(1, 600, 2)))); got.Skipped != ingest.Unchanged {
		t.Errorf("what the other has published: %+v", got)
	}
	wantSays(t, r, arrivals, "10 f|f:a| #1 1", "10 <heartbeat>", "20 f|f:a| #1 2", "20 <heartbeat>")

	other := r.sibling("g", 1)
	other.cfg.Feed = "g"
	other.publish(other.open(), feed(10))
	r.publish(a, feed(30, trip("a", 30, stop(1, 600, 3)))) // another feed fences nobody
}

// TestOneTopicCarriesOneFeed holds that topics of another feed are refused before
// anything happens to them.
func TestOneTopicCarriesOneFeed(t *testing.T) {
	t.Parallel()
	r := newRig(t, 3)
	ing := r.open()
	r.publish(ing, feed(10, trip("a", 10, stop(1, 600, 1))))
	cfg := r.cfg
	cfg.Feed = "g"
	_, err := ingest.Open(t.Context(), r.log, cfg, nil, nil)
	refused, ok := errors.AsType[*ingest.FeedError](err)
	if !ok || refused.Holds != "f" || refused.Wanted != "g" || refused.Topic != arrivals || refused.Hint() == "" {
		t.Fatalf("open: %v, want a refusal", err)
	}
	r.publish(ing, feed(20, trip("a", 20, stop(1, 600, 2)))) // it was not fenced

	// Positions alone, and bad records behind the good ones.
	s := r.sibling("s", 1)
	v := &pb.FeedMessage{Header: feed(10).GetHeader(), Entity: []*pb.FeedEntity{vehicle("v", 10, 4)}}
	bad := stream.Message{Topic: s.cfg.PositionsTopic, Value: []byte(`{"feed":"g"`)}
	s.publish(s.open(), v, bad)
	s.cfg.Feed = "g"
	if _, err := ingest.Open(t.Context(), s.log, s.cfg, nil, nil); !errors.As(err, &refused) || refused.Topic != s.cfg.PositionsTopic {
		t.Fatalf("open: %v, want a refusal of the positions", err)
	}
}

// TestParts holds how a large poll is split.
func TestParts(t *testing.T) {
	t.Parallel()
	m := feed(60, trip("a", 10, stop(1, 600, 1), stop(2, 600, 1), stop(3, 600, 1)), trip("b", 20, stop(1, 600, 1), stop(2, 600, 1)))
	for _, test := range []struct {
		name          string
		events, bytes int
		parts         int
	}{
		{"one", 0, 0, 1}, {"exactly full", 5, 0, 1}, {"two and a rest", 2, 0, 3}, {"by bytes", 0, 400, 3}, {"larger than the bound", 0, 1, 5},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, 1)
			r.cfg.PartEvents, r.cfg.PartBytes = test.events, test.bytes
			if got := r.publish(r.open(), m); got.Parts != test.parts {
				t.Errorf("%d parts, want %d", got.Parts, test.parts)
			}
			wantSays(t, r, arrivals, "10 f|f:a| #1 1", "10 f|f:a| #2 1", "10 f|f:a| #3 1", "20 f|f:b| #1 1", "20 f|f:b| #2 1", "60 <heartbeat>")
		})
	}
}

func TestCloseMarkers(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	r.cfg.WindowSize = 2 * time.Minute
	ing := r.open()
	closing := func(want int) {
		t.Helper()
		if got, err := ing.CloseMarkers(t.Context()); err != nil || got != want {
			t.Errorf("%d markers, %v, want %d", got, err, want)
		}
	}
	closing(0) // nothing was published
	r.publish(ing, feed(500))
	closing(0) // no event whose window could be closed
	r.publish(ing, feed(600, trip("a", 119, stop(1, 600, 1)), vehicle("v", 599, 1)))
	ing = r.open()
	closing(2) // the window that holds 119, whatever the header says
	closing(0)
	ing = r.open()
	closing(0)
	r.publish(ing, feed(610, trip("a", 180, stop(1, 600, 1))))
	closing(2)
	all := r.records(arrivals)
	for p := range all {
		var got []string
		for _, record := range all[p] {
			if strings.HasPrefix(record, "<close>") {
				got = append(got, short(t, record))
			}
		}
		// T0 lies one minute into a window of two.
		if diff := cmp.Diff([]string{"180 <close>", "300 <close>"}, got); diff != "" {
			t.Errorf("partition %d (-want +got):\n%s", p, diff)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.publish(r.open(), feed(10, trip("a", 10, stop(1, 600, 1))))
	open := func(change func(*ingest.Config)) error {
		cfg := r.cfg
		change(&cfg)
		_, err := ingest.Open(t.Context(), r.log, cfg, nil, nil)
		return err
	}
	err := open(func(c *ingest.Config) { c.Emit = gtfsrt.Arrivals })
	if e, ok := errors.AsType[*gtfsrt.EmitError](err); !ok || e.Hint() == "" {
		t.Errorf("another mode: %v", err)
	}
	if err := open(func(c *ingest.Config) { c.ArrivalsTopic = "missing" }); !errors.Is(err, stream.ErrNoTopic) {
		t.Errorf("no such topic: %v", err)
	}
	if err := open(func(c *ingest.Config) { c.PositionsTopic = "" }); err == nil {
		t.Error("no topic for positions is taken")
	}
	if err := open(func(c *ingest.Config) { c.Feed = "" }); err == nil {
		t.Error("no feed name is taken")
	}
	ing := r.open()
	if err := errors.Join(ing.Close(), ing.Close()); err != nil {
		t.Errorf("close twice: %v", err)
	}
	if _, err := ing.Publish(t.Context(), decode(t, feed(20)), now()); err == nil {
		t.Error("a closed ingester publishes")
	}
}

// TestOversizeMessage holds that a message that the log cannot take stops the
// ingester with an error, and is not lost in silence.
func TestOversizeMessage(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	ing := r.open()
	huge := stream.Message{Topic: arrivals, Value: make([]byte, 80<<20)}
	if _, err := ing.Publish(t.Context(), decode(t, feed(10)), now(), huge); !errors.Is(err, stream.ErrTooLarge) {
		t.Errorf("published: %v", err)
	}
	wantSays(t, r, arrivals)
}
