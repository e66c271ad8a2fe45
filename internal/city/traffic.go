package city

// mood is what delays the vehicles of one line in one part of the day: the
// traffic, and what has happened on its way. The trips of a line share it.
type mood struct {
	seed  uint64
	line  uint64
	rush  float64
	jams  [jamsMax]jam
	count int
}

// jamsMax bounds the disturbances that can touch one trip: those of its line and
// of the town that begin in the three hours before its end.
const jamsMax = 6

// jam is one disturbance: vehicles lose time on some stops while it lasts.
type jam struct {
	from, until int64 // Unix seconds
	severity    float64
	dir         int // -1: both
	first, last int // stops
}

// mood gathers what a trip of the line that leaves at a second of the service
// day will meet.
func (c *City) mood(l *line, origin, leaves int64) mood {
	m := mood{seed: c.cfg.Seed, line: uint64(l.index), rush: rush(leaves)}
	hour := floorDiv(origin+leaves, 3600)
	for h := hour - 1; h <= hour+1; h++ {
		m.add(c.lineJam(l, h))
		m.add(c.townJam(l, h))
	}
	return m
}

func (m *mood) add(j jam, happens bool) {
	if happens && m.count < jamsMax {
		m.jams[m.count] = j
		m.count++
	}
}

// lineJam is the disturbance that begins on a line in an hour, if any: a
// blocked street, a broken vehicle.
func (c *City) lineJam(l *line, hour int64) (jam, bool) {
	key := mix(c.cfg.Seed, forDisturbance, uint64(l.index), uint64(hour))
	if unit(key) >= 0.07 {
		return jam{}, false
	}
	stops := len(l.routes[0].stops)
	from := hour*3600 + round(between(mix(key, 1), 0, 3600))
	middle := pick(mix(key, 2), stops)
	reach := 1 + pick(mix(key, 3), 3)
	return jam{
		from:     from,
		until:    from + round(between(mix(key, 4), 900, 3000)),
		severity: between(mix(key, 5), 120, 900),
		dir:      pick(mix(key, 6), 3) - 1,
		first:    middle - reach,
		last:     middle + reach,
	}, true
}

// townJam is a disturbance of the whole town, such as an open bridge, that
// touches a third of the lines.
func (c *City) townJam(l *line, hour int64) (jam, bool) {
	key := mix(c.cfg.Seed, forDisturbance, 1<<40, uint64(hour))
	if unit(key) >= 0.05 || unit(mix(key, 1, uint64(l.index))) >= 0.34 {
		return jam{}, false
	}
	middle := len(l.routes[0].stops) / 2
	from := hour*3600 + round(between(mix(key, 2), 0, 3600))
	return jam{
		from:     from,
		until:    from + round(between(mix(key, 3), 600, 1800)),
		severity: between(mix(key, 4), 120, 420),
		dir:      -1,
		first:    middle - 2,
		last:     middle + 2,
	}, true
}

// gain is the time lost on the way to stop i, in seconds; below zero it is won.
func (m *mood) gain(at int64, i int, run int64, dir int) float64 {
	flow := 0.7*drift(m.seed, forTraffic, m.line, at, 1500) + 0.5*drift(m.seed, forTraffic, 1<<40, at, 3600)
	lost := float64(run) * (0.02 + 0.08*flow + 0.05*m.rush)
	lost += between(mix(m.seed, forMood, m.line, uint64(i), uint64(dir)), -2, 2.5)
	for _, j := range m.jams[:m.count] {
		lost += j.loss(at, i, dir)
	}
	return lost
}

// loss grows to its height in the middle of the disturbance and fades again.
func (j *jam) loss(at int64, i, dir int) float64 {
	if at < j.from || at >= j.until || i < j.first || i > j.last || j.dir >= 0 && j.dir != dir {
		return 0
	}
	f := float64(at-j.from) / float64(j.until-j.from)
	return j.severity * min(4*f, 4*(1-f), 1) / float64(j.last-j.first+1)
}
