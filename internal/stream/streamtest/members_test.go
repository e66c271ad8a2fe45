package streamtest_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/internal/stream/kafka"
	"github.com/peil-stream/peil/internal/stream/streamtest"
)

// timeoutMembers bounds a check of several members: a rebalance takes its time,
// though what finds a fault early need not wait for it.
const timeoutMembers = 5 * time.Second

// TestMemberMutants runs the checks of groups with several members against a log
// that has them, broken on purpose.
func TestMemberMutants(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]struct {
		make func() *mutant
		by   []string
	}{
		"partitions are not revoked": {
			func() *mutant { return &mutant{handler: neverRevoked} },
			[]string{"member/rebalance"},
		},
		"partitions are revoked once others have them": {
			func() *mutant { return &mutant{handler: revokedLate} },
			[]string{"member/rebalance"},
		},
		"every stay begins anew": {
			func() *mutant { return &mutant{handler: startAtZero} },
			[]string{"member/rebalance"},
		},
		"every stay begins at the end": {
			func() *mutant { return &mutant{handler: startAtEnd} },
			[]string{"member/rebalance"},
		},
		"members of a group do not know each other": {
			func() *mutant { return &mutant{sub: ownGroup()} },
			[]string{"member/rebalance"},
		},
		"what is withdrawn is not said": {
			func() *mutant { return &mutant{handler: neverWithdrawn} },
			[]string{"member/assigned waits", "member/rebalance while one waits"},
		},
		"a restart begins at the hint": {
			func() *mutant { return &mutant{hints: new(hints)} },
			[]string{"member/hint"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, by := range m.by {
				err := runMember(t, by, m.make(), timeoutMembers)
				if err == nil {
					t.Errorf("%q did not find the fault", by)
				}
				t.Logf("%s: %v", by, err)
			}
		})
	}
	t.Run("sound", func(t *testing.T) {
		t.Parallel()
		for _, by := range []string{"member/rebalance", "member/assigned waits", "member/rebalance while one waits", "member/hint"} {
			if err := runMember(t, by, &mutant{}, timeoutSound); err != nil {
				t.Errorf("%s: %v", by, err)
			}
		}
	})
}

func runMember(t *testing.T, by string, m *mutant, timeout time.Duration) error {
	t.Helper()
	checks := streamtest.Checks(streamtest.Features{Members: true})
	i := slices.IndexFunc(checks, func(c streamtest.Check) bool { return c.Name == by })
	if i < 0 {
		t.Fatalf("there is no check %q", by)
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	l, err := kafka.Open(t.Context(), kafka.Options{Brokers: cluster.ListenAddrs()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	m.Log = l
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	return checks[i].Run(ctx, &streamtest.Harness{Log: m})
}

// revokedLate tells a handler of a revoke at the next one, or at the end.
func revokedLate(_ stream.Log, h stream.Handler) stream.Handler {
	var owed []*stream.Assignment
	return &mutantHandler{Handler: h, revoked: func(ctx context.Context, next stream.Handler, as []*stream.Assignment) {
		if len(owed) > 0 {
			next.Revoked(ctx, owed)
		}
		owed = as
	}}
}

func startAtEnd(l stream.Log, h stream.Handler) stream.Handler {
	return &mutantHandler{Handler: h, assigned: func(ctx context.Context, as []*stream.Assignment) {
		for _, a := range as {
			if b, err := stream.BoundsOf(ctx, l, a.Partition); err == nil {
				a.Start = b.End
			}
		}
	}}
}

func neverWithdrawn(_ stream.Log, h stream.Handler) stream.Handler { return deaf{h} }

// deaf does not hear that an assignment is withdrawn until all is over.
type deaf struct{ stream.Handler }

func (d deaf) Assigned(ctx context.Context, as []*stream.Assignment) error {
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeoutMembers)
	defer cancel()
	return d.Handler.Assigned(late, as)
}

// hints is what a broken log remembers of hints, and where it begins.
type hints struct {
	mu   sync.Mutex
	next map[stream.Partition]int64
}

func (h *hints) give(next map[stream.Partition]int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.next == nil {
		h.next = make(map[stream.Partition]int64)
	}
	maps.Copy(h.next, next)
}

func (h *hints) handler(next stream.Handler) stream.Handler {
	return &mutantHandler{Handler: next, assigned: func(_ context.Context, as []*stream.Assignment) {
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, a := range as {
			if at, ok := h.next[a.Partition]; ok {
				a.Start = at
			}
		}
	}}
}

// goesOn delivers a partition that failed from the start of the log on.
func goesOn(l stream.Log, h stream.Handler) stream.Handler {
	return &failing{Handler: h, then: func(ctx context.Context, a *stream.Assignment, to chan<- stream.Batch) {
		b, err := stream.BoundsOf(ctx, l, a.Partition)
		if err != nil {
			return
		}
		for r, err := range l.Read(ctx, a.Partition, b.Start, b.End) {
			if err != nil {
				return
			}
			select {
			case to <- stream.NewBatch([]stream.Record{r}, r.Offset+1, -1, nil):
			case <-ctx.Done():
				return
			}
		}
	}}
}

// swallowed ends a partition that failed without a word.
func swallowed(_ stream.Log, h stream.Handler) stream.Handler {
	return &failing{Handler: h, then: func(context.Context, *stream.Assignment, chan<- stream.Batch) {}}
}

// failing hides why a partition ended, and does something else then.
type failing struct {
	stream.Handler

	then func(ctx context.Context, a *stream.Assignment, to chan<- stream.Batch)
}

func (f *failing) Assigned(ctx context.Context, as []*stream.Assignment) error {
	for _, a := range as {
		from, failed, to := a.Batches, a.Err, make(chan stream.Batch)
		a.Batches, a.Err = to, func() error { return nil }
		go func() {
			defer close(to)
			for b := range from {
				select {
				case to <- b:
				case <-ctx.Done():
					return
				}
			}
			if failed() != nil {
				f.then(ctx, a, to)
			}
		}()
	}
	return f.Handler.Assigned(ctx, as)
}
