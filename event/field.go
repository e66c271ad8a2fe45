package event

import "math/bits"

// field is one known name. The order is that of the format; precedence among
// faults of one reason follows it, so the lowest bit of a set is the first.
type field uint8

const (
	fFeed field = iota
	fVehicleID
	fTripID
	fStartDate
	fStopSequence
	fStopID
	fStationID
	fLineID
	fOperator
	fLatitude
	fLongitude
	fBearing
	fSpeedMPS
	fCurrentStatus
	fOccupancy
	fDelayS
	fStatus
	fPredictedTime
	fTimestamp
	fieldCount
	// unknownField is no field, and stands before the first one.
	unknownField = fieldCount
)

// fieldSet is a set of fields, one bit each.
type fieldSet uint32

func (f field) bit() fieldSet { return 1 << f }

// first is the field that the format names first; the set must not be empty.
func (s fieldSet) first() field { return field(bits.TrailingZeros32(uint32(s))) }

const (
	idFields fieldSet = 1<<fFeed | 1<<fVehicleID | 1<<fTripID | 1<<fStopID | 1<<fStationID |
		1<<fLineID | 1<<fOperator

	textFields           = idFields | 1<<fStartDate | 1<<fCurrentStatus | 1<<fOccupancy
	timeFields  fieldSet = 1<<fPredictedTime | 1<<fTimestamp
	wholeFields fieldSet = 1<<fDelayS | 1<<fStopSequence
	floatFields fieldSet = 1<<fLatitude | 1<<fLongitude | 1<<fBearing | 1<<fSpeedMPS

	predictionFields fieldSet = 1<<fFeed | 1<<fTripID | 1<<fStartDate | 1<<fStopSequence |
		1<<fStopID | 1<<fStationID | 1<<fLineID | 1<<fOperator | 1<<fDelayS | 1<<fStatus |
		1<<fPredictedTime | 1<<fTimestamp
	predictionRequired fieldSet = 1<<fFeed | 1<<fTripID | 1<<fTimestamp

	positionFields fieldSet = 1<<fFeed | 1<<fVehicleID | 1<<fTripID | 1<<fStopID | 1<<fLineID |
		1<<fOperator | 1<<fLatitude | 1<<fLongitude | 1<<fBearing | 1<<fSpeedMPS |
		1<<fCurrentStatus | 1<<fOccupancy | 1<<fTimestamp
	positionRequired fieldSet = 1<<fFeed | 1<<fVehicleID | 1<<fLatitude | 1<<fLongitude | 1<<fTimestamp

	markerFields fieldSet = 1<<fFeed | 1<<fTimestamp
)

// The names as they begin a member: what the decoder compares with when it
// guesses the next field.
func (f field) member() string {
	switch f {
	case fFeed:
		return `"feed":`
	case fVehicleID:
		return `"vehicle_id":`
	case fTripID:
		return `"trip_id":`
	case fStartDate:
		return `"start_date":`
	case fStopSequence:
		return `"stop_sequence":`
	case fStopID:
		return `"stop_id":`
	case fStationID:
		return `"station_id":`
	case fLineID:
		return `"line_id":`
	case fOperator:
		return `"operator":`
	case fLatitude:
		return `"latitude":`
	case fLongitude:
		return `"longitude":`
	case fBearing:
		return `"bearing":`
	case fSpeedMPS:
		return `"speed_mps":`
	case fCurrentStatus:
		return `"current_status":`
	case fOccupancy:
		return `"occupancy":`
	case fDelayS:
		return `"delay_s":`
	case fStatus:
		return `"status":`
	case fPredictedTime:
		return `"predicted_time":`
	case fTimestamp:
		return `"timestamp":`
	default:
		return ""
	}
}

// String gives the name.
func (f field) String() string {
	m := f.member()
	if m == "" {
		return ""
	}
	return m[1 : len(m)-len(`":`)]
}

// fieldNamed looks a name up; unknownField when it is none of ours.
func fieldNamed(name []byte) field {
	switch string(name) {
	case "feed":
		return fFeed
	case "vehicle_id":
		return fVehicleID
	case "trip_id":
		return fTripID
	case "start_date":
		return fStartDate
	case "stop_sequence":
		return fStopSequence
	case "stop_id":
		return fStopID
	case "station_id":
		return fStationID
	case "line_id":
		return fLineID
	case "operator":
		return fOperator
	case "latitude":
		return fLatitude
	case "longitude":
		return fLongitude
	case "bearing":
		return fBearing
	case "speed_mps":
		return fSpeedMPS
	case "current_status":
		return fCurrentStatus
	case "occupancy":
		return fOccupancy
	case "delay_s":
		return fDelayS
	case "status":
		return fStatus
	case "predicted_time":
		return fPredictedTime
	case "timestamp":
		return fTimestamp
	default:
		return unknownField
	}
}

// statusNamed looks a status up; None when it is none of ours.
func statusNamed(text []byte) Status {
	switch string(text) {
	case "skipped":
		return Skipped
	case "no_data":
		return NoData
	case "canceled":
		return Canceled
	case "unmatched":
		return Unmatched
	case "unknown":
		return Unknown
	default:
		return None
	}
}
