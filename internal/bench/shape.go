package bench

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/peil-stream/peil/internal/stream"
)

// What the records are about. The hour of event time is a whole number of windows
// of the default size.
const (
	Lines     = 300
	Stations  = 3_000
	Operators = 12
	Trips     = 20_000

	feed       = "nl"
	startDate  = "20260601"
	stops      = 40 // of a trip
	spanMS     = int64(time.Hour / time.Millisecond)
	disorderMS = int64(90 * time.Second / time.Millisecond)
)

// begin is 2026-06-01T12:00:00Z, the first event time, in Unix milliseconds.
const begin int64 = 1780315200_000

// Shape decides every record (I1).
type Shape struct {
	Seed       uint64
	Records    int64
	Partitions int32
}

// sample is one record before it is encoded.
type sample struct {
	trip, station, sequence int
	delay                   int32
	// at is the event time, logged the log's timestamp, which is never before it;
	// both in Unix milliseconds.
	at, logged int64
}

func (s *sample) line() int     { return s.trip % Lines }
func (s *sample) operator() int { return s.line() % Operators }

// The ids, of the lengths that make a record of 188 bytes.
func operatorID(operator int) string { return fmt.Sprintf("%s:OP%02d", feed, operator) }
func lineID(line int) string         { return fmt.Sprintf("%s:%03d", feed, line) }
func stationID(station int) string   { return fmt.Sprintf("%s:%04d", feed, station) }
func tripID(trip int) string         { return fmt.Sprintf("%s:%05d", feed, trip) }

// generator yields the samples of a shape, in the order in which they are produced.
type generator struct {
	shape Shape
	rng   *rand.PCG
	next  int64
}

func newGenerator(s Shape) *generator {
	return &generator{shape: s, rng: rand.NewPCG(s.Seed, 0x9e3779b97f4a7c15)}
}

// draw fills in the next sample; at the end it returns false. The log's timestamps
// rise evenly over the hour, and an event lies up to 90 s before, in whole seconds
// as feeds give them. Delays are between -180 and 585 s, and one in 64 is higher.
func (g *generator) draw(s *sample) bool {
	if g.next >= g.shape.Records {
		return false
	}
	s.logged = begin + g.next*spanMS/g.shape.Records
	g.next++
	what, more := g.rng.Uint64(), g.rng.Uint64()
	s.trip = below(what, Trips)
	s.station = below(what<<32, Stations)
	disorder := int64(below(more, int(disorderMS)))
	s.at = max(begin, (s.logged-disorder)/1000*1000)
	s.sequence = int(more & 0xffff * stops >> 16)
	bits := more >> 16
	s.delay = int32(bits&0xff+bits>>8&0xff) - 180
	if bits&0x3f == 0 {
		s.delay *= 3
	}
	return true
}

// below maps the upper half of x to 0 ≤ n < limit.
func below(x uint64, limit int) int { return int(x >> 32 * uint64(limit) >> 32) }

// encoder turns samples into the keys and values of records. Everything that
// repeats is made beforehand, so that filling a topic is not about it.
type encoder struct {
	keys       [][]byte
	partitions []int32
	heads      []string // by trip, up to the stop sequence
	numbers    []string // of stops
	places     []string // by station
	tails      []string // by line, up to the delay
	delays     []string // from delayLow
	ends       []string // by second of event time
}

// The bounds of the delays of draw.
const (
	delayLow  = -540
	delayHigh = 1_000
)

func newEncoder(partitions int32) *encoder {
	e := &encoder{}
	for trip := range Trips {
		key := fmt.Appendf(nil, "%s|%s|%s", feed, tripID(trip), startDate)
		e.keys = append(e.keys, key)
		e.partitions = append(e.partitions, stream.PartitionFor(key, partitions))
		e.heads = append(e.heads, fmt.Sprintf(`{"feed":%q,"trip_id":%q,"start_date":%q,"stop_sequence":`, feed, tripID(trip), startDate))
	}
	for n := range stops {
		e.numbers = append(e.numbers, strconv.Itoa(n))
	}
	for station := range Stations {
		e.places = append(e.places, fmt.Sprintf(`,"station_id":%q`, stationID(station)))
	}
	for line := range Lines {
		e.tails = append(e.tails, fmt.Sprintf(`,"line_id":%q,"operator":%q,"delay_s":`, lineID(line), operatorID(line%Operators)))
	}
	for delay := delayLow; delay <= delayHigh; delay++ {
		e.delays = append(e.delays, strconv.Itoa(delay))
	}
	for at := begin; at < begin+spanMS; at += 1000 {
		e.ends = append(e.ends, fmt.Sprintf(`,"timestamp":%q}`, time.UnixMilli(at).UTC().Format(time.RFC3339)))
	}
	return e
}

// value appends the JSON of a sample.
func (e *encoder) value(dst []byte, s *sample) []byte {
	dst = append(dst, e.heads[s.trip]...)
	dst = append(dst, e.numbers[s.sequence]...)
	dst = append(dst, e.places[s.station]...)
	dst = append(dst, e.tails[s.line()]...)
	dst = append(dst, e.delays[s.delay-delayLow]...)
	return append(dst, e.ends[(s.at-begin)/1000]...)
}
