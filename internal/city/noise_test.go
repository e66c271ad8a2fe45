package city

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/peil-stream/peil/event"
	"github.com/peil-stream/peil/internal/stream"
)

const skewMax = int64(5 * 60 * 1000)

// judge decodes a message as the processor would; logTime is the log's timestamp.
func judge(m stream.Message, positions bool, logTime int64) (p event.Prediction, v event.Position, err *event.Error) {
	var decoder event.Decoder
	if positions {
		err = decoder.Position(m.Value, &v)
		p.Timestamp = v.Timestamp
	} else {
		err = decoder.Prediction(m.Value, &p)
	}
	if err == nil {
		err = event.JudgeTime(p.Timestamp, logTime, skewMax)
	}
	return p, v, err
}

// How: two hours of polls; every message is decoded and judged, in the log at the
// time of the poll.
func TestNoiseHasEveryFaultAndDecodesToIt(t *testing.T) {
	t.Parallel()
	c := newCity(t, Config{Seed: 4, Feed: "nl"})
	topics := Topics{Arrivals: "arrivals", Positions: "positions"}
	seen := map[string]int{}
	for n := range 240 {
		at := monday.Add(time.Duration(n) * 30 * time.Second)
		for _, m := range c.Noise(at, topics, 4) {
			positions := m.Topic == topics.Positions
			if !positions && m.Topic != topics.Arrivals {
				t.Fatalf("noise for topic %q", m.Topic)
			}
			if m.Value == nil {
				seen["null"]++
				if len(m.Key) == 0 {
					t.Error("a null value without a key")
				}
				continue
			}
			p, v, err := judge(m, positions, at.UnixMilli())
			if err != nil {
				seen[string(err.Reason)]++
				if m.Key == nil && (m.Partition < 0 || m.Partition > 3) {
					t.Errorf("a record without a key goes to partition %d", m.Partition)
				}
				continue
			}
			want := event.PredictionKey(nil, &p)
			if positions {
				want = event.PositionKey(nil, &v)
			}
			if m.Partition != stream.ByKey || !bytes.Equal(m.Key, want) {
				t.Errorf("key %q in partition %d, want %q by key", m.Key, m.Partition, want)
			}
			checkNoiseTime(t, time.Duration(at.UnixMilli()-p.Timestamp)*time.Millisecond, positions, seen)
		}
	}
	for _, reason := range []event.Reason{
		event.BadJSON, event.MissingField, event.BadID, event.BadValue, event.FutureEvent, event.ImplausibleTime,
		event.BadPosition,
	} {
		if seen[string(reason)] == 0 {
			t.Errorf("no record is %s: %v", reason, seen)
		}
	}
	if seen["null"] == 0 || seen["late"] < 40 || seen["in time"] < 1000 || seen["positions"] < 50 {
		t.Errorf("too little of something: %v", seen)
	}
	if dead := seen["bad_json"] + seen["missing_field"] + seen["bad_id"] + seen["bad_value"]; dead > 240 {
		t.Errorf("%d bad records in 240 polls", dead)
	}
}

func checkNoiseTime(t *testing.T, behind time.Duration, positions bool, seen map[string]int) {
	t.Helper()
	switch {
	case behind >= lateFrom && behind <= lateTo && !positions:
		seen["late"]++
	case behind >= reportDelay*time.Second && behind <= reportDelay*time.Second+disorderMax:
		if positions {
			seen["positions"]++
		} else {
			seen["in time"]++
		}
	default:
		t.Errorf("an event %v behind the poll", behind)
	}
}

func TestNoiseKeepsToItsOwnTripsAndToTheTown(t *testing.T) {
	t.Parallel()
	c := newCity(t, Config{Seed: 4})
	at := monday.Add(8 * time.Hour)
	trips, lines, operators := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, e := range c.Message(at).Entity {
		if u := e.TripUpdate; u != nil {
			trips["city:"+u.GetTrip().GetTripId()] = true
			lines["city:"+u.GetTrip().GetRouteId()] = true
			operator, _, _ := strings.Cut(u.GetTrip().GetRouteId(), ":")
			operators["city:"+operator] = true
		}
	}
	own := map[string]bool{}
	for n := range 2000 {
		for _, m := range c.Noise(at.Add(time.Duration(n)*30*time.Second), Topics{Arrivals: "a"}, 1) {
			p, _, err := judge(m, false, at.UnixMilli())
			if m.Value == nil || err != nil {
				continue
			}
			if trips[string(p.TripID)] {
				t.Errorf("noise about trip %s of the feed", p.TripID)
			}
			if !lines[string(p.LineID)] || !operators[string(p.Operator)] || len(p.StationID) == 0 {
				t.Errorf("noise about line %s of %s at %q", p.LineID, p.Operator, p.StationID)
			}
			own[string(p.TripID)] = true
		}
	}
	if most := noiseTrips * len(c.lines); len(own) > most {
		t.Errorf("%d trip ids, bound %d", len(own), most)
	}
}

func TestNoiseLeavesOutATopicWithoutName(t *testing.T) {
	t.Parallel()
	c := newCity(t, Config{})
	for n := range 100 {
		at := monday.Add(time.Duration(n) * time.Minute)
		for _, m := range c.Noise(at, Topics{Positions: "p"}, 0) {
			if m.Topic != "p" {
				t.Fatalf("noise for topic %q", m.Topic)
			}
		}
	}
}
