package gtfsrt_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/peil-stream/peil/internal/transit/gtfsrt"
	"github.com/peil-stream/peil/internal/transit/gtfsrt/pb"
)

// refused decodes a body that must be refused, and holds that Peek refuses it
// with the same error.
func refused(t *testing.T, limits gtfsrt.Limits, body []byte) *gtfsrt.DecodeError {
	t.Helper()
	s, err := limits.Decode(body)
	if err == nil {
		t.Fatalf("decoded: %+v", s)
	}
	e, ok := errors.AsType[*gtfsrt.DecodeError](err)
	if !ok {
		t.Fatalf("%T is no *DecodeError: %v", err, err)
	}
	if e.Hint == "" || e.Detail == "" {
		t.Errorf("no hint or detail: %+v", e)
	}
	if _, peeked := limits.Peek(body); peeked == nil || peeked.Error() != err.Error() {
		t.Errorf("Peek says %v, Decode %v", peeked, err)
	}
	return e
}

func TestG26BodiesThatAreNoFeed(t *testing.T) {
	t.Parallel()
	whole := marshal(t, feed(0, trip("a", 0, stop(1, 60, 5))))
	for _, test := range []struct {
		name, body string
		class      gtfsrt.Class
		says       string
	}{
		{"nothing", "", gtfsrt.Empty, "empty"},
		{"blank", " \r\n\n", gtfsrt.NotGTFSRT, "white space"},
		{"html", "<!DOCTYPE html><html>", gtfsrt.NotGTFSRT, `it begins with "<!DOCTYPE html><html>"`},
		{"html after a blank line", "\n\n<html>404", gtfsrt.NotGTFSRT, "web page"},
		{"text form", "header {\n  gtfs_realtime_version: \"2.0\"\n}", gtfsrt.NotGTFSRT, "text form"},
		{"text form with comments", "# a\n# b\nheader {", gtfsrt.NotGTFSRT, "text form"},
		{"text form of an entity", "entity: <", gtfsrt.NotGTFSRT, "text form"},
		{"plain text", "not valid pb data", gtfsrt.NotGTFSRT, "plain text"},
		{"text cut within a letter", strings.Repeat("x", 63) + "ë", gtfsrt.NotGTFSRT, "plain text"},
		{"other JSON", `{"error":"no key"}`, gtfsrt.NotGTFSRT, "no feed header"},
		{"JSON with a header of another kind", `{"header":7,"entity":[]}`, gtfsrt.BadJSON, "unexpected token 7"},
		{"JSON array", ` [1,2]`, gtfsrt.NotGTFSRT, "array"},
		{"cut JSON", `{"header":{"timestamp":1`, gtfsrt.BadJSON, "unexpected EOF"},
		{"brace only", "{", gtfsrt.BadJSON, "unexpected EOF"},
		{"JSON and more", `{"header":{}} {}`, gtfsrt.BadJSON, "unexpected token {"},
		{"JSON with a wrong type", `{"header":{},"entity":[{"id":7}]}`, gtfsrt.BadJSON, "invalid value for string field id: 7"},
		{"JSON with a long wrong value", `{"header":{"timestamp":"` + strings.Repeat("x", 1000) + `"}}`, gtfsrt.BadJSON, "timestamp"},
		{"JSON of something else", `{"error":"no such key"}`, gtfsrt.NotGTFSRT, "no feed header"},
		{"JSON with control characters", "{\x00", gtfsrt.BadJSON, "invalid value"},
		{"no header", "\x12\x03\x0a\x01a", gtfsrt.NotGTFSRT, "no feed header"},
		{"cut protobuf", string(whole[:len(whole)-1]), gtfsrt.BadProtobuf, "after 0 whole entities"},
		{"broken header", "\x0a\x02\x08\x80", gtfsrt.BadProtobuf, "cannot parse"},
		{"broken trip update", string(whole) + "\x12\x05\x0a\x01x\x1a\x7f", gtfsrt.BadProtobuf, "after 1 whole entities"},
		{"differences", string(marshal(t, &pb.FeedMessage{Header: &pb.FeedHeader{Incrementality: pb.FeedHeader_DIFFERENTIAL.Enum()}})), gtfsrt.Differential, "DIFFERENTIAL"},
		{"differences in JSON", `{"header":{"incrementality":"DIFFERENTIAL"}}`, gtfsrt.Differential, "DIFFERENTIAL"},
		{"differences by number", `{"header":{"incrementality":1}}`, gtfsrt.Differential, "DIFFERENTIAL"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			e := refused(t, gtfsrt.Limits{}, []byte(test.body))
			if e.Class != test.class || !strings.Contains(e.Error(), test.says) {
				t.Fatalf("%q, want class %s and %q in it", e.Error(), test.class, test.says)
			}
			if len(e.Head) > 4*64+2 || len(e.Detail) > 300 || strings.ContainsAny(e.Error(), "\n\x00") {
				t.Errorf("the error shows too much: %q", e.Error())
			}
		})
	}
}

