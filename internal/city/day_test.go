package city

import (
	"math"
	"testing"
	"time"

	"github.com/peil-stream/peil/internal/transit/gtfsrt/pb"
)

// arrivals counts the vehicles and the predicted arrivals of a snapshot.
func arrivals(m *pb.FeedMessage) (vehicles, predictions int) {
	for _, e := range m.Entity {
		if e.Vehicle != nil {
			vehicles++
		}
		for _, s := range e.GetTripUpdate().GetStopTimeUpdate() {
			if s.Arrival != nil {
				predictions++
			}
		}
	}
	return vehicles, predictions
}

func TestDayHasPeaksAndAQuietNight(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		c := newCity(t, Config{Seed: seed})
		at := func(hour, minute int) (vehicles, predictions int) {
			return arrivals(c.Message(monday.Add(time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute)))
		}
		morning, _ := at(8, 30)
		noon, _ := at(12, 30)
		evening, _ := at(17, 30)
		night, _ := at(3, 0)
		if morning < 200 || morning > 310 || evening < 200 || evening > 310 {
			t.Errorf("seed %d: %d and %d vehicles in the peaks", seed, morning, evening)
		}
		if noon*5 > morning*4 || night*2 > noon || night < 24 {
			t.Errorf("seed %d: morning %d, noon %d, night %d vehicles", seed, morning, noon, night)
		}
		// A five-minute window takes ten polls.
		for hour := range 24 {
			if _, predictions := at(hour, 0); predictions < 300 {
				t.Errorf("seed %d: at %d:00 a poll has %d predictions", seed, hour, predictions)
			}
		}
	}
}

func TestWeekendIsThinner(t *testing.T) {
	t.Parallel()
	c := newCity(t, Config{})
	working, _ := arrivals(c.Message(monday.Add(8 * time.Hour)))
	sunday, _ := arrivals(c.Message(monday.Add(-16 * time.Hour)))
	if sunday*100 > working*90 || sunday*2 < working {
		t.Errorf("at 8:00 there are %d vehicles on a working day and %d on Sunday", working, sunday)
	}
}

// delaysOf gathers the deviation at each stop that was reached on a day, by line.
func delaysOf(c *City, date serviceDate) map[int][]float64 {
	d := c.day(date)
	by := map[int][]float64{}
	for i := range d.lines {
		for n := range d.lines[i].runs {
			tr, r := &d.lines[i].table[n], &d.lines[i].runs[n]
			route := &c.lines[i].routes[tr.dir]
			if r.canceled {
				continue
			}
			for s := 1; s < len(r.reach); s++ {
				by[i] = append(by[i], float64(int64(r.reach[s])-tr.depart-route.sched[s]))
			}
		}
	}
	return by
}

func TestTripsRunInOrderAndWithinBounds(t *testing.T) {
	t.Parallel()
	c := newCity(t, Config{Seed: 2})
	d := c.day(dateOf(monday))
	for i := range d.lines {
		table, runs := d.lines[i].table, d.lines[i].runs
		for n := range runs {
			tr, r := &table[n], &runs[n]
			route := &c.lines[i].routes[tr.dir]
			for s := range r.reach {
				if r.leave[s] < r.reach[s] || s > 0 && r.reach[s] <= r.leave[s-1] {
					t.Fatalf("trip %s goes back in time at stop %d: %v %v", tr.id, s, r.reach, r.leave)
				}
				late := int64(r.reach[s]) - tr.depart - route.sched[s]
				if s > 0 && (late < -earlyMax || late > lateMax) {
					t.Fatalf("trip %s is %d s late at stop %d", tr.id, late, s)
				}
			}
			if tr.before >= 0 && !r.canceled && int64(r.reach[0]) < runs[tr.before].end() {
				t.Fatalf("trip %s begins before its vehicle is there", tr.id)
			}
		}
	}
}

func TestDelaysGrowAndRecover(t *testing.T) {
	t.Parallel()
	c := newCity(t, Config{Seed: 2})
	d := c.day(dateOf(monday))
	grown, passedOn, recovered := 0, 0, 0
	for i := range d.lines {
		table, runs := d.lines[i].table, d.lines[i].runs
		end := func(n int) int64 {
			route := &c.lines[i].routes[table[n].dir]
			return int64(runs[n].reach[route.last()]) - table[n].planned(c.lines[i])
		}
		for n := range runs {
			start := int64(runs[n].leave[0]) - table[n].depart
			if start < 60 && end(n) > 300 {
				grown++
			}
			before := table[n].before
			if before >= 0 && end(before) > 500 && start > 120 {
				passedOn++
			}
			if before >= 0 && end(before) > 300 && end(n) < 100 {
				recovered++
			}
		}
	}
	if grown < 20 || passedOn < 5 || recovered < 10 {
		t.Errorf("%d trips gained over 300 s, %d began late by the one before, %d recovered", grown, passedOn, recovered)
	}
}

