package sinktest

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/stream"
)

// Harness is an adapter under test, on empty tables.
type Harness struct {
	// Sink is the adapter. It should stamp its rows with a [Clock], so that a
	// stamp that should have stayed shows.
	Sink sink.Sink
	// Dump writes every column of every row of every table, in a fixed order.
	Dump func(ctx context.Context) (string, error)
	// Void makes a partition's row that of a topic that was created again with
	// this id: everything stored in it is unknown, its epoch stays.
	Void func(ctx context.Context, p stream.Partition, topicID string) error
	// Interleaves says that a flush can commit while a finaliser is open. Where
	// there is one writer it would wait for the finaliser instead.
	Interleaves bool
	// Second is another instance over the same tables, with connections of its
	// own. Nil where there is none: then Sink plays both parts.
	Second sink.Sink
}

// second is the harness as the other instance has it.
func (h Harness) second() Harness {
	if h.Second != nil {
		h.Sink = h.Second
	}
	return h
}

// Check is one thing that an adapter must do.
type Check struct {
	Name string
	// Run returns what is wrong, or nil. It ends every transaction and view that
	// it has opened.
	Run func(ctx context.Context, h Harness) error
}

// Checks returns all checks. Their names are unique.
func Checks() []Check {
	return slices.Concat(claimChecks(), flushChecks(), segmentChecks(), retentionChecks(), stateChecks(),
		finalityChecks(), mergeChecks(), applyChecks(), viewChecks())
}

// Run runs every check against tables of its own, side by side. open is called
// once for each check and cleans up by itself.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	t.Helper()
	for _, c := range Checks() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			if err := c.Run(t.Context(), open(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

// Clock is a clock that moves on by a second with each look. Safe for concurrent
// use.
type Clock struct{ looks atomic.Int64 }

// Now returns a later instant than ever before.
func (c *Clock) Now() time.Time {
	return time.Date(2026, time.December, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(c.looks.Add(1)) * time.Second)
}
