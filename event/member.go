package event

import (
	"math"
	"strconv"
)

// object reads the value's own object and what may surround it.
func (d *Decoder) object(known fieldSet, h *habit) int {
	b := d.b
	i := d.space(0)
	if i >= len(b) || b[i] != '{' {
		return d.fail(i, "an object was expected")
	}
	i = d.space(i + 1)
	if i < len(b) && b[i] == '}' {
		return d.end(i + 1)
	}
	for last := unknownField; ; {
		guess := &h.after[last]
		f, n := guess.field, len(guess.member)
		if n > 0 && len(b)-i > n && string(b[i:i+n]) == guess.member {
			i += n
			if b[i] <= ' ' {
				i = d.space(i)
			}
		} else {
			if f, i = d.unexpectedName(i, known); i == failed {
				return failed
			}
			d.surprised = d.surprised || f != unknownField
		}
		if f == unknownField {
			i = d.skip(i)
		} else {
			i = d.knownMember(i, f)
			last = f
		}
		if i == failed {
			return failed
		}
		if i < len(b) && b[i] <= ' ' {
			i = d.space(i)
		}
		switch {
		case i >= len(b):
			return d.fail(i, "the value ends too early")
		case b[i] == ',':
			i++
			if i < len(b) && b[i] <= ' ' {
				i = d.space(i)
			}
		case b[i] == '}':
			return d.end(i + 1)
		default:
			return d.fail(i, "a comma or an end was expected")
		}
	}
}

// end reads what follows the object: white space and nothing else.
func (d *Decoder) end(i int) int {
	if i = d.space(i); i < len(d.b) {
		return d.fail(i, "something follows the object")
	}
	if !d.unique(0) {
		return d.fail(i, "the object has a name twice")
	}
	return i
}

func (d *Decoder) unexpectedName(i int, known fieldSet) (f field, next int) {
	if i >= len(d.b) || d.b[i] != '"' {
		return unknownField, d.fail(i, "a name was expected")
	}
	name, next := d.str(i)
	if next == failed {
		return unknownField, failed
	}
	f = fieldNamed(name)
	if f != unknownField && known&f.bit() == 0 {
		f = unknownField
	}
	if f == unknownField {
		d.keepName(name)
	}
	return f, d.colon(next)
}

// knownMember reads the value of a known field. Null is as if the field were
// absent, but for a second one of its name.
func (d *Decoder) knownMember(i int, f field) int {
	bit := f.bit()
	if d.seen&bit != 0 {
		return d.fail(i, "the object has a name twice")
	}
	d.seen |= bit
	d.order[d.ordered] = f
	d.ordered++
	if i >= len(d.b) {
		return d.fail(i, "the value ends too early")
	}
	if d.b[i] == 'n' {
		return d.literal(i, "null")
	}
	d.present |= bit
	switch {
	case bit&textFields != 0:
		return d.textMember(i, f)
	case bit&timeFields != 0:
		return d.timeMember(i, f)
	case bit&wholeFields != 0:
		return d.wholeMember(i, f)
	case bit&floatFields != 0:
		return d.floatMember(i, f)
	default:
		return d.statusMember(i)
	}
}

// wrong reads a value of a wrong type and files that.
func (d *Decoder) wrong(i int, f field, what string) int {
	next := d.skip(i)
	d.blame(&d.badValue, f, what, i, next)
	return next
}

func (d *Decoder) blame(set *fieldSet, f field, what string, lo, hi int) {
	*set |= f.bit()
	d.faults[f] = fault{what: what, lo: lo, hi: hi}
}

func (d *Decoder) textMember(i int, f field) int {
	b := d.b
	if b[i] != '"' {
		return d.wrong(i, f, "is not a string")
	}
	i++
	if j := plainEnd(b, i); j < len(b) && b[j] == '"' && uint(j-i-1) < IDMax {
		d.texts[f] = b[i:j:j]
		return j + 1
	}
	return d.textSlow(i, f)
}

