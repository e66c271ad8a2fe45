package event_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/peil-stream/peil/event"
)

// soundValues are raw JSON to stand for a field: good and bad ones of every kind.
var soundValues = []string{
	`"f"`, `"f:x"`, `"20261130"`, `"é"`, `"\u00e9"`, `"\ud83d\ude00"`, `"a\\b\"c"`, `""`, `" "`,
	`"a\u0000"`, "\"a\x7f\"", "\"\u0085\"", quoted(strings.Repeat(`\n`, 9)),
	quoted(strings.Repeat("x", 256)), quoted(strings.Repeat("x", 257)),
	`"skipped"`, `"no_data"`, `"canceled"`, `"unmatched"`, `"unknown"`, `"none"`, `"Skipped"`,
	`"2026-11-30T12:03:00Z"`, `"2026-11-30T12:03:00.5Z"`, `"2026-11-30T12:03:00+01:00"`, `"2026-12-01T00:00:00Z"`,
	`"1969-12-31T23:59:59.9999Z"`, `"2026-02-30T12:03:00Z"`, `"2026-11-30T12:03:60Z"`, `"2026-11-30T12:03:00,5Z"`,
	`0`, `-0`, `7`, `143`, `-86400`, `86401`, `2147483647`, `2147483648`, `1.0`, `1e2`,
	`52.5`, `-180`, `90.5`, `0.0`, `1e999`, `-1e-999`, `4.9e-324`, `0.1234567890123456789012345678901234567890`,
	`null`, `true`, `false`, `[]`, `{}`, `[1,2,[]]`, `{"a":{"b":1},"b":2}`,
}

// brokenValues are no JSON.
var brokenValues = []string{
	`"\ud83d"`, "\"\xff\"", "\"a\x01\"", `"a`, `"\q"`, `01`, `-`, `1.`, `1e`, `nul`, `{"a":1,"a":2}`, `[1,]`, `[`,
	`{"a"}`, ``,
}

var fieldNames = []string{
	"feed", "vehicle_id", "trip_id", "start_date", "stop_sequence", "stop_id", "station_id", "line_id", "operator",
	"latitude", "longitude", "bearing", "speed_mps", "current_status", "occupancy", "delay_s", "status",
	"predicted_time", "timestamp", "note", "", "Feed", `\u0066eed`, `\u006eote`, "trip_i", "é", `\u00e9`,
}

// seldom draws from odd once in a while, from usual else.
func seldom(t *rapid.T, name string, usual, odd []string) string {
	if rapid.IntRange(0, 24).Draw(t, name+" is odd") == 24 {
		return rapid.SampledFrom(odd).Draw(t, name)
	}
	return rapid.SampledFrom(usual).Draw(t, name)
}

// drawValue gives the text of a record that is nearly right: a valid one with
// members changed, added, doubled, moved and spaced.
func drawValue(t *rapid.T) []byte {
	spaces := []string{"", "", "", " ", "\t\r\n  "}
	members := slices.Clone(rapid.SampledFrom([][]string{
		predictionMembers, positionMembers, markerMembers, membersOf(design), membersOf(place),
	}).Draw(t, "base"))
	for range rapid.IntRange(0, 4).Draw(t, "changes") {
		name := rapid.SampledFrom(fieldNames).Draw(t, "name")
		space := seldom(t, "space", spaces, []string{"\v"})
		member := quoted(name) + space + ":" + space + seldom(t, "value", soundValues, brokenValues)
		same := slices.IndexFunc(members, func(m string) bool { return strings.HasPrefix(m, quoted(name)) })
		if same >= 0 && rapid.IntRange(0, 19).Draw(t, "double") > 0 {
			members[same] = member
		} else {
			members = slices.Insert(members, rapid.IntRange(0, len(members)).Draw(t, "at"), member)
		}
	}
	if rapid.Bool().Draw(t, "shuffle") {
		members = rapid.Permutation(members).Draw(t, "order")
	}
	comma := "," + rapid.SampledFrom(spaces).Draw(t, "after comma")
	value := []byte(rapid.SampledFrom(spaces).Draw(t, "head") + "{" + strings.Join(members, comma) + "}" +
		seldom(t, "tail", spaces, []string{"x", "{}", ",", "\x00"}))
	if rapid.IntRange(0, 9).Draw(t, "corrupt") == 9 {
		value[rapid.IntRange(0, len(value)-1).Draw(t, "where")] = rapid.Byte().Draw(t, "byte")
	}
	return value
}

func membersOf(object string) []string {
	return strings.Split(object[1:len(object)-1], ",")
}

// agreeWithOracle decodes a run of records with one decoder, so that guesses
// that it has learnt from one meet the next.
func agreeWithOracle(t *rapid.T) {
	var d event.Decoder
	for range rapid.IntRange(1, 4).Draw(t, "records") {
		checkAll(t, &d, drawValue(t))
	}
}

func TestDecoderAgreesWithOracle(t *testing.T) {
	t.Parallel()
	rapid.Check(t, agreeWithOracle)
}

