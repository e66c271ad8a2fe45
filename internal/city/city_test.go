package city

import (
	"bytes"
	"fmt"
	"testing"
	"time"
	_ "time/tzdata" // the test of clock changes must not depend on the machine

	"google.golang.org/protobuf/proto"

	"github.com/peil-stream/peil/internal/transit/gtfsrt/pb"
)

// monday is a working day.
var monday = time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)

func newCity(tb testing.TB, cfg Config) *City {
	tb.Helper()
	c, err := New(cfg)
	if err != nil {
		tb.Fatalf("New(%+v): %v", cfg, err)
	}
	return c
}

func encode(tb testing.TB, m *pb.FeedMessage) []byte {
	tb.Helper()
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		tb.Fatalf("marshal a feed: %v", err)
	}
	return body
}

// How: one city is asked in order, the other one backwards and now and then with
// all days thrown out of its cache.
func TestMessageIsAPureFunctionOfSeedAndTime(t *testing.T) {
	t.Parallel()
	forward, backward := newCity(t, Config{Seed: 7}), newCity(t, Config{Seed: 7})
	topics := Topics{Arrivals: "a", Positions: "p"}
	const polls = 24
	var bodies [polls][]byte
	var noise [polls]string
	at := func(i int) time.Time { return monday.Add(time.Duration(i) * 77 * time.Minute) }
	for i := range polls {
		bodies[i] = encode(t, forward.Message(at(i)))
		noise[i] = fmt.Sprint(forward.Noise(at(i), topics, 4))
	}
	for i := polls - 1; i >= 0; i-- {
		if i%6 == 0 {
			backward.Message(at(i).AddDate(0, 0, -9))
			backward.Message(at(i).AddDate(0, 0, -7))
		}
		if got := encode(t, backward.Message(at(i))); !bytes.Equal(got, bodies[i]) {
			t.Errorf("the feed of %v depends on what was asked before", at(i))
		}
		if got := fmt.Sprint(backward.Noise(at(i), topics, 4)); got != noise[i] {
			t.Errorf("the noise of %v depends on what was asked before", at(i))
		}
	}
	other := newCity(t, Config{Seed: 8})
	if bytes.Equal(encode(t, other.Message(at(20))), bodies[20]) {
		t.Error("another seed gives the same feed")
	}
	if fmt.Sprint(other.Noise(at(20), topics, 4)) == noise[20] {
		t.Error("another seed gives the same noise")
	}
}

func TestMessageBelongsToItsCaller(t *testing.T) {
	t.Parallel()
	c := newCity(t, Config{})
	at := monday.Add(8 * time.Hour)
	want := encode(t, c.Message(at))
	spoilt := c.Message(at)
	for _, e := range spoilt.Entity {
		if u := e.TripUpdate; u != nil {
			*u.Trip.TripId = "spoilt"
			for _, s := range u.StopTimeUpdate {
				*s.StopId = "spoilt"
			}
		}
		if v := e.Vehicle; v != nil {
			*v.StopId, *v.Vehicle.Id = "spoilt", "spoilt"
		}
	}
	if !bytes.Equal(encode(t, c.Message(at)), want) {
		t.Error("a caller changed the city")
	}
}

func TestNewRefusesImpossibleTowns(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		cfg  Config
	}{
		{"no lines", Config{Lines: -1}},
		{"too many lines", Config{Lines: linesMax + 1}},
		{"too many operators", Config{Operators: operatorsMax + 1}},
		{"more operators than lines", Config{Lines: 2, Operators: 3}},
		{"negative operators", Config{Operators: -1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if _, err := New(tt.cfg); err == nil {
				t.Errorf("New(%+v) lays it out", tt.cfg)
			}
		})
	}
}

func TestTownsOfManySeedsArePlausible(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		c := newCity(t, Config{Seed: seed, Lines: 30, Operators: 5})
		operators := map[string]int{}
		for _, l := range c.lines {
			operators[l.operator]++
			for dir := range l.routes {
				checkRoute(t, fmt.Sprintf("seed %d line %s direction %d", seed, l.name, dir), &l.routes[dir])
			}
			for _, table := range l.days {
				for i, tr := range table {
					if tr.vehicle > vehiclesMax-1 {
						t.Fatalf("seed %d line %s needs %d vehicles", seed, l.name, tr.vehicle)
					}
					if i > 0 && tr.depart < table[i-1].depart {
						t.Fatalf("seed %d line %s: the timetable is not in order", seed, l.name)
					}
				}
			}
		}
		for _, l := range c.lines {
			for _, today := range l.days {
				for _, tomorrow := range l.days {
					checkService(t, fmt.Sprintf("seed %d line %s", seed, l.name), l, today, tomorrow)
				}
			}
		}
		if len(operators) != 5 {
			t.Errorf("seed %d: lines run for %v", seed, operators)
		}
	}
}