// How: if delays did not depend on the line, the means of the lines' trips within
// half an hour would scatter as means of so many trips drawn from all lines do.
// The ratio of the two variances is then about 1.
func TestDelaysOfALineGoTogether(t *testing.T) {
	t.Parallel()
	c := newCity(t, Config{Seed: 2})
	d := c.day(dateOf(monday))
	ratios, slots := 0.0, 0
	for from := int64(7 * 3600); from < 20*3600; from += 1800 {
		var all []float64
		means := map[int][]float64{}
		for i := range d.lines {
			for n := range d.lines[i].runs {
				tr, r := &d.lines[i].table[n], &d.lines[i].runs[n]
				if r.canceled || tr.depart < from || tr.depart >= from+1800 {
					continue
				}
				route := &c.lines[i].routes[tr.dir]
				middle := route.last() / 2
				late := float64(int64(r.reach[middle]) - tr.depart - route.sched[middle])
				all, means[i] = append(all, late), append(means[i], late)
			}
		}
		mean, variance := moments(all)
		between, expected := 0.0, 0.0
		for _, late := range means {
			m, _ := moments(late)
			between += (m - mean) * (m - mean)
			expected += variance / float64(len(late))
		}
		ratios += between / expected
		slots++
	}
	if ratio := ratios / float64(slots); ratio < 1.4 {
		t.Errorf("the lines scatter %.2f times as much as by chance", ratio)
	}
}

func moments(xs []float64) (mean, variance float64) {
	for _, x := range xs {
		mean += x / float64(len(xs))
	}
	for _, x := range xs {
		variance += (x - mean) * (x - mean) / float64(len(xs))
	}
	return mean, variance
}

func TestDayHasDelaysLikeARealTown(t *testing.T) {
	t.Parallel()
	c := newCity(t, Config{Seed: 2})
	var all []float64
	for _, late := range delaysOf(c, dateOf(monday)) {
		all = append(all, late...)
	}
	mean, variance := moments(all)
	early, veryLate := 0, 0
	for _, x := range all {
		if x < -30 {
			early++
		}
		if x > 300 {
			veryLate++
		}
	}
	share := func(n int) float64 { return float64(n) / float64(len(all)) }
	if mean < 10 || mean > 120 || math.Sqrt(variance) < 40 || math.Sqrt(variance) > 250 {
		t.Errorf("mean %.1f s, deviation %.1f s", mean, math.Sqrt(variance))
	}
	if share(early) < 0.02 || share(early) > 0.4 || share(veryLate) < 0.003 || share(veryLate) > 0.1 {
		t.Errorf("%.1f %% are more than 30 s early and %.1f %% more than 300 s late", 100*share(early), 100*share(veryLate))
	}
}

func TestPredictionsComeTrue(t *testing.T) {
	t.Parallel()
	c := newCity(t, Config{Seed: 5})
	near, far, n := 0.0, 0.0, 0
	for minute := 0; minute < 24*60; minute += 37 {
		at := monday.Add(time.Duration(minute) * time.Minute)
		c.underWay(at, func(d *day, l *line, tr *trip, r *run, report int64) {
			p := present{day: d, line: l, trip: tr, run: r, route: &l.routes[tr.dir], now: report}
			next := p.next()
			updates := p.stopTimes()
			if r.canceled || next+8 >= len(r.reach) || report < int64(r.leave[0]) {
				return
			}
			first, eighth := updates[0].Arrival, updates[8].Arrival
			if first == nil || eighth == nil {
				return
			}
			near += math.Abs(float64(first.GetTime() - d.origin - int64(r.reach[next])))
			far += math.Abs(float64(eighth.GetTime() - d.origin - int64(r.reach[next+8])))
			n++
		})
	}
	near, far = near/float64(n), far/float64(n)
	if near > 25 || far < near || far > 120 {
		t.Errorf("over %d trips the next stop is off by %.1f s, the eighth after it by %.1f s", n, near, far)
	}
}

func TestVehiclesMoveAsFastAsTheySay(t *testing.T) {
	t.Parallel()
	c := newCity(t, Config{Seed: 5})
	type fix struct {
		at    place
		time  int64
		trip  string
		speed float64
	}
	last := map[string]fix{}
	moved := 0
	for n := range 40 {
		for _, e := range c.Message(monday.Add(8*time.Hour + time.Duration(n)*20*time.Second)).Entity {
			v := e.Vehicle
			if v == nil {
				continue
			}
			p := v.GetPosition()
			now := fix{
				place{float64(p.GetLatitude()), float64(p.GetLongitude())},
				int64(v.GetTimestamp()), v.GetTrip().GetTripId(), float64(p.GetSpeed()),
			}
			if old, ok := last[v.GetVehicle().GetId()]; ok && old.trip == now.trip && now.time > old.time {
				way := distance(old.at, now.at)
				// 28 m/s is more than any of them drives; 15 m is the error of two fixes.
				if way > 28*float64(now.time-old.time)+15 {
					t.Errorf("vehicle %s goes %.0f m in %d s", v.GetVehicle().GetId(), way, now.time-old.time)
				}
				if way > 50 {
					moved++
				}
			}
			last[v.GetVehicle().GetId()] = now
		}
	}
	if moved < 1000 {
		t.Errorf("only %d movements", moved)
	}
}
