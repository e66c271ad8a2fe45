package event

import (
	"math/bits"
	"strconv"
)

// Decoder reads the values of records. It keeps scratch memory and what it has
// learnt about the order of fields from call to call, so one decoder serves one
// goroutine. The zero value is ready. It allocates nothing for a record that it
// accepts, but for a coordinate, bearing or speed written with more than 32
// bytes.
type Decoder struct {
	scanner

	days dayCache

	// What scan found in the present value: the fields that occurred, those
	// that are not null, and those at fault by reason. A field that is present
	// and not at fault has its value in texts, whole or floats.
	seen, present                fieldSet
	badID, badValue, badPosition fieldSet
	texts                        [fieldCount][]byte
	whole                        [fieldCount]int64
	floats                       [fieldCount]float64
	faults                       [fieldCount]fault

	// The known fields of the present value in their order; surprised says that
	// they do not all stand where they were expected.
	order     [fieldCount]field
	ordered   int
	surprised bool

	predictions, positions, markers habit
}

// habit is the order of fields of the record accepted last: what follows each
// field, and after unknownField what comes first. It is a guess and never decides
// anything, so a wrong one costs time only.
type habit struct {
	after [fieldCount + 1]successor
}

type successor struct {
	field  field
	member string
}

// fault says what is wrong with a field, and where its value lies; nowhere when
// showing it would not help.
type fault struct {
	what   string
	lo, hi int
}

// learn keeps the order of an accepted record.
func (h *habit) learn(order []field) {
	last := unknownField
	for _, f := range order {
		h.after[last] = successor{field: f, member: f.member()}
		last = f
	}
}

// Prediction decodes and validates the value of an arrival prediction. It
// returns nil when out is a valid record; otherwise out is not to be used. The
// slices in out view value or the decoder's scratch, so they are valid until
// the next call and while value is not changed.
func (d *Decoder) Prediction(value []byte, out *Prediction) *Error {
	if err := d.scan(value, predictionFields, &d.predictions); err != nil {
		return err
	}
	required := predictionRequired
	if d.present&fStatus.bit() == 0 {
		required |= fDelayS.bit()
	} else if d.present&fDelayS.bit() != 0 && d.badValue&fDelayS.bit() == 0 {
		d.badValue |= fDelayS.bit()
		d.faults[fDelayS] = fault{what: "stands beside a status"}
	}
	if err := d.verdict(required, &d.predictions); err != nil {
		return err
	}
	out.Feed, out.TripID, out.StartDate = d.texts[fFeed], d.texts[fTripID], d.texts[fStartDate]
	out.StopID, out.StationID = d.texts[fStopID], d.texts[fStationID]
	out.LineID, out.Operator = d.texts[fLineID], d.texts[fOperator]
	out.StopSequence, out.HasStopSequence = d.whole[fStopSequence], d.has(fStopSequence)
	out.DelayS = int32(d.whole[fDelayS])  // within DelayMax
	out.Status = Status(d.whole[fStatus]) // from statusNamed
	out.PredictedTime = NoTime
	if d.has(fPredictedTime) {
		out.PredictedTime = d.whole[fPredictedTime]
	}
	out.Timestamp = d.whole[fTimestamp]
	return nil
}

// Position decodes and validates the value of a vehicle position, as
// [Decoder.Prediction] does.
func (d *Decoder) Position(value []byte, out *Position) *Error {
	if err := d.scan(value, positionFields, &d.positions); err != nil {
		return err
	}
	d.judgePlace()
	if err := d.verdict(positionRequired, &d.positions); err != nil {
		return err
	}
	out.Feed, out.VehicleID = d.texts[fFeed], d.texts[fVehicleID]
	out.TripID, out.LineID = d.texts[fTripID], d.texts[fLineID]
	out.Operator, out.StopID = d.texts[fOperator], d.texts[fStopID]
	out.CurrentStatus, out.Occupancy = d.texts[fCurrentStatus], d.texts[fOccupancy]
	out.Latitude, out.Longitude = d.floats[fLatitude], d.floats[fLongitude]
	out.Bearing, out.HasBearing = d.floats[fBearing], d.has(fBearing)
	out.SpeedMPS, out.HasSpeed = d.floats[fSpeedMPS], d.has(fSpeedMPS)
	out.Timestamp = d.whole[fTimestamp]
	return nil
}

// Marker decodes and validates the value of a heartbeat or close marker, as
// [Decoder.Prediction] does. Every failure has the reason [BadMarker].
func (d *Decoder) Marker(value []byte, out *Marker) *Error {
	err := d.scan(value, markerFields, &d.markers)
	if err == nil {
		err = d.verdict(markerFields, &d.markers)
	}
	if err != nil {
		err.Reason = BadMarker
		return err
	}
	out.Feed, out.Timestamp = d.texts[fFeed], d.whole[fTimestamp]
	return nil
}

func (d *Decoder) has(f field) bool { return d.present&f.bit() != 0 }

// scan reads the whole value and files what it holds, faults included. Its error
// is TooLarge or BadJSON.
func (d *Decoder) scan(value []byte, known fieldSet, h *habit) *Error {
	if len(value) > ValueMax {
		return &Error{
			Reason: TooLarge,
			Detail: "the value has " + strconv.Itoa(len(value)) + " bytes, more than " + strconv.Itoa(ValueMax),
		}
	}
	d.reset(value)
	d.seen, d.present = 0, 0
	d.badID, d.badValue, d.badPosition = 0, 0, 0
	d.ordered, d.surprised = 0, false
	if d.object(known, h) == failed {
		return &Error{Reason: BadJSON, Detail: d.failure + " at byte " + strconv.Itoa(d.failAt)}
	}
	// A field that is absent must not show what the record before had.
	for rest := known &^ d.present; rest != 0; rest &= rest - 1 {
		f := bits.TrailingZeros32(uint32(rest))
		d.texts[f], d.whole[f], d.floats[f] = nil, 0, 0
	}
	return nil
}

// verdict gives the first fault by precedence, or nil; then the record is
// accepted and its order of fields is learnt.
func (d *Decoder) verdict(required fieldSet, h *habit) *Error {
	switch {
	case required&^d.present != 0:
		f := (required &^ d.present).first()
		return &Error{Reason: MissingField, Field: f.String(), Detail: f.String() + " is missing"}
	case d.badID != 0:
		return d.faultError(BadID, d.badID.first())
	case d.badValue != 0:
		return d.faultError(BadValue, d.badValue.first())
	case d.badPosition != 0:
		return d.faultError(BadPosition, d.badPosition.first())
	}
	if d.surprised {
		h.learn(d.order[:d.ordered])
	}
	return nil
}

func (d *Decoder) faultError(reason Reason, f field) *Error {
	at := d.faults[f]
	detail := f.String() + " " + at.what
	if at.lo < at.hi {
		detail += ": " + excerpt(d.b[at.lo:at.hi])
	}
	return &Error{Reason: reason, Field: f.String(), Detail: detail}
}

// excerpt shows the beginning of a piece of JSON in ASCII without control
// characters.
func excerpt(raw []byte) string {
	const shown = 40
	if len(raw) <= shown {
		return strconv.QuoteToASCII(string(raw))
	}
	return strconv.QuoteToASCII(string(raw[:shown])) + " and so on"
}
