package city

import (
	"strconv"
	"strings"
	"time"

	"github.com/peil-stream/peil/event"
	"github.com/peil-stream/peil/internal/stream"
)

// Reach of the noise behind and ahead of a poll.
const (
	// disorderMax is how far an event of the noise lies behind the newest one of
	// the feed and is still in time for every window.
	disorderMax = 90 * time.Second
	// What is late is so late that its window has closed: more than one window
	// and the lateness behind.
	lateFrom = 10 * time.Minute
	lateTo   = 30 * time.Minute
	// wrongClockYears is how far a wrong clock runs ahead.
	wrongClockYears = 20
)

// noiseTrips bounds the trip ids of the noise, per line and service date.
const noiseTrips = 40

// Topics names where noise goes. An empty name leaves it out.
type Topics struct {
	Arrivals  string
	Positions string
}

// Noise returns what a careless second producer writes beside the poll of an
// instant: predictions and positions in disorder, some of them far too late, and
// now and then a bad record, a null value or one from a wrong clock. Its trips
// and vehicles have ids of their own, so it never contradicts the feed.
// partitions is the number of each topic's partitions; it places records that
// have no key.
func (c *City) Noise(at time.Time, topics Topics, partitions int32) []stream.Message {
	n := noise{city: c, at: at.Truncate(time.Second), topics: topics, partitions: max(partitions, 1)}
	n.dice.key = mix(c.cfg.Seed, forNoise, uint64(at.Unix()))
	if topics.Arrivals != "" {
		for range n.among(2, 5) {
			n.trip()
		}
		if n.chance(0.35) {
			n.lateTrip()
		}
		if n.chance(0.5) {
			n.badPrediction()
		}
		if n.chance(0.1) {
			p, _, _ := n.prediction(n.at)
			n.add(topics.Arrivals, n.key(p), nil)
		}
		if n.chance(0.15) {
			p, _, _ := n.prediction(n.at.AddDate(wrongClockYears, 0, 0))
			n.add(topics.Arrivals, n.key(p), event.AppendPrediction(nil, &p))
		}
	}
	if topics.Positions != "" {
		if n.chance(0.6) {
			n.vehicle(true)
		}
		if n.chance(0.08) {
			n.vehicle(false)
		}
	}
	return n.out
}

// dice draws one number after the other from one key.
type dice struct{ key, drawn uint64 }

func (d *dice) roll() uint64 {
	d.drawn++
	return mix(d.key, d.drawn)
}

func (d *dice) chance(p float64) bool { return unit(d.roll()) < p }

// among draws a whole number from lo to hi, both included.
func (d *dice) among(lo, hi int) int { return lo + pick(d.roll(), hi-lo+1) }

// before draws an instant up to span before one, to the millisecond.
func (d *dice) before(at time.Time, span time.Duration) time.Time {
	return at.Add(-time.Duration(d.among(0, int(span/time.Millisecond))) * time.Millisecond)
}

type noise struct {
	dice
	city       *City
	at         time.Time
	topics     Topics
	partitions int32
	out        []stream.Message
}

func (n *noise) add(topic string, key, value []byte) {
	m := stream.Message{Topic: topic, Partition: stream.ByKey, Key: key, Value: value}
	if key == nil {
		m.Partition = int32(n.among(0, int(n.partitions)-1))
	}
	n.out = append(n.out, m)
}

func (n *noise) key(p event.Prediction) []byte { return event.PredictionKey(nil, &p) }

func (n *noise) scoped(id string) []byte { return []byte(n.city.cfg.Feed + ":" + id) }

// place draws a line, one of its directions and a stop but the first.
func (n *noise) place() (l *line, r *route, i int) {
	l = n.city.lines[n.among(0, len(n.city.lines)-1)]
	r = &l.routes[n.among(0, 1)]
	return l, r, n.among(1, r.last())
}

