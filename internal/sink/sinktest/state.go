package sinktest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/peil-stream/peil/internal/sink"
)

func stateChecks() []Check {
	return []Check{
		{"the newest vehicle stands", newestVehicle},
		{"the newest trip stands", newestTrip},
		{"state rows keep every column", stateColumns},
		{"rows of one key from two partitions", sameKey},
		OppositeOrder(shortRounds),
	}
}

// age is one write of a state row and whether it should stand afterwards.
type age struct {
	why      string
	observed int64
	tie      int64
	mark     int32 // tells the writes apart
	stands   bool
}

func ages() []age {
	return []age{
		{"the first", 100, 5, 1, true},
		{"older", 99, 9, 2, false},
		{"as old, lower tie", 100, 4, 3, false},
		{"as old, equal tie, other content", 100, 5, 4, true},
		{"as old, higher tie", 100, 6, 5, true},
		{"newer, lower tie", 101, 0, 6, true},
		{"older, higher tie", 100, 99, 7, false},
		{"older by a millisecond less than a second", 100, 0, 8, false},
	}
}

// stands writes rows of all ages, each twice, and sees after each which stands.
func stands(
	ctx context.Context, h Harness, state func(age) sink.State, see func(sink.View) ([]int32, error),
) error {
	s := newScene(ctx, h, 1)
	t := s.claim(ctx, arrival(0))
	want := int32(0)
	for _, a := range ages() {
		if a.stands {
			want = a.mark
		}
		t.state = state(a)
		s.save(ctx, t)
		var got []int32
		s.look(ctx, func(v sink.View) (err error) {
			got, err = see(v)
			return err
		})
		s.equal(a.why, []int32{want}, got)
		before := s.dump(ctx)
		t.state = state(a)
		s.save(ctx, t)
		s.unchanged(ctx, a.why+", again", before)
	}
	return s.err
}

func newestVehicle(ctx context.Context, h Harness) error {
	return stands(ctx, h, func(a age) sink.State {
		return sink.State{Vehicles: []sink.Vehicle{{
			VehicleID: "nl:1", Latitude: float64(a.mark), ObservedAt: at(a.observed), Tie: a.tie,
		}}}
	}, func(v sink.View) (marks []int32, err error) {
		for r, err := range v.Vehicles(ctx) {
			if err != nil {
				return nil, err
			}
			marks = append(marks, int32(r.Latitude))
		}
		return marks, nil
	})
}

func newestTrip(ctx context.Context, h Harness) error {
	return stands(ctx, h, func(a age) sink.State {
		return sink.State{Trips: []sink.Trip{{
			TripID: "nl:1", StartDate: "20261130", DelayS: a.mark, PredictedTime: sink.NoTime,
			ObservedAt: at(a.observed), Tie: a.tie,
		}}}
	}, func(v sink.View) (marks []int32, err error) {
		for r, err := range v.Trips(ctx) {
			if err != nil {
				return nil, err
			}
			marks = append(marks, r.DelayS)
		}
		return marks, nil
	})
}

func stateColumns(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 1)
	bearing, speed, sequence := 0.0, 13.25, int64(0)
	vehicles := []sink.Vehicle{
		{VehicleID: "nl:bare", ObservedAt: at(-1), Tie: -1},
		{
			VehicleID: "nl:full", TripID: "t", LineID: "l", Operator: "o", Latitude: 52.370216, Longitude: -4.895168,
			Bearing: &bearing, SpeedMPS: &speed, StopID: "s", CurrentStatus: "in_transit_to", Occupancy: "full",
			ObservedAt: at(0) + 1, Tie: 1 << 60,
		},
	}
	trips := []sink.Trip{
		{TripID: "nl:1", PredictedTime: sink.NoTime, ObservedAt: at(0)}, // an empty start date is a date of its own
		{
			TripID: "nl:1", StartDate: "20261130", LineID: "l", Operator: "o", StopID: "s", StationID: "st",
			StopSequence: &sequence, DelayS: -86400, PredictedTime: at(60), ObservedAt: at(1), Tie: -1 << 60,
		},
	}
	t := s.claim(ctx, arrival(0))
	t.state = sink.State{
		Vehicles: []sink.Vehicle{vehicles[1], vehicles[0]},
		Trips:    []sink.Trip{trips[1], trips[0]},
	}
	f := t.snapshot()
	s.flush(ctx, f)
	s.equal("the caller's vehicles", []sink.Vehicle{vehicles[1], vehicles[0]}, f.State.Vehicles)
	s.look(ctx, func(v sink.View) error {
		got, err := collect(v.Vehicles(ctx))
		s.equal("vehicles", vehicles, got)
		gotTrips, errTrips := collect(v.Trips(ctx))
		s.equal("trips", trips, gotTrips)
		return errors.Join(err, errTrips)
	})
	return s.err
}

