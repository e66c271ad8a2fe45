package kafka

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/peil-stream/peil/internal/stream/streamtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestConformance runs the contract's checks on brokers in memory, each on its
// own.
func TestConformance(t *testing.T) {
	t.Parallel()
	streamtest.Run(t, features(), func(t *testing.T) *streamtest.Harness {
		t.Helper()
		return &openHarness(t, fakeBrokers(t).ListenAddrs()...).Harness
	})
}
