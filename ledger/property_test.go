package ledger_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/peil-stream/peil/ledger"
)

// deque is the plain form of the ledger: every received record, with its window
// end or none, and whether it is durable.
type deque struct {
	position int64
	records  []record
	inFlight bool
}

type record struct {
	offset  int64
	end     int64
	window  bool
	marked  bool
	durable bool
}

func (d *deque) receive(r record) {
	d.records = append(d.records, r)
	d.position = r.offset + 1
}

// mark marks what a snapshot with these segments makes durable, and says what
// could be committed if it already were.
func (d *deque) mark(closed []int64) ledger.Point {
	d.inFlight = true
	for i, r := range d.records {
		if !r.window || slices.Contains(closed, r.end) {
			d.records[i].marked = true
		}
	}
	p := ledger.Point{Next: d.position, Position: d.position}
	for i, r := range d.records {
		if !r.marked && !r.durable {
			p.Next = r.offset
			p.Pending = int64(len(d.records) - i)
			break
		}
	}
	return p
}

func (d *deque) release() {
	d.inFlight = false
	for i, r := range d.records {
		if r.marked {
			d.records[i].durable = true
		}
	}
}

func (d *deque) state() state {
	s := state{Committed: d.position, Position: d.position, InFlight: d.inFlight}
	for i, r := range d.records {
		if !r.durable {
			s.Committed = r.offset
			s.Pending = int64(len(d.records) - i)
			break
		}
	}
	return s
}

func (d *deque) holds() []ledger.Hold {
	type key struct {
		end    int64
		marked bool
	}
	holds := []ledger.Hold{}
	seen := map[key]bool{}
	for _, r := range d.records {
		k := key{r.end, r.marked}
		if r.window && !r.durable && !seen[k] {
			seen[k] = true
			holds = append(holds, ledger.Hold{End: r.end, FirstOffset: r.offset})
		}
	}
	return holds
}

// openEnds are the windows that may be closed now, in a fixed order.
func (d *deque) openEnds() []int64 {
	var ends []int64
	for _, r := range d.records {
		if r.window && !r.marked && !slices.Contains(ends, r.end) {
			ends = append(ends, r.end)
		}
	}
	return ends
}

// Step by step, whatever is received, marked and released in whatever order, the
// ledger says what the plain deque says.
func TestLedgerEqualsDeque(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		start := rapid.Int64Range(0, 5).Draw(t, "start")
		l := ledger.New(start)
		d := &deque{position: start}
		next := func(t *rapid.T) int64 {
			return d.position + rapid.SampledFrom([]int64{0, 0, 0, 1, 7}).Draw(t, "gap")
		}
		committed := start
		t.Repeat(map[string]func(*rapid.T){
			"window": func(t *rapid.T) {
				offset, end := next(t), rapid.Int64Range(-2, 4).Draw(t, "end")
				l.Window(offset, end)
				d.receive(record{offset: offset, end: end, window: true})
			},
			"other": func(t *rapid.T) {
				offset := next(t)
				l.Other(offset)
				d.receive(record{offset: offset})
			},
			"advance": func(t *rapid.T) {
				d.position = next(t)
				l.Advance(d.position)
			},
			"mark": func(t *rapid.T) {
				if d.inFlight {
					t.SkipNow()
				}
				var closed []int64
				for _, end := range rapid.Permutation(d.openEnds()).Draw(t, "order") {
					if rapid.Bool().Draw(t, "closed") {
						closed = append(closed, end)
					}
				}
				want := d.mark(closed)
				if diff := cmp.Diff(want, l.Mark(closed)); diff != "" {
					t.Fatalf("Mark(%v) mismatch (-want +got):\n%s", closed, diff)
				}
			},
			"release": func(t *rapid.T) {
				if !d.inFlight {
					t.SkipNow()
				}
				l.Release()
				d.release()
			},
			"": func(t *rapid.T) {
				if diff := cmp.Diff(d.state(), stateOf(l)); diff != "" {
					t.Fatalf("state mismatch (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(d.holds(), l.Holds()); diff != "" {
					t.Fatalf("Holds mismatch (-want +got):\n%s", diff)
				}
				if l.Committed() < committed || l.Committed() > l.Position() {
					t.Fatalf("Committed went from %d to %d at position %d", committed, l.Committed(), l.Position())
				}
				committed = l.Committed()
			},
		})
	})
}

// FuzzLedger takes each byte as one call.
func FuzzLedger(f *testing.F) {
	f.Add([]byte{0x01, 0x02, 0x11, 0x03, 0x42, 0x05})
	f.Add([]byte{0x43, 0x01, 0x03, 0x02, 0x04})
	f.Fuzz(func(t *testing.T, calls []byte) {
		l := ledger.New(0)
		d := &deque{}
		for _, c := range calls {
			arg := int64(c >> 4)
			switch c & 7 {
			case 0, 1:
				l.Window(d.position+arg/8, arg%4)
				d.receive(record{offset: d.position + arg/8, end: arg % 4, window: true})
			case 2:
				l.Other(d.position + arg)
				d.receive(record{offset: d.position + arg})
			case 3:
				if !d.inFlight {
					ends := d.openEnds()
					ends = ends[:min(len(ends), int(arg))]
					if got, want := l.Mark(ends), d.mark(ends); got != want {
						t.Fatalf("Mark(%v) = %v, want %v", ends, got, want)
					}
				}
			case 4:
				if d.inFlight {
					l.Release()
					d.release()
				}
			default:
				d.position += arg
				l.Advance(d.position)
			}
			if got, want := stateOf(l), d.state(); got != want {
				t.Fatalf("state %+v, want %+v", got, want)
			}
		}
	})
}
