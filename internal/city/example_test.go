package city_test

import (
	"fmt"
	"time"

	"github.com/peil-stream/peil/internal/city"
)

// A city says the same in every process that asks for the same instant.
func Example() {
	c, err := city.New(city.Config{Seed: 1, Lines: 4, Operators: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	m := c.Message(time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC))
	lines := map[string]bool{}
	for _, e := range m.Entity {
		if u := e.TripUpdate; u != nil {
			lines[u.GetTrip().GetRouteId()] = true
		}
	}
	fmt.Println(m.GetHeader().GetTimestamp())
	fmt.Println(len(lines), "lines:", lines["GVP:1"], lines["RIVO:2"], lines["GVP:3"], lines["RIVO:4"])
	// Output:
	// 1796025600
	// 4 lines: true true true true
}
