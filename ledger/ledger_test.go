package ledger_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/peil-stream/peil/ledger"
)

// Window ends of the examples: minutes after noon.
const (
	end1205 = 5
	end1210 = 10
)

// step is one call on a ledger and what must hold after it.
type step struct {
	name string
	do   func(l *ledger.Ledger)
	want state
}

type state struct {
	Committed, Position, Pending int64
	InFlight                     bool
}

func stateOf(l *ledger.Ledger) state {
	return state{l.Committed(), l.Position(), l.Pending(), l.InFlight()}
}

// flush marks the window ends and releases at once.
func flush(ends ...int64) func(*ledger.Ledger) {
	return func(l *ledger.Ledger) {
		l.Mark(ends)
		l.Release()
	}
}

// read receives the offsets: of a window, or of none if end is 0.
func read(end int64, offsets ...int64) func(*ledger.Ledger) {
	return func(l *ledger.Ledger) {
		for _, o := range offsets {
			if end == 0 {
				l.Other(o)
			} else {
				l.Window(o, end)
			}
		}
	}
}

// The examples of the rule that the ledger implements, word for word.
func TestExamples(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		start int64
		steps []step
	}{
		{"two windows and two records of none", 100, []step{
			{"100 in the window to 12:05", read(end1205, 100), state{100, 101, 1, false}},
			{"101 in none", read(0, 101), state{100, 102, 2, false}},
			{"102 in the window to 12:10", read(end1210, 102), state{100, 103, 3, false}},
			{"103 in none", read(0, 103), state{100, 104, 4, false}},
			{"released at 12:04, all flushed", flush(), state{100, 104, 4, false}},
			{"at 12:05", flush(end1205), state{102, 104, 2, false}},
			{"at 12:10", flush(end1210), state{104, 104, 0, false}},
		}},
		{"one record of none", 7, []step{
			{"unflushed", read(0, 7), state{7, 8, 1, false}},
			{"flushed", flush(), state{8, 8, 0, false}},
		}},
		{"gaps", 0, []step{
			{"0,1,2,5,6 in one window", read(end1205, 0, 1, 2, 5, 6), state{0, 7, 5, false}},
			{"9 in the next", read(end1210, 9), state{0, 10, 6, false}},
			{"the first closes", flush(end1205), state{9, 10, 1, false}},
		}},
		{"nothing received", 42, []step{
			{"flushed", flush(), state{42, 42, 0, false}},
			{"the position moves over a gap", func(l *ledger.Ledger) { l.Advance(50) }, state{50, 50, 0, false}},
		}},
		{"a gap at the end", 0, []step{
			{"0 in none", read(0, 0), state{0, 1, 1, false}},
			{"a marker follows", func(l *ledger.Ledger) { l.Advance(2) }, state{0, 2, 1, false}},
			{"flushed", flush(), state{2, 2, 0, false}},
		}},
		{"a record of the same window after the mark", 0, []step{
			{"0 in a window", read(end1205, 0), state{0, 1, 1, false}},
			{"marked", func(l *ledger.Ledger) { l.Mark([]int64{end1205}) }, state{0, 1, 1, true}},
			{"1 in the same window", read(end1205, 1), state{0, 2, 2, true}},
			{"released", func(l *ledger.Ledger) { l.Release() }, state{1, 2, 1, false}},
			{"flushed", flush(end1205), state{2, 2, 0, false}},
		}},
		{"a window with an extreme end", 0, []step{
			{"0", read(math.MinInt64, 0), state{0, 1, 1, false}},
			{"1", read(math.MaxInt64, 1), state{0, 2, 2, false}},
			{"the first closes", flush(math.MinInt64), state{1, 2, 1, false}},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := ledger.New(tt.start)
			for _, s := range tt.steps {
				s.do(l)
				if diff := cmp.Diff(s.want, stateOf(l)); diff != "" {
					t.Fatalf("after %q mismatch (-want +got):\n%s", s.name, diff)
				}
			}
		})
	}
}

// Offsets that the log does not deliver (markers at 3, 7 and 8, compacted 4) hold
// nothing back.
func TestK01Gaps(t *testing.T) {
	t.Parallel()
	l := ledger.New(0)
	read(end1205, 0, 1, 2, 5, 6)(l)
	read(end1210, 9)(l)
	want := ledger.Point{Next: 9, Position: 10, Pending: 1}
	if diff := cmp.Diff(want, l.Mark([]int64{end1205})); diff != "" {
		t.Fatalf("Mark mismatch (-want +got):\n%s", diff)
	}
	l.Release()
	if got := l.Committed(); got != 9 {
		t.Fatalf("Committed = %d, want 9", got)
	}
}

