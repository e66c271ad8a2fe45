package bench

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/peil-stream/peil/internal/stream/kafka"
)

// raw counts what the client delivers.
func raw(ctx context.Context, log *kafka.Log, s *Spec) (Measure, error) {
	var clock meter
	from := func(_ context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
		for _, partitions := range offsets {
			for p := range partitions {
				partitions[p] = kgo.NewOffset().At(0)
			}
		}
		if len(offsets) > 0 {
			clock.start()
		}
		return offsets, nil
	}
	options, err := log.ConsumerOptions(s.subscription())
	if err != nil {
		return Measure{}, err
	}
	client, err := log.Client(append(options, kgo.AdjustFetchOffsetsFn(from))...)
	if err != nil {
		return Measure{}, err
	}
	defer client.CloseAllowingRebalance()
	var records, size int64
	for records < s.Messages {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return Measure{}, err
		}
		for _, e := range fetches.Errors() {
			return Measure{}, e.Err
		}
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			for _, r := range p.Records {
				if !r.Attrs.IsControl() {
					records++
					size += int64(len(r.Key) + len(r.Value))
				}
			}
		})
		client.AllowRebalance()
	}
	m := clock.stop()
	m.Records, m.Bytes = records, size
	return m, nil
}
