package gtfsrt

import (
	"bytes"
	"strings"
	"unicode"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/peil-stream/peil/internal/transit/gtfsrt/pb"
)

// fromJSON reads a message in its JSON form, as feeds publish it: names in either
// spelling, enum values by name or number, numbers as numbers or strings, null for
// absent, and fields of their own. A value of a wrong type costs the whole body.
func (l Limits) fromJSON(text []byte) (*pb.FeedMessage, *DecodeError) {
	// Every message begins with a brace, so this bounds them before there are any.
	if bytes.Count(text, []byte("{")) > l.Parts {
		return nil, tooLarge("more than %d objects", l.Parts)
	}
	m := new(pb.FeedMessage)
	if err := (protojson.UnmarshalOptions{AllowPartial: true, DiscardUnknown: true}).Unmarshal(text, m); err != nil {
		return nil, &DecodeError{
			Class: BadJSON, Detail: "it begins like JSON, but: " + clip(err.Error()),
			Hint: "the body was cut off or is not a feed message in JSON; try again later", Head: headOf(text),
		}
	}
	switch {
	case m.Header == nil:
		return nil, noHeader(text)
	case len(m.GetEntity()) > l.Entities:
		return nil, tooLarge("more than %d entities", l.Entities)
	}
	return m, nil
}

// clip makes a library's error fit for one line: it may quote the body.
func clip(text string) string {
	const most = 200
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text[:min(len(text), most)])
	return strings.ToValidUTF8(text, "")
}
