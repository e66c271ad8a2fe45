package event

import (
	"math"
	"strconv"
)

// AppendPrediction appends the record as canonical JSON: no white space, the
// fields in the order of the package documentation, those that are empty left
// out, DelayS left out beside a status. It does not validate: bytes that are no
// UTF-8 and control characters are carried into the record, so that the decoder
// refuses it and nothing is changed in silence.
func AppendPrediction(dst []byte, p *Prediction) []byte {
	dst = appendText(dst, `{"feed":`, p.Feed)
	dst = appendText(dst, `,"trip_id":`, p.TripID)
	if len(p.StartDate) > 0 {
		dst = appendText(dst, `,"start_date":`, p.StartDate)
	}
	if p.HasStopSequence {
		dst = append(dst, `,"stop_sequence":`...)
		dst = strconv.AppendInt(dst, p.StopSequence, 10)
	}
	if len(p.StopID) > 0 {
		dst = appendText(dst, `,"stop_id":`, p.StopID)
	}
	if len(p.StationID) > 0 {
		dst = appendText(dst, `,"station_id":`, p.StationID)
	}
	if len(p.LineID) > 0 {
		dst = appendText(dst, `,"line_id":`, p.LineID)
	}
	if len(p.Operator) > 0 {
		dst = appendText(dst, `,"operator":`, p.Operator)
	}
	if p.Status == None {
		dst = append(dst, `,"delay_s":`...)
		dst = strconv.AppendInt(dst, int64(p.DelayS), 10)
	} else {
		dst = append(dst, `,"status":"`...)
		dst = append(dst, p.Status.String()...)
		dst = append(dst, '"')
	}
	if p.PredictedTime != NoTime {
		dst = append(dst, `,"predicted_time":"`...)
		dst = AppendTime(dst, p.PredictedTime)
		dst = append(dst, '"')
	}
	return appendEnd(dst, p.Timestamp)
}

// AppendPosition appends the record as canonical JSON, as [AppendPrediction]
// does. A number that is not finite has no form in JSON and is left out.
func AppendPosition(dst []byte, p *Position) []byte {
	dst = appendText(dst, `{"feed":`, p.Feed)
	dst = appendText(dst, `,"vehicle_id":`, p.VehicleID)
	if len(p.TripID) > 0 {
		dst = appendText(dst, `,"trip_id":`, p.TripID)
	}
	if len(p.StopID) > 0 {
		dst = appendText(dst, `,"stop_id":`, p.StopID)
	}
	if len(p.LineID) > 0 {
		dst = appendText(dst, `,"line_id":`, p.LineID)
	}
	if len(p.Operator) > 0 {
		dst = appendText(dst, `,"operator":`, p.Operator)
	}
	dst = appendFloat(dst, `,"latitude":`, p.Latitude)
	dst = appendFloat(dst, `,"longitude":`, p.Longitude)
	if p.HasBearing {
		dst = appendFloat(dst, `,"bearing":`, p.Bearing)
	}
	if p.HasSpeed {
		dst = appendFloat(dst, `,"speed_mps":`, p.SpeedMPS)
	}
	if len(p.CurrentStatus) > 0 {
		dst = appendText(dst, `,"current_status":`, p.CurrentStatus)
	}
	if len(p.Occupancy) > 0 {
		dst = appendText(dst, `,"occupancy":`, p.Occupancy)
	}
	return appendEnd(dst, p.Timestamp)
}

// AppendMarker appends the value of a heartbeat or close marker.
func AppendMarker(dst []byte, m *Marker) []byte {
	return appendEnd(appendText(dst, `{"feed":`, m.Feed), m.Timestamp)
}

// PredictionKey appends the key of the record, feed|trip_id|start_date: all
// observations of one trip share a partition and so keep their order.
func PredictionKey(dst []byte, p *Prediction) []byte {
	dst = append(append(dst, p.Feed...), '|')
	dst = append(append(dst, p.TripID...), '|')
	return append(dst, p.StartDate...)
}

// PositionKey appends the key of the record, feed|vehicle_id.
func PositionKey(dst []byte, p *Position) []byte {
	dst = append(append(dst, p.Feed...), '|')
	return append(dst, p.VehicleID...)
}

func appendEnd(dst []byte, timestamp int64) []byte {
	dst = append(dst, `,"timestamp":"`...)
	dst = AppendTime(dst, timestamp)
	return append(dst, `"}`...)
}

// appendText appends the prefix and the text as a JSON string. Only what JSON
// demands is escaped.
func appendText(dst []byte, prefix string, text []byte) []byte {
	dst = append(dst, prefix...)
	dst = append(dst, '"')
	from := 0
	for i, b := range text {
		if b >= ' ' && b != '"' && b != '\\' {
			continue
		}
		dst = append(dst, text[from:i]...)
		from = i + 1
		if b < ' ' {
			const hex = "0123456789abcdef"
			dst = append(dst, '\\', 'u', '0', '0', hex[b>>4], hex[b&15])
		} else {
			dst = append(dst, '\\', b)
		}
	}
	dst = append(dst, text[from:]...)
	return append(dst, '"')
}

// appendFloat appends the prefix and the shortest text that reads as exactly f.
func appendFloat(dst []byte, prefix string, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return dst
	}
	dst = append(dst, prefix...)
	format := byte('f')
	if a := math.Abs(f); a != 0 && (a < 1e-6 || a >= 1e21) {
		format = 'e' // plain digits would be long
	}
	return strconv.AppendFloat(dst, f, format, -1, 64)
}
