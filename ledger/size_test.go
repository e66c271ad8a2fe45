package ledger_test

import (
	"runtime"
	"testing"

	"github.com/peil-stream/peil/ledger"
)

// The case that the ledger must carry: a partition a month behind, say.
const (
	manyWindows = 7_000
	manyRecords = 10_000_000
)

// heap returns the bytes in use after a collection.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// fill receives records in the windows by turns, with a record of none among them
// now and then.
func fill(l *ledger.Ledger, from, to int64) {
	for o := from; o < to; o++ {
		if o%10 == 9 {
			l.Other(o)
		} else {
			l.Window(o, o/50%manyWindows)
		}
	}
}

// Not parallel: it measures the heap.
func TestSizeGrowsWithWindowsOnly(t *testing.T) {
	before := heap()
	l := ledger.New(0)
	fill(l, 0, manyRecords)
	after := heap()
	if got := l.Pending(); got != manyRecords {
		t.Fatalf("Pending = %d, want %d", got, manyRecords)
	}
	if got := len(l.Holds()); got != manyWindows {
		t.Fatalf("%d windows held, want %d", got, manyWindows)
	}
	const most = 1 << 20
	if after > before+most {
		t.Fatalf("the ledger holds %d bytes, want at most %d", after-before, most)
	}

	// In flight and again open at once, the windows exist twice.
	ends := make([]int64, 0, manyWindows)
	for _, h := range l.Holds() {
		ends = append(ends, h.End)
	}
	l.Mark(ends)
	fill(l, manyRecords, manyRecords+50*manyWindows)
	if after := heap(); after > before+2*most {
		t.Fatalf("with a mark the ledger holds %d bytes, want at most %d", after-before, 2*most)
	}
	l.Release()
	if got := l.Pending(); got != 50*manyWindows {
		t.Fatalf("Pending after the release = %d, want %d", got, 50*manyWindows)
	}
	runtime.KeepAlive(l)
}

// Not parallel: it counts allocations.
func TestRecordsDoNotAllocate(t *testing.T) {
	l := ledger.New(0)
	fill(l, 0, 50*manyWindows)
	next := l.Position()
	if n := testing.AllocsPerRun(100, func() {
		fill(l, next, next+1000)
		next += 1000
	}); n != 0 {
		t.Fatalf("a thousand records allocate %v times", n)
	}
}

// BenchmarkWindowSame is the common case: the window of the record before.
func BenchmarkWindowSame(b *testing.B) {
	l := ledger.New(0)
	var o int64
	b.ReportAllocs()
	for b.Loop() {
		l.Window(o, 1)
		o++
	}
}

// BenchmarkWindowTurns changes between many windows with each record.
func BenchmarkWindowTurns(b *testing.B) {
	l := ledger.New(0)
	var o int64
	b.ReportAllocs()
	for b.Loop() {
		l.Window(o, o%manyWindows)
		o++
	}
}

func BenchmarkOther(b *testing.B) {
	l := ledger.New(0)
	var o int64
	b.ReportAllocs()
	for b.Loop() {
		l.Other(o)
		o++
	}
}

// BenchmarkFlush marks and releases one of many windows, and opens it again.
func BenchmarkFlush(b *testing.B) {
	l := ledger.New(0)
	fill(l, 0, 50*manyWindows)
	o := l.Position()
	ends := make([]int64, 1)
	b.ReportAllocs()
	for b.Loop() {
		ends[0] = o % manyWindows
		l.Mark(ends)
		l.Window(o, ends[0])
		l.Release()
		o++
	}
}
