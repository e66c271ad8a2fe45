package gtfsrt

import (
	"bytes"
	"fmt"
	"unicode"
	"unicode/utf8"

	"github.com/peil-stream/peil/internal/transit/gtfsrt/pb"
)

// Limits bound what a body may cost. Tiny bodies can be dear: five million empty
// entities are 10 MB on the wire and fifty times that in memory. They are checked
// before anything is allocated for entities, but for the number of entities in
// JSON, which Parts bounds before and Entities after.
type Limits struct {
	// Bytes of the body, after decompression. Defaults to 64 MiB.
	Bytes int
	// Entities of the message. Defaults to 500,000.
	Entities int
	// Parts of the entities: the fields of all trip updates and vehicle positions
	// together, which the stops are among; in JSON all objects. Defaults to
	// 2,000,000.
	Parts int
}

// Defaults of [Limits].
const (
	BytesMax    = 64 << 20
	EntitiesMax = 500_000
	PartsMax    = 2_000_000
)

func (l Limits) withDefaults() Limits {
	if l.Bytes <= 0 {
		l.Bytes = BytesMax
	}
	if l.Entities <= 0 {
		l.Entities = EntitiesMax
	}
	if l.Parts <= 0 {
		l.Parts = PartsMax
	}
	return l
}

// Decode reads a snapshot with the default limits. An error is a *[DecodeError].
func Decode(body []byte) (*Snapshot, error) { return Limits{}.Decode(body) }

// Peek reads what can be known without reading the entities, with the default
// limits. What it refuses, Decode refuses too; an entity that is broken deep inside
// is seen by Decode only.
func Peek(body []byte) (*Head, error) { return Limits{}.Peek(body) }

// Decode reads a snapshot. An error is a *[DecodeError].
func (l Limits) Decode(body []byte) (*Snapshot, error) { return l.read(body, true) }

// Peek reads what can be known without reading the entities.
func (l Limits) Peek(body []byte) (*Head, error) {
	s, err := l.read(body, false)
	if err != nil {
		return nil, err
	}
	return &s.Head, nil
}

func (l Limits) read(body []byte, entities bool) (*Snapshot, error) {
	l = l.withDefaults()
	if len(body) == 0 {
		return nil, &DecodeError{Class: Empty, Detail: "the body is empty", Hint: "the feed answered with nothing; try again later"}
	}
	if len(body) > l.Bytes {
		return nil, tooLarge("%d bytes, at most %d are taken", len(body), l.Bytes)
	}
	m, fault := l.message(body, entities)
	if fault != nil {
		return nil, fault
	}
	if m.GetHeader().GetIncrementality() == pb.FeedHeader_DIFFERENTIAL {
		return nil, differential()
	}
	return snapshot(m), nil
}

// message reads a message in either form.
func (l Limits) message(body []byte, entities bool) (*pb.FeedMessage, *DecodeError) {
	text := trimText(body)
	braced := len(text) > 0 && text[0] == '{'
	if braced && body[0] != protoHeader {
		return l.fromJSON(text)
	}
	m, fault := l.fromWire(body, entities)
	if fault == nil || fault.Class == TooLarge {
		return m, fault
	}
	// A message that begins with its header begins with a line feed, so a text
	// with a blank line before it looks like one until it is read.
	if braced {
		return l.fromJSON(text)
	}
	if detail, hint := describe(text); detail != "" {
		fault = &DecodeError{Class: NotGTFSRT, Detail: detail, Hint: hint, Head: headOf(body)}
	}
	return nil, fault
}

// describe says what a text is that is no message, and what to do about it, or
// nothing if it is no text.
func describe(text []byte) (detail, hint string) {
	const address = "look whether the address is that of a GTFS-Realtime feed"
	switch {
	case len(text) == 0:
		return "it is white space only", "the feed answered with nothing; try again later"
	case text[0] == '[':
		return "it is a JSON array, not a feed message", address
	case text[0] == '<':
		return "it is a web page or XML", "look whether the address is right and whether a key is needed"
	case isTextProto(text):
		return "it is protobuf in its text form, which is for debugging",
			"ask for the binary form: leave a parameter such as debug out of the address"
	case isText(text):
		return "it is plain text", address
	default:
		return "", ""
	}
}

// trimText cuts a byte order mark and white space.
func trimText(body []byte) []byte {
	return bytes.TrimLeft(bytes.TrimPrefix(body, []byte("\xef\xbb\xbf")), " \t\r\n")
}

// isTextProto recognises "header {" and comments before it.
func isTextProto(text []byte) bool {
	for len(text) > 0 && text[0] == '#' {
		_, rest, _ := bytes.Cut(text, []byte("\n"))
		text = bytes.TrimLeft(rest, " \t\r\n")
	}
	for _, field := range []string{"header", "entity"} {
		if rest, ok := bytes.CutPrefix(text, []byte(field)); ok {
			rest = bytes.TrimLeft(rest, " \t:")
			return len(rest) > 0 && (rest[0] == '{' || rest[0] == '<')
		}
	}
	return false
}

// isText says whether the beginning of the body can be read by people.
func isText(body []byte) bool {
	head := body[:min(len(body), headMax)]
	for len(head) > 0 {
		r, size := utf8.DecodeRune(head)
		if r == utf8.RuneError && size <= 1 {
			return len(head) < utf8.UTFMax && len(head) < len(body) // cut within a letter
		}
		if !unicode.IsPrint(r) && !unicode.IsSpace(r) {
			return false
		}
		head = head[size:]
	}
	return true
}

func tooLarge(format string, args ...any) *DecodeError {
	return &DecodeError{
		Class: TooLarge, Detail: fmt.Sprintf(format, args...),
		Hint: "look whether the feed is what it should be; nothing of it was used",
	}
}

func differential() *DecodeError {
	return &DecodeError{
		Class:  Differential,
		Detail: "the feed sends differences (incrementality DIFFERENTIAL), not the full dataset",
		Hint:   "ask its publisher for the address of the full dataset; the form for differences is experimental and not supported",
	}
}

func noHeader(body []byte) *DecodeError {
	return &DecodeError{
		Class: NotGTFSRT, Detail: "there is no feed header in it",
		Hint: "look whether the address is that of a GTFS-Realtime feed", Head: headOf(body),
	}
}

// seconds gives a Unix time in seconds as milliseconds, if it is plausible. Zero
// is what feeds send for none.
func seconds(s uint64, tally *Tally) int64 {
	switch {
	case s == 0:
		return NoTime
	case plausible(s):
		return int64(s) * msPerSecond
	case plausible(s / msPerSecond):
		tally[TimeUnitSuspect]++
	default:
		tally[TimeImplausible]++
	}
	return NoTime
}

const (
	msPerSecond = 1000
	secondsMin  = 946_684_800   // 2000-01-01T00:00:00Z
	secondsMax  = 4_102_444_800 // 2100-01-01T00:00:00Z
)

func plausible(s uint64) bool { return secondsMin <= s && s < secondsMax }
