package window_test

import (
	"fmt"
	"log"
	"time"

	"github.com/peil-stream/peil/window"
)

func Example() {
	p, err := window.NewPartition(window.Config{}, window.Resume{Watermark: window.NoTime})
	if err != nil {
		log.Fatal(err)
	}
	noon := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC).UnixMilli()
	minute := time.Minute.Milliseconds()
	for offset, r := range []window.Record{
		{Time: noon + 1*minute, Value: 60, Label: []byte("nl:GVB"), Extra: window.Cell{Dimension: "line", ID: []byte("nl:GVB:7")}},
		{Time: noon + 2*minute, Value: 120, Label: []byte("nl:GVB"), Extra: window.Cell{Dimension: "line", ID: []byte("nl:GVB:7")}},
		{Time: noon + 7*minute, Value: 30, Label: []byte("nl:GVB"), Extra: window.Cell{Dimension: "line", ID: []byte("nl:GVB:7")}},
		{Time: noon + 3*minute, Value: 10, Label: []byte("nl:GVB"), Extra: window.Cell{Dimension: "line", ID: []byte("nl:GVB:7")}},
	} {
		r.Offset, r.LogTime, r.HasValue = int64(offset), r.Time, true
		fmt.Println("offset", offset, p.Add(&r))
	}
	for _, s := range p.TakeClosed() {
		rows, err := window.Merge(s.Data)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("window of %s: offsets %d to %d, %d records\n",
			time.UnixMilli(s.Start).UTC().Format("15:04"), s.FirstOffset, s.ThroughOffset, s.Records)
		for _, r := range rows {
			fmt.Println(r.Dimension, r.ID, r.Label, "count", r.Count, "mean", r.Mean())
		}
	}
	// Output:
	// offset 0 accepted
	// offset 1 accepted
	// offset 2 accepted
	// offset 3 late
	// window of 12:00: offsets 0 to 2, 2 records
	// line nl:GVB:7 nl:GVB count 2 mean 90
}

func ExampleStart() {
	const size = 300
	fmt.Println(window.Start(299, size), window.Start(300, size), window.Start(-1, size))
	// Output: 0 300 -300
}

func ExampleDecode() {
	p, err := window.NewPartition(window.Config{}, window.Resume{Watermark: window.NoTime})
	if err != nil {
		log.Fatal(err)
	}
	for offset, value := range []int32{30, -10, 30} {
		p.Add(&window.Record{
			Offset: int64(offset), HasValue: true, Value: value,
			Group: []window.Cell{{Dimension: "line", ID: []byte("nl:7")}, {Dimension: "network", ID: []byte("nl")}},
		})
	}
	p.CloseMarker(3, window.DefaultSize.Milliseconds())
	for _, s := range p.TakeClosed() {
		for cell, err := range window.Decode(s.Data) {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Printf("%s %s %v\n", cell.Dimension, cell.ID, cell.Histogram)
		}
	}
	// Output:
	// line nl:7 [{-10 1} {30 2}]
	// network nl [{-10 1} {30 2}]
}
