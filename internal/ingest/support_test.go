package ingest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/peil-stream/peil/event"
	"github.com/peil-stream/peil/internal/ingest"
	"github.com/peil-stream/peil/internal/sqlitefile"
	"github.com/peil-stream/peil/internal/stream"
	streamsqlite "github.com/peil-stream/peil/internal/stream/sqlite"
	"github.com/peil-stream/peil/internal/transit/gtfsrt"
	"github.com/peil-stream/peil/internal/transit/gtfsrt/pb"
)

const (
	// t0 is 2026-09-21T14:15:00Z in Unix seconds, the start of a window.
	t0        = 1790000100
	arrivals  = "arrival-predictions"
	positions = "vehicle-positions"
)

// now is when everything is fetched: long after all header times.
func now() time.Time { return time.Unix(t0+10_000, 0) }

// rig is a log with the two topics.
type rig struct {
	tb  testing.TB
	log stream.Log
	cfg ingest.Config
	// publisher goes before the id of the ingester's publisher.
	publisher string
	// faults, if not nil, decides about each publish: -1 fails before it takes
	// effect, 1 after it.
	faults func() int
}

func newRig(tb testing.TB, partitions int32) *rig {
	tb.Helper()
	file, err := sqlitefile.Open(tb.Context(), filepath.Join(tb.TempDir(), "peil.db"), sqlitefile.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	log, err := streamsqlite.New(tb.Context(), file, streamsqlite.Options{Now: now})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := errors.Join(log.Close(), file.Close()); err != nil {
			tb.Errorf("close: %v", err)
		}
	})
	return newRigOn(tb, log, partitions)
}

// newRigOn makes a rig on a log that the caller closes.
func newRigOn(tb testing.TB, log stream.Log, partitions int32) *rig {
	tb.Helper()
	err := log.Create(tb.Context(), stream.TopicSpec{Name: arrivals, Partitions: partitions}, stream.TopicSpec{Name: positions, Partitions: partitions})
	if err != nil {
		tb.Fatal(err)
	}
	return &rig{tb: tb, log: log, cfg: ingest.Config{Feed: "f", ArrivalsTopic: arrivals, PositionsTopic: positions, Now: now}}
}

// topics of the rig.
func (r *rig) topics() []string { return []string{r.cfg.ArrivalsTopic, r.cfg.PositionsTopic} }

// sibling is a rig on the same log with topics and a publisher of its own. Its
// events are those of the same feed.
func (r *rig) sibling(name string, partitions int32) *rig {
	r.tb.Helper()
	s := &rig{tb: r.tb, log: r.log, cfg: r.cfg, publisher: name}
	s.cfg.ArrivalsTopic, s.cfg.PositionsTopic = name+"."+arrivals, name+"."+positions
	err := r.log.Create(r.tb.Context(), stream.TopicSpec{Name: s.cfg.ArrivalsTopic, Partitions: partitions}, stream.TopicSpec{Name: s.cfg.PositionsTopic, Partitions: partitions})
	if err != nil {
		r.tb.Fatal(err)
	}
	return s
}

// errKilled is what a publisher answers that the rig's faults have struck.
var errKilled = errors.New("killed by the test")

// faultyLog is the log with publishers that the faults may strike.
type faultyLog struct {
	stream.Log
	rig *rig
}

func (l faultyLog) OpenPublisher(ctx context.Context, spec stream.PublisherSpec) (stream.Publisher, error) {
	spec.ID = l.rig.publisher + spec.ID
	p, err := l.Log.OpenPublisher(ctx, spec)
	return faultyPublisher{p, l.rig}, err
}

type faultyPublisher struct {
	stream.Publisher
	rig *rig
}

func (p faultyPublisher) Publish(ctx context.Context, msgs []stream.Message, changes []stream.Change) error {
	strike := 0
	if p.rig.faults != nil {
		strike = p.rig.faults()
	}
	if strike < 0 {
		return errKilled
	}
	if err := p.Publisher.Publish(ctx, msgs, changes); err != nil {
		return err
	}
	if strike > 0 {
		return errKilled
	}
	return nil
}

func (r *rig) open() *ingest.Ingester {
	r.tb.Helper()
	ing, err := ingest.Open(r.tb.Context(), faultyLog{r.log, r}, r.cfg, nil, nil)
	if err != nil {
		r.tb.Fatalf("open: %v", err)
	}
	r.tb.Cleanup(func() {
		if err := ing.Close(); err != nil {
			r.tb.Errorf("close: %v", err)
		}
	})
	return ing
}

// publish publishes a message, which must work.
func (r *rig) publish(ing *ingest.Ingester, m *pb.FeedMessage, extra ...stream.Message) ingest.Result {
	r.tb.Helper()
	result, err := ing.Publish(r.tb.Context(), decode(r.tb, m), now(), extra...)
	if err != nil {
		r.tb.Fatalf("publish: %v", err)
	}
	return result
}

