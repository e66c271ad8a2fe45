package gtfsrt

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/peil-stream/peil/event"
)

// Emit is what becomes an event.
type Emit uint8

// The modes.
const (
	// Predictions: every new prediction of an arrival, or status.
	Predictions Emit = iota
	// Arrivals: every arrival once, when the stop has been passed.
	Arrivals
)

// String gives the word of the configuration.
func (e Emit) String() string {
	if e == Arrivals {
		return "arrivals"
	}
	return "predictions"
}

// ParseEmit reads the word of the configuration; empty is predictions.
func ParseEmit(word string) (Emit, error) {
	switch word {
	case "", "predictions":
		return Predictions, nil
	case "arrivals":
		return Arrivals, nil
	default:
		return 0, fmt.Errorf("emit is %q, not predictions or arrivals", word)
	}
}

// EmitError says that the memory belongs to the other mode: the events of both
// in one topic would count each arrival twice.
type EmitError struct{ Stored, Wanted Emit }

// Error says what is stored and what is wanted.
func (e *EmitError) Error() string {
	return fmt.Sprintf("this feed's events were published with emit %s, now it is %s", e.Stored, e.Wanted)
}

// Hint says what to do.
func (e *EmitError) Hint() string {
	return "stay with emit " + e.Stored.String() + ", or begin anew with another feed name or an empty data directory"
}

// Config says how a feed is read.
type Config struct {
	// Feed is the feed's name: the scope of all ids.
	Feed string
	// Emit is what becomes an event. Defaults to Predictions.
	Emit Emit
	// MaxSkew is how far a header time may lie after the fetch, in milliseconds,
	// before it counts as absent. Defaults to 300,000.
	MaxSkew int64
	// Remembered bounds the trips, and the vehicles, that are remembered; beyond
	// it those that were seen longest ago are forgotten early. Defaults to
	// 1,000,000.
	Remembered int
}

// Defaults and bounds of the memory.
const (
	SkewDefault       = 300 * msPerSecond
	RememberedDefault = 1_000_000
	// TripStopsMax bounds the stops that are remembered of one trip.
	TripStopsMax = 10_000

	// seenStep is how far the time that a trip was last seen may lag in the
	// memory, in seconds: a trip that is only seen again is written again after
	// an hour, not with every snapshot.
	seenStep = 3600
	// forgetAfter is how long a trip is remembered after it was last seen, in
	// seconds: a day, and the lag on top so that it is never less.
	forgetAfter = 24*3600 + seenStep
)

// Differ turns the snapshots of one feed into events. See the package's
// documentation for its invariants.
type Differ struct {
	cfg      Config
	ids      scoper
	sources  [2]*sourceMemory // by TripUpdates and VehiclePositions; nil: none yet
	trips    map[string]*tripMemory
	vehicles map[string]*vehicleMemory

	// scratch, reused by every diff.
	key   []byte
	index map[stopID]int
	stops []currentStop
}

// NewDiffer makes a differ that goes on from a stored memory, which may hold keys
// of somebody else. An error names the key that cannot be read; it is an
// *[EmitError] if the memory belongs to the other mode.
func NewDiffer(cfg Config, memory iter.Seq2[string, []byte]) (*Differ, error) {
	if cfg.Feed == "" || len(cfg.Feed) > event.IDMax || !validText(cfg.Feed) {
		return nil, errors.New("the feed's name must have 1 to 256 bytes and no control character")
	}
	if cfg.MaxSkew <= 0 {
		cfg.MaxSkew = SkewDefault
	}
	if cfg.Remembered <= 0 {
		cfg.Remembered = RememberedDefault
	}
	d := &Differ{
		cfg:   cfg,
		ids:   scoper{prefix: cfg.Feed + ":"},
		trips: map[string]*tripMemory{}, vehicles: map[string]*vehicleMemory{},
		index: map[stopID]int{},
	}
	for key, value := range memory {
		if err := d.load(key, value); err != nil {
			return nil, err
		}
	}
	if s := d.sources[TripUpdates]; s != nil && s.emit != cfg.Emit {
		return nil, &EmitError{Stored: s.emit, Wanted: cfg.Emit}
	}
	return d, nil
}

// Last gives what the last snapshot of a source was ordered by, which is its
// header time, or [NoTime] if there was none.
func (d *Differ) Last(k Kind) int64 {
	if int(k) >= len(d.sources) || d.sources[k] == nil {
		return NoTime
	}
	return d.sources[k].order
}

