package sqlitefile

import (
	"fmt"
	"time"
)

// timeLayout has one width for the years 0 to 9999, so that text order is time
// order.
const timeLayout = "2006-01-02T15:04:05.000Z"

// The instants that timeLayout can hold, in Unix milliseconds.
const (
	timeMin int64 = -62167219200000 // 0000-01-01T00:00:00.000Z
	timeMax int64 = 253402300799999 // 9999-12-31T23:59:59.999Z
)

// FormatTime writes an instant in Unix milliseconds as the file stores it. An
// instant outside of the years 0 to 9999 is written as the nearest one inside;
// "no time" has no text, it is NULL and for the caller to tell apart.
func FormatTime(ms int64) string {
	return time.UnixMilli(min(max(ms, timeMin), timeMax)).UTC().Format(timeLayout)
}

// ParseTime reads exactly what [FormatTime] writes.
func ParseTime(s string) (int64, error) {
	t, err := time.Parse(timeLayout, s)
	if err != nil {
		return 0, fmt.Errorf("parse time %q: %w", s, err)
	}
	ms := t.UnixMilli()
	if FormatTime(ms) != s {
		return 0, fmt.Errorf("parse time %q: not of the form %s", s, timeLayout)
	}
	return ms, nil
}
