package transit_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/peil-stream/peil/event"
	"github.com/peil-stream/peil/internal/job"
	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/internal/transit"
)

const t0 int64 = 1790000100_000

func jobs() job.Factory {
	return transit.Jobs(transit.Config{
		Windowed: func(topic string) bool { return topic != "vehicle-positions" },
		MaxSkew:  5 * time.Minute, WindowSize: 5 * time.Minute,
	})
}

func arrivals(t *testing.T) job.Job {
	t.Helper()
	j, windowed := jobs()("arrival-predictions")
	if !windowed {
		t.Fatal("arrivals are not windowed")
	}
	return j
}

func positions(t *testing.T) job.Job {
	t.Helper()
	j, windowed := jobs()("vehicle-positions")
	if windowed {
		t.Fatal("positions are windowed")
	}
	return j
}

// cells names what a decoded event goes into.
func cells(d *job.Decoded) (out []string) {
	for _, c := range d.Record.Group {
		out = append(out, c.Dimension+"="+string(c.ID))
	}
	if c := d.Record.Extra; c.Dimension != "" {
		out = append(out, c.Dimension+"="+string(c.ID))
	}
	return out
}

func TestAPredictionGoesIntoTheDimensionsThatItNames(t *testing.T) {
	t.Parallel()
	const head = `{"feed":"nl","trip_id":"nl:t","timestamp":"2026-09-21T14:15:00Z","delay_s":-7`
	for _, test := range []struct {
		name, value string
		want        []string
		label       string
	}{
		{
			"all", head + `,"line_id":"nl:l","operator":"nl:o","station_id":"nl:st","stop_id":"nl:s"}`,
			[]string{"line=nl:l", "operator=nl:o", "network=nl", "station=nl:st"},
			"nl:o",
		},
		{"no line", head + `,"operator":"nl:o","station_id":"nl:st"}`, []string{"operator=nl:o", "network=nl", "station=nl:st"}, "nl:o"},
		{"no operator", head + `,"line_id":"nl:l","station_id":"nl:st"}`, []string{"line=nl:l", "network=nl", "station=nl:st"}, ""},
		{"a stop is no station", head + `,"stop_id":"nl:s"}`, []string{"network=nl"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var d job.Decoded
			arrivals(t).Decode(&stream.Record{Timestamp: t0, Value: []byte(test.value)}, &d)
			if d.Kind != job.Event || !d.Record.HasValue || d.Record.Value != -7 || d.Record.Time != t0 {
				t.Fatalf("decoded %+v", d)
			}
			if diff := cmp.Diff(test.want, cells(&d)); diff != "" || string(d.Record.Label) != test.label {
				t.Fatalf("cells (-want +got):\n%s label %q", diff, d.Record.Label)
			}
		})
	}
}

func TestWhatIsNoEvent(t *testing.T) {
	t.Parallel()
	header := func(kind string) []stream.Header {
		return []stream.Header{{Key: event.MarkerHeader, Value: []byte(kind)}}
	}
	marker := func(at int64) []byte {
		return event.AppendMarker(nil, &event.Marker{Feed: []byte("nl"), Timestamp: at})
	}
	for _, test := range []struct {
		name   string
		rec    stream.Record
		kind   job.Kind
		reason event.Reason
	}{
		{"null", stream.Record{Timestamp: t0}, job.Ignored, ""},
		{"empty", stream.Record{Timestamp: t0, Value: []byte{}}, job.Dead, event.BadJSON},
		{"heartbeat", stream.Record{Timestamp: t0, Value: marker(t0), Headers: header("heartbeat")}, job.Heartbeat, ""},
		{"heartbeat at the skew", stream.Record{Timestamp: t0, Value: marker(t0 + 300_000), Headers: header("heartbeat")}, job.Heartbeat, ""},
		{"heartbeat too far ahead", stream.Record{Timestamp: t0, Value: marker(t0 + 300_001), Headers: header("heartbeat")}, job.Dead, event.FutureEvent},
		{"heartbeat of null", stream.Record{Timestamp: t0, Headers: header("heartbeat")}, job.Ignored, ""},
		{"heartbeat without a value", stream.Record{Timestamp: t0, Value: []byte{}, Headers: header("heartbeat")}, job.Dead, event.BadMarker},
		{"close", stream.Record{Timestamp: t0, Value: marker(t0 + 300_000), Headers: header("close")}, job.Close, ""},
		{"close too far ahead", stream.Record{Timestamp: t0, Value: marker(t0 + 300_001), Headers: header("close")}, job.Dead, event.FutureEvent},
		{"close before 2000", stream.Record{Timestamp: t0, Value: marker(0), Headers: header("close")}, job.Dead, event.ImplausibleTime},
		{"unknown marker", stream.Record{Timestamp: t0, Value: marker(t0), Headers: header("else")}, job.Dead, event.BadMarker},
		{"no log timestamp", stream.Record{Timestamp: stream.NoTimestamp, Value: []byte(`{"feed":"nl","trip_id":"nl:t","timestamp":"2026-09-21T14:15:00Z","delay_s":1}`)}, job.Dead, event.NoTimestamp},
		{"broken", stream.Record{Timestamp: t0, Value: []byte("{")}, job.Dead, event.BadJSON},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			j := arrivals(t)
			var d job.Decoded
			j.Decode(&test.rec, &d)
			if d.Kind != test.kind || d.Reason != string(test.reason) || (d.Kind == job.Dead) != (d.Detail != "") {
				t.Fatalf("decoded %+v, want kind %d reason %q", d, test.kind, test.reason)
			}
			j.Keep(0)
			if s := j.Take(); len(s.Trips)+len(s.Vehicles) != 0 {
				t.Fatalf("a row was kept: %+v", s)
			}
		})
	}
}