// records gives all records of a topic, one text each, by partition: what its
// headers and key are, and its value.
func (r *rig) records(topic string) [][]string {
	r.tb.Helper()
	described, err := r.log.Describe(r.tb.Context(), topic)
	if err != nil {
		r.tb.Fatal(err)
	}
	out := make([][]string, described[0].Partitions)
	for p := range out {
		at := stream.Partition{Topic: topic, Index: int32(p)}
		bounds, err := stream.BoundsOf(r.tb.Context(), r.log, at)
		if err != nil {
			r.tb.Fatal(err)
		}
		for record, err := range r.log.Read(r.tb.Context(), at, bounds.Start, bounds.End) {
			if err != nil {
				r.tb.Fatal(err)
			}
			kind := string(record.Key)
			if marker, ok := record.Header(event.MarkerHeader); ok {
				kind = "<" + string(marker) + ">"
			}
			out[p] = append(out[p], kind+" "+string(record.Value))
		}
	}
	return out
}

// says gives the records of all partitions in short: seconds after t0, key or
// kind, and what is said.
func (r *rig) says(topic string) []string {
	r.tb.Helper()
	out := []string{}
	for _, partition := range r.records(topic) {
		for _, record := range partition {
			out = append(out, short(r.tb, record))
		}
	}
	return out
}

func short(tb testing.TB, record string) string {
	tb.Helper()
	kind, value, _ := strings.Cut(record, " ")
	var v struct {
		Timestamp time.Time
		Sequence  *int `json:"stop_sequence"`
		Delay     *int `json:"delay_s"`
		Status    string
		Latitude  *float64
	}
	if err := json.Unmarshal([]byte(value), &v); err != nil {
		tb.Fatalf("record %s: %v", record, err)
	}
	s := fmt.Sprint(v.Timestamp.Unix()-t0, " ", kind)
	if v.Sequence != nil {
		s += fmt.Sprint(" #", *v.Sequence)
	}
	if v.Delay != nil {
		s += fmt.Sprint(" ", *v.Delay)
	}
	if v.Latitude != nil {
		s += fmt.Sprint(" ", *v.Latitude)
	}
	if v.Status != "" {
		s += " " + v.Status
	}
	return s
}

// feed makes a message with a header of t0 plus seconds.
func feed(seconds int64, entities ...*pb.FeedEntity) *pb.FeedMessage {
	return &pb.FeedMessage{
		Header: &pb.FeedHeader{GtfsRealtimeVersion: new("2.0"), Timestamp: new(uint64(t0 + seconds))},
		Entity: entities,
	}
}

// trip makes an entity with a trip update at t0 plus seconds; -1 leaves it out.
func trip(id string, seconds int64, stops ...*pb.TripUpdate_StopTimeUpdate) *pb.FeedEntity {
	u := &pb.TripUpdate{Trip: &pb.TripDescriptor{TripId: &id}, StopTimeUpdate: stops}
	if seconds >= 0 {
		u.Timestamp = new(uint64(t0 + seconds))
	}
	return &pb.FeedEntity{Id: new("e-" + id), TripUpdate: u}
}

func related(e *pb.FeedEntity, r pb.TripDescriptor_ScheduleRelationship) *pb.FeedEntity {
	e.TripUpdate.Trip.ScheduleRelationship = &r
	return e
}

// stop makes a stop update with an arrival at t0 plus seconds.
func stop(sequence uint32, seconds int64, delay int32) *pb.TripUpdate_StopTimeUpdate {
	return &pb.TripUpdate_StopTimeUpdate{
		StopSequence: &sequence, StopId: new("s"),
		Arrival: &pb.TripUpdate_StopTimeEvent{Delay: &delay, Time: new(t0 + seconds)},
	}
}

// vehicle makes an entity with a position at t0 plus seconds; -1 leaves it out.
func vehicle(id string, seconds int64, lat float32) *pb.FeedEntity {
	v := &pb.VehiclePosition{
		Vehicle:  &pb.VehicleDescriptor{Id: &id},
		Position: &pb.Position{Latitude: &lat, Longitude: new(float32(4))},
	}
	if seconds >= 0 {
		v.Timestamp = new(uint64(t0 + seconds))
	}
	return &pb.FeedEntity{Id: new("v-" + id), Vehicle: v}
}

func marshal(tb testing.TB, m *pb.FeedMessage) []byte {
	tb.Helper()
	body, err := proto.MarshalOptions{AllowPartial: true}.Marshal(m)
	if err != nil {
		tb.Fatal(err)
	}
	return body
}

func decode(tb testing.TB, m *pb.FeedMessage) *gtfsrt.Snapshot {
	tb.Helper()
	s, err := gtfsrt.Decode(marshal(tb, m))
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// write writes files into a new folder and gives its path.
func write(tb testing.TB, files map[string][]byte) string {
	tb.Helper()
	dir := tb.TempDir()
	for name, body := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(path, body, 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	return dir
}

// growing is a log whose topics look smaller than they are.
type growing struct {
	stream.Log
	partitions int32
}

func (g *growing) Describe(ctx context.Context, names ...string) ([]stream.Topic, error) {
	topics, err := g.Log.Describe(ctx, names...)
	for i := range topics {
		topics[i].Partitions = g.partitions
	}
	return topics, err
}
