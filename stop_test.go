package peil_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/peil-stream/peil"
)

// TestRunEndsWellWhenItIsStoppedWhileOpening stops an instance at moments that fall
// into opening files, topics and partitions.
func TestRunEndsWellWhenItIsStoppedWhileOpening(t *testing.T) {
	t.Parallel()
	errStop := errors.New("asked to stop")
	for n := range 40 {
		ctx, cancel := context.WithCancelCause(t.Context())
		i, err := peil.New(peil.Config{
			Settings: peil.Settings{DataDir: filepath.Join(t.TempDir(), "data")}, Process: true, Source: threeArrivals{},
		})
		if err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(time.Duration(n)*2*time.Millisecond, func() { cancel(errStop) })
		if err := i.Run(ctx); err != nil {
			t.Errorf("stopped after %d ms: %v", 2*n, err)
		}
		timer.Stop()
		cancel(nil)
	}
}

// TestRunSaysWhatFailedAlsoWhenItIsStopped holds that a stop hides no failure.
func TestRunSaysWhatFailedAlsoWhenItIsStopped(t *testing.T) {
	t.Parallel()
	errBroken := errors.New("the source is broken")
	ctx, cancel := context.WithCancel(t.Context())
	i, err := peil.New(peil.Config{
		Settings: peil.Settings{DataDir: filepath.Join(t.TempDir(), "data")}, Process: true,
		Source: sourceFunc(func(ctx context.Context) error {
			cancel()
			return errors.Join(errBroken, ctx.Err())
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := i.Run(ctx); !errors.Is(err, errBroken) {
		t.Fatalf("ended with %v", err)
	}
}

type sourceFunc func(context.Context) error

func (sourceFunc) Feed() string                                   { return "nl" }
func (f sourceFunc) Run(ctx context.Context, _ peil.Target) error { return f(ctx) }
