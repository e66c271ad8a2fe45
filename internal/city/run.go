package city

import (
	"time"
)

// FirstPoll chooses where a simulation begins that has some time to catch up: the
// first poll whose vehicles have all reported within one window, at least back
// before now. So its first window is a whole one.
func FirstPoll(now time.Time, back, window, poll time.Duration) time.Time {
	start := floorDiv(now.Add(-back).UnixNano(), int64(window)) * int64(window)
	return gridded(time.Unix(0, start).Add(reportOldest*time.Second), poll)
}

// gridded rounds an instant up to a multiple of the poll interval since the epoch.
func gridded(t time.Time, poll time.Duration) time.Time {
	return time.Unix(0, -floorDiv(-t.UnixNano(), int64(poll))*int64(poll)).UTC()
}
