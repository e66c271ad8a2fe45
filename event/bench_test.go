package event_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/peil-stream/peil/event"
)

// design is the example of the format, without the line breaks.
const design = `{"feed":"nl","trip_id":"nl:GVB_7_120","start_date":"20261130","stop_sequence":7,"stop_id":"nl:30000731",` +
	`"station_id":"nl:stop_area_amstel","line_id":"nl:GVB_7","operator":"nl:GVB","delay_s":143,` +
	`"predicted_time":"2026-11-30T12:04:23Z","timestamp":"2026-11-30T12:03:00Z"}`

const place = `{"feed":"nl","vehicle_id":"nl:GVB_2041","trip_id":"nl:GVB_7_120","stop_id":"nl:30000731","line_id":"nl:GVB_7",` +
	`"operator":"nl:GVB","latitude":52.346512,"longitude":4.917733,"bearing":271.5,"speed_mps":8.25,` +
	`"current_status":"IN_TRANSIT_TO","occupancy":"FEW_SEATS_AVAILABLE","timestamp":"2026-11-30T12:03:00Z"}`

func BenchmarkDecodePrediction(b *testing.B) {
	spaced := strings.NewReplacer(`":`, `": `, `,"`, `, "`).Replace(design)
	escaped := strings.Replace(design, `"nl:GVB_7"`, `"nl:\u0047VB_7"`, 1)
	accented := strings.Replace(design, `stop_area_amstel`, `gare_de_l'écluse`, 1)
	extra := strings.Replace(design, `"delay_s"`, `"note":{"a":1,"b":[true,null]},"delay_s"`, 1)
	for _, tt := range []struct{ name, value string }{
		{"design", design},
		{"spaced", spaced},
		{"escaped", escaped},
		{"accented", accented},
		{"unknown-field", extra},
	} {
		b.Run(tt.name, func(b *testing.B) { benchPrediction(b, tt.value) })
	}
	// Lengths and times vary, so that no branch can be foretold from the record before.
	b.Run("varied", func(b *testing.B) { benchPrediction(b, varied(1024)...) })
	// The order of fields changes with every record, so that each guess fails.
	b.Run("unlearnable", func(b *testing.B) { benchPrediction(b, design, reversed(b, design)) })
}

// reversed gives the object with its members in the opposite order. It has no
// comma inside a string.
func reversed(b *testing.B, object string) string {
	b.Helper()
	parts := strings.Split(strings.Trim(object, "{}"), ",")
	for i, j := 0, len(parts)-1; i < j; i, j = i+1, j-1 {
		parts[i], parts[j] = parts[j], parts[i]
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// varied gives predictions of one feed, as different as those of a real one.
func varied(n int) []string {
	r := rand.New(rand.NewPCG(1, 2))
	records := make([]string, n)
	for i := range records {
		line := fmt.Sprintf("nl:%s_%d", []string{"GVB", "QBUZZ", "CXX", "SYNTUS"}[r.IntN(4)], r.IntN(300))
		at := int64(1_796_040_180_000) + r.Int64N(600)*1_000
		p := event.Prediction{
			Feed: []byte("nl"), TripID: fmt.Appendf(nil, "%s_%d", line, r.IntN(100_000)), StartDate: []byte("20261130"),
			StopSequence: r.Int64N(60), HasStopSequence: true, StopID: fmt.Appendf(nil, "nl:%d", r.IntN(40_000_000)),
			StationID: fmt.Appendf(nil, "nl:stop_area_%d", r.IntN(100_000)), LineID: []byte(line),
			Operator: []byte(line[:strings.IndexByte(line, '_')]), DelayS: r.Int32N(1_200) - 200,
			PredictedTime: at + r.Int64N(3_600)*1_000, Timestamp: at,
		}
		records[i] = string(event.AppendPrediction(nil, &p))
	}
	return records
}

func benchPrediction(b *testing.B, records ...string) {
	b.Helper()
	var d event.Decoder
	var out event.Prediction
	var size int64
	values := make([][]byte, len(records))
	for i, r := range records {
		values[i] = []byte(r)
		size += int64(len(r))
		if err := d.Prediction(values[i], &out); err != nil {
			b.Fatalf("Prediction(%s): %v", r, err)
		}
	}
	b.SetBytes(size / int64(len(records)))
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if err := d.Prediction(values[i], &out); err != nil {
			b.Fatal(err)
		}
		if i++; i == len(values) {
			i = 0
		}
	}
}

// BenchmarkEncodingJSON is what the same record costs with encoding/json.
func BenchmarkEncodingJSON(b *testing.B) {
	type record struct {
		Feed          string    `json:"feed"`
		TripID        string    `json:"trip_id"`
		StartDate     string    `json:"start_date"`
		StopSequence  *int64    `json:"stop_sequence"`
		StopID        string    `json:"stop_id"`
		StationID     string    `json:"station_id"`
		LineID        string    `json:"line_id"`
		Operator      string    `json:"operator"`
		DelayS        *int32    `json:"delay_s"`
		Status        string    `json:"status"`
		PredictedTime time.Time `json:"predicted_time"`
		Timestamp     time.Time `json:"timestamp"`
	}
	value := []byte(design)
	b.SetBytes(int64(len(value)))
	b.ReportAllocs()
	for b.Loop() {
		var r record
		if err := json.Unmarshal(value, &r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodePosition(b *testing.B) {
	var d event.Decoder
	var out event.Position
	value := []byte(place)
	b.SetBytes(int64(len(value)))
	b.ReportAllocs()
	for b.Loop() {
		if err := d.Position(value, &out); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendPrediction(b *testing.B) {
	var d event.Decoder
	var p event.Prediction
	if err := d.Prediction([]byte(design), &p); err != nil {
		b.Fatal(err)
	}
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst = event.AppendPrediction(dst[:0], &p)
	}
}

// BenchmarkHostile decodes values that are made to be slow.
func BenchmarkHostile(b *testing.B) {
	for _, tt := range []struct{ name, value string }{
		{"names", `{` + names(8_000) + `}`},
		{"deep", `{"a":` + strings.Repeat("[", 9_999) + strings.Repeat("]", 9_999) + `}`},
		{"escapes", `{"a":"` + strings.Repeat(`\u00e9`, 10_000) + `"}`},
	} {
		b.Run(tt.name, func(b *testing.B) {
			var d event.Decoder
			var out event.Prediction
			value := []byte(tt.value)
			b.SetBytes(int64(len(value)))
			for b.Loop() {
				if err := d.Prediction(value, &out); err == nil || err.Reason != event.MissingField {
					b.Fatalf("Prediction = %v, want missing_field", err)
				}
			}
		})
	}
}

// names gives n members with names that differ, the last first, so that they
// must be sorted.
func names(n int) string {
	var s strings.Builder
	for i := range n {
		if i > 0 {
			s.WriteByte(',')
		}
		s.WriteByte('"')
		for v := n - i; v > 0; v /= 52 {
			s.WriteByte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"[v%52])
		}
		s.WriteString(`":1`)
	}
	return s.String()
}
