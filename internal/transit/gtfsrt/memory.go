package gtfsrt

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/peil-stream/peil/event"
)

// memoryVersion is the first byte of every value. A reader refuses any other: an
// older program must not go on with what it does not understand.
const memoryVersion = 1

// errMemory: a value of the memory is none of ours.
var errMemory = errors.New("the value is damaged or was written by a newer version")

// stopID is the identity of a stop within a trip: its stop_sequence, else its
// stop_id and which occurrence of it in the trip this is, counted from 1. The
// trip itself, for what is said about it without a stop, is the zero value with
// sequence -1.
type stopID struct {
	sequence int64 // -1: none
	stop     string
	nth      int
}

func theTrip() stopID { return stopID{sequence: -1} }

// observation is what is compared of a prediction.
type observation struct {
	status            event.Status
	hasDelay, hasTime bool
	delay             int32
	time              int64 // Unix seconds
	// timestamp of the trip update in Unix seconds, 0 for none.
	timestamp int64
}

// stopMemory is what is remembered of a stop.
type stopMemory struct {
	id stopID
	// published says that the observation was published; otherwise it is a
	// prediction that waits for the stop to be passed (arrivals mode).
	published bool
	observation
	// stop is the stop_id of a waiting prediction whose identity is a sequence.
	stop string
}

// tripMemory is what is remembered of a trip. Its zero value is a trip of which
// nothing is known.
type tripMemory struct {
	// seen is the header time, in Unix seconds, of about the last snapshot with
	// this trip: it lags by up to seenStep.
	seen int64
	// route and realtime give line and operator of waiting predictions.
	route, realtime string
	stops           []stopMemory
}

func (m *tripMemory) find(id stopID) int {
	for i := range m.stops {
		if m.stops[i].id == id {
			return i
		}
	}
	return -1
}

// set replaces or adds what is remembered of a stop.
func (m *tripMemory) set(s stopMemory) {
	if i := m.find(s.id); i >= 0 {
		m.stops[i] = s
		return
	}
	m.stops = append(m.stops, s)
}

func (m *tripMemory) clone() *tripMemory {
	c := *m
	c.stops = append([]stopMemory(nil), m.stops...)
	return &c
}

// vehicleMemory is what was published of a vehicle.
type vehicleMemory struct {
	seen int64 // as in tripMemory
	// time is the event time that was published, in Unix milliseconds.
	time int64
	// fields is the projection that was published, in its own encoding.
	fields []byte
}

// sourceMemory is how far a source is.
type sourceMemory struct {
	emit Emit
	// order is what the last snapshot was ordered by, and header its header time
	// as it was used: order may lie a little after the fetch, header does not.
	order, header int64
	// latest is the greatest event time that was published.
	latest int64
}

// The flags of an encoded stop.
const (
	flagSequence = 1 << iota
	flagDelay
	flagTime
	flagTimestamp
	flagPublished
	flagStop
	flagStatusShift = iota // the status takes the bits above
)

// encode gives the value. It puts the stops in order first, so that equal memories
// have equal values, however they came about. Times are written as differences
// from seen, which they lie close to.
func (m *tripMemory) encode() []byte {
	if !slices.IsSortedFunc(m.stops, compareStops) {
		slices.SortFunc(m.stops, compareStops)
	}
	b := append(make([]byte, 0, 32+8*len(m.stops)), memoryVersion)
	b = binary.AppendVarint(b, m.seen)
	b = appendString(b, m.route)
	b = appendString(b, m.realtime)
	b = binary.AppendUvarint(b, uint64(len(m.stops)))
	for i := range m.stops {
		b = m.stops[i].append(b, m.seen)
	}
	return b
}

func compareStops(a, b stopMemory) int {
	return cmp.Or(
		cmp.Compare(a.id.sequence, b.id.sequence), cmp.Compare(a.id.stop, b.id.stop), cmp.Compare(a.id.nth, b.id.nth))
}

func (s *stopMemory) append(b []byte, base int64) []byte {
	flags := uint64(s.status) << flagStatusShift
	set := func(on bool, flag uint64) {
		if on {
			flags |= flag
		}
	}
	set(s.id.sequence >= 0, flagSequence)
	set(s.hasDelay, flagDelay)
	set(s.hasTime, flagTime)
	set(s.timestamp != 0, flagTimestamp)
	set(s.published, flagPublished)
	set(s.stop != "", flagStop)
	b = binary.AppendUvarint(b, flags)
	if s.id.sequence >= 0 {
		b = binary.AppendUvarint(b, uint64(s.id.sequence))
	} else {
		b = appendString(b, s.id.stop)
		b = binary.AppendUvarint(b, uint64(s.id.nth))
	}
	if s.hasDelay {
		b = binary.AppendVarint(b, int64(s.delay))
	}
	if s.hasTime {
		b = binary.AppendVarint(b, s.time-base)
	}
	if s.timestamp != 0 {
		b = binary.AppendVarint(b, s.timestamp-base)
	}
	if s.stop != "" {
		b = appendString(b, s.stop)
	}
	return b
}