// TestG27CutBody holds that a body cut between two entities reads as the smaller
// feed that it looks like, and one cut within an entity not at all.
func TestG27CutBody(t *testing.T) {
	t.Parallel()
	whole := feed(0)
	var ends []int
	for i := range 100 {
		whole.Entity = append(whole.Entity, trip(fmt.Sprint("t", i), 0, stop(1, 60, 5)))
		ends = append(ends, len(marshal(t, whole)))
	}
	body := marshal(t, whole)
	s, err := gtfsrt.Decode(body[:ends[9]])
	if err != nil || len(s.Trips) != 10 {
		t.Fatalf("cut at a boundary: %v", err)
	}
	e := refused(t, gtfsrt.Limits{}, body[:ends[9]+5])
	if e.Class != gtfsrt.BadProtobuf || !strings.Contains(e.Detail, "after 10 whole entities") {
		t.Fatalf("cut in an entity: %v", e)
	}
}

func TestG28PartsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	good, other, nameless := trip("a", 0, stop(1, 60, 5)), trip("c", 0, stop(1, 60, 5)), trip("b", 0, stop(1, 60, 5))
	nameless.Id = nil
	half := vehicle("v", 0, 52, 4)
	half.Vehicle.Position.Longitude = nil
	half.Vehicle.Trip = &pb.TripDescriptor{TripId: new("a")}
	deleted := trip("d", 0)
	deleted.IsDeleted = new(true)
	m := feed(0, good, nameless, other, half, deleted)
	m.Header.GtfsRealtimeVersion = nil
	text, err := protojson.MarshalOptions{AllowPartial: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		body []byte
	}{{"protobuf", marshal(t, m)}, {"JSON", text}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s, err := gtfsrt.Decode(test.body)
			if err != nil {
				t.Fatal(err)
			}
			if len(s.Trips) != 2 || s.Trips[0].TripID != "a" || s.Trips[1].TripID != "c" {
				t.Errorf("trips %+v, want a and c", s.Trips)
			}
			if len(s.Vehicles) != 1 || s.Vehicles[0].HasPosition || s.Vehicles[0].TripID != "a" {
				t.Errorf("vehicles %+v, want one without position", s.Vehicles)
			}
			want := gtfsrt.Tally{}
			want[gtfsrt.EntityWithoutID], want[gtfsrt.EntityDeleted] = 1, 1
			want[gtfsrt.PositionIncomplete] = 1
			if s.Tally != want || s.Version != "" {
				t.Errorf("version %q, tally %v, want %v", s.Version, s.Tally, want)
			}
		})
	}
}

