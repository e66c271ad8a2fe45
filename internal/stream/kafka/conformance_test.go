package kafka

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/peil-stream/peil/internal/stream/streamtest"
)

func TestMain(m *testing.M) {
	// A broker of the integration tests lives as long as the test binary, and so
	// does what waits for its end.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/peil-stream/peil/internal/testkit/services.start.func1"))
}

// TestConformance runs the contract's checks on brokers in memory, each on its
// own.
func TestConformance(t *testing.T) {
	t.Parallel()
	streamtest.Run(t, features(), func(t *testing.T) *streamtest.Harness {
		t.Helper()
		return &openHarness(t, fakeBrokers(t).ListenAddrs()...).Harness
	})
}