// A partition whose records are all late or without a value commits to its end.
func TestK33NothingButOthers(t *testing.T) {
	t.Parallel()
	l := ledger.New(0)
	for o := range int64(1000) {
		l.Other(o)
	}
	if diff := cmp.Diff(state{0, 1000, 1000, false}, stateOf(l)); diff != "" {
		t.Fatalf("before the flush mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(ledger.Point{Next: 1000, Position: 1000}, l.Mark(nil)); diff != "" {
		t.Fatalf("Mark mismatch (-want +got):\n%s", diff)
	}
	l.Release()
	if diff := cmp.Diff(state{1000, 1000, 0, false}, stateOf(l)); diff != "" {
		t.Fatalf("after the flush mismatch (-want +got):\n%s", diff)
	}
}

// Two windows close, the flush is in flight, more records arrive, then it is
// released: nothing that was read after the mark may be committed.
func TestM22RecordsAfterTheMark(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		later func(*ledger.Ledger)
		want  state
	}{
		{"of no window", read(0, 14, 15), state{14, 16, 2, false}},
		{"of a new window", read(15, 14, 15), state{14, 16, 2, false}},
		{"of a window in flight", read(end1210, 14, 15), state{14, 16, 2, false}},
		{"of a gap first", func(l *ledger.Ledger) {
			l.Advance(20)
			l.Other(25)
		}, state{25, 26, 1, false}},
		{"none", func(*ledger.Ledger) {}, state{14, 14, 0, false}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := ledger.New(10)
			l.Window(10, end1205)
			l.Window(11, end1210)
			l.Other(12)
			l.Other(13)
			point := l.Mark([]int64{end1205, end1210})
			if diff := cmp.Diff(ledger.Point{Next: 14, Position: 14}, point); diff != "" {
				t.Fatalf("Mark mismatch (-want +got):\n%s", diff)
			}
			tt.later(l)
			if got := l.Committed(); got != 10 {
				t.Fatalf("Committed in flight = %d, want 10", got)
			}
			l.Release()
			if diff := cmp.Diff(tt.want, stateOf(l)); diff != "" {
				t.Fatalf("after the release mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHolds(t *testing.T) {
	t.Parallel()
	l := ledger.New(0)
	l.Window(0, 30)
	l.Window(1, 10)
	l.Window(2, 20)
	l.Window(3, 30)
	l.Other(4)
	check := func(when string, want ...ledger.Hold) {
		t.Helper()
		if want == nil {
			want = []ledger.Hold{}
		}
		if diff := cmp.Diff(want, l.Holds()); diff != "" {
			t.Fatalf("Holds %s mismatch (-want +got):\n%s", when, diff)
		}
	}
	check("at first", ledger.Hold{30, 0}, ledger.Hold{10, 1}, ledger.Hold{20, 2})
	l.Mark([]int64{20, 30})
	check("in flight", ledger.Hold{30, 0}, ledger.Hold{10, 1}, ledger.Hold{20, 2})
	l.Window(5, 20)
	check("with a window in flight and again open",
		ledger.Hold{30, 0}, ledger.Hold{10, 1}, ledger.Hold{20, 2}, ledger.Hold{20, 5})
	l.Release()
	check("after the release", ledger.Hold{10, 1}, ledger.Hold{20, 5})
	flush(10, 20)(l)
	check("at the end")
}

// What can only end in lost records panics with a message that names the rule.
func TestBrokenRules(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		do   func(l *ledger.Ledger)
		want string
	}{
		{"a window record repeats its offset", func(l *ledger.Ledger) { l.Window(12, 1) }, "ledger: an offset does not rise"},
		{"another record repeats its offset", func(l *ledger.Ledger) { l.Other(12) }, "ledger: an offset does not rise"},
		{"an offset below the start", func(l *ledger.Ledger) { l.Other(9) }, "ledger: an offset does not rise"},
		{"an offset that the position passed", func(l *ledger.Ledger) {
			l.Advance(20)
			l.Other(19)
		}, "ledger: an offset does not rise"},
		{"the position falls", func(l *ledger.Ledger) { l.Advance(12) }, "ledger: the position falls"},
		{"two marks", func(l *ledger.Ledger) {
			l.Mark(nil)
			l.Mark(nil)
		}, "ledger: a mark while a snapshot is in flight"},
		{"a release without a mark", func(l *ledger.Ledger) { l.Release() }, "ledger: a release without a mark"},
		{"two releases", func(l *ledger.Ledger) {
			l.Mark(nil)
			l.Release()
			l.Release()
		}, "ledger: a release without a mark"},
		{"a window that is not held", func(l *ledger.Ledger) { l.Mark([]int64{2}) }, "ledger: a closed window is not held"},
		{"a window closed twice at once", func(l *ledger.Ledger) { l.Mark([]int64{1, 1}) }, "ledger: a closed window is not held"},
		{"a window closed again", func(l *ledger.Ledger) {
			flush(1)(l)
			flush(1)(l)
		}, "ledger: a closed window is not held"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := ledger.New(10)
			l.Window(10, 1)
			l.Other(12)
			defer func() {
				if got := recover(); got != tt.want {
					t.Fatalf("panic = %v, want %q", got, tt.want)
				}
			}()
			tt.do(l)
		})
	}
}
