package verify

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/stream"
)

// cell is one key within a window.
type cell struct{ dimension, id string }

// segmentKey is the primary key of window_segments but for the topic.
type segmentKey struct {
	start     int64
	partition int32
}

type tripKey struct{ trip, date string }

// tables is what was stored at the moment of the view.
type tables struct {
	offsetRows []sink.Offset
	offsets    map[stream.Partition]sink.Offset
	// aggregates by window start and cell.
	aggregates map[int64]map[cell]*storedRow
	segments   map[string]map[segmentKey]sink.StoredSegment
	trips      map[tripKey]sink.Trip
	vehicles   map[string]sink.Vehicle
	// coldStarts holds the newest cold start of each partition.
	coldStarts map[stream.Partition]sink.Incident
	// sealed holds the segments that came after retention had emptied theirs.
	sealed map[sealedKey]bool
}

type sealedKey struct {
	stream.Partition
	firstOffset int64
}

// storedRow is a row of delay_aggregates that was seen or not yet.
type storedRow struct {
	sink.Aggregate
	seen bool
}

// readTables reads everything through one view and closes it before the log is
// read: an open read transaction would keep the database from tidying up.
func (v *verifier) readTables(ctx context.Context) (err error) {
	view, err := v.opts.Viewer.View(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, view.Close()) }()
	v.tables = &tables{
		offsets:    map[stream.Partition]sink.Offset{},
		aggregates: map[int64]map[cell]*storedRow{},
		segments:   map[string]map[segmentKey]sink.StoredSegment{},
		trips:      map[tripKey]sink.Trip{},
		vehicles:   map[string]sink.Vehicle{},
		coldStarts: map[stream.Partition]sink.Incident{},
		sealed:     map[sealedKey]bool{},
	}
	if v.tables.offsetRows, err = view.Offsets(ctx); err != nil {
		return err
	}
	for _, o := range v.tables.offsetRows {
		v.tables.offsets[o.Partition] = o
	}
	return errors.Join(
		v.readAggregates(ctx, view),
		v.readSegments(ctx, view),
		v.readState(ctx, view),
		v.readIncidents(ctx, view),
	)
}

func (v *verifier) readAggregates(ctx context.Context, view sink.View) error {
	all := sink.AggregateQuery{From: sink.NoTime, To: sink.NoTime}
	return each(view.Aggregates(ctx, all), func(a sink.Aggregate) {
		a.Dimension, a.DimensionID = v.ids.text(a.Dimension), v.ids.text(a.DimensionID)
		a.Operator, a.Topic = v.ids.text(a.Operator), v.ids.text(a.Topic)
		rows := v.tables.aggregates[a.Start]
		if rows == nil {
			rows = map[cell]*storedRow{}
			v.tables.aggregates[a.Start] = rows
		}
		rows[cell{a.Dimension, a.DimensionID}] = &storedRow{Aggregate: a}
	})
}

func (v *verifier) readSegments(ctx context.Context, view sink.View) error {
	var errs []error
	for _, name := range v.opts.ArrivalsTopics {
		segments := map[segmentKey]sink.StoredSegment{}
		v.tables.segments[name] = segments
		errs = append(errs, each(view.Segments(ctx, name, false), func(s sink.StoredSegment) {
			segments[segmentKey{s.Start, s.Partition}] = s
		}))
	}
	return errors.Join(errs...)
}

func (v *verifier) readState(ctx context.Context, view sink.View) error {
	return errors.Join(
		each(view.Trips(ctx), func(t sink.Trip) { v.tables.trips[tripKey{t.TripID, t.StartDate}] = t }),
		each(view.Vehicles(ctx), func(x sink.Vehicle) { v.tables.vehicles[x.VehicleID] = x }),
	)
}

func (v *verifier) readIncidents(ctx context.Context, view sink.View) error {
	incidents, err := view.Incidents(ctx, 0)
	if err != nil {
		return err
	}
	for _, in := range slices.Backward(incidents) { // oldest first, so that the newest stays
		p := stream.Partition{Topic: in.Topic, Index: in.Partition}
		switch in.Kind {
		case sink.IncidentColdStart:
			v.tables.coldStarts[p] = in
		case sink.IncidentSealed:
			v.tables.sealed[sealedKey{p, in.FromOffset}] = true
		}
	}
	return nil
}

// each calls f for every element and returns the error that ended the sequence.
func each[T any](seq iter.Seq2[T, error], f func(T)) error {
	for x, err := range seq {
		if err != nil {
			return err
		}
		f(x)
	}
	return nil
}

// interner keeps one copy of each id: a log names few of them, very often.
type interner map[string]string

func (in interner) bytes(b []byte) string {
	if s, ok := in[string(b)]; ok {
		return s
	}
	s := string(b)
	in[s] = s
	return s
}

func (in interner) text(s string) string {
	if kept, ok := in[s]; ok {
		return kept
	}
	in[s] = s
	return s
}