// TestO06TinyAndDear holds that bodies which would expand are refused, by what
// they would cost, before anything is allocated for them.
func TestO06TinyAndDear(t *testing.T) { // not parallel: it counts allocations
	header := marshal(t, feed(0))
	entity := func(field protowire.Number, content []byte) []byte {
		inner := protowire.AppendBytes(protowire.AppendTag([]byte("\x0a\x01a"), field, protowire.BytesType), content)
		return protowire.AppendBytes(protowire.AppendTag(bytes.Clone(header), 2, protowire.BytesType), inner)
	}
	for _, test := range []struct {
		name   string
		body   []byte
		limits gtfsrt.Limits
	}{
		{"empty entities", append(bytes.Clone(header), bytes.Repeat([]byte("\x12\x00"), 500_001)...), gtfsrt.Limits{}},
		{"empty stops", entity(3, bytes.Repeat([]byte("\x12\x00"), 2_000_001)), gtfsrt.Limits{}},
		{"empty carriages", entity(4, bytes.Repeat([]byte("\x5a\x00"), 2_000_001)), gtfsrt.Limits{}},
		{"bytes", make([]byte, 11), gtfsrt.Limits{Bytes: 10}},
		{"entities in JSON", []byte(`{"header":{},"entity":[{},{},{}]}`), gtfsrt.Limits{Entities: 2}},
		{"stops in JSON", []byte(`{"header":{},"entity":[{"trip_update":{"stop_time_update":[{},{},{}]}}]}`), gtfsrt.Limits{Parts: 6}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if e := refused(t, test.limits, test.body); e.Class != gtfsrt.TooLarge {
				t.Fatalf("class %s, want too_large: %v", e.Class, e)
			}
			if testing.AllocsPerRun(1, func() { _, _ = test.limits.Decode(test.body) }) > 100 {
				t.Error("refusing it allocates for what it holds")
			}
		})
	}
	if e := refused(t, gtfsrt.Limits{}, append(bytes.Repeat([]byte{0x7b}, 10_001), bytes.Repeat([]byte{0x7c}, 10_001)...)); e.Class == gtfsrt.Empty {
		t.Errorf("nested groups: %v", e)
	}
	deep := append(bytes.Clone(header), bytes.Repeat([]byte{0x7b}, 1_000_000)...)
	if e := refused(t, gtfsrt.Limits{}, deep); e.Class != gtfsrt.BadProtobuf {
		t.Errorf("open groups: %v", e)
	}
	if _, err := gtfsrt.Decode([]byte(`{"header":{},"x":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`)); err != nil {
		t.Errorf("nested arrays that are skipped: %v", err)
	}
}

// TestJSONForms holds that all spellings of a message read as its binary form.
func TestJSONForms(t *testing.T) {
	t.Parallel()
	added, incoming := pb.TripDescriptor_ScheduleRelationship(1), pb.VehiclePosition_INCOMING_AT
	full := related(trip("a", t0, stop(1, 60, -5), marked(bare(2), pb.TripUpdate_StopTimeUpdate_SKIPPED)), added)
	full.TripUpdate.Trip.StartDate, full.TripUpdate.Trip.StartTime = new("20260921"), new("14:00:00")
	full.TripUpdate.Trip.RouteId = new(`r"\é`)
	full.TripUpdate.StopTimeUpdate[0].Departure = &pb.TripUpdate_StopTimeEvent{Time: proto.Int64(t0 + 70)}
	proto.SetExtension(full.TripUpdate.Trip, pb.E_OvapiTripdescriptor, &pb.OVapiTripDescriptor{RealtimeTripId: new("A:1:2")})
	moving := vehicle("v", t0, 52.37, 4.9)
	moving.Vehicle.CurrentStatus = &incoming
	moving.Vehicle.OccupancyStatus = pb.VehiclePosition_FULL.Enum()
	moving.Vehicle.Position.Bearing, moving.Vehicle.Position.Speed = proto.Float32(90), proto.Float32(12.5)
	moving.Vehicle.StopId, moving.Vehicle.Vehicle.Label = new("s1"), new("7602")
	m := feed(0, full, moving, &pb.FeedEntity{Id: new("x"), Alert: &pb.Alert{}})
	want := decode(t, m)

	camel, err := protojson.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	snake, err := protojson.MarshalOptions{UseProtoNames: true, UseEnumNumbers: true, Indent: "  "}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	loose := strings.NewReplacer(`"delay":-5`, `"delay":"-5"`, fmt.Sprintf(`"time":"%d"`, t0+60), fmt.Sprintf(`"time":%d.0e0`, t0+60),
		`"stopSequence":1`, `"stopSequence":"1","note":{"deep":[null,[{"}":"]"}]]}`,
		`"alert":{}`, `"alert":{},"tripUpdate":null,"vehicle":null,"isDeleted":null`).Replace(string(camel))
	for name, body := range map[string]string{
		"camel": string(camel), "snake": string(snake), "loose": loose, "with a mark": "\xef\xbb\xbf" + string(camel), "after a line": "\n" + string(snake),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := gtfsrt.Decode([]byte(body))
			if err != nil {
				t.Fatalf("%v in %s", err, body)
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(gtfsrt.Head{})); diff != "" {
				t.Fatalf("mismatch (-protobuf +JSON):\n%s", diff)
			}
			if got.Count(gtfsrt.Alerts) != 1 || got.Count(gtfsrt.TripUpdates) != 1 || got.Count(gtfsrt.VehiclePositions) != 1 {
				t.Errorf("kinds counted wrong: %+v", got.Head)
			}
		})
	}
}

