package verify_test

import (
	"path/filepath"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/peil-stream/peil/event"
	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/internal/testkit"
)

// TestProcessorAgrees runs the processor over random logs in random parts, with a
// restart between them, and compares its tables by this package: two ways to the
// same rows that share no code.
func TestProcessorAgrees(t *testing.T) {
	t.Parallel()
	windows := int64(0)
	rapid.Check(t, func(rt *rapid.T) {
		partitions := rapid.Int32Range(1, 3).Draw(rt, "partitions")
		rig := testkit.New(t, testkit.Options{Partitions: partitions, Path: filepath.Join(t.TempDir(), "peil.db")})
		defer rig.Close()
		now := 0.0
		for range rapid.IntRange(1, 3).Draw(rt, "parts") {
			for range rapid.IntRange(0, 40).Draw(rt, "records") {
				now += 30 * float64(rapid.IntRange(0, 2).Draw(rt, "step"))
				m := randomMessage(rt, now)
				m.Partition = rapid.Int32Range(0, partitions-1).Draw(rt, "partition")
				if err := rig.Log.Append(t.Context(), m); err != nil {
					rt.Fatal(err)
				}
			}
			rig.Process()
			r := rig.Verify()
			windows += r.Windows
		}
	})
	if windows == 0 {
		t.Fatal("no window was ever compared")
	}
}

// randomMessage is a message that the log stamps with T0+now seconds.
func randomMessage(rt *rapid.T, now float64) stream.Message {
	around := now + 30*float64(rapid.IntRange(-16, 11).Draw(rt, "clock")) // often on an edge
	m := stream.Message{Topic: arrivals, Timestamp: at(now)}
	switch rapid.SampledFrom([]string{"delay", "delay", "delay", "status", "heartbeat", "close", "garbage", "null", "vehicle"}).Draw(rt, "kind") {
	case "delay", "status":
		m.Value = randomPrediction(rt, around)
	case "heartbeat":
		m.Value, m.Headers = heartbeat(around).Value, heartbeat(around).Headers
	case "close":
		r := marker(around, event.CloseType)
		m.Value, m.Headers = r.Value, r.Headers
	case "garbage":
		m.Value = garbage(0).Value
	case "vehicle":
		m.Topic = positions
		m.Value = position(around, float64(rapid.IntRange(0, 2).Draw(rt, "lat")), float64(rapid.IntRange(0, 2).Draw(rt, "lon")),
			"nl:v"+digit(rt, "vehicle"), nil).Value
	}
	return m
}

func randomPrediction(rt *rapid.T, seconds float64) []byte {
	p := event.Prediction{
		Feed: []byte("nl"), TripID: []byte("nl:t" + digit(rt, "trip")), PredictedTime: event.NoTime, Timestamp: at(seconds),
		DelayS: int32(rapid.IntRange(-200, 200).Draw(rt, "delay")),
	}
	for _, field := range []struct {
		name string
		dst  *[]byte
	}{
		{"L", &p.LineID}, {"S", &p.StationID}, {"O", &p.Operator}, {"s", &p.StopID}, {"d", &p.StartDate},
	} {
		if rapid.Bool().Draw(rt, "has") {
			*field.dst = []byte("nl:" + field.name + digit(rt, field.name))
		}
	}
	if rapid.Bool().Draw(rt, "has sequence") {
		p.StopSequence, p.HasStopSequence = rapid.Int64Range(0, 3).Draw(rt, "sequence"), true
	}
	if rapid.Bool().Draw(rt, "has predicted time") {
		p.PredictedTime = at(seconds + float64(rapid.IntRange(-60, 60).Draw(rt, "ahead")))
	}
	if rapid.IntRange(0, 5).Draw(rt, "no delay") == 0 {
		p.Status = event.Canceled
	}
	return event.AppendPrediction(nil, &p)
}

func digit(rt *rapid.T, label string) string {
	return strconv.Itoa(rapid.IntRange(0, 2).Draw(rt, label))
}