// checkService checks I4 by the timetable: from one day into the next, the times
// from boarding to the earliest possible end leave no gap between them.
func checkService(t *testing.T, name string, l *line, today, tomorrow timetable) {
	t.Helper()
	const day = 24 * 3600
	covered := int64(serviceStart + 10*60) // the day before covers what comes first
	follow := func(table timetable, from, until, shift int64) {
		for i := range table {
			tr := &table[i]
			if tr.depart < from || tr.depart >= until {
				continue
			}
			if begins := tr.depart + shift - boarding; begins > covered {
				t.Errorf("%s: nothing runs from second %d to %d", name, covered, begins)
			}
			covered = max(covered, tr.planned(l)+shift-earlyMax)
		}
	}
	follow(today, 0, serviceStart+day, 0)
	follow(tomorrow, 0, serviceStart+3*3600, day)
}

func checkRoute(t *testing.T, name string, r *route) {
	t.Helper()
	if n := len(r.stops); n < 8 || n > 60 {
		t.Errorf("%s has %d stops", name, n)
	}
	for i, s := range r.stops {
		if !inTown(s.at.lat, s.at.lon) {
			t.Errorf("%s: stop %d lies outside the town: %v", name, i, s.at)
		}
		if i == 0 {
			continue
		}
		gap := s.along - r.stops[i-1].along
		if gap < 250 || gap > 1500 {
			t.Errorf("%s: stops %d and %d are %.0f m apart", name, i-1, i, gap)
		}
		if speed := gap / float64(r.run[i]); speed < 3 || speed > 9 {
			t.Errorf("%s: the timetable wants %.1f m/s to stop %d", name, speed, i)
		}
	}
}

// inTown: the town has a radius of 26 blocks of 220 m, and a corner is farther.
func inTown(lat, lon float64) bool {
	return distance(place{lat, lon}, place{townLat, townLon}) < 1.45*townRadius*blockLength
}

func TestEveryLineRunsAllDayThroughClockChanges(t *testing.T) {
	t.Parallel()
	zone, err := time.LoadLocation("Europe/Amsterdam")
	if err != nil {
		t.Fatalf("load zone: %v", err)
	}
	c := newCity(t, Config{Seed: 3, Zone: zone})
	for _, day := range []time.Time{
		time.Date(2026, 10, 24, 20, 0, 0, 0, time.UTC), // clocks go back in this night
		time.Date(2027, 3, 27, 20, 0, 0, 0, time.UTC),  // clocks go forward
		time.Date(2026, 12, 31, 20, 0, 0, 0, time.UTC),
	} {
		for n := range 14 * 6 {
			checkFeed(t, c, day.Add(time.Duration(n)*10*time.Minute))
		}
	}
}

func TestFeedOfAWholeDayIsPlausible(t *testing.T) {
	t.Parallel()
	c := newCity(t, Config{})
	seen := map[string]int{}
	for n := range 24 * 12 {
		for what, count := range checkFeed(t, c, monday.Add(time.Duration(n)*5*time.Minute)) {
			seen[what] += count
		}
	}
	for _, what := range []string{
		"early", "late", "skipped", "no data", "canceled", "boarding", "stopped", "incoming", "under way", "not counted", "full",
	} {
		if seen[what] == 0 {
			t.Errorf("in a whole day nothing was %s: %v", what, seen)
		}
	}
	for what, most := range map[string]int{"skipped": 100, "no data": 50} {
		if seen[what]*most > seen["arrivals"] {
			t.Errorf("%d of %d predictions are %s", seen[what], seen["arrivals"], what)
		}
	}
	if seen["canceled"]*50 > seen["trips"] {
		t.Errorf("%d of %d trips are cancelled", seen["canceled"], seen["trips"])
	}
}

