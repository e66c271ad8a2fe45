package event

// Reason is the fixed code that says why a record is a dead letter. The codes
// are part of the format: they stand in dead letters and in metrics.
type Reason string

// The reason codes.
const (
	// BadJSON: the value is not exactly one strict JSON object.
	BadJSON Reason = "bad_json"
	// MissingField: a required field is absent or null.
	MissingField Reason = "missing_field"
	// BadValue: a field has a wrong type or a value that it cannot have.
	BadValue Reason = "bad_value"
	// BadID: an id is empty, too long, or has a control character.
	BadID Reason = "bad_id"
	// TooLarge: the value has more than [ValueMax] bytes.
	TooLarge Reason = "too_large"
	// BadPosition: the coordinates are out of range, or (0, 0).
	BadPosition Reason = "bad_position"
	// BadMarker: a heartbeat or close marker that cannot be read.
	BadMarker Reason = "bad_marker"
	// FutureEvent: the event time lies too far after the log's own timestamp.
	FutureEvent Reason = "future_event"
	// ImplausibleTime: the event time lies before 2000-01-01.
	ImplausibleTime Reason = "implausible_time"
	// NoTimestamp: the log gave the record no timestamp.
	NoTimestamp Reason = "no_timestamp"
)

// Reasons lists every reason code. The caller owns the slice.
func Reasons() []Reason {
	return []Reason{
		BadJSON, MissingField, BadValue, BadID, TooLarge, BadPosition, BadMarker,
		FutureEvent, ImplausibleTime, NoTimestamp,
	}
}

// Error says why a record cannot be processed, ever. The functions of this
// package return *Error and not error, so a caller compares the result with nil
// before it becomes an error: a nil *Error in an error is not nil.
type Error struct {
	Reason Reason
	// Field is the name of the field at fault, or empty when it is the whole.
	Field string
	// Detail is a sentence for people: ASCII without control characters, at
	// most a few hundred bytes, whatever the record held.
	Detail string
}

// Error gives the reason and the detail.
func (e *Error) Error() string { return string(e.Reason) + ": " + e.Detail }