func (d *Decoder) textSlow(i int, f field) int {
	text, control, next := d.strSlow(i)
	if next == failed {
		return failed
	}
	d.texts[f] = text
	set := &d.badValue
	if idFields&f.bit() != 0 {
		set = &d.badID
	}
	switch {
	case control:
		d.blame(set, f, "has a control character", i-1, next)
	case len(text) > IDMax:
		d.blame(set, f, "has more than "+strconv.Itoa(IDMax)+" bytes", i-1, next)
	case len(text) == 0 && f != fStartDate: // which may be empty
		d.blame(set, f, "is empty", 0, 0)
	}
	return next
}

func (d *Decoder) statusMember(i int) int {
	if d.b[i] != '"' {
		return d.wrong(i, fStatus, "is not a string")
	}
	text, next := d.str(i)
	if next == failed {
		return failed
	}
	status := statusNamed(text)
	d.whole[fStatus] = int64(status)
	if status == None {
		d.blame(&d.badValue, fStatus, "is none of skipped, no_data, canceled, unmatched and unknown", i, next)
	}
	return next
}

func (d *Decoder) timeMember(i int, f field) int {
	const what = "is not an RFC 3339 time"
	if d.b[i] != '"' {
		return d.wrong(i, f, what)
	}
	// The usual form needs no search for its end.
	const usual = len(`"2006-01-02T15:04:05Z"`)
	if len(d.b)-i >= usual && d.b[i+usual-1] == '"' {
		if ms, ok := d.days.parse(d.b[i+1 : i+usual-1]); ok {
			d.whole[f] = ms
			return i + usual
		}
	}
	text, next := d.str(i)
	if next == failed {
		return failed
	}
	ms, ok := d.days.parse(text)
	d.whole[f] = ms
	if !ok {
		d.blame(&d.badValue, f, what, i, next)
	}
	return next
}

// wholeMember reads a number without fraction and exponent within the bounds of
// its field.
func (d *Decoder) wholeMember(i int, f field) int {
	if d.b[i] != '-' && !isDigit(d.b[i]) {
		return d.wrong(i, f, "is not a number")
	}
	plain, next := d.number(i)
	if next == failed {
		return failed
	}
	lo, hi := int64(-DelayMax), int64(DelayMax)
	if f == fStopSequence {
		lo, hi = 0, sequenceMax
	}
	n, ok := wholeOf(d.b[i:next])
	d.whole[f] = n
	switch {
	case !plain:
		d.blame(&d.badValue, f, "is not a plain whole number", i, next)
	case !ok || n < lo || n > hi:
		d.blame(&d.badValue, f, "is out of range", i, next)
	}
	return next
}

// wholeOf converts digits that may follow a minus; ok is false when there are
// more than any field takes.
func wholeOf(digits []byte) (n int64, ok bool) {
	negative := digits[0] == '-'
	if negative {
		digits = digits[1:]
	}
	if len(digits) > len("2147483647") {
		return 0, false
	}
	for _, c := range digits {
		n = n*10 + int64(c-'0')
	}
	if negative {
		n = -n
	}
	return n, true
}

func (d *Decoder) floatMember(i int, f field) int {
	if d.b[i] != '-' && !isDigit(d.b[i]) {
		return d.wrong(i, f, "is not a number")
	}
	_, next := d.number(i)
	if next == failed {
		return failed
	}
	x, err := strconv.ParseFloat(string(d.b[i:next]), 64)
	d.floats[f] = x
	limit := math.MaxFloat64
	set := &d.badValue
	switch f {
	case fLatitude:
		limit, set = 90, &d.badPosition
	case fLongitude:
		limit, set = 180, &d.badPosition
	default: // any finite number
	}
	if err != nil || math.Abs(x) > limit {
		d.blame(set, f, "is out of range", i, next)
	}
	return next
}

// judgePlace files (0, 0), which is where vehicles without a fix claim to be.
func (d *Decoder) judgePlace() {
	const both = 1<<fLatitude | 1<<fLongitude
	if d.badValue&both == 0 && d.floats[fLatitude] == 0 && d.floats[fLongitude] == 0 {
		d.blame(&d.badPosition, fLatitude, "and longitude are both zero", 0, 0)
	}
}