// checkFeed checks one snapshot and counts what is in it.
func checkFeed(t *testing.T, c *City, at time.Time) map[string]int {
	t.Helper()
	m := c.Message(at)
	if got := m.GetHeader().GetTimestamp(); got != uint64(at.Unix()) {
		t.Errorf("%v: header time %d", at, got)
	}
	seen := map[string]int{}
	ids, vehicles, trips, lines := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	once := func(set map[string]bool, what, id string) {
		if set[id] {
			t.Errorf("%v: %s %s occurs twice", at, what, id)
		}
		set[id] = true
	}
	for _, e := range m.Entity {
		once(ids, "entity", e.GetId())
		if u := e.TripUpdate; u != nil {
			once(trips, "trip", u.GetTrip().GetTripId()+u.GetTrip().GetStartDate())
			lines[u.GetTrip().GetRouteId()] = true
			checkTrip(t, at, u, seen)
		}
		if v := e.Vehicle; v != nil {
			once(vehicles, "vehicle", v.GetVehicle().GetId())
			checkVehicle(t, at, v, seen)
		}
	}
	if len(lines) != c.cfg.Lines {
		t.Errorf("%v: %d of %d lines run", at, len(lines), c.cfg.Lines)
	}
	seen["vehicles"], seen["trips"] = len(vehicles), len(trips)
	return seen
}

func checkTrip(t *testing.T, at time.Time, u *pb.TripUpdate, seen map[string]int) {
	t.Helper()
	trip := u.GetTrip()
	name := fmt.Sprintf("%v: trip %s of %s", at, trip.GetTripId(), trip.GetStartDate())
	if age := at.Unix() - int64(u.GetTimestamp()); age < 5 || age > 25 {
		t.Errorf("%s was reported %d s before the header", name, age)
	}
	extension, _ := proto.GetExtension(trip, pb.E_OvapiTripdescriptor).(*pb.OVapiTripDescriptor)
	if want := trip.GetRouteId() + ":"; len(extension.GetRealtimeTripId()) <= len(want) ||
		extension.GetRealtimeTripId()[:len(want)] != want {
		t.Errorf("%s on route %s has the extension %q", name, trip.GetRouteId(), extension.GetRealtimeTripId())
	}
	if trip.GetScheduleRelationship() == pb.TripDescriptor_CANCELED {
		seen["canceled"]++
		if len(u.StopTimeUpdate) > 0 {
			t.Errorf("%s is cancelled and has stops", name)
		}
		return
	}
	var sequence uint32
	before := int64(u.GetTimestamp())
	for _, s := range u.StopTimeUpdate {
		if s.GetStopSequence() <= sequence {
			t.Errorf("%s: stop %d comes after stop %d", name, s.GetStopSequence(), sequence)
		}
		sequence = s.GetStopSequence()
		switch s.GetScheduleRelationship() {
		case pb.TripUpdate_StopTimeUpdate_SKIPPED:
			seen["skipped"]++
		case pb.TripUpdate_StopTimeUpdate_NO_DATA:
			seen["no data"]++
		default:
			event := s.GetArrival()
			if sequence == 1 {
				seen["boarding"]++
				event = s.GetDeparture()
			}
			if event.GetTime() <= before {
				t.Errorf("%s: stop %d is predicted for %d, not after %d", name, sequence, event.GetTime(), before)
			}
			before = event.GetTime()
			count(t, name, sequence, event.GetDelay(), seen)
		}
	}
}

func count(t *testing.T, name string, sequence uint32, delay int32, seen map[string]int) {
	t.Helper()
	seen["arrivals"]++
	switch {
	case delay < -earlyMax || delay > lateMax+30:
		t.Errorf("%s: delay of %d s at stop %d", name, delay, sequence)
	case delay < -20:
		seen["early"]++
	case delay > 120:
		seen["late"]++
	}
}

func checkVehicle(t *testing.T, at time.Time, v *pb.VehiclePosition, seen map[string]int) {
	t.Helper()
	name := fmt.Sprintf("%v: vehicle %s", at, v.GetVehicle().GetId())
	p := v.GetPosition()
	if !inTown(float64(p.GetLatitude()), float64(p.GetLongitude())) {
		t.Errorf("%s is at %v", name, p)
	}
	if p.GetBearing() < 0 || p.GetBearing() >= 360 || p.GetSpeed() < 0 || p.GetSpeed() > 28 {
		t.Errorf("%s: bearing and speed of %v", name, p)
	}
	if age := at.Unix() - int64(v.GetTimestamp()); age < 5 || age > 25 {
		t.Errorf("%s was reported %d s before the header", name, age)
	}
	switch v.GetCurrentStatus() {
	case pb.VehiclePosition_STOPPED_AT:
		seen["stopped"]++
		if p.GetSpeed() != 0 {
			t.Errorf("%s stands at %v m/s", name, p.GetSpeed())
		}
	case pb.VehiclePosition_INCOMING_AT:
		seen["incoming"]++
	default:
		seen["under way"]++
	}
	switch {
	case v.OccupancyStatus == nil:
		seen["not counted"]++
	case v.GetOccupancyStatus() >= pb.VehiclePosition_STANDING_ROOM_ONLY:
		seen["full"]++
	}
}
