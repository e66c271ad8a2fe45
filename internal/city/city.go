package city

import (
	"fmt"
	"sync"
	"time"
)

// daysKept bounds the cache of service days: the two that a snapshot needs, and
// the one before for a reader that follows behind.
const daysKept = 3

// City is a town with its timetable. Make one with [New].
type City struct {
	cfg   Config
	lines []*line

	mu   sync.Mutex
	days []*day // newest use last
}

// New lays out the town of a configuration.
func New(cfg Config) (*City, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("lay out the town: %w", err)
	}
	c := &City{cfg: cfg, lines: make([]*line, cfg.Lines)}
	for i := range c.lines {
		c.lines[i] = newLine(cfg, i)
	}
	return c, nil
}

// day returns a service day, computed or from the cache.
func (c *City) day(date serviceDate) *day {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, d := range c.days {
		if d.date == date {
			c.days = append(append(c.days[:i:i], c.days[i+1:]...), d)
			return d
		}
	}
	d := c.newDay(date)
	if len(c.days) == daysKept {
		c.days = c.days[1:]
	}
	c.days = append(c.days, d)
	return d
}

// daysAt returns the service days that can have vehicles under way.
func (c *City) daysAt(at time.Time) [2]*day {
	today := dateOf(at.In(c.cfg.Zone))
	return [2]*day{c.day(today.plus(-1)), c.day(today)}
}

// underWay calls visit for every trip that its vehicle, or the control room,
// reported on before the header time: with the service day, the line, the trip,
// what it really does, and the second of the service day of the report. The
// order is that of the lines, then of the departures.
func (c *City) underWay(at time.Time, visit func(d *day, l *line, tr *trip, r *run, report int64)) {
	header := at.Unix()
	for _, d := range c.daysAt(at) {
		for i, l := range c.lines {
			ld := &d.lines[i]
			longest := max(l.routes[0].sched[l.routes[0].last()], l.routes[1].sched[l.routes[1].last()])
			from := header - d.origin - reportOldest - longest - lateMax - standing
			to := header - d.origin + boarding
			for n := ld.table.since(from); n < len(ld.table) && ld.table[n].depart <= to; n++ {
				tr, r := &ld.table[n], &ld.runs[n]
				report := c.reported(header, l, tr) - d.origin
				if report >= int64(r.reach[0]) && report < r.end() {
					visit(d, l, tr, r, report)
				}
			}
		}
	}
}

// A vehicle reports every 20 seconds, and it takes the feed at least 5 to
// publish it.
const (
	reportEvery  = 20
	reportDelay  = 5
	reportOldest = reportDelay + reportEvery
)

// reported is the time of the last report that a feed of this header time can
// hold, in Unix seconds: 5 to 24 s before it.
func (c *City) reported(header int64, l *line, tr *trip) int64 {
	phase := int64(mix(c.cfg.Seed, forReport, uint64(l.index), uint64(tr.vehicle)) % reportEvery)
	newest := header - reportDelay
	return newest - (newest - phase - floorDiv(newest-phase, reportEvery)*reportEvery)
}
