package event

import "math"

const (
	// NoTime is the instant of a time that is absent.
	NoTime int64 = math.MinInt64
	// ValueMax is the greatest size of a record's value in bytes.
	ValueMax = 64 << 10
	// IDMax is the greatest size of an id, and of every other text, in bytes.
	IDMax = 256
	// DelayMax bounds |delay_s|: one day, in seconds.
	DelayMax = 86_400
	// TimeMin is 2000-01-01T00:00:00Z, the earliest plausible event time.
	TimeMin int64 = 946_684_800_000
)

// What marks a record of the arrivals topic as no prediction: a header of this
// name with one of the two values. Such a record has a null key and a [Marker]
// as its value.
const (
	MarkerHeader  = "peil-type"
	HeartbeatType = "heartbeat"
	CloseType     = "close"
)

// Status says why a prediction carries no delay.
type Status uint8

// The statuses of a prediction.
const (
	// None: the prediction carries a delay.
	None Status = iota
	// Skipped: the vehicle does not call at the stop.
	Skipped
	// NoData: the feed says that it knows nothing.
	NoData
	// Canceled: the trip does not run.
	Canceled
	// Unmatched: there is no schedule to measure against.
	Unmatched
	// Unknown: no delay for another reason.
	Unknown
)

// String gives the status as it stands in a record; "none" for [None], which
// stands in no record.
func (s Status) String() string {
	switch s {
	case None:
		return "none"
	case Skipped:
		return "skipped"
	case NoData:
		return "no_data"
	case Canceled:
		return "canceled"
	case Unmatched:
		return "unmatched"
	case Unknown:
		return "unknown"
	default:
		return "invalid"
	}
}

// Prediction is one arrival prediction: one observation of one trip at one stop.
// Instants are Unix milliseconds. After decoding, its slices are views that are
// valid until the decoder's next call; a field that is absent is empty.
type Prediction struct {
	// Feed, TripID and StartDate make the key of the record. StartDate is free
	// text and may be empty.
	Feed, TripID, StartDate []byte
	// StopID, StationID, LineID and Operator are scoped by feed, or empty.
	StopID, StationID, LineID, Operator []byte
	// StopSequence is 0 to 2^31-1, and means nothing without HasStopSequence.
	StopSequence    int64
	HasStopSequence bool
	// DelayS is the delay in whole seconds, early ones below zero; it means
	// nothing beside a status.
	DelayS int32
	// Status is None when there is a delay.
	Status Status
	// PredictedTime is when the vehicle should be at the stop, or [NoTime].
	PredictedTime int64
	// Timestamp is the event time: when the prediction was made.
	Timestamp int64
}

// HasDelay reports whether the prediction carries a delay and so enters the
// aggregates.
func (p *Prediction) HasDelay() bool { return p.Status == None }

// The numbers of [Prediction.Tie].
const (
	tieAhead    int64 = 1 << 62       // no stop that has been passed comes near it
	tieSpan     int64 = 1 << 60       // bound of a difference of times
	tieUnknown  int64 = -tieSpan - 1  // neither sequence nor predicted time
	sequenceMax       = math.MaxInt32 // greatest stop_sequence
)

// Tie orders the predictions of one trip that have the same timestamp (rule
// R10): the row with the greatest number is the trip's newest. All stops of one
// trip update share a time, so this decides in the normal case, not in a rare
// one. A stop not yet passed (PredictedTime > Timestamp) goes before every
// passed one; among those not passed the earlier stop wins, among those passed
// the later one. With d = PredictedTime - Timestamp in milliseconds, cut to
// ±2^60, and s = StopSequence, cut to 0 … 2^31-1:
//
//	not yet passed, with a stop sequence      2^62 - s
//	not yet passed, without                   2^62 - d
//	passed, with a stop sequence              s
//	passed, without                           d, which is not above zero
//	neither sequence nor predicted time       -2^60 - 1
//
// A stop without a predicted time counts as passed: nothing says that it still
// lies ahead.
func (p *Prediction) Tie() int64 {
	known := p.PredictedTime != NoTime
	ahead := known && p.PredictedTime > p.Timestamp
	var n int64
	switch {
	case p.HasStopSequence:
		n = min(max(p.StopSequence, 0), sequenceMax)
	case known:
		n = difference(p.PredictedTime, p.Timestamp)
	default:
		return tieUnknown
	}
	if ahead {
		return tieAhead - n
	}
	return n
}

// difference is a-b cut to ±tieSpan, whatever the operands.
func difference(a, b int64) int64 {
	d := a - b
	if overflow := (a^b)&(a^d) < 0; overflow {
		if a < 0 {
			return -tieSpan
		}
		return tieSpan
	}
	return min(max(d, -tieSpan), tieSpan)
}

// Position is one observation of a vehicle. Its slices are views as in
// [Prediction]; a field that is absent is empty.
type Position struct {
	// Feed and VehicleID make the key of the record.
	Feed, VehicleID []byte
	// TripID, LineID, Operator and StopID are scoped by feed, or empty.
	TripID, LineID, Operator, StopID []byte
	// CurrentStatus and Occupancy are words of the feed, or empty.
	CurrentStatus, Occupancy []byte
	// Latitude and Longitude in degrees; never both zero.
	Latitude, Longitude float64
	// Bearing in degrees clockwise from north, SpeedMPS in metres per second.
	// They mean nothing without HasBearing and HasSpeed.
	Bearing, SpeedMPS    float64
	HasBearing, HasSpeed bool
	// Timestamp is the event time in Unix milliseconds.
	Timestamp int64
}

// Marker is the value of a heartbeat or close marker. Feed is a view as in
// [Prediction].
type Marker struct {
	Feed      []byte
	Timestamp int64
}