// TestBrokenDeepInside holds that an entity which no encoder would write costs the
// whole body, though Peek does not look that deep.
func TestBrokenDeepInside(t *testing.T) {
	t.Parallel()
	body := protowire.AppendTag(marshal(t, feed(0, trip("a", 0, stop(1, 60, 5)))), 2, protowire.BytesType)
	body = protowire.AppendBytes(body, []byte("\x0a\x01x\x1a\x04\x0a\x02\x0a\x7f"))
	head, err := gtfsrt.Peek(body)
	if err != nil || head.Entities != 2 || head.Count(gtfsrt.TripUpdates) != 2 {
		t.Errorf("Peek: %+v, %v", head, err)
	}
	s, err := gtfsrt.Decode(body)
	if e, ok := errors.AsType[*gtfsrt.DecodeError](err); !ok || e.Class != gtfsrt.BadProtobuf || e.Hint == "" || e.Head == "" {
		t.Errorf("Decode: %+v, %v", s, err)
	}
}

// TestFieldsOfAnotherForm holds that a field of a known number in a form that the
// schema does not give it is one that is not known, for Peek too.
func TestFieldsOfAnotherForm(t *testing.T) {
	t.Parallel()
	body := append(marshal(t, feed(0)), "\x10\x01\x12\x09\x0a\x01a\x18\x01\x20\x01\x28\x01"...)
	s, err := gtfsrt.Decode(body)
	if err != nil || s.Entities != 1 || s.Count(gtfsrt.TripUpdates)+s.Count(gtfsrt.VehiclePositions)+s.Count(gtfsrt.Alerts) != 0 {
		t.Fatalf("read as %+v, %v", s, err)
	}
	if head, err := gtfsrt.Peek(body); err != nil || *head != s.Head {
		t.Errorf("Peek sees %+v, %v", head, err)
	}
}

// TestAlertsAreNotRead holds that an alert is counted and costs nothing, whatever
// it holds.
func TestAlertsAreNotRead(t *testing.T) { // not parallel: it counts allocations
	body := protowire.AppendTag(marshal(t, feed(0)), 2, protowire.BytesType)
	alert := protowire.AppendBytes([]byte("\x0a\x01a\x2a"), bytes.Repeat([]byte("\x2a\x00"), 100_000))
	body = protowire.AppendBytes(body, append(alert, "\x2a\x01\x7f"...)) // and a broken piece
	s, err := gtfsrt.Decode(body)
	if err != nil || s.Entities != 1 || s.Count(gtfsrt.Alerts) != 1 {
		t.Fatalf("%+v, %v", s, err)
	}
	if testing.AllocsPerRun(1, func() { _, _ = gtfsrt.Decode(body) }) > 100 {
		t.Error("the alert is read")
	}
}

// TestJSONOdd holds what is made of values that are odd, but of the right type.
func TestJSONOdd(t *testing.T) {
	t.Parallel()
	s, err := gtfsrt.Decode([]byte(`{"entity":[{"id":"a","trip_update":{"trip":{"trip_id":"12","schedule_relationship":99},
		"stop_time_update":[{"stop_sequence":null,"stop_id":"s","schedule_relationship":-7,"arrival":{"delay":"1e2","time":null}},{}]}},
		{"id":null},{},{"id":"v","vehicle":{"position":{"latitude":"NaN"},"current_status":77}},{"id":"w","vehicle":null,"trip_update":null}],
		"header":{"timestamp":0,"incrementality":"SOMETHING"},"header2":{"a":"\""}}`))
	if err != nil {
		t.Fatal(err)
	}
	if s.Header != gtfsrt.NoTime || s.Entities != 5 || len(s.Trips) != 1 || len(s.Vehicles) != 1 || s.Tally[gtfsrt.EntityWithoutID] != 2 {
		t.Fatalf("read as %+v", s)
	}
	u := s.Trips[0]
	if u.TripID != "12" || u.Relation != 99 || len(u.Stops) != 2 {
		t.Errorf("trip read as %+v", u)
	}
	if u.Stops[0].HasSequence || u.Stops[0].Relation != -7 || u.Stops[0].Arrival != (gtfsrt.StopEvent{HasDelay: true, Delay: 100}) {
		t.Errorf("stops read as %+v", u.Stops)
	}
	if s.Vehicles[0].HasPosition || s.Vehicles[0].CurrentStatus != "" || s.Tally[gtfsrt.PositionIncomplete] != 1 {
		t.Errorf("vehicle read as %+v, tally %v", s.Vehicles[0], s.Tally)
	}
}

