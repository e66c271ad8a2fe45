package ledger_test

import (
	"fmt"

	"github.com/peil-stream/peil/ledger"
)

func Example() {
	const end1205, end1210 = 1205, 1210
	l := ledger.New(100)
	l.Window(100, end1205)
	l.Other(101)
	l.Window(102, end1210)
	l.Other(103)

	// A flush at 12:04: no window has closed, so the first record holds.
	fmt.Println("12:04", l.Mark(nil))
	l.Release()

	// At 12:05 the first window's segment is in the snapshot.
	fmt.Println("12:05", l.Mark([]int64{end1205}))
	l.Window(104, end1210) // read while the flush is writing: not covered by it
	fmt.Println("in flight", l.Committed())
	l.Release()
	fmt.Println("durable", l.Committed(), "pending", l.Pending())
	// Output:
	// 12:04 {100 104 4}
	// 12:05 {102 104 2}
	// in flight 100
	// durable 102 pending 3
}

func ExampleLedger_Holds() {
	l := ledger.New(0)
	l.Window(0, 1210)
	l.Window(1, 1205)
	l.Window(2, 1205)
	for _, h := range l.Holds() {
		fmt.Printf("offset %d is held by the window that ends at %d\n", h.FirstOffset, h.End)
	}
	// Output:
	// offset 0 is held by the window that ends at 1210
	// offset 1 is held by the window that ends at 1205
}