// feed gives a job one prediction after the other and keeps each.
func feed(j job.Job, values ...string) sink.State {
	for i, v := range values {
		var d job.Decoded
		j.Decode(&stream.Record{Offset: int64(i), Timestamp: t0, Value: []byte(v)}, &d)
		j.Keep(int64(i))
	}
	return j.Take()
}

func prediction(at string, sequence, delay int, predicted string) string {
	return fmt.Sprintf(`{"feed":"nl","trip_id":"nl:t","start_date":"20260921","stop_id":"nl:s%d","stop_sequence":%d,"delay_s":%d,"timestamp":"2026-09-21T14:%sZ","predicted_time":"2026-09-21T14:%sZ"}`,
		sequence, sequence, delay, at, predicted)
}

func TestTheNewestRowOfATripIsTheNextStop(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		values []string
		want   int64 // stop sequence
	}{
		{"of one time the earliest stop not passed", []string{
			prediction("10:00", 4, 1, "09:00"), prediction("10:00", 5, 1, "11:00"), prediction("10:00", 6, 1, "12:00"),
		}, 5},
		{"in any order", []string{
			prediction("10:00", 6, 1, "12:00"), prediction("10:00", 5, 1, "11:00"), prediction("10:00", 4, 1, "09:00"),
		}, 5},
		{"else the last one", []string{prediction("10:00", 4, 1, "08:00"), prediction("10:00", 5, 1, "09:00")}, 5},
		{"a newer time wins", []string{prediction("10:30", 9, 1, "12:00"), prediction("10:00", 5, 1, "11:00")}, 9},
		{"of equals the later one", []string{prediction("10:00", 5, 1, "11:00"), prediction("10:00", 5, 2, "11:00")}, 5},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := feed(arrivals(t), test.values...)
			if len(s.Trips) != 1 || *s.Trips[0].StopSequence != test.want {
				t.Fatalf("rows %+v, want the stop %d", s.Trips, test.want)
			}
			if test.name == "of equals the later one" && s.Trips[0].DelayS != 2 {
				t.Fatalf("delay %d, want 2", s.Trips[0].DelayS)
			}
		})
	}
}

func TestAStatusKeepsNoRow(t *testing.T) {
	t.Parallel()
	if s := feed(arrivals(t), `{"feed":"nl","trip_id":"nl:t","status":"skipped","timestamp":"2026-09-21T14:10:00Z"}`); len(s.Trips) != 0 {
		t.Fatalf("rows %+v of a status", s.Trips)
	}
}