func decodeTrip(b []byte) (*tripMemory, error) {
	r := memoryReader{b: b}
	r.version()
	m := &tripMemory{seen: r.varint(), route: r.text(), realtime: r.text()}
	n := r.uvarint()
	if n > uint64(len(r.b)) || n > TripStopsMax+1 {
		return nil, errMemory // every stop takes a byte or more
	}
	m.stops = make([]stopMemory, 0, n)
	for range n {
		s := r.stop(m.seen)
		if r.err != nil {
			break
		}
		m.stops = append(m.stops, s)
	}
	return m, r.end()
}

func (r *memoryReader) stop(base int64) (s stopMemory) {
	flags := r.uvarint()
	s.status = event.Status(flags >> flagStatusShift)
	if flags>>flagStatusShift > uint64(event.Unknown) {
		r.err = errMemory
	}
	s.hasDelay, s.hasTime = flags&flagDelay != 0, flags&flagTime != 0
	s.published = flags&flagPublished != 0
	if flags&flagSequence != 0 {
		s.id = stopID{sequence: int64(min(r.uvarint(), math.MaxInt32))}
	} else {
		s.id = stopID{sequence: -1, stop: r.text(), nth: int(min(r.uvarint(), math.MaxInt32))}
	}
	if s.hasDelay {
		d := r.varint()
		if d < -event.DelayMax || d > event.DelayMax {
			r.err = errMemory
		}
		s.delay = int32(d)
	}
	if s.hasTime {
		s.time = base + r.varint()
	}
	if flags&flagTimestamp != 0 {
		s.timestamp = base + r.varint()
	}
	if flags&flagStop != 0 {
		s.stop = r.text()
	}
	return s
}

func (m *vehicleMemory) encode() []byte {
	b := append(make([]byte, 0, 24+len(m.fields)), memoryVersion)
	b = binary.AppendVarint(b, m.seen)
	b = binary.AppendVarint(b, m.time)
	return append(b, m.fields...)
}

func decodeVehicle(b []byte) (*vehicleMemory, error) {
	r := memoryReader{b: b}
	r.version()
	m := &vehicleMemory{seen: r.varint(), time: r.varint()}
	m.fields = append([]byte(nil), r.b...)
	return m, r.err
}

func (m *sourceMemory) encode() []byte {
	b := []byte{memoryVersion, byte(m.emit)}
	for _, t := range []int64{m.order, m.header, m.latest} {
		b = binary.AppendVarint(b, t)
	}
	return b
}

func decodeSource(b []byte) (*sourceMemory, error) {
	r := memoryReader{b: b}
	r.version()
	emit := r.uvarint()
	m := &sourceMemory{emit: Emit(emit), order: r.varint(), header: r.varint(), latest: r.varint()}
	if emit > uint64(Arrivals) {
		return nil, errMemory
	}
	return m, r.end()
}

// memoryReader reads a value and keeps the first fault.
type memoryReader struct {
	b   []byte
	err error
}

func (r *memoryReader) version() {
	if len(r.b) == 0 || r.b[0] != memoryVersion {
		r.err, r.b = errMemory, nil
		return
	}
	r.b = r.b[1:]
}

func (r *memoryReader) uvarint() uint64 {
	n, size := binary.Uvarint(r.b)
	if size <= 0 {
		r.err, r.b = errMemory, nil
		return 0
	}
	r.b = r.b[size:]
	return n
}

func (r *memoryReader) varint() int64 {
	n, size := binary.Varint(r.b)
	if size <= 0 {
		r.err, r.b = errMemory, nil
		return 0
	}
	r.b = r.b[size:]
	return n
}

func (r *memoryReader) text() string {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.err, r.b = errMemory, nil
		return ""
	}
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}

func (r *memoryReader) end() error {
	if r.err == nil && len(r.b) > 0 {
		r.err = errMemory
	}
	return r.err
}

func appendString(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// load takes one key of the stored memory. A key of somebody else is left alone.
func (d *Differ) load(key string, value []byte) error {
	var err error
	switch {
	case strings.HasPrefix(key, keyTrip):
		d.trips[key], err = decodeTrip(value)
		if _, _, ok := splitTripKey(key); !ok && err == nil {
			err = errMemory
		}
	case strings.HasPrefix(key, keyVehicle):
		d.vehicles[key], err = decodeVehicle(value)
	case strings.HasPrefix(key, keySource):
		for k := range d.sources {
			if key == sourceKey(Kind(k)) {
				d.sources[k], err = decodeSource(value)
			}
		}
	}
	if err != nil {
		return fmt.Errorf("read memory key %q: %w", key, err)
	}
	return nil
}

func sourceKey(k Kind) string { return keySource + k.String() }
