package gtfsrt

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	"github.com/peil-stream/peil/event"
)

// Outcome is what became of a snapshot for one source.
type Outcome uint8

// The outcomes.
const (
	// Absent: the snapshot says nothing about the source.
	Absent Outcome = iota
	// Taken: it was compared, and the source moved on.
	Taken
	// Unchanged: its header time is that of the last one; it was skipped.
	Unchanged
	// OutOfOrder: its header time is older than that of the last one; skipped.
	OutOfOrder
)

// String gives the outcome as it stands in logs.
func (o Outcome) String() string {
	switch o {
	case Absent:
		return "absent"
	case Taken:
		return "taken"
	case Unchanged:
		return "unchanged"
	case OutOfOrder:
		return "out_of_order"
	default:
		return "invalid"
	}
}

// Source is what a delta says about one source.
type Source struct {
	Outcome Outcome
	// Header is the header time that the source has now, in Unix milliseconds:
	// what a heartbeat carries. It never lies after the fetch.
	Header int64
	// Last is what the last snapshot taken was ordered by.
	Last int64
}

// Event is one event to be published: a prediction or a position.
type Event struct {
	// Time is the event time in Unix milliseconds.
	Time int64
	// Exactly one of the two is set.
	Prediction *event.Prediction
	Position   *event.Position

	from *touch
	stop stopID
}

// Change is one change of the memory. A nil value deletes the key.
type Change struct {
	Key   string
	Value []byte
}

// Stats say what was seen in a snapshot.
type Stats struct {
	// Trips, Stops and Vehicles that were compared.
	Trips, Stops, Vehicles int
	// Predictions and Positions that are events.
	Predictions, Positions int
	// Tally counts what was not used, or is odd; with what decoding counted.
	Tally Tally
}

// Delta is what a snapshot brings: the events in the order in which they are
// published, and the changes of the memory. It is valid until the differ's next
// diff.
type Delta struct {
	// Events by event time, ties by trip or vehicle, stop sequence and stop.
	Events []Event
	Stats  Stats
	// Sources by TripUpdates and VehiclePositions.
	Sources [2]Source

	feed          []byte
	order, header int64
	touched       map[string]*touch
	// before and after are the sources' memories around this delta, where they
	// were taken; latest is the greatest event time published before it.
	before, after [2]sourceMemory
	latest        [2]int64
}

// touch is one key of the memory that the delta changes.
type touch struct {
	key string
	// before is the trip as it was, nil if it was not known; trip as it is.
	before, trip *tripMemory
	vehicle      *vehicleMemory
	forgotten    bool
	// part is the trip as the parts so far make it, and written its last value.
	part    *tripMemory
	written []byte
}

// Changes gives the changes of the memory that belong to the events from … to-1.
// The parts are asked for in order, without gaps or overlaps; the one that ends
// with the last event holds everything else too, such as how far the sources
// are. Then a part that was published is never published again, and one that was
// not is found again in the same snapshot.
func (t *Delta) Changes(from, to int) []Change {
	if to < len(t.Events) {
		return t.partly(from, to)
	}
	var out []Change
	for _, key := range slices.Sorted(maps.Keys(t.touched)) {
		c := t.touched[key]
		value := c.value()
		if value == nil || !bytes.Equal(value, c.written) {
			out = append(out, Change{Key: key, Value: value})
		}
	}
	for k := range t.Sources {
		if t.Sources[k].Outcome == Taken {
			out = append(out, Change{Key: sourceKey(Kind(k)), Value: t.after[k].encode()})
		}
	}
	return out
}

func (c *touch) value() []byte {
	switch {
	case c.forgotten:
		return nil
	case c.vehicle != nil:
		return c.vehicle.encode()
	default:
		return c.trip.encode()
	}
}

// partly gives the changes of a part that is not the last: of each trip only the
// stops that were published so far, and of the sources only the greatest time.
func (t *Delta) partly(from, to int) []Change {
	var out []Change
	done := map[*touch]bool{}
	for i := from; i < to; i++ {
		if c := t.Events[i].from; c.trip != nil {
			c.apply(t.Events[i].stop)
		}
	}
	for i := from; i < to; i++ {
		c := t.Events[i].from
		if done[c] {
			continue
		}
		done[c] = true
		c.written = c.partValue()
		out = append(out, Change{Key: c.key, Value: c.written})
	}
	slices.SortFunc(out, func(a, b Change) int { return cmp.Compare(a.Key, b.Key) })
	for k := range t.Sources {
		if t.Sources[k].Outcome == Taken {
			m := t.before[k]
			m.latest = max(t.latest[k], t.greatest(Kind(k), to))
			out = append(out, Change{Key: sourceKey(Kind(k)), Value: m.encode()})
		}
	}
	return out
}

// apply takes over what is remembered of a stop whose event is published now.
func (c *touch) apply(id stopID) {
	if c.part == nil {
		c.part = new(tripMemory)
		if c.before != nil {
			c.part = c.before.clone()
		}
		c.part.seen = c.trip.seen
	}
	if i := c.trip.find(id); i >= 0 {
		c.part.set(c.trip.stops[i])
	}
}

func (c *touch) partValue() []byte {
	if c.part != nil {
		return c.part.encode()
	}
	return c.vehicle.encode()
}

// touchTrip notes that the trip's memory changes. It must be called before the
// change; known says whether the memory was there before this snapshot.
func (t *Delta) touchTrip(key string, m *tripMemory, known bool) *touch {
	c := t.touched[key]
	if c == nil {
		c = &touch{key: key, trip: m}
		if known {
			c.before = m.clone()
		}
		m.seen = t.header / msPerSecond
		t.touched[key] = c
	}
	return c
}

func (t *Delta) touchVehicle(key string, m *vehicleMemory) *touch {
	c := &touch{key: key, vehicle: m}
	t.touched[key] = c
	return c
}

func (t *Delta) forget(key string) {
	if c := t.touched[key]; c != nil {
		c.forgotten = true
		return
	}
	t.touched[key] = &touch{key: key, forgotten: true}
}

// greatest gives the greatest event time of a kind among the first n events.
func (t *Delta) greatest(k Kind, n int) int64 {
	for i := n - 1; i >= 0; i-- {
		if (t.Events[i].Position != nil) == (k == VehiclePositions) {
			return t.Events[i].Time
		}
	}
	return NoTime
}

// sort puts the events into the order in which they are published.
func (t *Delta) sort() {
	slices.SortFunc(t.Events, func(a, b Event) int {
		if c := cmp.Compare(a.Time, b.Time); c != 0 {
			return c
		}
		switch {
		case a.Position != nil && b.Position != nil:
			return bytes.Compare(a.Position.VehicleID, b.Position.VehicleID)
		case a.Position != nil:
			return 1
		case b.Position != nil:
			return -1
		}
		p, q := a.Prediction, b.Prediction
		return cmp.Or(
			bytes.Compare(p.TripID, q.TripID),
			bytes.Compare(p.StartDate, q.StartDate),
			cmp.Compare(a.stop.sequence, b.stop.sequence),
			bytes.Compare(p.StopID, q.StopID),
			cmp.Compare(a.stop.nth, b.stop.nth),
			cmp.Compare(a.from.key, b.from.key),
		)
	})
}