// TestTakeHandsOverWhatIsNewer: of what was handed over only a newer row comes
// again, and what the taker has does not change any more.
func TestTakeHandsOverWhatIsNewer(t *testing.T) {
	t.Parallel()
	j := arrivals(t)
	sequences := func(s sink.State) (all []int64) {
		for _, r := range s.Trips {
			all = append(all, *r.StopSequence)
		}
		return all
	}
	first := feed(j, prediction("10:00", 5, 1, "11:00"))
	older := feed(j, prediction("09:00", 4, 2, "11:00"))
	newer := feed(j, prediction("10:00", 5, 1, "11:00"), prediction("10:30", 6, 3, "11:00"))
	if !slices.Equal(sequences(first), []int64{5}) || len(older.Trips) != 0 {
		t.Fatalf("rows %+v, then %+v", first.Trips, older.Trips)
	}
	// The row was not changed in one turn, and so was forgotten: all is newer.
	if !slices.Equal(sequences(newer), []int64{6}) || newer.Trips[0].DelayS != 3 {
		t.Fatalf("rows %+v", newer.Trips)
	}
	again := feed(j, prediction("10:30", 7, 4, "11:00"), prediction("10:30", 6, 5, "11:00"))
	if !slices.Equal(sequences(again), []int64{6}) || again.Trips[0].DelayS != 5 || newer.Trips[0].DelayS != 3 {
		t.Fatalf("rows %+v after %+v", again.Trips, newer.Trips)
	}
}

// TestTheTextsOfATrip: whatever is missing in a record is missing in its row, also
// where an older record of the trip had it.
func TestTheTextsOfATrip(t *testing.T) {
	t.Parallel()
	const head = `{"feed":"nl","trip_id":"nl:t","start_date":"20260921","delay_s":1,"timestamp":"2026-09-21T14:`
	for _, test := range []struct {
		last string
		want sink.Trip
	}{
		{`,"line_id":"nl:line","operator":"nl:op","stop_id":"nl:stop","station_id":"nl:st"`, sink.Trip{LineID: "nl:line", Operator: "nl:op", StopID: "nl:stop", StationID: "nl:st"}},
		{`,"operator":"nl:op","station_id":"nl:st"`, sink.Trip{Operator: "nl:op", StationID: "nl:st"}},
		{`,"line_id":"nl:line","stop_id":"nl:stop"`, sink.Trip{LineID: "nl:line", StopID: "nl:stop"}},
		{``, sink.Trip{}},
	} {
		s := feed(arrivals(t),
			head+`10:00Z","line_id":"nl:before","operator":"nl:before","stop_id":"nl:before","station_id":"nl:before","stop_sequence":3}`,
			head+`11:00Z"`+test.last+`}`)
		want := test.want
		want.TripID, want.StartDate, want.DelayS = "nl:t", "20260921", 1
		want.PredictedTime, want.ObservedAt = sink.NoTime, t0-240_000
		if diff := cmp.Diff([]sink.Trip{want}, s.Trips, cmpopts.IgnoreFields(sink.Trip{}, "Tie")); diff != "" {
			t.Errorf("%q (-want +got):\n%s", test.last, diff)
		}
	}
}

func TestTheNewestPositionOfAVehicle(t *testing.T) {
	t.Parallel()
	position := func(at string, lat float64, rest string) string {
		return fmt.Sprintf(`{"feed":"nl","vehicle_id":"nl:v","latitude":%v,"longitude":4.9,"timestamp":"2026-09-21T14:%sZ"%s}`, lat, at, rest)
	}
	got := feed(positions(t),
		position("10:00", 52.1, `,"bearing":90,"speed_mps":7.5,"line_id":"nl:l"`),
		position("10:00", 52.2, `,"trip_id":"nl:t","occupancy":"EMPTY"`), // the later of equals
		position("09:00", 52.3, ""),
	)
	want := sink.State{Vehicles: []sink.Vehicle{{
		VehicleID: "nl:v", TripID: "nl:t", Latitude: 52.2, Longitude: 4.9, Occupancy: "EMPTY",
		ObservedAt: t0 - 300_000, Tie: 1,
	}}}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("rows (-want +got):\n%s", diff)
	}
}

func BenchmarkArrivals(b *testing.B) {
	j, _ := jobs()("arrival-predictions")
	rec := stream.Record{Timestamp: t0, Value: []byte(prediction("10:00", 5, 1, "11:00"))}
	var d job.Decoded
	b.ReportAllocs()
	for b.Loop() {
		j.Decode(&rec, &d)
		j.Keep(0)
	}
}
