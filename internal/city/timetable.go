package city

import (
	"cmp"
	"slices"
	"strconv"
	"time"
)

// Times of the timetable, in seconds.
const (
	dwellScheduled = 15
	// layoverMin is the least time a vehicle has between two trips.
	layoverMin = 240
	// boarding is how long before its departure a vehicle stands at the first stop.
	boarding = 180
	// headwayMax is less than a trip takes in both directions together, so that
	// every line has a vehicle under way at any time.
	headwayMax = 2400
	// A service day begins at 04:00 and has 25 hours, one more than most days,
	// so that the day on which clocks are set back has no gap; what lies past
	// the next day's beginning is cut off by it.
	serviceStart = 4 * 3600
	serviceEnd   = 29 * 3600
)

// trip is one planned trip of a line; times in seconds of the service day.
type trip struct {
	dir     int
	depart  int64
	journey int
	// id is the trip's id in the feed, and realtime the one in OVapi's extension.
	id, realtime string
	// before is the index of the trip that the same vehicle runs before it, or -1.
	before int
	// vehicle is the number of the vehicle within its line and day.
	vehicle int
}

// timetable holds a line's trips of both directions by departure.
type timetable []trip

// pace is one anchor of the day's headways.
type pace struct {
	hour   float64
	factor float64
}

// paceAt says by how much the headway at a time of the day is longer than at
// the height of the peak: 1 in the peaks, 5 in the small hours.
func paceAt(second int64) float64 {
	anchors := [...]pace{
		{4, 4.6},
		{5.5, 3},
		{6.5, 1.5},
		{7.25, 1},
		{8.75, 1},
		{9.75, 1.6},
		{14.5, 1.5},
		{16, 1.05},
		{16.5, 1},
		{18, 1},
		{19, 1.8},
		{21, 2.4},
		{23, 3.2},
		{25, 4.2},
		{26, 4.6},
		{29, 4.6},
	}
	hour := float64(second) / 3600
	if hour <= anchors[0].hour {
		return anchors[0].factor
	}
	for i := 1; i < len(anchors); i++ {
		a, b := anchors[i-1], anchors[i]
		if hour < b.hour {
			return a.factor + (b.factor-a.factor)*(hour-a.hour)/(b.hour-a.hour)
		}
	}
	return anchors[len(anchors)-1].factor
}

// rush is 1 at the height of the peaks and 0 from the quiet of midday on.
func rush(second int64) float64 { return min(max((1.6-paceAt(second))/0.6, 0), 1) }

// newTimetable plans a day: departures in both directions, and which vehicle
// runs them.
func newTimetable(l *line, weekend bool) timetable {
	headway := l.headway
	if weekend {
		headway *= 1.25
	}
	var t timetable
	for dir := range l.routes {
		// The directions are half a headway apart, the lines spread a little, so
		// that no line has a gap where the service days meet.
		wait := func(at float64) float64 { return min(headway*paceAt(int64(at)), headwayMax) }
		at := float64(serviceStart + 45*(l.index%7))
		at += wait(at) * 0.5 * float64(dir)
		for n := 0; at < serviceEnd; n++ {
			journey := 1001 + 2*n + dir
			number := strconv.Itoa(journey)
			t = append(t, trip{
				dir: dir, depart: int64(at) / 30 * 30, journey: journey,
				id:       l.operator + "_" + l.name + "_" + number,
				realtime: l.operator + ":" + l.name + ":" + number,
			})
			at += wait(at)
		}
	}
	slices.SortFunc(t, func(a, b trip) int {
		return cmp.Or(cmp.Compare(a.depart, b.depart), cmp.Compare(a.dir, b.dir))
	})
	t.assign(l)
	return t
}

// assign gives each trip the vehicle that has waited longest at its first stop,
// or a new one.
func (t timetable) assign(l *line) {
	waiting := [2][]int{} // by direction to run next: trips whose vehicle is there, by arrival
	vehicles := 0
	for i := range t {
		tr := &t[i]
		queue := waiting[tr.dir]
		if len(queue) > 0 && t[queue[0]].planned(l)+layoverMin <= tr.depart {
			tr.before, tr.vehicle = queue[0], t[queue[0]].vehicle
			waiting[tr.dir] = queue[1:]
		} else {
			vehicles++
			tr.before, tr.vehicle = -1, vehicles
		}
		// Trips of one direction take equally long, so the queue stays sorted.
		waiting[1-tr.dir] = append(waiting[1-tr.dir], i)
	}
}

// planned is the planned arrival at the last stop.
func (tr *trip) planned(l *line) int64 {
	r := &l.routes[tr.dir]
	return tr.depart + r.sched[r.last()]
}

// serviceDate is a calendar date in the zone of the timetable.
type serviceDate struct {
	year  int
	month time.Month
	day   int
}

func dateOf(t time.Time) serviceDate {
	year, month, day := t.Date()
	return serviceDate{year, month, day}
}

// plus returns the date some days later.
func (d serviceDate) plus(days int) serviceDate {
	return dateOf(time.Date(d.year, d.month, d.day+days, 12, 0, 0, 0, time.UTC))
}

// origin is what times of a service day count from, in Unix seconds: twelve
// hours before noon, as in GTFS, so that it is right when clocks are set.
func (d serviceDate) origin(zone *time.Location) int64 {
	return time.Date(d.year, d.month, d.day, 12, 0, 0, 0, zone).Unix() - 12*3600
}

func (d serviceDate) weekend() bool {
	switch time.Date(d.year, d.month, d.day, 12, 0, 0, 0, time.UTC).Weekday() {
	case time.Saturday, time.Sunday:
		return true
	default:
		return false
	}
}

// digits writes the date as GTFS does, and dashed as OVapi's entity ids do.
func (d serviceDate) digits() string {
	return time.Date(d.year, d.month, d.day, 12, 0, 0, 0, time.UTC).Format("20060102")
}

func (d serviceDate) dashed() string {
	return time.Date(d.year, d.month, d.day, 12, 0, 0, 0, time.UTC).Format(time.DateOnly)
}

// ordinal numbers the dates, one a day.
func (d serviceDate) ordinal() int64 {
	return time.Date(d.year, d.month, d.day, 12, 0, 0, 0, time.UTC).Unix() / 86_400
}

// since is the index of the first trip that leaves at a second or later.
func (t timetable) since(second int64) int {
	i, _ := slices.BinarySearchFunc(t, second, func(tr trip, s int64) int { return cmp.Compare(tr.depart, s) })
	return i
}
