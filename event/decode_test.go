package event_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/peil-stream/peil/event"
)

// Minimal records; members given to the helpers below replace those of the same
// name or are added.
var (
	predictionMembers = []string{`"feed":"f"`, `"trip_id":"f:t"`, `"delay_s":60`, `"timestamp":"2026-11-30T12:03:00Z"`}
	positionMembers   = []string{
		`"feed":"f"`, `"vehicle_id":"f:v"`, `"latitude":52.5`, `"longitude":4.5`,
		`"timestamp":"2026-11-30T12:03:00Z"`,
	}
	markerMembers = []string{`"feed":"f"`, `"timestamp":"2026-11-30T12:03:00Z"`}
)

// object joins members; a later one replaces an earlier one of the same name,
// and one without a value removes it.
func object(members []string, changes ...string) string {
	members = slices.Clone(members)
	for _, c := range changes {
		name, _, hasValue := strings.Cut(c, ":")
		members = slices.DeleteFunc(members, func(m string) bool { return strings.HasPrefix(m, name+":") })
		if hasValue {
			members = append(members, c)
		}
	}
	return "{" + strings.Join(members, ",") + "}"
}

func prediction(changes ...string) string { return object(predictionMembers, changes...) }
func position(changes ...string) string   { return object(positionMembers, changes...) }
func marker(changes ...string) string     { return object(markerMembers, changes...) }

func quoted(text string) string { return `"` + text + `"` }

type verdictCase struct {
	name, value string
	want        verdict
}

// accepted, and the rest, keep the tables short.
var accepted verdict

func badJSON() verdict                 { return verdict{Reason: event.BadJSON} }
func missing(field string) verdict     { return verdict{Reason: event.MissingField, Field: field} }
func badID(field string) verdict       { return verdict{Reason: event.BadID, Field: field} }
func badValue(field string) verdict    { return verdict{Reason: event.BadValue, Field: field} }
func badPosition(field string) verdict { return verdict{Reason: event.BadPosition, Field: field} }
func badMarker(field string) verdict   { return verdict{Reason: event.BadMarker, Field: field} }

