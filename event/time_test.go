package event_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/peil-stream/peil/event"
)

func TestParseTime(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text string
		want int64
	}{
		{"1970-01-01T00:00:00Z", 0},
		{"1970-01-01T00:00:00.999999999Z", 999},
		{"1970-01-01T00:00:00.0005Z", 0},
		{"1970-01-01T00:00:00.5Z", 500},
		{"1970-01-01T00:00:00.05Z", 50},
		{"1969-12-31T23:59:59Z", -1000},
		{"1969-12-31T23:59:59.9999Z", -1},
		{"1969-12-31T23:59:59.0001Z", -1000},
		{"2026-09-21T14:15:00Z", t0},
		{"2026-09-21T14:15:00.000000000000000000001Z", t0},
		{"2026-09-21T16:15:00+02:00", t0},
		{"2026-09-21T09:15:00-05:00", t0},
		{"2026-09-22T14:14:00+23:59", t0},
		{"2026-09-21T14:15:00-00:00", t0},
		{"2000-01-01T00:00:00Z", event.TimeMin},
		{"0000-01-01T00:00:00Z", -62167219200000},
		{"9999-12-31T23:59:59.999Z", 253402300799999},
	} {
		if got, ok := event.ParseTime([]byte(tt.text)); got != tt.want || !ok {
			t.Errorf("ParseTime(%s) = %d, %v, want %d, true", tt.text, got, ok, tt.want)
		}
	}
}

// TestK18TimesBeforeTheEpoch holds that cutting to milliseconds goes towards the
// past on both sides of the epoch, as the windows do.
func TestK18TimesBeforeTheEpoch(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text string
		want int64
	}{
		{"1969-12-31T23:59:59Z", -1_000},
		{"1969-12-31T23:59:59.9995Z", -1},
		{"1969-12-31T23:55:00Z", -300_000},
		{"1969-12-31T23:54:59.9995Z", -300_001},
		{"1969-12-31T23:54:59Z", -301_000},
	} {
		got, ok := event.ParseTime([]byte(tt.text))
		if got != tt.want || !ok {
			t.Errorf("ParseTime(%s) = %d, %v, want %d, true", tt.text, got, ok, tt.want)
		}
		if err := event.JudgeTime(got, 0, 300_000); verdictOf(err).Reason != event.ImplausibleTime {
			t.Errorf("JudgeTime(%d) = %v, want implausible_time", got, err)
		}
	}
}

// TestEveryDay compares each day of the years 0000 to 9999 with package time, by
// way of both directions.
func TestEveryDay(t *testing.T) {
	t.Parallel()
	step := 1
	if testing.Short() {
		step = 13
	}
	const text = "2006-01-02T15:04:05Z"
	var got, want []byte
	last := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	for day := time.Date(0, 1, 1, 23, 59, 59, 0, time.UTC); !day.After(last); day = day.AddDate(0, 0, step) {
		want = day.AppendFormat(want[:0], text)
		got = event.AppendTime(got[:0], day.UnixMilli())
		if string(got) != string(want) {
			t.Fatalf("AppendTime(%d) = %s, want %s", day.UnixMilli(), got, want)
		}
		if ms, ok := event.ParseTime(want); !ok || ms != day.UnixMilli() {
			t.Fatalf("ParseTime(%s) = %d, %v, want %d, true", want, ms, ok, day.UnixMilli())
		}
	}
}

// TestEveryDate tries all months and days of odd years, also those that are none.
func TestEveryDate(t *testing.T) {
	t.Parallel()
	for _, year := range []string{"0000", "0001", "0100", "0400", "1900", "2000", "2023", "2024", "2100", "9999"} {
		for n := range 10_000 {
			text := year + "-" + digits2(n/100) + "-" + digits2(n%100) + "T12:00:00Z"
			checkTime(t, text)
		}
	}
}

// TestEveryClock tries all times of a day, also those that are none.
func TestEveryClock(t *testing.T) {
	t.Parallel()
	for n := range 1_000_000 {
		if n%100 > 61 || n/100%100 > 61 || n/10_000 > 25 {
			continue // no other reason to refuse it than those near the bound
		}
		checkTime(t, "2026-11-30T"+digits2(n/10_000)+":"+digits2(n/100%100)+":"+digits2(n%100)+"Z")
	}
}

// TestEveryByte puts each byte at each place of a few times.
func TestEveryByte(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"2026-11-30T12:03:00Z", "2026-11-30T12:03:00.25Z", "2026-11-30T12:03:00.125-05:30"} {
		for i := range text {
			for c := range 256 {
				changed := []byte(text)
				changed[i] = byte(c)
				checkTime(t, string(changed))
				checkTime(t, text[:i])
			}
		}
	}
}

// TestNothingIsCachedAtFirst: the zero value of the cache must not stand for a day.
func TestNothingIsCachedAtFirst(t *testing.T) {
	t.Parallel()
	checkTime(t, "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00T12:03:00Z")
	checkTime(t, "\x00\x00\x00\x00\x00\x00\x00\x0030T12:03:00Z")
}

func digits2(n int) string { return string([]byte{byte('0' + n/10), byte('0' + n%10)}) }

func checkTime(tb testing.TB, text string) {
	tb.Helper()
	want, wantOK := oracleTime(text)
	got, ok := event.ParseTime([]byte(text))
	if ok != wantOK || ok && got != want {
		tb.Fatalf("ParseTime(%q) = %d, %v, want %d, %v", text, got, ok, want, wantOK)
	}
}

func TestAppendTime(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		ms   int64
		want string
	}{
		{0, "1970-01-01T00:00:00Z"},
		{1, "1970-01-01T00:00:00.001Z"},
		{-1, "1969-12-31T23:59:59.999Z"},
		{t0 + 50, "2026-09-21T14:15:00.050Z"},
		{t0 + 500, "2026-09-21T14:15:00.500Z"},
		{-62167219200000, "0000-01-01T00:00:00Z"},
		{253402300799999, "9999-12-31T23:59:59.999Z"},
	} {
		if got := string(event.AppendTime([]byte("x"), tt.ms)); got != "x"+tt.want {
			t.Errorf("AppendTime(%d) = %s, want x%s", tt.ms, got, tt.want)
		}
	}
	// What has no form is refused when it is read again.
	for _, ms := range []int64{-62167219200001, 253402300800000, math.MinInt64, math.MaxInt64} {
		text := event.AppendTime(nil, ms)
		if got, ok := event.ParseTime(text); ok {
			t.Errorf("ParseTime accepts %s of %d as %d", text, ms, got)
		}
	}
}

func TestTimeRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.Int64Range(-62167219200000, 253402300799999).Draw(t, "ms")
		text := event.AppendTime(nil, ms)
		if got, ok := event.ParseTime(text); !ok || got != ms {
			t.Fatalf("ParseTime(%s) = %d, %v, want %d", text, got, ok, ms)
		}
		if want, ok := oracleTime(string(text)); !ok || want != ms {
			t.Fatalf("package time reads %s as %d, %v, want %d", text, want, ok, ms)
		}
	})
}