// prediction makes a valid prediction with the given event time, and says which
// stop of which route it is about.
func (n *noise) prediction(at time.Time) (p event.Prediction, r *route, i int) {
	l, r, i := n.place()
	p = event.Prediction{
		Feed:            []byte(n.city.cfg.Feed),
		TripID:          n.scoped(l.operator + "_" + l.name + "_" + strconv.Itoa(9000+n.among(0, noiseTrips-1))),
		StartDate:       []byte(dateOf(n.at.In(n.city.cfg.Zone)).digits()),
		LineID:          n.scoped(l.operator + ":" + l.name),
		Operator:        n.scoped(l.operator),
		HasStopSequence: true,
		DelayS:          int32(n.among(-60, 420)),
		PredictedTime:   at.UnixMilli() + int64(n.among(20, 900))*1000,
		Timestamp:       at.UnixMilli(),
	}
	n.move(&p, r, i)
	return p, r, i
}

// move lets a prediction be about another stop.
func (n *noise) move(p *event.Prediction, r *route, i int) {
	p.StopSequence = int64(i + 1)
	p.StopID = n.scoped(r.stops[i].id)
	p.StationID = p.StopID
}

// trip writes the next stops of one trip, some time behind the newest event.
func (n *noise) trip() {
	p, r, from := n.prediction(n.before(n.at.Add(-reportDelay*time.Second), disorderMax))
	for i := range r.stops[from:min(from+n.among(1, 4), len(r.stops))] {
		n.move(&p, r, from+i)
		n.add(n.topics.Arrivals, n.key(p), event.AppendPrediction(nil, &p))
		p.PredictedTime += int64(n.among(60, 120)) * 1000
		p.DelayS -= int32(n.among(0, 8))
	}
}

func (n *noise) lateTrip() {
	p, _, _ := n.prediction(n.before(n.at.Add(-lateFrom), lateTo-lateFrom))
	n.add(n.topics.Arrivals, n.key(p), event.AppendPrediction(nil, &p))
}

// The kinds of bad predictions. Each comes out of a decoder with one reason.
const (
	brokenJSON = iota
	missingField
	badID
	wrongType
	hugeDelay
	oldClock
	badKinds
)

func (n *noise) badPrediction() {
	p, _, _ := n.prediction(n.before(n.at, disorderMax))
	key := n.key(p)
	var value []byte
	switch n.among(0, badKinds-1) {
	case brokenJSON:
		whole := event.AppendPrediction(nil, &p)
		value = whole[:n.among(len(whole)/4, len(whole)-1)]
		key = nil
	case missingField:
		value = []byte(strings.Replace(string(event.AppendPrediction(nil, &p)), `"timestamp"`, `"time_stamp"`, 1))
	case badID:
		p.TripID = append(p.TripID, '\a')
		value = event.AppendPrediction(nil, &p)
	case wrongType:
		delay := strconv.Itoa(int(p.DelayS))
		quoted := strconv.Quote(delay)
		value = []byte(strings.Replace(string(event.AppendPrediction(nil, &p)),
			`"delay_s":`+delay, `"delay_s":`+quoted, 1))
	case hugeDelay:
		p.DelayS = 90_000
		value = event.AppendPrediction(nil, &p)
	case oldClock:
		p.Timestamp = int64(n.among(0, 86_400)) * 1000
		value = event.AppendPrediction(nil, &p)
	}
	n.add(n.topics.Arrivals, key, value)
}

// vehicle writes the position of a vehicle, out of order, or nonsense.
func (n *noise) vehicle(good bool) {
	l, r, i := n.place()
	v := event.Position{
		Feed:      []byte(n.city.cfg.Feed),
		VehicleID: n.scoped(l.operator + ":" + strconv.Itoa(90_000+n.among(0, noiseTrips-1))),
		LineID:    n.scoped(l.operator + ":" + l.name),
		Operator:  n.scoped(l.operator),
		StopID:    n.scoped(r.stops[i].id),
		Latitude:  r.stops[i].at.lat,
		Longitude: r.stops[i].at.lon,
		Timestamp: n.before(n.at.Add(-reportDelay*time.Second), disorderMax).UnixMilli(),
	}
	if !good {
		v.Latitude, v.Longitude = 0, 0
	}
	n.add(n.topics.Positions, event.PositionKey(nil, &v), event.AppendPosition(nil, &v))
}