// syntaxCases are about the value as a whole.
func syntaxCases() []verdictCase {
	withText := func(text string) string { return prediction(`"note":"` + text + `"`) }
	deep := func(n int) string {
		return prediction(`"note":` + strings.Repeat("[", n) + strings.Repeat("]", n))
	}
	return []verdictCase{
		{"empty", "", badJSON()},
		{"white space only", " \n", badJSON()},
		{"null", "null", badJSON()},
		{"array", "[" + prediction() + "]", badJSON()},
		{"string", `"feed"`, badJSON()},
		{"number", "1", badJSON()},
		{"empty object", "{}", missing("feed")},
		{"empty object with space", " { } ", missing("feed")},
		{"minimal", prediction(), accepted},
		{"white space around everything", "\t\r\n " + strings.NewReplacer(`":`, "\"\r\n\t :\t\r\n ", `,"`, " ,\n\t \"").Replace(prediction()) + " \n", accepted},
		{"vertical tab is no white space", "\v" + prediction(), badJSON()},
		{"byte order mark", "\ufeff" + prediction(), badJSON()},
		{"two objects", prediction() + prediction(), badJSON()},
		{"trailing comma", strings.TrimSuffix(prediction(), "}") + ",}", badJSON()},
		{"leading comma", "{," + prediction()[1:], badJSON()},
		{"trailing letter", prediction() + "x", badJSON()},
		{"trailing NUL", prediction() + "\x00", badJSON()},
		{"no end", strings.TrimSuffix(prediction(), "}"), badJSON()},
		{"ends with an array", strings.TrimSuffix(prediction(), "}") + "]", badJSON()},
		{"comment", prediction(`"note":1/**/`), badJSON()},
		{"single quotes", `{'feed':"f"}`, badJSON()},
		{"bare name", `{feed:"f"}`, badJSON()},
		{"no colon", `{"feed" "f"}`, badJSON()},
		{"no value", `{"feed":}`, badJSON()},
		{"only a name", `{"feed"}`, badJSON()},
		{"name does not end", `{"feed`, badJSON()},
		{"ends after a name", `{"feed":`, badJSON()},
		{"ends after a comma", `{"feed":"f",`, badJSON()},
		{"string does not end", `{"feed":"f`, badJSON()},

		{"unknown fields of each type", prediction(`"a":1`, `"b":[]`, `"c":{}`, `"d":true`, `"e":false`, `"g":null`, `"h":"x"`, `"i":[1,{"a":[{}]},[[]]]`), accepted},
		{"unknown literal", prediction(`"note":nul`), badJSON()},
		{"upper-case literal", prediction(`"note":True`), badJSON()},
		{"literal runs on", prediction(`"note":nulls`), badJSON()},
		{"known literal broken", prediction(`"start_date":nil`), badJSON()},
		{"NaN", prediction(`"note":NaN`), badJSON()},
		{"number leads with zero", prediction(`"note":01`), badJSON()},
		{"number leads with plus", prediction(`"note":+1`), badJSON()},
		{"number leads with point", prediction(`"note":.5`), badJSON()},
		{"number ends with point", prediction(`"note":1.`), badJSON()},
		{"number is a minus", prediction(`"note":-`), badJSON()},
		{"exponent without digits", prediction(`"note":1e+`), badJSON()},
		{"hexadecimal number", prediction(`"note":0x10`), badJSON()},
		{"all forms of numbers", prediction(`"note":[0,-0,0.0,-0.5e-7,1E+9,1e9,123456789012345678901234567890]`), accepted},
		{"comma in an array", prediction(`"note":[1,]`), badJSON()},
		{"comma first in an array", prediction(`"note":[,1]`), badJSON()},
		{"array ends as an object", prediction(`"note":[1}`), badJSON()},
		{"object ends as an array", prediction(`"note":{"a":1]`), badJSON()},
		{"name is a number", prediction(`"note":{1:1}`), badJSON()},
		{"comma last in an object", prediction(`"note":{"a":1,}`), badJSON()},

		{"every escape", withText(`\"\\\/\b\f\n\r\t\u0041\uD83D\uDE00`), accepted},
		{"unknown escape", withText(`\x41`), badJSON()},
		{"short unicode escape", withText(`\u004`), badJSON()},
		{"escape ends the value", `{"feed":"\`, badJSON()},
		{"unicode escape ends the value", `{"feed":"\u00`, badJSON()},
		{"high surrogate alone", withText(`\ud83d`), badJSON()},
		{"high surrogate before text", withText(`\ud83dabcdef`), badJSON()},
		{"high surrogate before another escape", withText(`\ud83d\n`), badJSON()},
		{"two high surrogates", withText(`\ud83d\ud83d`), badJSON()},
		{"low surrogate alone", withText(`\ude00`), badJSON()},
		{"two low surrogates", withText(`\ude00\ude00`), badJSON()},
		{"surrogates swapped", withText(`\ude00\ud83d`), badJSON()},
		{"raw control", withText("a\x1fb"), badJSON()},
		{"raw newline", withText("a\nb"), badJSON()},
		{"raw NUL", withText("a\x00b"), badJSON()},
		{"raw DEL in an unknown field", withText("a\x7fb"), accepted},
		{"bad UTF-8", withText("a\xffb"), badJSON()},
		{"cut UTF-8", withText("a\xe2\x82"), badJSON()},
		{"overlong UTF-8", withText("\xc0\xaf"), badJSON()},
		{"surrogate in UTF-8", withText("\xed\xa0\x80"), badJSON()},
		{"beyond Unicode", withText("\xf4\x90\x80\x80"), badJSON()},
		{"bad UTF-8 in a name", prediction("\"no\xffte\":1"), badJSON()},
		{"replacement character", withText("\ufffd"), accepted},

		{"known name twice", `{"feed":"f",` + prediction()[1:], badJSON()},
		{"known name twice, once null", `{"feed":null,` + prediction()[1:], badJSON()},
		{"known name twice, once escaped", `{"\u0066eed":"f",` + prediction()[1:], badJSON()},
		{"known name only escaped", strings.Replace(prediction(), `"feed"`, `"\u0066e\u0065d"`, 1), accepted},
		{"unknown name twice", prediction(`"a":1`, `"b":2`, `"\u0061":3`), badJSON()},
		{"unknown name twice in depth", prediction(`"note":[{"a":{"x":1,"y":2,"x":3}}]`), badJSON()},
		{"escaped name twice in depth", prediction(`"note":{"é":1,"\u00e9":3}`), badJSON()},
		{"empty name twice", prediction(`"note":{"":1,"":3}`), badJSON()},
		{"the same name in different objects", prediction(`"a":{"a":{"a":1}}`, `"b":[{"a":1},{"a":2}]`, `"c":{"feed":1}`), accepted},
		{"name twice around an inner object", prediction(`"note":{"a":1,"b":{"a":1},"a":2}`), badJSON()},
		{"names differ in case", prediction(`"Feed":1`, `"FEED":2`), accepted},

		{"nested 10,000 deep", deep(9_999), accepted},
		{"nested 10,001 deep", deep(10_000), badJSON()},
		{"nested 10,001 deep by objects", prediction(`"n":` + strings.Repeat(`{"":`, 10_000) + "1" + strings.Repeat("}", 10_000)), badJSON()},

		{"64 KiB", prediction(`"n":"` + strings.Repeat("x", event.ValueMax-len(prediction(`"n":""`))) + `"`), accepted},
		{"64 KiB and one", prediction(`"n":"` + strings.Repeat("x", event.ValueMax-len(prediction(`"n":""`))+1) + `"`), verdict{Reason: event.TooLarge}},
		{"too large goes before bad JSON", strings.Repeat("x", event.ValueMax+1), verdict{Reason: event.TooLarge}},
	}
}

// predictionCases are about the fields of a prediction.
func predictionCases() []verdictCase {
	cases := []verdictCase{
		{"the example of the format", design, accepted},
		{"no feed", prediction(`"feed"`), missing("feed")},
		{"feed is null", prediction(`"feed":null`), missing("feed")},
		{"no trip", prediction(`"trip_id"`), missing("trip_id")},
		{"no timestamp", prediction(`"timestamp"`), missing("timestamp")},
		{"neither delay nor status", prediction(`"delay_s"`), missing("delay_s")},
		{"delay is null", prediction(`"delay_s":null`), missing("delay_s")},
		{"delay is null beside a status", prediction(`"delay_s":null`, `"status":"skipped"`), accepted},
		{"status is null", prediction(`"status":null`), accepted},
		{"optional ones are null", prediction(`"start_date":null`, `"stop_sequence":null`, `"stop_id":null`, `"station_id":null`, `"line_id":null`, `"operator":null`, `"predicted_time":null`), accepted},
		{"a field of positions is unknown", prediction(`"latitude":"x"`, `"vehicle_id":7`), accepted},

		{"delay beside a status", prediction(`"status":"skipped"`), badValue("delay_s")},
		{"bad delay beside a status", prediction(`"delay_s":"1"`, `"status":"skipped"`), badValue("delay_s")},
		{"delay beside a bad status", prediction(`"status":"late"`), badValue("delay_s")},
		{"unknown status", prediction(`"delay_s"`, `"status":"late"`), badValue("status")},
		{"empty status", prediction(`"delay_s"`, `"status":""`), badValue("status")},
		{"status in upper case", prediction(`"delay_s"`, `"status":"SKIPPED"`), badValue("status")},
		{"status none", prediction(`"delay_s"`, `"status":"none"`), badValue("status")},
		{"status of wrong type", prediction(`"delay_s"`, `"status":3`), badValue("status")},
		{"status escaped", prediction(`"delay_s"`, `"status":"no\u005fdata"`), accepted},

		{"start date empty", prediction(`"start_date":""`), accepted},
		{"start date is free text", prediction(`"start_date":"demain à l'aube"`), accepted},
		{"start date of 256 bytes", prediction(`"start_date":` + quoted(strings.Repeat("1", 256))), accepted},
		{"start date of 257 bytes", prediction(`"start_date":` + quoted(strings.Repeat("1", 257))), badValue("start_date")},
		{"start date with a control", prediction(`"start_date":"a\u0000"`), badValue("start_date")},
		{"start date of wrong type", prediction(`"start_date":20261130`), badValue("start_date")},

		{"missing before bad id", prediction(`"feed":""`, `"timestamp"`), missing("timestamp")},
		{"bad id before bad value", prediction(`"start_date":1`, `"operator":""`), badID("operator")},
		{"the first of two missing", prediction(`"timestamp"`, `"trip_id"`), missing("trip_id")},
		{"the first of two bad ids", prediction(`"operator":""`, `"line_id":""`, `"stop_id":"\n"`), badID("stop_id")},
		{"the first of two bad values", prediction(`"timestamp":"x"`, `"delay_s":"x"`), badValue("delay_s")},
		{"bad JSON before all others", prediction(`"feed":""`, `"timestamp"`, `"note":tru`), badJSON()},
	}
	for _, status := range []string{"skipped", "no_data", "canceled", "unmatched", "unknown"} {
		cases = append(cases, verdictCase{"status " + status, prediction(`"delay_s"`, `"status":`+quoted(status)), accepted})
	}
	cases = append(cases, wholeCases("delay_s", "-86400", "86400", "-86401", "86401")...)
	cases = append(cases, wholeCases("stop_sequence", "0", "2147483647", "-1", "2147483648")...)
	for _, field := range []string{"predicted_time", "timestamp"} {
		cases = append(cases, timeCases(field)...)
	}
	for _, field := range []string{"feed", "trip_id", "stop_id", "station_id", "line_id", "operator"} {
		cases = append(cases, idCases(field, prediction, badID)...)
	}
	return cases
}

func wholeCases(field, lowest, highest, below, above string) []verdictCase {
	cases := []verdictCase{}
	for raw, want := range map[string]verdict{
		"0": accepted, "-0": accepted, lowest: accepted, highest: accepted,
		below: badValue(field), above: badValue(field),
		"1.0": badValue(field), "1.5": badValue(field), "1e2": badValue(field), "1E0": badValue(field), "-0.0": badValue(field),
		"99999999999": badValue(field), "-9223372036854775808": badValue(field), "18446744073709551616": badValue(field),
		`"60"`: badValue(field), "true": badValue(field), "[60]": badValue(field), `{"a":60}`: badValue(field),
		"060": badJSON(), "-": badJSON(), "+1": badJSON(), "1.": badJSON(), "6 0": badJSON(),
	} {
		cases = append(cases, verdictCase{field + " " + raw, prediction(quoted(field) + ":" + raw), want})
	}
	return cases
}

func timeCases(field string) []verdictCase {
	cases := []verdictCase{}
	for raw, want := range map[string]verdict{
		`"2026-11-30T12:03:00.123456789Z"`:       accepted,
		`"2026-11-30T14:03:00+02:00"`:            accepted,
		`"2024-02-29T00:00:00Z"`:                 accepted,
		`"1969-12-31T23:59:59.9999Z"`:            accepted,
		`"2026\u002d11-30T12:03:00Z"`:            accepted,
		`""`:                                     badValue(field),
		`"2026-11-30"`:                           badValue(field),
		`"2026-11-30T12:03:00"`:                  badValue(field),
		`"2026-11-30T12:03:00,5Z"`:               badValue(field),
		`"2026-11-30T12:03:00.Z"`:                badValue(field),
		`"2026-11-30t12:03:00Z"`:                 badValue(field),
		`"2026-11-30T12:03:00z"`:                 badValue(field),
		`"2026-11-30 12:03:00Z"`:                 badValue(field),
		`"2026-11-30T2:03:00Z"`:                  badValue(field),
		`"2026-02-29T00:00:00Z"`:                 badValue(field),
		`"2026-11-30T23:59:60Z"`:                 badValue(field),
		`"2026-11-30T24:00:00Z"`:                 badValue(field),
		`"2026-11-30T12:03:00+24:00"`:            badValue(field),
		`"2026-11-30T12:03:00+02:60"`:            badValue(field),
		`"2026-11-30T12:03:00+0200"`:             badValue(field),
		`" 2026-11-30T12:03:00Z"`:                badValue(field),
		`"0000-01-01T00:00:00+00:01"`:            badValue(field),
		`"9999-12-31T23:59:59-00:01"`:            badValue(field),
		`1796040180`:                             badValue(field),
		`["2026-11-30T12:03:00Z"]`:               badValue(field),
		`false`:                                  badValue(field),
		"\"2026-11-30T12:03:00Z":                 badJSON(),
		"\"2026-11-30T12:03:0\xff\"":             badJSON(),
		"\"2026-11-30T12:03:00Z\",\"\":1,\"\":1": badJSON(),
	} {
		cases = append(cases, verdictCase{field + " " + raw, prediction(quoted(field) + ":" + raw), want})
	}
	return cases
}

// idCases are about a text of 1 to 256 bytes without control characters.
func idCases(field string, record func(...string) string, bad func(string) verdict) []verdictCase {
	cases := []verdictCase{}
	for raw, want := range map[string]verdict{
		`"x"`:                                  accepted,
		`"a|b \" \\ \/ ü € 😀"`:                 accepted,
		quoted(strings.Repeat("x", 256)):       accepted,
		quoted(strings.Repeat("é", 128)):       accepted,
		quoted(strings.Repeat(`\u0078`, 256)):  accepted,
		`""`:                                   bad(field),
		quoted(strings.Repeat("x", 257)):       bad(field),
		quoted(strings.Repeat("é", 128) + "x"): bad(field),
		quoted(strings.Repeat(`\u0078`, 257)):  bad(field),
		`"a\u0000b"`:                           bad(field),
		`"a\nb"`:                               bad(field),
		"\"a\x7fb\"":                           bad(field),
		`"a\u007Fb"`:                           bad(field),
		"\"a\u0080b\"":                         bad(field),
		"\"a\u009fb\"":                         bad(field),
		`"a\u0085b"`:                           bad(field),
		"\"a\u00a0b\"":                         accepted,
		"\"a\u2028b\"":                         accepted,
		`7`:                                    badValue(field),
		`["x"]`:                                badValue(field),
		`{}`:                                   badValue(field),
		`true`:                                 badValue(field),
		"\"a\x1fb\"":                           badJSON(),
		"\"a\x80b\"":                           badJSON(),
	} {
		cases = append(cases, verdictCase{field + " " + raw, record(quoted(field) + ":" + raw), want})
	}
	return cases
}

func positionCases() []verdictCase {
	cases := []verdictCase{
		{"full", place, accepted},
		{"minimal", position(), accepted},
		{"no feed", position(`"feed"`), missing("feed")},
		{"no vehicle", position(`"vehicle_id"`), missing("vehicle_id")},
		{"no latitude", position(`"latitude"`), missing("latitude")},
		{"latitude is null", position(`"latitude":null`), missing("latitude")},
		{"no longitude", position(`"longitude"`), missing("longitude")},
		{"no timestamp", position(`"timestamp"`), missing("timestamp")},
		{"a field of predictions is unknown", position(`"delay_s":"x"`, `"status":7`), accepted},
		{"timestamp is bad", position(`"timestamp":1`), badValue("timestamp")},

		{"zero, zero", position(`"latitude":0`, `"longitude":0`), badPosition("latitude")},
		{"zero, zero in other words", position(`"latitude":-0.0e3`, `"longitude":1e-400`), badPosition("latitude")},
		{"latitude is text beside zero", position(`"latitude":"0"`, `"longitude":0`), badValue("latitude")},
		{"on the equator", position(`"latitude":0`), accepted},
		{"on the prime meridian", position(`"longitude":-0.0`), accepted},
		{"corner", position(`"latitude":-90`, `"longitude":180`), accepted},
		{"other corner", position(`"latitude":90.0`, `"longitude":-180e0`), accepted},
		{"too far north", position(`"latitude":90.00000000000002`), badPosition("latitude")},
		{"too far south", position(`"latitude":-91`), badPosition("latitude")},
		{"too far east", position(`"longitude":180.1`), badPosition("longitude")},
		{"too far west", position(`"longitude":-181`), badPosition("longitude")},
		{"latitude overflows", position(`"latitude":1e999`), badPosition("latitude")},
		{"longitude overflows", position(`"longitude":-1e999`), badPosition("longitude")},
		{"latitude is text", position(`"latitude":"52.5"`), badValue("latitude")},
		{"longitude is an array", position(`"longitude":[]`), badValue("longitude")},
		{"zero beside out of range", position(`"latitude":0`, `"longitude":999`), badPosition("longitude")},
		{"both out of range", position(`"longitude":999`, `"latitude":999`), badPosition("latitude")},
		{"many digits", position(`"latitude":52.36760120000000000000000000000000000000001`), accepted},

		{"bearing and speed", position(`"bearing":-721.5`, `"speed_mps":1e300`), accepted},
		{"bearing and speed are null", position(`"bearing":null`, `"speed_mps":null`), accepted},
		{"bearing is text", position(`"bearing":"north"`), badValue("bearing")},
		{"bearing overflows", position(`"bearing":1e309`), badValue("bearing")},
		{"speed overflows", position(`"speed_mps":-1e309`), badValue("speed_mps")},
		{"speed is false", position(`"speed_mps":false`), badValue("speed_mps")},
		{"speed is malformed", position(`"speed_mps":1e`), badJSON()},

		{"bad id before bad value and position", position(`"latitude":"x"`, `"longitude":999`, `"stop_id":""`), badID("stop_id")},
		{"bad value before bad position", position(`"latitude":999`, `"occupancy":""`), badValue("occupancy")},
		{"missing before bad position", position(`"latitude":999`, `"longitude"`), missing("longitude")},
	}
	for _, field := range []string{"feed", "vehicle_id", "trip_id", "stop_id", "line_id", "operator"} {
		cases = append(cases, idCases(field, position, badID)...)
	}
	for _, field := range []string{"current_status", "occupancy"} {
		cases = append(cases, idCases(field, position, badValue)...)
	}
	return cases
}

func markerCases() []verdictCase {
	return []verdictCase{
		{"minimal", marker(), accepted},
		{"unknown fields", marker(`"trip_id":7`, `"note":{}`), accepted},
		{"empty", "", badMarker("")},
		{"null", "null", badMarker("")},
		{"not JSON", "beat", badMarker("")},
		{"trailing data", marker() + "1", badMarker("")},
		{"name twice", `{"feed":"f",` + marker()[1:], badMarker("")},
		{"too large", marker(`"n":` + quoted(strings.Repeat("x", event.ValueMax))), badMarker("")},
		{"no feed", marker(`"feed"`), badMarker("feed")},
		{"no timestamp", marker(`"timestamp"`), badMarker("timestamp")},
		{"feed is empty", marker(`"feed":""`), badMarker("feed")},
		{"feed is a number", marker(`"feed":1`), badMarker("feed")},
		{"timestamp is bad", marker(`"timestamp":"now"`), badMarker("timestamp")},
	}
}

func allCases() []verdictCase {
	return slices.Concat(syntaxCases(), predictionCases(), positionCases(), markerCases())
}

func TestPredictionVerdicts(t *testing.T) {
	t.Parallel()
	runVerdicts(t, slices.Concat(syntaxCases(), predictionCases()), func(d *event.Decoder, value []byte) *event.Error {
		var out event.Prediction
		return d.Prediction(value, &out)
	})
}

func TestPositionVerdicts(t *testing.T) {
	t.Parallel()
	runVerdicts(t, positionCases(), func(d *event.Decoder, value []byte) *event.Error {
		var out event.Position
		return d.Position(value, &out)
	})
}

func TestMarkerVerdicts(t *testing.T) {
	t.Parallel()
	runVerdicts(t, markerCases(), func(d *event.Decoder, value []byte) *event.Error {
		var out event.Marker
		return d.Marker(value, &out)
	})
}

// runVerdicts decodes each case twice: with a fresh decoder, and with one that
// has seen all cases before it. Both must judge alike, to the letter (I1).
func runVerdicts(t *testing.T, cases []verdictCase, decode func(*event.Decoder, []byte) *event.Error) {
	t.Helper()
	var old event.Decoder
	for _, tt := range cases {
		var fresh event.Decoder
		got, again := decode(&fresh, []byte(tt.value)), decode(&old, []byte(tt.value))
		if verdictOf(got) != tt.want {
			t.Errorf("%s: verdict on %.300q is %v, want %+v", tt.name, tt.value, got, tt.want)
		}
		if diff := cmp.Diff(got, again); diff != "" {
			t.Errorf("%s: a used decoder judges otherwise (-fresh +used):\n%s", tt.name, diff)
		}
	}
}

// TestVerdictsAgreeWithOracle runs every case as every kind of record.
func TestVerdictsAgreeWithOracle(t *testing.T) {
	t.Parallel()
	var d event.Decoder
	for _, tt := range allCases() {
		checkAll(t, &d, []byte(tt.value))
	}
}

// TestEveryReasonIsReached holds that the tables and the judges leave no reason
// code without a case.
func TestEveryReasonIsReached(t *testing.T) {
	t.Parallel()
	reached := map[event.Reason]bool{}
	for _, tt := range allCases() {
		reached[tt.want.Reason] = true
	}
	for _, tt := range judgeCases() {
		reached[tt.want] = true
	}
	for _, reason := range event.Reasons() {
		if !reached[reason] {
			t.Errorf("no case has the reason %s", reason)
		}
	}
	if n := len(event.Reasons()); n != 10 {
		t.Errorf("Reasons lists %d codes, want 10", n)
	}
}

// TestTruncatedAndCorrupted cuts the examples at each byte and replaces each
// byte, with a decoder that has just accepted the whole: its guesses are warm.
func TestTruncatedAndCorrupted(t *testing.T) {
	t.Parallel()
	var d event.Decoder
	step := 1
	if testing.Short() {
		step = 5
	}
	for _, whole := range []string{design, place, marker(), prediction(`"note":{"a":["é\u00e9",-1.5e3,null]}`)} {
		checkAll(t, &d, []byte(whole))
		for i := 0; i < len(whole); i += step {
			checkAll(t, &d, []byte(whole[:i]))
			for _, c := range []byte{0, ' ', '"', ',', '0', '9', '\\', 'x', '{', '}', 0x7f, 0xc2, 0xff} {
				value := []byte(whole)
				value[i] = c
				checkAll(t, &d, value)
			}
		}
	}
}

func TestDecodeDesign(t *testing.T) {
	t.Parallel()
	var d event.Decoder
	var got event.Prediction
	if err := d.Prediction([]byte(design), &got); err != nil {
		t.Fatalf("Prediction: %v", err)
	}
	want := event.Prediction{
		Feed: []byte("nl"), TripID: []byte("nl:GVB_7_120"), StartDate: []byte("20261130"),
		StopSequence: 7, HasStopSequence: true, StopID: []byte("nl:30000731"),
		StationID: []byte("nl:stop_area_amstel"), LineID: []byte("nl:GVB_7"), Operator: []byte("nl:GVB"),
		DelayS: 143, PredictedTime: 1796040263000, Timestamp: 1796040180000,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("Prediction mismatch (-want +got):\n%s", diff)
	}
	if text := string(event.AppendPrediction(nil, &got)); text != design {
		t.Fatalf("AppendPrediction = %s, want %s", text, design)
	}
	if key := string(event.PredictionKey(nil, &got)); key != "nl|nl:GVB_7_120|20261130" {
		t.Fatalf("PredictionKey = %s", key)
	}
}

// TestOutIsOverwritten holds that nothing of the record before shines through.
func TestOutIsOverwritten(t *testing.T) {
	t.Parallel()
	var d event.Decoder
	var p, freshP event.Prediction
	var v, freshV event.Position
	small := prediction(`"delay_s"`, `"status":"unknown"`)
	for _, value := range []string{design, small} {
		if err := d.Prediction([]byte(value), &p); err != nil {
			t.Fatalf("Prediction(%s): %v", value, err)
		}
	}
	for _, value := range []string{place, position()} {
		if err := d.Position([]byte(value), &v); err != nil {
			t.Fatalf("Position(%s): %v", value, err)
		}
	}
	var fresh event.Decoder
	if err := fresh.Prediction([]byte(small), &freshP); err != nil {
		t.Fatalf("Prediction(%s): %v", small, err)
	}
	if err := fresh.Position([]byte(position()), &freshV); err != nil {
		t.Fatalf("Position(%s): %v", position(), err)
	}
	if diff := cmp.Diff(freshP, p); diff != "" {
		t.Errorf("a prediction decoded into a used one mismatch (-fresh +used):\n%s", diff)
	}
	if diff := cmp.Diff(freshV, v); diff != "" {
		t.Errorf("a position decoded into a used one mismatch (-fresh +used):\n%s", diff)
	}
}

// TestK24ControlAndBadUTF8 is a stop id of 'A', NUL, 'B' and the byte 0xff, as a
// feed may hold it: neither the encoder nor the decoder may turn it into
// something acceptable, and the record after it is untouched.
func TestK24ControlAndBadUTF8(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		stopID string
		want   verdict
	}{
		{"NUL and a byte that is no UTF-8", "A\x00B\xff", badJSON()},
		{"NUL", "A\x00B", badID("stop_id")},
		{"a byte that is no UTF-8", "A\xff", badJSON()},
		{"a healthy one", "AB", accepted},
	} {
		p := event.Prediction{
			Feed: []byte("f"), TripID: []byte("f:t"), StopID: []byte(tt.stopID),
			PredictedTime: event.NoTime, Timestamp: 1796040180000,
		}
		value := event.AppendPrediction(nil, &p)
		var d event.Decoder
		var out event.Prediction
		if err := d.Prediction(value, &out); verdictOf(err) != tt.want {
			t.Errorf("%s: Prediction(%q) = %v, want %+v", tt.name, value, err, tt.want)
		}
		if err := d.Prediction([]byte(design), &out); err != nil {
			t.Errorf("%s: the record after it is refused: %v", tt.name, err)
		}
	}
}

func TestDetailNamesFieldAndValue(t *testing.T) {
	t.Parallel()
	long := quoted(strings.Repeat("\u00e9", 200))
	for _, tt := range []struct{ value, want string }{
		{prediction(`"delay_s":1.5`), `bad_value: delay_s is not a plain whole number: "1.5"`},
		{prediction(`"delay_s":86401`), `bad_value: delay_s is out of range: "86401"`},
		{prediction(`"status":"skipped"`), `bad_value: delay_s stands beside a status`},
		{prediction(`"delay_s":"1"`, `"status":"skipped"`), `bad_value: delay_s is not a number: "\"1\""`},
		{prediction(`"trip_id":""`), `bad_id: trip_id is empty`},
		{prediction(`"trip_id":"a\nb"`), `bad_id: trip_id has a control character: "\"a\\nb\""`},
		{prediction(`"trip_id":` + long), `bad_id: trip_id has more than 256 bytes: "\"` + strings.Repeat(`\u00e9`, 19) + `\xc3" and so on`},
		{prediction(`"feed"`), `missing_field: feed is missing`},
		{`{"feed":"f" "trip_id"`, `bad_json: a comma or an end was expected at byte 12`},
		{strings.Repeat(" ", event.ValueMax+1), `too_large: the value has 65537 bytes, more than 65536`},
	} {
		var d event.Decoder
		var out event.Prediction
		err := d.Prediction([]byte(tt.value), &out)
		if err == nil || err.Error() != tt.want {
			t.Errorf("Prediction(%.100s) = %v, want %s", tt.value, err, tt.want)
		}
	}
}

func TestDetailOfPlaces(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ value, want string }{
		{position(`"latitude":0`, `"longitude":0`), `bad_position: latitude and longitude are both zero`},
		{position(`"latitude":"0"`, `"longitude":0`), `bad_value: latitude is not a number: "\"0\""`},
		{position(`"longitude":1e999`), `bad_position: longitude is out of range: "1e999"`},
	} {
		var d event.Decoder
		var out event.Position
		err := d.Position([]byte(tt.value), &out)
		if err == nil || err.Error() != tt.want {
			t.Errorf("Position(%s) = %v, want %s", tt.value, err, tt.want)
		}
	}
}

