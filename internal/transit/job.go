package transit

import (
	"time"

	"github.com/peil-stream/peil/event"
	"github.com/peil-stream/peil/internal/job"
	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/window"
)

// The dimensions of delay_aggregates.
const (
	DimensionLine     = "line"
	DimensionStation  = "station"
	DimensionOperator = "operator"
	DimensionNetwork  = "network"
)

// Config of the jobs.
type Config struct {
	// Windowed says which topics carry arrival predictions, which are cut into
	// windows; every other one carries vehicle positions.
	Windowed func(topic string) bool
	// MaxSkew is how far an event time may lie after the log's timestamp (R8).
	MaxSkew time.Duration
	// WindowSize bounds close markers, which may lie a window ahead.
	WindowSize time.Duration
}

// Jobs makes the job of a partition. Arrival predictions are windowed, vehicle
// positions are not.
func Jobs(c Config) job.Factory {
	return func(topic string) (job.Job, bool) {
		m := marker{maxSkew: c.MaxSkew.Milliseconds(), size: c.WindowSize.Milliseconds()}
		if !c.Windowed(topic) {
			return &positions{marker: m, newest: map[string]*sink.Vehicle{}}, false
		}
		return &arrivals{marker: m, newest: map[string]*tripRow{}, group: make([]window.Cell, 0, 3)}, true
	}
}

// marker decodes what is the same on both topics: nulls, heartbeats, close
// markers and the judgement of clocks.
type marker struct {
	decoder event.Decoder
	maxSkew int64
	size    int64
	out     event.Marker
}

// decode handles a record that is not an event; ok is false if it is one.
func (m *marker) decode(rec *stream.Record, out *job.Decoded) (ok bool) {
	out.Record = window.Record{}
	out.Reason, out.Detail = "", ""
	if rec.Value == nil { // whatever its headers say (R7)
		out.Kind = job.Ignored
		return true
	}
	kind, marked := rec.Header(event.MarkerHeader)
	if !marked {
		return false
	}
	switch string(kind) {
	case event.HeartbeatType:
		out.Kind = job.Heartbeat
	case event.CloseType:
		out.Kind = job.Close
	default:
		dead(out, &event.Error{
			Reason: event.BadMarker, Field: event.MarkerHeader,
			Detail: "the header " + event.MarkerHeader + " is neither " + event.HeartbeatType + " nor " + event.CloseType,
		})
		return true
	}
	if err := m.decoder.Marker(rec.Value, &m.out); err != nil {
		dead(out, err)
		return true
	}
	err := event.JudgeTime(m.out.Timestamp, rec.Timestamp, m.maxSkew)
	if out.Kind == job.Close {
		err = event.JudgeClose(m.out.Timestamp, rec.Timestamp, m.maxSkew, m.size)
	}
	if err != nil {
		dead(out, err)
		return true
	}
	out.Record.Time = m.out.Timestamp
	return true
}

func dead(out *job.Decoded, err *event.Error) {
	out.Kind = job.Dead
	out.Reason = string(err.Reason)
	out.Detail = err.Error()
}

// arrivals is the job of the arrivals topic.
type arrivals struct {
	marker
	rec    event.Prediction
	group  []window.Cell
	newest map[string]*tripRow // by trip and start date
	key    []byte
}

func (a *arrivals) Decode(rec *stream.Record, out *job.Decoded) {
	a.rec.TripID = nil // what is no event must not be kept
	if a.decode(rec, out) {
		return
	}
	p := &a.rec
	if err := a.decoder.Prediction(rec.Value, p); err != nil {
		dead(out, err)
		return
	}
	if err := event.JudgeTime(p.Timestamp, rec.Timestamp, a.maxSkew); err != nil {
		p.TripID = nil
		dead(out, err)
		return
	}
	out.Kind = job.Event
	out.Record.Time = p.Timestamp
	out.Record.HasValue = p.HasDelay()
	out.Record.Value = p.DelayS
	out.Record.Label = p.Operator
	// The line comes first: it decides operator and network, so that the three
	// are found with one look-up.
	g := a.group[:0]
	if len(p.LineID) > 0 {
		g = append(g, window.Cell{Dimension: DimensionLine, ID: p.LineID})
	}
	if len(p.Operator) > 0 {
		g = append(g, window.Cell{Dimension: DimensionOperator, ID: p.Operator})
	}
	g = append(g, window.Cell{Dimension: DimensionNetwork, ID: p.Feed})
	a.group, out.Record.Group = g, g
	if len(p.StationID) > 0 {
		out.Record.Extra = window.Cell{Dimension: DimensionStation, ID: p.StationID}
	}
}

// positions is the job of the positions topic.
type positions struct {
	marker
	rec    event.Position
	newest map[string]*sink.Vehicle
}

func (v *positions) Decode(rec *stream.Record, out *job.Decoded) {
	v.rec.VehicleID = nil // what is no event must not be kept
	if v.decode(rec, out) {
		return
	}
	p := &v.rec
	if err := v.decoder.Position(rec.Value, p); err != nil {
		dead(out, err)
		return
	}
	if err := event.JudgeTime(p.Timestamp, rec.Timestamp, v.maxSkew); err != nil {
		p.VehicleID = nil
		dead(out, err)
		return
	}
	out.Kind = job.Event
	out.Record.Time = p.Timestamp
}
