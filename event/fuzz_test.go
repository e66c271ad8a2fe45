package event_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/peil-stream/peil/event"
)

// FuzzDecoder decodes two values in a row with one decoder, as every kind of
// record, beside the oracle: what is learnt from the first must not change what
// the second is judged to be.
func FuzzDecoder(f *testing.F) {
	for _, tt := range allCases() {
		if len(tt.value) < 2_000 {
			f.Add([]byte(design), []byte(tt.value))
		}
	}
	f.Add([]byte(place), []byte(place))
	f.Add([]byte(`{"timestamp":"2026-11-30T12:03:00Z","feed":"f"}`), []byte(marker()))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var d event.Decoder
		checkAll(t, &d, first)
		checkAll(t, &d, second)
	})
}

// FuzzNearlyValid lets the fuzzer steer the generator of nearly valid records.
func FuzzNearlyValid(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(agreeWithOracle))
}

// FuzzParseTime compares instants with package time.
func FuzzParseTime(f *testing.F) {
	for _, text := range []string{
		"2026-11-30T12:03:00Z", "1969-12-31T23:59:59.9999Z", "2024-02-29T23:59:59.000000001+23:59",
		"0000-01-01T00:00:00+00:01", "2026-11-30T12:03:00,5Z", "2026-11-30T1:03:00Z",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { checkTime(t, text) })
}