func TestNoAllocations(t *testing.T) {
	var d event.Decoder
	var p event.Prediction
	var v event.Position
	var m event.Marker
	hard := prediction(`"start_date":"\u00e9"`, `"note":[{"b":1,"a":"\u00e9","c":{"z":1,"y":2}}]`, `"line_id":"f:\"é\u00e9"`)
	example, escaped, vehicle, beat := []byte(design), []byte(hard), []byte(place), []byte(marker())
	for _, tt := range []struct {
		name   string
		decode func() *event.Error
	}{
		{"design", func() *event.Error { return d.Prediction(example, &p) }},
		{"escapes and unknown fields", func() *event.Error { return d.Prediction(escaped, &p) }},
		{"position", func() *event.Error { return d.Position(vehicle, &v) }},
		{"marker", func() *event.Error { return d.Marker(beat, &m) }},
	} {
		n := testing.AllocsPerRun(100, func() {
			if err := tt.decode(); err != nil {
				t.Fatalf("%s: %v", tt.name, err)
			}
		})
		if n != 0 {
			t.Errorf("%s: %v allocations, want none", tt.name, n)
		}
	}
}

// TestManyNames holds that finding a name twice does not compare each with each.
func TestManyNames(t *testing.T) {
	t.Parallel()
	var d event.Decoder
	var out event.Prediction
	unique := prediction(`"note":{` + names(8_000) + `}`)
	if err := d.Prediction([]byte(unique), &out); err != nil {
		t.Fatalf("8,000 names: %v", err)
	}
	twice := prediction(`"note":{` + names(8_000) + `,"b":1}`)
	if err := d.Prediction([]byte(twice), &out); verdictOf(err) != badJSON() {
		t.Fatalf("8,000 names and one twice: %v, want bad_json", err)
	}
}