// TestHeaderTime holds which header times are taken.
func TestHeaderTime(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		time   uint64
		want   int64
		reason gtfsrt.Reason
		count  int
	}{
		{"seconds", t0, t0 * 1000, 0, 0},
		{"none", 0, gtfsrt.NoTime, 0, 0},
		{"milliseconds", t0 * 1000, gtfsrt.NoTime, gtfsrt.TimeUnitSuspect, 1},
		{"long ago", 100, gtfsrt.NoTime, gtfsrt.TimeImplausible, 1},
		{"far ahead", math.MaxUint64, gtfsrt.NoTime, gtfsrt.TimeImplausible, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			m := feed(0)
			m.Header.Timestamp = &test.time
			s := decode(t, m)
			if s.Header != test.want || s.Tally[test.reason] != test.count {
				t.Fatalf("header %d, tally %v", s.Header, s.Tally)
			}
		})
	}
}

// FuzzDecode holds that no body breaks the decoder, that Peek refuses nothing that
// is read and sees the same, and that whatever comes out makes events that the
// log's readers accept, twice none.
func FuzzDecode(f *testing.F) {
	f.Add(marshal(f, feed(0, trip("a", t0, stop(1, 60, 5), bare(2)), vehicle("v", t0, 52, 4))))
	f.Add([]byte(`{"header":{"timestamp":1790000100},"entity":[{"id":"1","tripUpdate":{"trip":{"tripId":"a"},"stopTimeUpdate":[{"stopId":"b","arrival":{"delay":1}}]}}]}`))
	f.Add([]byte("header {"))
	f.Add([]byte("\x0a\x00\x12\x00"))
	f.Fuzz(func(t *testing.T, body []byte) {
		s, err := gtfsrt.Decode(body)
		head, peeked := gtfsrt.Peek(body)
		if peeked != nil && err == nil {
			t.Fatalf("Decode says %v, Peek %v", err, peeked)
		}
		if err != nil {
			if strings.ContainsFunc(err.Error(), unicode.IsControl) {
				t.Fatalf("the error shows the body as it is: %q", err.Error())
			}
			return
		}
		if *head != s.Head {
			t.Fatalf("Decode sees %+v, Peek %+v", s.Head, *head)
		}
		for _, emit := range []gtfsrt.Emit{gtfsrt.Predictions, gtfsrt.Arrivals} {
			b := newBench(t, emit)
			now := int64(t0+100*24*3600) * 1000
			delta := b.differ.Diff(s, now)
			b.check(delta.Events)
			for _, e := range delta.Events {
				if e.Time > delta.Sources[0].Header && e.Time > delta.Sources[1].Header {
					t.Fatalf("event at %d, header %v", e.Time, delta.Sources)
				}
			}
			b.store.apply(delta.Changes(0, len(delta.Events)))
			b.restart()
			again := *s
			if s.Header != gtfsrt.NoTime {
				again.Header++
			}
			if delta := b.differ.Diff(&again, now+1); len(delta.Events) > 0 && !ahead(s) {
				t.Fatalf("published again: %v", says(delta.Events))
			}
		}
	})
}

// ahead says whether a time lies after the header, so that the same content under
// a newer header is news.
func ahead(s *gtfsrt.Snapshot) bool {
	for i := range s.Trips {
		for _, stop := range s.Trips[i].Stops {
			if stop.Arrival.Time*1000 > s.Header {
				return true
			}
		}
	}
	return false
}
