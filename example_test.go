package peil_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/peil-stream/peil"
	"github.com/peil-stream/peil/event"
	"github.com/peil-stream/peil/internal/stream"
)

// threeArrivals is a source that publishes three delays of one window and then
// closes it.
type threeArrivals struct{}

func (threeArrivals) Feed() string { return "nl" }

func (threeArrivals) Run(ctx context.Context, to peil.Target) error {
	var msgs []stream.Message
	for i, delay := range []int32{30, 60, 300} {
		at, _ := event.ParseTime([]byte("2026-09-21T14:16:00Z"))
		p := event.Prediction{
			Feed: []byte("nl"), TripID: fmt.Appendf(nil, "nl:trip%d", i), Timestamp: at,
			LineID: []byte("nl:CXX:1"), Operator: []byte("nl:CXX"), DelayS: delay,
		}
		msgs = append(msgs, stream.Message{
			Topic: to.Arrivals, Partition: stream.ByKey,
			Key: event.PredictionKey(nil, &p), Value: event.AppendPrediction(nil, &p),
		})
	}
	end, _ := event.ParseTime([]byte("2026-09-21T14:20:00Z"))
	for p := range int32(4) {
		msgs = append(msgs, stream.Message{
			Topic: to.Arrivals, Partition: p,
			Headers: []stream.Header{{Key: event.MarkerHeader, Value: []byte(event.CloseType)}},
			Value:   event.AppendMarker(nil, &event.Marker{Feed: []byte("nl"), Timestamp: end}),
		})
	}
	return to.Log.Append(ctx, msgs...)
}

// An instance that fills the log, processes it, and ends when all is in the
// tables.
func Example() {
	dir, err := os.MkdirTemp("", "peil")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	settings := peil.Settings{DataDir: dir}
	i, err := peil.New(peil.Config{Settings: settings, Source: threeArrivals{}, Process: true, UntilDone: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := i.Run(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("windows still open:", len(i.OpenWindows()))
	// Output: windows still open: 0
}
