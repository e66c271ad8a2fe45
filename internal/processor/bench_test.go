package processor_test

import (
	"fmt"
	"testing"

	"github.com/peil-stream/peil/event"
	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/internal/testkit"
)

// BenchmarkProcess reads a backlog from the embedded log into the tables: an hour
// of event time over 300 lines, 3,000 stations and 20,000 trips.
func BenchmarkProcess(b *testing.B) {
	const n = 200_000
	r := testkit.New(b, testkit.Options{Partitions: 4})
	msgs := make([]stream.Message, 0, n)
	for i := range n {
		line, trip := i%300, i%20_000
		p := event.Prediction{
			Feed: []byte("nl"), TripID: fmt.Appendf(nil, "nl:CXX_%d_%d", line, trip), StartDate: []byte("20260921"),
			StopSequence: int64(i % 40), HasStopSequence: true,
			StopID: fmt.Appendf(nil, "nl:%08d", i%3000), StationID: fmt.Appendf(nil, "nl:stop_area_%d", i%3000),
			LineID: fmt.Appendf(nil, "nl:CXX:%d", line), Operator: fmt.Appendf(nil, "nl:OP%d", line%12),
			DelayS: int32(i%600 - 60), Timestamp: testkit.T0 + int64(i)*3_600_000/n, PredictedTime: testkit.T0 + int64(i)*18 + 60_000,
		}
		value := event.AppendPrediction(nil, &p)
		msgs = append(msgs, stream.Message{
			Topic: testkit.Arrivals, Partition: stream.ByKey, Timestamp: testkit.At(3600),
			Key: event.PredictionKey(nil, &p), Value: value,
		})
	}
	for len(msgs) > 0 {
		k := min(len(msgs), 10_000)
		if err := r.Log.Append(b.Context(), msgs[:k]...); err != nil {
			b.Fatal(err)
		}
		msgs = msgs[k:]
	}
	for b.Loop() {
		for _, table := range []string{"consumer_offsets", "window_segments", "delay_aggregates", "trip_delay_latest"} {
			r.Exec("DELETE FROM " + table)
		}
		r.Process()
	}
	b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}
