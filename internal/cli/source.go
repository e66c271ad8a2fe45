package cli

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/peil-stream/peil"
	"github.com/peil-stream/peil/internal/city"
	"github.com/peil-stream/peil/internal/ingest"
	"github.com/peil-stream/peil/internal/transit/gtfsrt"
)

// open opens the ingester of a feed on the target of an instance.
func open(ctx context.Context, feed string, emit gtfsrt.Emit, to peil.Target) (*ingest.Ingester, error) {
	return ingest.Open(ctx, to.Log, ingest.Config{
		Feed: feed, Group: to.Group, Emit: emit, ArrivalsTopic: to.Arrivals, PositionsTopic: to.Positions,
		WindowSize: to.Window, MaxSkew: to.MaxSkew,
	}, to.Metrics, to.Logger)
}

// replaySource plays captures.
type replaySource struct {
	feed    string
	emit    gtfsrt.Emit
	options ingest.Options
	// report is what was done, once Run has returned.
	report ingest.Report
}

func (s *replaySource) Feed() string { return s.feed }

func (s *replaySource) Run(ctx context.Context, to peil.Target) (err error) {
	ing, err := open(ctx, s.feed, s.emit, to)
	if err != nil {
		return err
	}
	defer func() {
		if closed := ing.Close(); err == nil {
			err = closed
		}
	}()
	s.report, err = ingest.Replay(ctx, ing, s.options)
	return err
}

// citySource plays the simulated city.
type citySource struct {
	city    *city.City
	feed    string
	options city.RunOptions
	// polled is the feed's time of the newest poll, in Unix milliseconds.
	polled atomic.Int64
}

func (s *citySource) Feed() string { return s.feed }

func (s *citySource) Run(ctx context.Context, to peil.Target) (err error) {
	ing, err := open(ctx, s.feed, gtfsrt.Predictions, to)
	if err != nil {
		return err
	}
	defer func() {
		if closed := ing.Close(); err == nil {
			err = closed
		}
	}()
	topics, err := to.Log.Describe(ctx, to.Arrivals)
	if err != nil {
		return err
	}
	s.options.Topics, s.options.Partitions = city.Topics{Arrivals: to.Arrivals, Positions: to.Positions}, topics[0].Partitions
	if last := ing.Last(gtfsrt.TripUpdates); last != gtfsrt.NoTime {
		s.polled.Store(last)
	}
	s.options.OnPoll = func(at time.Time, _ ingest.Result) { s.polled.Store(at.UnixMilli()) }
	if err := s.city.Run(ctx, ing, s.options); err != nil {
		return fmt.Errorf("play the city: %w", err)
	}
	return nil
}
