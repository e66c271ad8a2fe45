package city

import (
	"math"
	"slices"
	"strconv"
)

// The town: streets on a grid that is turned a little and whose crossings are
// not quite where they should be. Lengths in metres.
const (
	townLat      = 52.1583
	townLon      = 5.3842
	townTurn     = 0.31 // radians
	blockLength  = 220.0
	blockJitter  = 35.0
	townRadius   = 26 // blocks from the centre to the edge
	metresPerLat = 111_132.0
	metresPerLon = 68_293.0 // at townLat
)

// crossing is a point of the grid, in blocks from the centre.
type crossing struct{ x, y int }

// place is a point on the map.
type place struct{ lat, lon float64 }

// stop is one pole at a crossing.
type stop struct {
	id string
	at place
	// along is the distance from the first stop of the route.
	along float64
}

// route is one direction of a line.
type route struct {
	stops []stop
	// shape is the way through the streets, and along the distance from its
	// start at each of its points.
	shape []place
	along []float64
	// run[i] is the scheduled time from leaving stop i-1 to reaching stop i,
	// and sched[i] the scheduled arrival at stop i after leaving stop 0, both in
	// seconds.
	run   []int64
	sched []int64
}

// last is the index of the last stop.
func (r *route) last() int { return len(r.stops) - 1 }

// line is one line with its two directions and its timetables.
type line struct {
	index    int
	name     string
	operator string
	routes   [2]route
	// headway at the height of the peak, in seconds.
	headway float64
	// days are the timetables of a working day and of a day of the weekend.
	days [2]timetable
}

// newLine lays out a line: from the edge of the town through its middle, or
// around it, to about the opposite edge.
func newLine(cfg Config, index int) *line {
	h := func(n uint64) uint64 { return mix(cfg.Seed, forLine, uint64(index), n) }
	operator := index % cfg.Operators
	l := &line{
		index:    index,
		name:     strconv.Itoa(index + 1),
		operator: operatorCode(operator),
		headway:  between(h(1), 390, 600),
	}
	angle := 2.399963*float64(index) + between(h(2), -0.2, 0.2)
	from := polar(angle, between(h(3), 17, townRadius-1))
	to := polar(angle+math.Pi+between(h(4), -0.7, 0.7), between(h(5), 17, townRadius-1))
	via := polar(between(h(6), 0, 2*math.Pi), between(h(7), 0, 3))
	if index%6 == 5 {
		via = polar(angle+math.Pi/2, between(h(7), 8, 13))
	}
	way := walk(cfg.Seed, uint64(index), from, via)
	way = append(way, walk(cfg.Seed, uint64(index)+1<<32, via, to)[1:]...)
	way = withoutLoops(way)
	halts := haltsOn(cfg.Seed, uint64(index), len(way))
	l.routes[0] = newRoute(cfg.Seed, way, halts)
	slices.Reverse(way)
	for i := range halts {
		halts[i] = len(way) - 1 - halts[i]
	}
	slices.Reverse(halts)
	l.routes[1] = newRoute(cfg.Seed, way, halts)
	for day := range l.days {
		l.days[day] = newTimetable(l, day == 1)
	}
	return l
}

func polar(angle, radius float64) crossing {
	return crossing{int(math.Round(radius * math.Cos(angle))), int(math.Round(radius * math.Sin(angle)))}
}

// walk goes from one crossing to another along the streets, without detours,
// and rather straight on than round a corner.
func walk(seed, key uint64, from, to crossing) []crossing {
	way := []crossing{from}
	alongX := abs(to.x-from.x) > abs(to.y-from.y)
	for at := from; at != to; {
		switch {
		case at.x == to.x:
			alongX = false
		case at.y == to.y:
			alongX = true
		case unit(mix(seed, forPath, key, uint64(len(way)))) < 0.28:
			alongX = !alongX
		}
		if alongX {
			at.x += sign(to.x - at.x)
		} else {
			at.y += sign(to.y - at.y)
		}
		way = append(way, at)
	}
	return way
}

// withoutLoops cuts what lies between two visits of the same crossing.
func withoutLoops(way []crossing) []crossing {
	seen := make(map[crossing]int, len(way))
	out := way[:0:0]
	for _, c := range way {
		if i, ok := seen[c]; ok {
			for _, cut := range out[i+1:] {
				delete(seen, cut)
			}
			out = out[:i+1]
			continue
		}
		seen[c] = len(out)
		out = append(out, c)
	}
	return out
}

