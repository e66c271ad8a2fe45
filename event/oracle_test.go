package event_test

import (
	"bytes"
	"errors"
	"io"
	"math"
	"regexp"
	"strconv"
	"time"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/peil-stream/peil/event"
)

// The oracle decodes by a library's JSON parser, the standard library's times
// and regular expressions: slow, naive, and sharing nothing with the decoder.

// verdict is a reason and the field at fault; the zero value is acceptance.
type verdict struct {
	Reason event.Reason
	Field  string
}

func verdictOf(err *event.Error) verdict {
	if err == nil {
		return verdict{}
	}
	return verdict{Reason: err.Reason, Field: err.Field}
}

// oracleMembers reads an object's members, those that are null left out.
func oracleMembers(value []byte) (map[string]jsontext.Value, verdict) {
	if len(value) > event.ValueMax {
		return nil, verdict{Reason: event.TooLarge}
	}
	bad := verdict{Reason: event.BadJSON}
	dec := jsontext.NewDecoder(bytes.NewReader(value))
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != '{' {
		return nil, bad
	}
	members := map[string]jsontext.Value{}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, bad
		}
		key := name.String()
		v, err := dec.ReadValue()
		if err != nil {
			return nil, bad
		}
		if v.Kind() != 'n' {
			members[key] = v.Clone()
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, bad
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, bad
	}
	return members, verdict{}
}

// oracle collects faults and says which goes first.
type oracle struct {
	members map[string]jsontext.Value
	order   []string
	faults  map[string]event.Reason
}

func newOracle(members map[string]jsontext.Value, order ...string) *oracle {
	return &oracle{members: members, order: order, faults: map[string]event.Reason{}}
}

func (o *oracle) blame(name string, reason event.Reason) {
	if _, ok := o.faults[name]; !ok {
		o.faults[name] = reason
	}
}

func (o *oracle) require(names ...string) {
	for _, name := range names {
		if _, ok := o.members[name]; !ok {
			o.blame(name, event.MissingField)
		}
	}
}

func (o *oracle) verdict() verdict {
	for _, reason := range []event.Reason{event.MissingField, event.BadID, event.BadValue, event.BadPosition} {
		for _, name := range o.order {
			if o.faults[name] == reason {
				return verdict{Reason: reason, Field: name}
			}
		}
	}
	return verdict{}
}

func (o *oracle) text(name string, lengthMin int, reason event.Reason) []byte {
	raw, ok := o.members[name]
	if !ok {
		return nil
	}
	if raw.Kind() != '"' {
		o.blame(name, event.BadValue)
		return nil
	}
	text, err := jsontext.AppendUnquote(nil, raw)
	if err != nil {
		panic(err)
	}
	if len(text) < lengthMin || len(text) > 256 || bytes.ContainsFunc(text, unicode.IsControl) {
		o.blame(name, reason)
	}
	return text
}

func (o *oracle) id(name string) []byte { return o.text(name, 1, event.BadID) }

var (
	wholeForm = regexp.MustCompile(`^-?[0-9]+$`)
	timeForm  = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)
)

