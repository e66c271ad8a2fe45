package bench

import (
	"context"
	"fmt"
	"slices"

	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/internal/transit"
)

// windowMS is the default size of a window in milliseconds.
const windowMS int64 = 300_000

// rowKey is the primary key of delay_aggregates.
type rowKey struct {
	start         int64
	dimension, id string
}

// row is what must stand under it.
type row struct {
	operator  string
	count     int64
	mean, p90 float64
	max, min  int32
}

// trip is what must stand in trip_delay_latest for a trip.
type trip struct {
	station, sequence int
	delay             int32
	at                int64
}

// expectation is what the tables must hold once all is read (I2).
type expectation struct {
	rows     map[rowKey]row
	trips    map[string]trip
	accepted []int64 // by partition
}

// values are the delays of one cell, in any order.
type values struct {
	operator int // the smallest
	delays   []int32
}

// expect draws every record anew and computes the rows by sorting.
func expect(s Shape) *expectation {
	e := &expectation{rows: map[rowKey]row{}, trips: map[string]trip{}, accepted: make([]int64, s.Partitions)}
	partitions := newEncoder(s.Partitions).partitions
	newest := make([]trip, Trips)
	const cells = Lines + Stations + Operators + 1
	windows := make([][]values, spanMS/windowMS)
	for i := range windows {
		windows[i] = make([]values, cells)
	}
	var one sample
	for g := newGenerator(s); g.draw(&one); {
		w := windows[(one.at-begin)/windowMS]
		for _, cell := range [4]int{one.line(), Lines + one.station, Lines + Stations + one.operator(), cells - 1} {
			v := &w[cell]
			if len(v.delays) == 0 || one.operator() < v.operator {
				v.operator = one.operator()
			}
			v.delays = append(v.delays, one.delay)
		}
		e.accepted[partitions[one.trip]]++
		// All stops count as passed, as no record says when they will be: of one
		// time the last stop wins, and of one stop the later record (R10).
		if t := &newest[one.trip]; one.at > t.at || one.at == t.at && one.sequence >= t.sequence {
			*t = trip{station: one.station, sequence: one.sequence, delay: one.delay, at: one.at}
		}
	}
	for i, w := range windows {
		for cell := range w {
			if v := &w[cell]; len(v.delays) > 0 {
				dimension, id := nameCell(cell)
				e.rows[rowKey{begin + int64(i)*windowMS, dimension, id}] = v.row()
			}
		}
	}
	for n, t := range newest {
		if t.at > 0 {
			e.trips[tripID(n)] = t
		}
	}
	return e
}

func nameCell(cell int) (dimension, id string) {
	switch {
	case cell < Lines:
		return transit.DimensionLine, lineID(cell)
	case cell < Lines+Stations:
		return transit.DimensionStation, stationID(cell - Lines)
	case cell < Lines+Stations+Operators:
		return transit.DimensionOperator, operatorID(cell - Lines - Stations)
	}
	return transit.DimensionNetwork, feed
}

// row is the aggregate of the values by its definition.
func (v *values) row() row {
	slices.Sort(v.delays)
	n := len(v.delays)
	var sum int64
	for _, d := range v.delays {
		sum += int64(d)
	}
	return row{
		operator: operatorID(v.operator), count: int64(n), mean: float64(sum) / float64(n),
		p90: float64(v.delays[(9*n+9)/10-1]), max: v.delays[n-1], min: v.delays[0],
	}
}

// Check says how the tables compare with what the generator says.
type Check struct {
	// Rows of delay_aggregates, Trips of trip_delay_latest and Partitions of
	// consumer_offsets that were compared.
	Rows       int64 `json:"rows"`
	Trips      int64 `json:"trips"`
	Partitions int64 `json:"partitions"`
	// Differences is how many of them differ, are missing or too many.
	Differences int64 `json:"differences"`
	// Examples are the first differences in words.
	Examples []string `json:"examples,omitempty"`
}

// examplesMax is how many differences are put into words.
const examplesMax = 10

func (c *Check) differ(format string, args ...any) {
	c.Differences++
	if len(c.Examples) < examplesMax {
		c.Examples = append(c.Examples, fmt.Sprintf(format, args...))
	}
}

// compare reads all rows that a whole job has written about a topic; ends are the
// ends of its partitions.
func (e *expectation) compare(ctx context.Context, v sink.View, topic stream.Topic, ends []stream.Bounds) (*Check, error) {
	c := &Check{}
	for _, f := range []func(context.Context, sink.View, *Check) error{e.compareRows, e.compareTrips} {
		if err := f(ctx, v, c); err != nil {
			return nil, fmt.Errorf("read the tables: %w", err)
		}
	}
	offsets, err := v.Offsets(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the offsets: %w", err)
	}
	if len(offsets) != len(ends) {
		c.differ("consumer_offsets has %d rows, want %d", len(offsets), len(ends))
	}
	for _, o := range offsets {
		c.Partitions++
		i := int(o.Partition.Index)
		if o.Partition.Topic != topic.Name || o.TopicID != topic.ID || i >= len(ends) {
			c.differ("consumer_offsets has a row of %s", o.Partition)
			continue
		}
		point := sink.Point{Next: ends[i].End, Position: ends[i].End}
		counts := sink.Counts{Accepted: e.accepted[i]}
		if !o.Stored || o.Point != point || o.Counts != counts {
			c.differ("consumer_offsets of %s: %+v with counts %+v, want %+v with %+v", o.Partition, o.Point, o.Counts, point, counts)
		}
	}
	return c, nil
}

func (e *expectation) compareRows(ctx context.Context, v sink.View, c *Check) error {
	for got, err := range v.Aggregates(ctx, sink.AggregateQuery{From: sink.NoTime, To: sink.NoTime}) {
		if err != nil {
			return err
		}
		c.Rows++
		key := rowKey{got.Start, got.Dimension, got.DimensionID}
		stored := row{got.Operator, got.Count, got.Mean, got.P90, got.Max, got.Min}
		if want, ok := e.rows[key]; !ok || stored != want || got.End != got.Start+windowMS {
			c.differ("delay_aggregates %+v: %+v, want %+v", key, stored, want)
		}
	}
	if missing := int64(len(e.rows)) - c.Rows; missing > 0 {
		c.differ("delay_aggregates has %d rows, want %d", c.Rows, len(e.rows))
		c.Differences += missing - 1
	}
	return nil
}

func (e *expectation) compareTrips(ctx context.Context, v sink.View, c *Check) error {
	for got, err := range v.Trips(ctx) {
		if err != nil {
			return err
		}
		c.Trips++
		want, ok := e.trips[got.TripID]
		if !ok || got.StartDate != startDate || got.StopSequence == nil || *got.StopSequence != int64(want.sequence) ||
			got.StationID != stationID(want.station) || got.DelayS != want.delay || got.ObservedAt != want.at {
			c.differ("trip_delay_latest %s: %+v, want %+v", got.TripID, got, want)
		}
	}
	if missing := int64(len(e.trips)) - c.Trips; missing > 0 {
		c.differ("trip_delay_latest has %d rows, want %d", c.Trips, len(e.trips))
		c.Differences += missing - 1
	}
	return nil
}