// haltsOn chooses the crossings with a stop: every second one, now and then the
// third one, and both ends.
func haltsOn(seed, key uint64, crossings int) []int {
	var halts []int
	for i := 0; i < crossings-1; {
		halts = append(halts, i)
		i += 2
		if unit(mix(seed, forPath, key, uint64(i), 1)) < 0.2 {
			i++
		}
	}
	if last := halts[len(halts)-1]; len(halts) > 1 && crossings-1-last < 2 {
		halts = halts[:len(halts)-1]
	}
	return append(halts, crossings-1)
}

func newRoute(seed uint64, way []crossing, halts []int) route {
	r := route{
		shape: make([]place, len(way)),
		along: make([]float64, len(way)),
		stops: make([]stop, 0, len(halts)),
		run:   make([]int64, len(halts)),
		sched: make([]int64, len(halts)),
	}
	for i, c := range way {
		r.shape[i] = placeOf(seed, c)
		if i > 0 {
			r.along[i] = r.along[i-1] + distance(r.shape[i-1], r.shape[i])
		}
	}
	for n, i := range halts {
		r.stops = append(r.stops, stop{id: poleOf(way, i), at: r.shape[i], along: r.along[i]})
		if n == 0 {
			continue
		}
		length := r.along[i] - r.along[halts[n-1]]
		r.run[n] = 12 + round(length/between(mix(seed, forStop, uint64(way[i].x), uint64(way[i].y)), 6.2, 8.6))
		r.sched[n] = r.sched[n-1] + r.run[n]
		if n > 1 {
			r.sched[n] += dwellScheduled
		}
	}
	return r
}

// poleOf names the pole at a crossing for those who leave it in this direction.
func poleOf(way []crossing, i int) string {
	c, next := way[i], way[min(i+1, len(way)-1)]
	if next == c {
		next = crossing{2*c.x - way[i-1].x, 2*c.y - way[i-1].y}
	}
	side := 1
	switch {
	case next.x < c.x:
		side = 2
	case next.y > c.y:
		side = 3
	case next.y < c.y:
		side = 4
	}
	const across = 2*townRadius + 8
	return strconv.Itoa(30_000_000 + ((c.y+across/2)*across+c.x+across/2)*10 + side)
}

// placeOf is where a crossing lies.
func placeOf(seed uint64, c crossing) place {
	h := func(n uint64) float64 {
		return between(mix(seed, forNode, uint64(c.x), uint64(c.y), n), -blockJitter, blockJitter)
	}
	x := float64(c.x)*blockLength + h(0)
	y := float64(c.y)*blockLength + h(1)
	east := x*math.Cos(townTurn) - y*math.Sin(townTurn)
	north := x*math.Sin(townTurn) + y*math.Cos(townTurn)
	return place{lat: townLat + north/metresPerLat, lon: townLon + east/metresPerLon}
}

// distance in metres, exact enough within a town.
func distance(a, b place) float64 {
	return math.Hypot((b.lat-a.lat)*metresPerLat, (b.lon-a.lon)*metresPerLon)
}

// bearing from a to b in degrees, clockwise from north.
func bearing(a, b place) float64 {
	deg := math.Atan2((b.lon-a.lon)*metresPerLon, (b.lat-a.lat)*metresPerLat) * 180 / math.Pi
	if deg < 0 {
		deg += 360
	}
	return deg
}

// at returns the point at a distance along the route and the direction there.
func (r *route) at(along float64) (place, float64) {
	lo, hi := 0, len(r.along)-2
	for lo < hi {
		mid := (lo + hi + 1) / 2
		if r.along[mid] <= along {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	a, b := r.shape[lo], r.shape[lo+1]
	f := (along - r.along[lo]) / (r.along[lo+1] - r.along[lo])
	f = min(max(f, 0), 1)
	return place{a.lat + (b.lat-a.lat)*f, a.lon + (b.lon-a.lon)*f}, bearing(a, b)
}

func abs(i int) int { return max(i, -i) }

func sign(i int) int { return min(max(i, -1), 1) }