func (o *oracle) whole(name string, lo, hi int64) int64 {
	raw, ok := o.members[name]
	if !ok {
		return 0
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if raw.Kind() != '0' || !wholeForm.Match(raw) || err != nil || n < lo || n > hi {
		o.blame(name, event.BadValue)
	}
	return n
}

func (o *oracle) float(name string, limit float64, reason event.Reason) float64 {
	raw, ok := o.members[name]
	if !ok {
		return 0
	}
	if raw.Kind() != '0' {
		o.blame(name, event.BadValue)
		return 0
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f > limit || f < -limit {
		o.blame(name, reason)
	}
	return f
}

func (o *oracle) time(name string) int64 {
	raw, ok := o.members[name]
	if !ok {
		return event.NoTime
	}
	if raw.Kind() != '"' {
		o.blame(name, event.BadValue)
		return event.NoTime
	}
	text, err := jsontext.AppendUnquote(nil, raw)
	if err != nil {
		panic(err)
	}
	ms, ok := oracleTime(string(text))
	if !ok {
		o.blame(name, event.BadValue)
	}
	return ms
}

// oracleTime accepts what package time accepts and the form allows; today
// time.Time.UnmarshalText also takes a comma and an hour of one digit.
func oracleTime(text string) (ms int64, ok bool) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || !timeForm.MatchString(text) {
		return event.NoTime, false
	}
	if year := t.UTC().Year(); year < 0 || year > 9999 {
		return event.NoTime, false
	}
	return t.UnixMilli(), true
}

func oraclePrediction(value []byte) (event.Prediction, verdict) {
	members, bad := oracleMembers(value)
	if bad != (verdict{}) {
		return event.Prediction{}, bad
	}
	o := newOracle(members, "feed", "trip_id", "start_date", "stop_sequence", "stop_id", "station_id", "line_id",
		"operator", "delay_s", "status", "predicted_time", "timestamp")
	_, hasStatus := members["status"]
	_, hasDelay := members["delay_s"]
	o.require("feed", "trip_id", "timestamp")
	if !hasStatus {
		o.require("delay_s")
	} else if hasDelay {
		o.blame("delay_s", event.BadValue)
	}
	p := event.Prediction{
		Feed: o.id("feed"), TripID: o.id("trip_id"), StartDate: o.text("start_date", 0, event.BadValue),
		StopID: o.id("stop_id"), StationID: o.id("station_id"), LineID: o.id("line_id"), Operator: o.id("operator"),
		StopSequence: o.whole("stop_sequence", 0, math.MaxInt32),
		DelayS:       int32(o.whole("delay_s", -86400, 86400)),
		Timestamp:    o.time("timestamp"), PredictedTime: o.time("predicted_time"),
	}
	_, p.HasStopSequence = members["stop_sequence"]
	if hasStatus {
		p.Status = map[string]event.Status{
			"skipped": event.Skipped, "no_data": event.NoData, "canceled": event.Canceled,
			"unmatched": event.Unmatched, "unknown": event.Unknown,
		}[string(o.text("status", 1, event.BadValue))]
		if p.Status == event.None {
			o.blame("status", event.BadValue)
		}
	}
	return p, o.verdict()
}

func oraclePosition(value []byte) (event.Position, verdict) {
	members, bad := oracleMembers(value)
	if bad != (verdict{}) {
		return event.Position{}, bad
	}
	o := newOracle(members, "feed", "vehicle_id", "trip_id", "stop_id", "line_id", "operator", "latitude", "longitude",
		"bearing", "speed_mps", "current_status", "occupancy", "timestamp")
	o.require("feed", "vehicle_id", "latitude", "longitude", "timestamp")
	p := event.Position{
		Feed: o.id("feed"), VehicleID: o.id("vehicle_id"), TripID: o.id("trip_id"), LineID: o.id("line_id"),
		Operator: o.id("operator"), StopID: o.id("stop_id"),
		CurrentStatus: o.text("current_status", 1, event.BadValue), Occupancy: o.text("occupancy", 1, event.BadValue),
		Latitude:  o.float("latitude", 90, event.BadPosition),
		Longitude: o.float("longitude", 180, event.BadPosition),
		Bearing:   o.float("bearing", math.MaxFloat64, event.BadValue),
		SpeedMPS:  o.float("speed_mps", math.MaxFloat64, event.BadValue),
		Timestamp: o.time("timestamp"),
	}
	_, p.HasBearing = members["bearing"]
	_, p.HasSpeed = members["speed_mps"]
	if p.Latitude == 0 && p.Longitude == 0 {
		// Where one of them is faulty, the fault of that one has been filed
		// before or goes first.
		if o.faults["longitude"] == "" {
			o.blame("latitude", event.BadPosition)
		}
	}
	return p, o.verdict()
}

func oracleMarker(value []byte) (event.Marker, verdict) {
	members, bad := oracleMembers(value)
	if bad != (verdict{}) {
		return event.Marker{}, verdict{Reason: event.BadMarker}
	}
	o := newOracle(members, "feed", "timestamp")
	o.require("feed", "timestamp")
	m := event.Marker{Feed: o.id("feed"), Timestamp: o.time("timestamp")}
	v := o.verdict()
	if v.Reason != "" {
		v.Reason = event.BadMarker
	}
	return m, v
}

// sameRecord compares records: an absent text equals an empty one, and floats
// by their bits.
func sameRecord() cmp.Options {
	return cmp.Options{
		cmpopts.EquateEmpty(),
		cmp.Comparer(func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }),
	}
}