// sameKey has one flush bring the same keys from two partitions, the newer row
// first.
func sameKey(ctx context.Context, h Harness) error {
	s := newScene(ctx, h, 2)
	a, b := s.claim(ctx, arrival(0)), s.claim(ctx, arrival(1))
	a.state = sink.State{
		Vehicles: []sink.Vehicle{{VehicleID: "nl:1", ObservedAt: at(2)}},
		Trips:    []sink.Trip{{TripID: "nl:1", PredictedTime: sink.NoTime, ObservedAt: at(1), Tie: 2}},
	}
	b.state = sink.State{
		Vehicles: []sink.Vehicle{{VehicleID: "nl:1", ObservedAt: at(1), Tie: 9}},
		Trips:    []sink.Trip{{TripID: "nl:1", PredictedTime: sink.NoTime, ObservedAt: at(1), Tie: 1}},
	}
	wantVehicles, wantTrips := slices.Clone(a.state.Vehicles), slices.Clone(a.state.Trips)
	s.save(ctx, a, b)
	s.look(ctx, func(v sink.View) error {
		vehicles, err := collect(v.Vehicles(ctx))
		s.equal("vehicles", wantVehicles, vehicles)
		trips, errTrips := collect(v.Trips(ctx))
		s.equal("trips", wantTrips, trips)
		return errors.Join(err, errTrips)
	})
	return s.err
}

// busyKeys is how many keys both processors write in each round.
const busyKeys = 6

// shortRounds is how often they do so in the suite.
const shortRounds = 50

// OppositeOrder is K22: two instances write the same keys in opposite order, so
// many times, and both finalise.
func OppositeOrder(rounds int64) Check {
	return Check{"K22 writers in opposite key order lose nothing", func(ctx context.Context, h Harness) error {
		return oppositeOrder(ctx, h, rounds)
	}}
}

func oppositeOrder(ctx context.Context, h Harness, rounds int64) error {
	s := newScene(ctx, h, 2)
	tasks := []*task{s.claim(ctx, arrival(0)), s.claim(ctx, arrival(1))}
	if s.err != nil {
		return s.err
	}
	both, side := errgroup.WithContext(ctx)
	both.Go(func() error { return tasks[0].hurry(side, h, rounds, false) })
	both.Go(func() error { return tasks[1].hurry(side, h.second(), rounds, true) })
	s.must("work side by side", both.Wait())
	// A record a minute in each partition; the watermark stands 120 s behind the
	// last one.
	final := ((rounds-1)*60 - 120) / 300
	total := int64(0)
	for _, a := range s.aggregates(ctx) {
		if a.Dimension == "network" {
			total += a.Count
		}
	}
	s.equal("records in final windows", 2*5*final, total)
	s.look(ctx, func(v sink.View) error {
		vehicles, err := collect(v.Vehicles(ctx))
		for _, r := range vehicles {
			s.equal("newest "+r.VehicleID, sink.Vehicle{VehicleID: r.VehicleID, ObservedAt: at(rounds - 1), Tie: 1}, r)
		}
		s.equal("vehicles", busyKeys, len(vehicles))
		return err
	})
	return s.err
}

// hurry flushes and finalises round after round, a minute of the log each, with
// the same keys, backwards or not.
func (t *task) hurry(ctx context.Context, h Harness, rounds int64, backwards bool) error {
	t.scene = &scene{h: h} // a scene belongs to one goroutine
	tie := int64(0)
	if backwards {
		tie = 1
	}
	for round := range rounds {
		t.add(round*2, round*60, 1)
		t.heartbeat(round*2+1, round*60)
		for key := range int64(busyKeys) {
			id := fmt.Sprintf("nl:%d", key)
			t.state.Vehicles = append(t.state.Vehicles, sink.Vehicle{VehicleID: id, ObservedAt: at(round), Tie: tie})
			t.state.Trips = append(t.state.Trips,
				sink.Trip{TripID: id, PredictedTime: sink.NoTime, ObservedAt: at(round), Tie: tie})
		}
		if backwards {
			slices.Reverse(t.state.Vehicles)
			slices.Reverse(t.state.Trips)
		}
		f := t.snapshot()
		if err := patiently(func() error { return t.scene.flushOnce(ctx, f) }); err != nil {
			return fmt.Errorf("round %d: flush: %w", round, err)
		}
		t.wrote(f)
		if err := patiently(func() error { return t.scene.finaliseOnce(ctx) }); err != nil {
			return fmt.Errorf("round %d: finalise: %w", round, err)
		}
	}
	return t.scene.err
}

// flushOnce and finaliseOnce return the error instead of failing the scene, so
// that the caller can try again.
func (s *scene) flushOnce(ctx context.Context, f sink.PartitionFlush) error {
	result, err := s.h.Sink.Flush(ctx, []sink.PartitionFlush{f})
	if err == nil && len(result.Fenced) > 0 {
		err = fmt.Errorf("fenced %v", result.Fenced)
	}
	return err
}

func (s *scene) finaliseOnce(ctx context.Context) error {
	try := &scene{h: s.h}
	try.finalise(ctx, topicID)
	return try.err
}

// triesMax bounds how often something is tried again that the adapter says may
// succeed later.
const triesMax = 100_000

// patiently tries again what may succeed later.
func patiently(try func() error) error {
	for range triesMax {
		err := try()
		if err == nil || !errors.Is(err, sink.ErrTransient) && !errors.Is(err, sink.ErrBusy) {
			return err
		}
		runtime.Gosched()
	}
	return errors.New("no end of transient errors")
}