// Latest gives the greatest event time that was published of a source, or
// [NoTime].
func (d *Differ) Latest(k Kind) int64 {
	if int(k) >= len(d.sources) || d.sources[k] == nil {
		return NoTime
	}
	return d.sources[k].latest
}

// Diff compares a snapshot that was fetched at an instant in Unix milliseconds
// with the memory, and moves the memory on. The delta must be published, or the
// differ thrown away.
func (d *Differ) Diff(s *Snapshot, fetched int64) *Delta {
	t := &Delta{feed: []byte(d.cfg.Feed), touched: map[string]*touch{}}
	t.Stats.Tally = s.Tally
	t.order, t.header = d.clock(s.Header, fetched, &t.Stats.Tally)
	for k := range t.Sources {
		t.Sources[k] = d.advance(Kind(k), s, t)
	}
	if t.Sources[TripUpdates].Outcome == Taken {
		d.diffTrips(s, t)
		d.forgetTrips(t)
	}
	if t.Sources[VehiclePositions].Outcome == Taken {
		d.diffVehicles(s, t)
		d.forgetVehicles(t)
	}
	t.sort()
	for k := range t.Sources {
		if t.Sources[k].Outcome == Taken {
			t.latest[k] = d.sources[k].latest
			d.sources[k].latest = max(d.sources[k].latest, t.greatest(Kind(k), len(t.Events)))
			t.after[k] = *d.sources[k]
		}
	}
	return t
}

// clock gives what the snapshot is ordered by and the header time to use. A feed
// whose clock runs a little ahead is ordered by its own times, because only they
// tell an older answer from a newer one; but nothing is dated after the fetch.
func (d *Differ) clock(header, fetched int64, tally *Tally) (order, used int64) {
	switch {
	case header == NoTime:
		tally[HeaderMissing]++
		return fetched, fetched
	case header-fetched > d.cfg.MaxSkew:
		tally[HeaderInFuture]++
		return fetched, fetched
	default:
		return header, min(header, fetched)
	}
}

// advance decides whether the snapshot is news for a source, and moves it on.
func (d *Differ) advance(k Kind, s *Snapshot, t *Delta) Source {
	if !s.Has(k, s.Assume) {
		return Source{Outcome: Absent}
	}
	m := d.sources[k]
	switch {
	case m == nil:
		t.before[k] = sourceMemory{emit: d.cfg.Emit, order: NoTime, header: NoTime, latest: NoTime}
		d.sources[k] = &sourceMemory{emit: d.cfg.Emit, order: t.order, header: t.header, latest: NoTime}
	case t.order == m.order:
		t.Stats.Tally[FeedUnchanged]++
		return Source{Outcome: Unchanged, Header: m.header, Last: m.order}
	case t.order < m.order:
		t.Stats.Tally[FeedOutOfOrder]++
		return Source{Outcome: OutOfOrder, Header: m.header, Last: m.order}
	default:
		t.before[k] = *m
		m.order, m.header = t.order, t.header
	}
	return Source{Outcome: Taken, Header: t.header, Last: t.order}
}

// forgetTrips drops trips that were not seen for a day, and those over the bound.
func (d *Differ) forgetTrips(t *Delta) {
	now := t.header / msPerSecond
	for key, m := range d.trips {
		if now-m.seen >= forgetAfter {
			delete(d.trips, key)
			t.forget(key)
		}
	}
	for _, key := range overBound(d.trips, d.cfg.Remembered, func(m *tripMemory) int64 { return m.seen }) {
		delete(d.trips, key)
		t.forget(key)
		t.Stats.Tally[MemoryOverBound]++
	}
}

func (d *Differ) forgetVehicles(t *Delta) {
	now := t.header / msPerSecond
	for key, m := range d.vehicles {
		if now-m.seen >= forgetAfter {
			delete(d.vehicles, key)
			t.forget(key)
		}
	}
	for _, key := range overBound(d.vehicles, d.cfg.Remembered, func(m *vehicleMemory) int64 { return m.seen }) {
		delete(d.vehicles, key)
		t.forget(key)
		t.Stats.Tally[MemoryOverBound]++
	}
}

// overBound gives the keys to forget so that the bound holds: those seen longest
// ago, ties by key.
func overBound[M any](memory map[string]M, bound int, seen func(M) int64) []string {
	if len(memory) <= bound {
		return nil
	}
	keys := make([]string, 0, len(memory))
	for key := range memory {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b string) int {
		if c := seen(memory[a]) - seen(memory[b]); c != 0 {
			return int(max(-1, min(1, c)))
		}
		return strings.Compare(a, b)
	})
	return keys[:len(memory)-bound]
}