// reporter is the part of *testing.T that *rapid.T has too.
type reporter interface {
	Helper()
	Fatalf(format string, args ...any)
}

// checkAll decodes the value as each kind of record with the decoder and the
// oracle, and demands one verdict and one record; what is accepted must survive
// the encoder.
func checkAll(tb reporter, d *event.Decoder, value []byte) {
	tb.Helper()
	kept := bytes.Clone(value)
	checkPrediction(tb, d, value)
	checkPosition(tb, d, value)
	checkMarker(tb, d, value)
	if !bytes.Equal(kept, value) {
		tb.Fatalf("the decoder changed the value: %q became %q", kept, value)
	}
}

func checkPrediction(tb reporter, d *event.Decoder, value []byte) {
	tb.Helper()
	var got, again event.Prediction
	want, wantVerdict := oraclePrediction(value)
	err := d.Prediction(value, &got)
	checkError(tb, value, err, wantVerdict)
	if err != nil {
		return
	}
	if diff := cmp.Diff(want, got, sameRecord()); diff != "" {
		tb.Fatalf("Prediction(%q) mismatch (-want +got):\n%s", value, diff)
	}
	text := event.AppendPrediction(nil, &got)
	var second event.Decoder
	if err := second.Prediction(text, &again); err != nil {
		tb.Fatalf("Prediction(%q) refuses what was encoded: %v", text, err)
	}
	if diff := cmp.Diff(got, again, sameRecord()); diff != "" {
		tb.Fatalf("round trip of %q by %q mismatch (-want +got):\n%s", value, text, diff)
	}
}

func checkPosition(tb reporter, d *event.Decoder, value []byte) {
	tb.Helper()
	var got, again event.Position
	want, wantVerdict := oraclePosition(value)
	err := d.Position(value, &got)
	checkError(tb, value, err, wantVerdict)
	if err != nil {
		return
	}
	if diff := cmp.Diff(want, got, sameRecord()); diff != "" {
		tb.Fatalf("Position(%q) mismatch (-want +got):\n%s", value, diff)
	}
	text := event.AppendPosition(nil, &got)
	var second event.Decoder
	if err := second.Position(text, &again); err != nil {
		tb.Fatalf("Position(%q) refuses what was encoded: %v", text, err)
	}
	if diff := cmp.Diff(got, again, sameRecord()); diff != "" {
		tb.Fatalf("round trip of %q by %q mismatch (-want +got):\n%s", value, text, diff)
	}
}

func checkMarker(tb reporter, d *event.Decoder, value []byte) {
	tb.Helper()
	var got, again event.Marker
	want, wantVerdict := oracleMarker(value)
	err := d.Marker(value, &got)
	checkError(tb, value, err, wantVerdict)
	if err != nil {
		return
	}
	if diff := cmp.Diff(want, got, sameRecord()); diff != "" {
		tb.Fatalf("Marker(%q) mismatch (-want +got):\n%s", value, diff)
	}
	text := event.AppendMarker(nil, &got)
	var second event.Decoder
	if err := second.Marker(text, &again); err != nil {
		tb.Fatalf("Marker(%q) refuses what was encoded: %v", text, err)
	}
	if diff := cmp.Diff(got, again, sameRecord()); diff != "" {
		tb.Fatalf("round trip of %q by %q mismatch (-want +got):\n%s", value, text, diff)
	}
}

// checkError demands the verdict, and a detail that is fit for a header and a
// terminal.
func checkError(tb reporter, value []byte, err *event.Error, want verdict) {
	tb.Helper()
	if got := verdictOf(err); got != want {
		tb.Fatalf("verdict on %q is %+v (%v), want %+v", value, got, err, want)
	}
	if err == nil {
		return
	}
	if n := len(err.Detail); n == 0 || n > 300 {
		tb.Fatalf("detail on %q has %d bytes", value, n)
	}
	for _, b := range []byte(err.Detail) {
		if b < ' ' || b > '~' {
			tb.Fatalf("detail on %q has the byte %#x: %q", value, b, err.Detail)
		}
	}
}
