package gtfsrt

import (
	"strings"
	"unicode/utf8"

	"github.com/peil-stream/peil/event"
)

// scoper makes the ids of one feed: the feed's name, a colon, the raw id.
type scoper struct{ prefix string }

// id scopes a raw id. ok is false for one that no record may carry; an empty one
// stays empty.
func (s scoper) id(raw string) (scoped []byte, ok bool) {
	if raw == "" {
		return nil, true
	}
	if !s.valid(raw) {
		return nil, false
	}
	scoped = make([]byte, 0, len(s.prefix)+len(raw))
	return append(append(scoped, s.prefix...), raw...), true
}

func (s scoper) valid(raw string) bool {
	return len(s.prefix)+len(raw) <= event.IDMax && validText(raw)
}

// validText says whether a text may stand in a record, up to its length: UTF-8
// without control characters.
func validText(text string) bool {
	for i := 0; i < len(text); {
		if b := text[i]; ' ' <= b && b < 0x7f {
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		if r < ' ' || 0x7f <= r && r <= 0x9f || r == utf8.RuneError && size <= 1 {
			return false
		}
		i += size
	}
	return true
}

// line gives the line and the operator of a trip: from OVapi's
// OWNER:LINE:JOURNEY both, else from the route id the line alone.
func (s scoper) line(routeID, realtime string) (line, operator []byte, ok bool) {
	if owner, rest, found := strings.Cut(realtime, ":"); found && owner != "" {
		number, _, found := strings.Cut(rest, ":")
		if found && number != "" {
			operator, ok = s.id(owner)
			line, lineOK := s.id(owner + ":" + number)
			return line, operator, ok && lineOK
		}
	}
	line, ok = s.id(routeID)
	return line, nil, ok
}

// The parts of the memory's keys. The texts of a trip's key but the last one are
// escaped, so that no two trips share a key.
const (
	keyTrip    = "trip|"
	keyVehicle = "vehicle|"
	keySource  = "source|"
)

func appendTripKey(dst []byte, tripID, startDate, startTime string) []byte {
	dst = append(dst, keyTrip...)
	dst = append(appendEscaped(dst, startDate), '|')
	dst = append(appendEscaped(dst, startTime), '|')
	return append(dst, tripID...)
}

func appendEscaped(dst []byte, text string) []byte {
	for i := range len(text) {
		switch b := text[i]; b {
		case '|':
			dst = append(dst, "%7C"...)
		case '%':
			dst = append(dst, "%25"...)
		default:
			dst = append(dst, b)
		}
	}
	return dst
}

// splitTripKey gives the parts of a trip's key that stand in a record.
func splitTripKey(key string) (tripID, startDate string, ok bool) {
	rest, ok := strings.CutPrefix(key, keyTrip)
	parts := strings.SplitN(rest, "|", 3)
	if !ok || len(parts) != 3 {
		return "", "", false
	}
	return parts[2], strings.NewReplacer("%7C", "|", "%25", "%").Replace(parts[0]), true
}
