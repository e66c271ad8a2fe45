package api

import (
	"time"

	"github.com/peil-stream/peil/internal/sink"
)

// instantLayout writes instants with milliseconds and one width.
const instantLayout = "2006-01-02T15:04:05.000Z"

// Instant is a time in Unix milliseconds that is written as RFC 3339 in UTC with
// milliseconds, and as null if it is [sink.NoTime].
type Instant int64

// Known says whether there is a time.
func (i Instant) Known() bool { return int64(i) != sink.NoTime }

// String gives the time as in JSON, and the empty string if there is none.
func (i Instant) String() string {
	if !i.Known() {
		return ""
	}
	return time.UnixMilli(int64(i)).UTC().Format(instantLayout)
}

// MarshalJSON implements [json.Marshaler].
func (i Instant) MarshalJSON() ([]byte, error) {
	if !i.Known() {
		return []byte("null"), nil
	}
	return time.UnixMilli(int64(i)).UTC().AppendFormat(nil, `"`+instantLayout+`"`), nil
}
