package peil_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestDemoKilledAndStartedAgain runs the endless demo, kills it once a window is
// final, and starts it again: it goes on, and what it wrote is right.
func TestDemoKilledAndStartedAgain(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "demo")
	demo := []string{"demo", "--data-dir", dir, "--listen", "127.0.0.1:0"}
	final := func() bool {
		return query(t, dir, "SELECT count(*) FROM delay_aggregates WHERE dimension = 'network' AND event_count >= 1000") > 0 &&
			query(t, dir, "SELECT max(n) FROM (SELECT count(*) AS n FROM delay_aggregates WHERE dimension = 'line' GROUP BY window_start)") >= 10
	}
	stop(t, os.Kill, final, demo...)
	before := logEnd(t, dir)
	// SIGTERM, once it has gone on: open windows stay in the log for the next one.
	stop(t, os.Interrupt, func() bool { return logEnd(t, dir) > before }, demo...)
	if out := run(t, 0, "verify", "--data-dir", dir); !strings.Contains(out, "no differences") {
		t.Fatalf("verify: %s", out)
	}
}

// stop starts peil, waits until a condition holds, and sends a signal. A process
// that is interrupted must end well.
func stop(t *testing.T, sig os.Signal, when func() bool, args ...string) {
	t.Helper()
	cmd := peilCommand(t.Context(), args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	deadline := time.NewTimer(2 * time.Minute)
	defer deadline.Stop()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for !when() {
		select {
		case err := <-done:
			t.Fatalf("peil ended by itself: %v\n%s", err, &out)
		case <-deadline.C:
			t.Fatalf("nothing happens:\n%s", &out)
		case <-poll.C:
		}
	}
	if err := cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	if err := <-done; sig != os.Kill && err != nil {
		t.Fatalf("peil ended with %v after %s\n%s", err, sig, &out)
	}
}
