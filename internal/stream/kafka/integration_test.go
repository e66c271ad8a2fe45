//go:build integration

package kafka

import (
	"slices"
	"testing"

	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/internal/stream/streamtest"
	"github.com/peil-stream/peil/internal/testkit/services"
)

// TestConformanceOnKafka runs the contract's checks on a real broker.
func TestConformanceOnKafka(t *testing.T) {
	t.Parallel()
	streamtest.Run(t, features(), func(t *testing.T) *streamtest.Harness {
		t.Helper()
		return &openHarness(t, services.Kafka(t)...).Harness
	})
}

// TestStampedByKafka holds that a message's own timestamp gives way to the
// broker's in a topic that the log has made.
func TestStampedByKafka(t *testing.T) {
	t.Parallel()
	h := openHarness(t, services.Kafka(t)...)
	p := h.topic(t, "t", 1)
	if err := h.log.Append(t.Context(), stream.Message{Topic: p.Topic, Timestamp: 1_000, Value: []byte("a")}); err != nil {
		t.Fatal(err)
	}
	for r, err := range h.log.Read(t.Context(), p, 0, 1) {
		if err != nil || r.Timestamp <= 1_000 {
			t.Errorf("stamped %d, %v", r.Timestamp, err)
		}
	}
}

// TestTopicsOfKafka holds that the broker's own topics are not listed, and those
// of publishers' memories are.
func TestTopicsOfKafka(t *testing.T) {
	t.Parallel()
	h := openHarness(t, services.Kafka(t)...)
	p := h.topic(t, "t", 1)
	pub := h.publisher(t, "pub", p.Topic) // there is a topic of transactions now
	if err := pub.Publish(t.Context(), []stream.Message{{Topic: p.Topic, Value: []byte("a")}}, nil); err != nil {
		t.Fatal(err)
	}
	names, err := h.log.Topics(t.Context())
	if err != nil || !slices.IsSorted(names) {
		t.Fatalf("topics %q, %v", names, err)
	}
	if !slices.Contains(names, p.Topic) || !slices.Contains(names, p.Topic+memorySuffix) || slices.Contains(names, "__transaction_state") {
		t.Errorf("topics %q", names)
	}
}
