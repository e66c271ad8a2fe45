package gtfsrt

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/peil-stream/peil/internal/transit/gtfsrt/pb"
)

// readJSON reads a message in its JSON form, as feeds publish it: names in
// either spelling, enum values by name or number, numbers as numbers or strings,
// null for absent, and fields of their own. A value of a wrong type counts as
// absent.
func (l Limits) readJSON(text []byte) (*Snapshot, error) {
	if !json.Valid(text) {
		err := json.Unmarshal(text, new(struct{}))
		return nil, &DecodeError{
			Class: BadJSON, Detail: "it begins like JSON, but: " + jsonFault(err),
			Hint: "the body was cut off or is no JSON; try again later", Head: headOf(text),
		}
	}
	r := jsonReader{text: text, limits: l}
	s := &Snapshot{Head: Head{Header: NoTime}}
	differences, hasHeader := false, false
	r.object(func(name []byte) {
		switch {
		case string(name) == "header" && r.is('{'):
			hasHeader = true
			differences = r.header(s) || differences
		case string(name) == "entity":
			r.array(func() { r.entity(s) })
		default:
			r.skip()
		}
	})
	switch {
	case r.err != nil:
		return nil, r.err
	case !hasHeader:
		return nil, noHeader(text)
	case differences:
		return nil, differential()
	}
	return s, nil
}

func jsonFault(err error) string {
	if err == nil {
		return "it cannot be read"
	}
	return err.Error()
}

// jsonReader walks over JSON that is known to be valid. It allocates nothing for
// what it skips.
type jsonReader struct {
	text   []byte
	at     int
	limits Limits
	stops  int
	// err, once set, makes the reader skip the rest: its text is cut to nothing.
	err *DecodeError
	// name is scratch for the name of a member.
	name []byte
}

func (r *jsonReader) fail(err *DecodeError) {
	if r.err == nil {
		r.err = err
	}
	r.at = len(r.text)
}

// next skips white space and gives the byte there, or 0 at the end.
func (r *jsonReader) next() byte {
	for ; r.at < len(r.text); r.at++ {
		switch b := r.text[r.at]; b {
		case ' ', '\t', '\r', '\n':
		default:
			return b
		}
	}
	return 0
}

func (r *jsonReader) is(b byte) bool { return r.next() == b }

// object calls each with the folded name of every member, to read its value. The
// name is scratch, valid until the value is read. A value that is no object is
// skipped.
func (r *jsonReader) object(each func(name []byte)) {
	if !r.is('{') {
		r.skip()
		return
	}
	r.at++
	for r.next() == '"' {
		name := r.fold(r.raw())
		r.next()
		r.at++ // the colon
		each(name)
		if r.next() == ',' {
			r.at++
		}
	}
	r.at++ // the brace
}

// array calls each to read every element. A value that is no array is skipped.
func (r *jsonReader) array(each func()) {
	if !r.is('[') {
		r.skip()
		return
	}
	r.at++
	for {
		switch r.next() {
		case ']', 0:
			r.at++
			return
		case ',':
			r.at++
		default:
			each()
		}
	}
}

// raw gives the bytes of a scalar, or nil after skipping anything else.
func (r *jsonReader) raw() []byte {
	first := r.next()
	start := r.at
	switch first {
	case '{', '[':
		r.skip()
		return nil
	case '"':
		r.skipString()
	default:
		for r.at < len(r.text) && !ends(r.text[r.at]) {
			r.at++
		}
	}
	return r.text[min(start, len(r.text)):min(r.at, len(r.text))]
}

func ends(b byte) bool {
	switch b {
	case ',', ']', '}', ' ', '\t', '\r', '\n':
		return true
	default:
		return false
	}
}

func (r *jsonReader) skipString() {
	for r.at++; r.at < len(r.text); r.at++ {
		switch r.text[r.at] {
		case '\\':
			r.at++
		case '"':
			r.at++
			return
		}
	}
}

// skip passes over one value, however deep.
func (r *jsonReader) skip() {
	depth := 0
	for {
		switch r.next() {
		case 0:
			return
		case '{', '[':
			depth++
			r.at++
		case '}', ']':
			depth--
			r.at++
		case '"':
			r.skipString()
		case ',', ':':
			r.at++
			continue
		default:
			r.raw()
		}
		if depth <= 0 {
			return
		}
	}
}

// fold gives a name without underscores and in lower case, so that trip_update
// and tripUpdate are one.
func (r *jsonReader) fold(raw []byte) []byte {
	r.name = r.name[:0]
	for _, b := range raw {
		switch {
		case b == '_' || b == '"':
		case 'A' <= b && b <= 'Z':
			r.name = append(r.name, b+'a'-'A')
		default:
			r.name = append(r.name, b)
		}
	}
	return r.name
}

// str reads a text; a number is taken as one.
func (r *jsonReader) str() string {
	raw := r.raw()
	switch {
	case len(raw) == 0 || raw[0] == 'n' || raw[0] == 't' || raw[0] == 'f':
		return ""
	case raw[0] != '"':
		return string(raw)
	}
	for _, b := range raw {
		if b == '\\' {
			var s string
			if json.Unmarshal(raw, &s) != nil {
				return ""
			}
			return s
		}
	}
	return string(raw[1 : len(raw)-1])
}

// integer reads a whole number.
func (r *jsonReader) integer() (n int64, ok bool) {
	s := r.str()
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int64(f), true
}

// unix reads a time in seconds; 0 is none, and what cannot be one is too great to
// be plausible, so that it is counted where it is judged.
func (r *jsonReader) unix() uint64 {
	n, ok := r.integer()
	switch {
	case !ok:
		return 0
	case n < 0:
		return math.MaxUint64
	default:
		return uint64(n)
	}
}

func (r *jsonReader) float() (f float64, ok bool) {
	f, err := strconv.ParseFloat(r.str(), 64)
	return f, err == nil
}

func (r *jsonReader) boolean() bool {
	raw := r.raw()
	return string(raw) == "true" || string(raw) == `"true"`
}

// enum reads a value by name or number; an unknown name is unknownEnum. ok is
// false for an absent value.
func (r *jsonReader) enum(values map[string]int32) (n int32, ok bool) {
	s := r.str()
	if s == "" {
		return 0, false
	}
	if n, known := values[s]; known {
		return n, true
	}
	if n, err := strconv.ParseInt(s, 10, 32); err == nil {
		return int32(n), true
	}
	return unknownEnum, true
}

func (r *jsonReader) header(s *Snapshot) (differences bool) {
	r.object(func(name []byte) {
		switch string(name) {
		case "gtfsrealtimeversion":
			s.Version = r.str()
		case "incrementality":
			n, _ := r.enum(pb.FeedHeader_Incrementality_value)
			differences = n == int32(pb.FeedHeader_DIFFERENTIAL)
		case "timestamp":
			s.Header = seconds(r.unix(), &s.Tally)
		default:
			r.skip()
		}
	})
	return differences
}
