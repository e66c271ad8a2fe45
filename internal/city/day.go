package city

// Bounds of the deviation from the timetable, in seconds. They also bound how
// long a trip may still be under way after its planned end.
const (
	earlyMax = 240
	lateMax  = 2400
	// holdEarly: a driver who is earlier than this waits at the stop.
	holdEarly = 75
	// recovery is what a late vehicle makes up per stop.
	recovery = 4
	// standing is how long a vehicle is still seen at its last stop.
	standing = 30
)

// day is everything that happens on one service day, computed as a whole
// because a vehicle that is late begins its next trip late.
type day struct {
	date   serviceDate
	origin int64 // Unix seconds
	// until is where the next service day begins, in seconds of this one.
	until int64
	lines []lineDay
}

// lineDay holds what the trips of one line really do.
type lineDay struct {
	table timetable
	runs  []run
}

// run is one trip as it really runs, in seconds of the service day.
type run struct {
	// key is what everything of this trip is drawn from.
	key uint64
	// canceled: no vehicle runs it.
	canceled bool
	// ghost is the stop from which on the feed says NO_DATA; 0 if it never does.
	ghost int
	// reach and leave are the arrivals at and the departures from each stop.
	// reach[0] is when the vehicle appears at its first stop, and the last
	// element of leave when it is gone.
	reach, leave []int32
}

func (r *run) end() int64 { return int64(r.leave[len(r.leave)-1]) }

// newDay computes a service day.
func (c *City) newDay(date serviceDate) *day {
	d := &day{
		date:   date,
		origin: date.origin(c.cfg.Zone),
		lines:  make([]lineDay, len(c.lines)),
	}
	d.until = date.plus(1).origin(c.cfg.Zone) + serviceStart - d.origin
	kind := 0
	if date.weekend() {
		kind = 1
	}
	for i, l := range c.lines {
		table := l.days[kind]
		for len(table) > 0 && table[len(table)-1].depart >= d.until {
			table = table[:len(table)-1]
		}
		d.lines[i] = lineDay{table: table, runs: c.runsOf(l, d, table)}
	}
	return d
}

// runsOf lets the vehicles of a line run a day.
func (c *City) runsOf(l *line, d *day, table timetable) []run {
	stops := 0
	for i := range table {
		stops += len(l.routes[table[i].dir].stops)
	}
	times := make([]int32, 2*stops)
	runs := make([]run, len(table))
	for i := range table {
		n := len(l.routes[table[i].dir].stops)
		runs[i].reach, runs[i].leave = times[:n:n], times[n:2*n:2*n]
		times = times[2*n:]
		free := int64(-1 << 31)
		if before := table[i].before; before >= 0 {
			free = runs[before].end()
		}
		runs[i].key = mix(c.cfg.Seed, forTrip, uint64(l.index), uint64(d.date.ordinal()), uint64(table[i].journey))
		c.drive(l, d, &table[i], &runs[i], free)
	}
	return runs
}

// drive fills in one run. free is when its vehicle has ended its trip before.
func (c *City) drive(l *line, d *day, tr *trip, out *run, free int64) {
	key := out.key
	r := &l.routes[tr.dir]
	last := r.last()
	if unit(mix(key, 1)) < 0.006 {
		// Nobody runs it; its times are those of the timetable, and its vehicle
		// drives over empty.
		out.canceled = true
		for i := range r.stops {
			out.reach[i] = int32(tr.depart + r.sched[i])
			out.leave[i] = out.reach[i] + dwellScheduled
		}
		out.reach[0] = int32(tr.depart - boarding)
		out.leave[last] = int32(max(int64(out.leave[last]), free))
		return
	}
	if unit(mix(key, 2)) < 0.012 {
		out.ghost = 2 + pick(mix(key, 3), last)
	}
	start := max(tr.depart+round(between(mix(key, 4), -10, 40)), free+45)
	out.reach[0] = int32(max(tr.depart-boarding, free+15))
	out.leave[0] = int32(start)
	driver := between(mix(key, 5), -6.5, 4.5)
	stretch := c.mood(l, d.origin, tr.depart)
	left := start
	for i := 1; i <= last; i++ {
		planned := tr.depart + r.sched[i]
		gain := driver + stretch.gain(d.origin+planned, i, r.run[i], tr.dir)
		h := mix(key, forRun, uint64(i))
		gain += between(h, -7, 7.5)
		late := left + r.run[i] - planned
		if late > 0 {
			gain -= min(recovery, float64(late))
		} else {
			gain += min(1, float64(-late))
		}
		reached := left + max(r.run[i]*6/10, r.run[i]+round(gain))
		reached = min(max(reached, planned-earlyMax), planned+lateMax)
		reached = max(reached, left+10)
		out.reach[i] = int32(reached)
		left = reached + round(between(mix(h, forDwell), 8, 24+8*stretch.rush))
		left = max(left, planned+dwellScheduled-holdEarly)
		if i == last {
			left = reached + standing
		}
		out.leave[i] = int32(left)
	}
}