// TestAppendingToViews holds that a view has no capacity: a caller that appends
// to one must not write into the next field or the value.
func TestAppendingToViews(t *testing.T) {
	t.Parallel()
	value := []byte(prediction(`"line_id":"f:\u00e9"`, `"operator":"f:\u00e8"`, `"stop_id":"f:é"`))
	kept := string(value)
	var d event.Decoder
	var p event.Prediction
	if err := d.Prediction(value, &p); err != nil {
		t.Fatalf("Prediction: %v", err)
	}
	for _, view := range [][]byte{p.Feed, p.TripID, p.LineID, p.StopID} {
		_ = append(view, '!')
	}
	if string(value) != kept || string(p.Operator) != "f:è" {
		t.Fatalf("appending to a view changed the value to %s or the operator to %s", value, p.Operator)
	}
}

func TestEncodeNumbers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		f    float64
		want string
	}{
		{0, "0"},
		{math.Copysign(0, -1), "-0"},
		{52.346512, "52.346512"},
		{-180, "-180"},
		{1e-6, "0.000001"},
		{9.5e-7, "9.5e-07"},
		{1e20, "100000000000000000000"},
		{1e21, "1e+21"},
		{math.SmallestNonzeroFloat64, "5e-324"},
	} {
		p := event.Position{Bearing: tt.f, HasBearing: true}
		if got := string(event.AppendPosition(nil, &p)); !strings.Contains(got, `"bearing":`+tt.want+`,`) {
			t.Errorf("AppendPosition of a bearing of %v = %s, want %s", tt.f, got, tt.want)
		}
	}
}

func TestEncodeOddNumbers(t *testing.T) {
	t.Parallel()
	p := event.Position{
		Feed: []byte("f"), VehicleID: []byte("f:v"), Latitude: math.NaN(), Longitude: math.Inf(1),
		Bearing: math.Inf(-1), HasBearing: true, SpeedMPS: 1e-7, HasSpeed: true, Timestamp: 1,
	}
	want := `{"feed":"f","vehicle_id":"f:v","speed_mps":1e-07,"timestamp":"1970-01-01T00:00:00.001Z"}`
	if got := string(event.AppendPosition(nil, &p)); got != want {
		t.Fatalf("AppendPosition = %s, want %s", got, want)
	}
}
