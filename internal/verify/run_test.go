package verify_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/internal/verify"
)

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*verify.Options){
		"no tables":            func(o *verify.Options) { o.Viewer = nil },
		"no log":               func(o *verify.Options) { o.Reader = nil },
		"no window size":       func(o *verify.Options) { o.WindowSize = 0 },
		"half a millisecond":   func(o *verify.Options) { o.WindowSize = 1500 * time.Microsecond },
		"negative lateness":    func(o *verify.Options) { o.Lateness = -1 },
		"negative max skew":    func(o *verify.Options) { o.MaxSkew = -1 },
		"negative window size": func(o *verify.Options) { o.WindowSize = -time.Minute },
	} {
		if _, err := pair(t).run(change); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestOtherSettings: rows made with other settings are an error, not a thousand
// differences.
func TestOtherSettings(t *testing.T) {
	t.Parallel()
	s := pair(t)
	if _, err := s.run(func(o *verify.Options) { o.Fingerprint = "f" }); err != nil {
		t.Fatalf("same settings: %v", err)
	}
	_, err := s.run(func(o *verify.Options) { o.Fingerprint = "g" })
	got, ok := errors.AsType[*verify.FingerprintError](err)
	if !ok || got.Stored != "f" || got.Wanted != "g" || got.Partition != onlyPartition {
		t.Fatalf("other settings: %v", err)
	}
	// A row that was only registered has none yet.
	s.exec("UPDATE consumer_offsets SET fingerprint = ''")
	if _, err := s.run(func(o *verify.Options) { o.Fingerprint = "g" }); err != nil {
		t.Fatalf("no fingerprint: %v", err)
	}
	// Settings that differ without a fingerprint to tell are found in the rows.
	r, err := s.run(func(o *verify.Options) { o.Lateness = time.Minute })
	if err != nil || r.Clean() {
		t.Fatalf("other lateness: clean is %t, %v", r.Clean(), err)
	}
}

func TestReadErrorsEndTheRun(t *testing.T) {
	t.Parallel()
	s := pair(t)
	s.log.broken, s.log.brokenAt = errors.New("disk on fire"), 1
	if r, err := s.run(nil); !errors.Is(err, s.log.broken) || r.Records != 0 {
		t.Fatalf("log: %v, %+v", err, r)
	}
	s = pair(t)
	broken := brokenViewer{errors.New("database on fire")}
	if _, err := s.run(func(o *verify.Options) { o.Viewer = broken }); !errors.Is(err, broken.err) {
		t.Fatalf("tables: %v", err)
	}
}

type brokenViewer struct{ err error }

func (b brokenViewer) View(context.Context) (sink.View, error) { return nil, b.err }

// TestProgressAndCancel: the numbers rise to the total, and a cancelled run ends
// with the cause between two of them.
func TestProgressAndCancel(t *testing.T) {
	t.Parallel()
	const n = 20_000
	s := one(t)
	for range n {
		s.log.put(arrivals, 0, sample(10, 1))
	}
	s.exec(offsets(arrivals, 0, 0, n, ts(-110), ts(-110), n, 0, 0, 0), trip(10, 1))
	var done []int64
	r, err := s.run(func(o *verify.Options) {
		o.Progress = func(d, total int64) {
			if total != n || len(done) > 0 && d < done[len(done)-1] {
				t.Errorf("progress %d of %d after %v", d, total, done)
			}
			done = append(done, d)
		}
	})
	if err != nil || !r.Clean() || r.Records != n {
		t.Fatalf("%v, %d records:\n%s", err, r.Records, lines(r.Differences))
	}
	if len(done) < 4 || done[len(done)-1] != n {
		t.Fatalf("progress ended at %v", done)
	}

	stop := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	f := &interrupted{memoryLog: s.log, cancel: func() { cancel(stop) }}
	_, err = s.runWith(ctx, func(o *verify.Options) { o.Reader = f })
	if !errors.Is(err, stop) {
		t.Fatalf("cancelled: %v", err)
	}
}

// interrupted cancels as soon as the bounds of a partition are asked for.
type interrupted struct {
	*memoryLog
	cancel func()
}

func (i *interrupted) Bounds(ctx context.Context, ps ...stream.Partition) ([]stream.Bounds, error) {
	i.cancel()
	return i.memoryLog.Bounds(ctx, ps...)
}