// drawText gives a text that is valid as an id.
func drawText(t *rapid.T, name string, lengthMin int) []byte {
	r := rapid.OneOf(
		rapid.RuneFrom([]rune("abcXYZ019:_-| \"\\/{}[],")),
		rapid.RuneFrom([]rune("é\u00a0\u2028\ufffd\ufeff€😀\U0010ffff")),
		rapid.Rune().Filter(func(r rune) bool { return !unicode.IsControl(r) }),
	)
	return []byte(rapid.StringOfN(r, lengthMin, -1, event.IDMax).Draw(t, name))
}

// drawOptional gives nil or a valid id.
func drawOptional(t *rapid.T, name string) []byte {
	if rapid.Bool().Draw(t, name+" is absent") {
		return nil
	}
	return drawText(t, name, 1)
}

func drawInstant() *rapid.Generator[int64] {
	return rapid.OneOf(
		rapid.Int64Range(-62167219200000, 253402300799999),
		rapid.Map(rapid.Int64Range(1_700_000_000, 1_800_000_000), func(s int64) int64 { return s * 1000 }),
	)
}

// TestPredictionRoundTrip: Decode(Append(x)) is x for every valid x (I7).
func TestPredictionRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := event.Prediction{
			Feed: drawText(t, "feed", 1), TripID: drawText(t, "trip_id", 1), StartDate: drawText(t, "start_date", 0),
			StopID: drawOptional(t, "stop_id"), StationID: drawOptional(t, "station_id"),
			LineID: drawOptional(t, "line_id"), Operator: drawOptional(t, "operator"),
			Status:        event.Status(rapid.IntRange(0, 5).Draw(t, "status")),
			PredictedTime: event.NoTime, Timestamp: drawInstant().Draw(t, "timestamp"),
		}
		if rapid.Bool().Draw(t, "has sequence") {
			want.HasStopSequence = true
			want.StopSequence = rapid.Int64Range(0, math.MaxInt32).Draw(t, "sequence")
		}
		if want.HasDelay() {
			want.DelayS = rapid.Int32Range(-event.DelayMax, event.DelayMax).Draw(t, "delay")
		}
		if rapid.Bool().Draw(t, "has predicted time") {
			want.PredictedTime = drawInstant().Draw(t, "predicted time")
		}
		var d event.Decoder
		var got event.Prediction
		text := event.AppendPrediction(nil, &want)
		if err := d.Prediction(text, &got); err != nil {
			t.Fatalf("Prediction(%q): %v", text, err)
		}
		if diff := cmp.Diff(want, got, sameRecord()); diff != "" {
			t.Fatalf("round trip by %q mismatch (-want +got):\n%s", text, diff)
		}
	})
}

// TestPositionRoundTrip is the same for positions.
func TestPositionRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := event.Position{
			Feed: drawText(t, "feed", 1), VehicleID: drawText(t, "vehicle_id", 1),
			TripID: drawOptional(t, "trip_id"), LineID: drawOptional(t, "line_id"),
			Operator: drawOptional(t, "operator"), StopID: drawOptional(t, "stop_id"),
			CurrentStatus: drawOptional(t, "current_status"), Occupancy: drawOptional(t, "occupancy"),
			Latitude:  rapid.Float64Range(-90, 90).Draw(t, "latitude"),
			Longitude: rapid.Float64Range(-180, 180).Draw(t, "longitude"),
			Timestamp: drawInstant().Draw(t, "timestamp"),
		}
		if want.Latitude == 0 && want.Longitude == 0 {
			want.Latitude = math.SmallestNonzeroFloat64
		}
		if rapid.Bool().Draw(t, "has bearing") {
			want.HasBearing, want.Bearing = true, rapid.Float64().Draw(t, "bearing")
		}
		if rapid.Bool().Draw(t, "has speed") {
			want.HasSpeed, want.SpeedMPS = true, rapid.Float64().Draw(t, "speed")
		}
		var d event.Decoder
		var got event.Position
		text := event.AppendPosition(nil, &want)
		if err := d.Position(text, &got); err != nil {
			t.Fatalf("Position(%q): %v", text, err)
		}
		if diff := cmp.Diff(want, got, sameRecord()); diff != "" {
			t.Fatalf("round trip by %q mismatch (-want +got):\n%s", text, diff)
		}
	})
}

// TestMarkerRoundTrip is the same for markers.
func TestMarkerRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := event.Marker{Feed: drawText(t, "feed", 1), Timestamp: drawInstant().Draw(t, "timestamp")}
		var d event.Decoder
		var got event.Marker
		text := event.AppendMarker(nil, &want)
		if err := d.Marker(text, &got); err != nil {
			t.Fatalf("Marker(%q): %v", text, err)
		}
		if diff := cmp.Diff(want, got, sameRecord()); diff != "" {
			t.Fatalf("round trip by %q mismatch (-want +got):\n%s", text, diff)
		}
	})
}
