package gtfsrt_test

import (
	"testing"

	"github.com/peil-stream/peil/internal/transit/gtfsrt"
	"github.com/peil-stream/peil/internal/transit/gtfsrt/pb"
)

// TestArrivalsOnce holds that a stop gives one event, once it is passed: with the
// time and delay told then, or remembered when the feed drops stop or trip.
func TestArrivalsOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, gtfsrt.Arrivals)
	rich := func(stops ...*pb.TripUpdate_StopTimeUpdate) *pb.FeedEntity {
		e := trip("a", 0, stops...)
		e.TripUpdate.Trip.RouteId, e.TripUpdate.Trip.StartDate = new("r"), new("20|26")
		return e
	}
	for _, step := range []struct {
		name   string
		header int64
		trips  []*pb.FeedEntity
		want   []string
	}{
		{
			"the header's own second is passed", 60,
			[]*pb.FeedEntity{rich(stop(1, 50, 5), stop(2, 60, 6), stop(3, 61, 7), stop(4, 300, 8), stop(5, 400, 9), stop(6, 500, 9))},
			[]string{"50 a|20|26 1 5 50", "60 a|20|26 2 6 60"},
		},
		{"the same again", 61, []*pb.FeedEntity{rich(stop(1, 50, 5), stop(2, 60, 6), stop(3, 62, 8), stop(4, 300, 8), stop(5, 400, 9), stop(6, 500, 9))}, nil},
		{
			"a passed stop is dropped, a later one moves", 120,
			[]*pb.FeedEntity{rich(stop(4, 310, 18), stop(5, 400, 9), stop(6, 500, 9))},
			[]string{"62 a|20|26 3 8 62"},
		},
		{"the trip is dropped", 309, nil, nil},
		{"and its next stop is passed", 310, nil, []string{"310 a|20|26 4 18 310"}},
		{"it is back, with a correction", 330, []*pb.FeedEntity{rich(stop(4, 320, 28), stop(5, 400, 9), stop(6, 500, 9))}, nil},
		{"one stop is still listed without arrival", 450, []*pb.FeedEntity{rich(bare(5), stop(6, 500, 9))}, []string{"400 a|20|26 5 9 400"}},
		{"the last", 500, nil, []string{"500 a|20|26 6 9 500"}},
		{"nothing is left", 5000, nil, nil},
	} {
		events, _ := b.poll(feed(step.header, step.trips...))
		wantSays(t, step.name, events, step.want...)
		for _, e := range events {
			if string(e.Prediction.LineID) != "f:r" || string(e.Prediction.StopID) == "" || string(e.Prediction.StartDate) != "20|26" {
				t.Errorf("%s: incomplete record %+v", step.name, e.Prediction)
			}
		}
		if step.header == 330 && b.tally[gtfsrt.ArrivalCorrected] != 1 {
			t.Errorf("tally %v, want one correction", b.tally)
		}
		b.restart()
	}
}

// TestArrivalsTakenBack holds what makes a remembered prediction void.
func TestArrivalsTakenBack(t *testing.T) {
	t.Parallel()
	delayOnly, timeOnly := stop(1, 100, 5), stop(1, 100, 5)
	delayOnly.Arrival.Time, timeOnly.Arrival.Delay = nil, nil
	for name, second := range map[string]*pb.FeedEntity{
		"trip canceled":               related(trip("a", 0), pb.TripDescriptor_CANCELED),
		"trip canceled, stops listed": related(trip("a", 0, stop(1, 100, 5)), pb.TripDescriptor_CANCELED),
		"trip of an unknown status":   related(trip("a", 0, stop(1, 100, 5)), 99),
		"stop skipped":                trip("a", 0, marked(bare(1), pb.TripUpdate_StopTimeUpdate_SKIPPED)),
		"no data":                     trip("a", 0, marked(bare(1), pb.TripUpdate_StopTimeUpdate_NO_DATA)),
		"no delay any more":           trip("a", 0, timeOnly),
		"no time any more":            trip("a", 0, delayOnly),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, gtfsrt.Arrivals)
			b.poll(feed(0, trip("a", 0, stop(1, 100, 5))))
			b.poll(feed(30, second))
			b.restart()
			events, _ := b.poll(feed(200))
			wantSays(t, name, events)
		})
	}
}

// TestArrivalsForgotten holds that what was forgotten is published by nobody.
func TestArrivalsForgotten(t *testing.T) {
	t.Parallel()
	b := newBench(t, gtfsrt.Arrivals)
	b.poll(feed(0, trip("a", 0, stop(1, 100, 5))))
	events, _ := b.poll(feed(26 * 3600))
	wantSays(t, "after 26 hours of silence", events)
	if len(b.store) != 1 {
		t.Errorf("%d keys left, want the source's", len(b.store))
	}
}
