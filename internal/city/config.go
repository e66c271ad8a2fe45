package city

import (
	"fmt"
	"time"
)

// Bounds of the configuration.
const (
	linesMax     = 200
	operatorsMax = 12
)

// Config describes a town. Its zero value is the town of the demo.
type Config struct {
	// Seed chooses the town and everything that happens in it.
	Seed uint64
	// Feed scopes the ids in what [City.Noise] writes; it must be the name under
	// which the snapshots are ingested. Defaults to "city".
	Feed string
	// Lines is the number of lines, 1 to 200. Defaults to 24.
	Lines int
	// Operators is the number of operators that share the lines, 1 to 12.
	// Defaults to 3, or to Lines if there are fewer.
	Operators int
	// Zone is the zone of the timetable and of the service dates. Defaults to
	// UTC.
	Zone *time.Location
}

func (c Config) withDefaults() Config {
	if c.Feed == "" {
		c.Feed = "city"
	}
	if c.Lines == 0 {
		c.Lines = 24
	}
	if c.Operators == 0 {
		c.Operators = min(3, c.Lines)
	}
	if c.Zone == nil {
		c.Zone = time.UTC
	}
	return c
}

func (c Config) validate() error {
	if c.Lines < 1 || c.Lines > linesMax {
		return fmt.Errorf("lines: %d is not between 1 and %d", c.Lines, linesMax)
	}
	if c.Operators < 1 || c.Operators > min(operatorsMax, c.Lines) {
		return fmt.Errorf("operators: %d is not between 1 and %d", c.Operators, min(operatorsMax, c.Lines))
	}
	return nil
}

// operatorCode names an operator; the codes are made up.
func operatorCode(i int) string {
	return [operatorsMax]string{
		"GVP", "RIVO", "DUIN", "POLDR", "VEEN", "HAVN", "DIJK", "MEER", "SLUIS", "BRUG", "WAARD", "TERP",
	}[i]
}
