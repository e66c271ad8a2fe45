package city

import "math"

// Streams of the pseudo-random numbers: what a number is drawn for. A number
// depends on the seed, its stream and what it belongs to, never on what was
// drawn before it.
const (
	forLine uint64 = iota + 1
	forNode
	forPath
	forStop
	forTrip
	forDwell
	forRun
	forTraffic
	forMood
	forDisturbance
	forSkip
	forReport
	forGPS
	forLoad
	forNoise
)

// mix draws 64 bits for the given words (the finaliser of SplitMix64 over a
// running sum).
func mix(seed uint64, words ...uint64) uint64 {
	h := seed
	for _, w := range words {
		h += 0x9e3779b97f4a7c15 + w
		h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9
		h = (h ^ (h >> 27)) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	return h
}

// unit maps 64 bits to [0, 1).
func unit(h uint64) float64 { return float64(h>>11) / (1 << 53) }

// between maps 64 bits to [lo, hi).
func between(h uint64, lo, hi float64) float64 { return lo + (hi-lo)*unit(h) }

// pick maps 64 bits to [0, n).
func pick(h uint64, n int) int { return int(unit(h) * float64(n)) }

// drift is smooth noise in [-1, 1]: hashed values at multiples of the period,
// eased in between.
func drift(seed, stream, key uint64, at int64, period int64) float64 {
	slot := floorDiv(at, period)
	f := float64(at-slot*period) / float64(period)
	f = f * f * (3 - 2*f)
	a := between(mix(seed, stream, key, uint64(slot)), -1, 1)
	b := between(mix(seed, stream, key, uint64(slot+1)), -1, 1)
	return a + (b-a)*f
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func round(f float64) int64 { return int64(math.Round(f)) }
