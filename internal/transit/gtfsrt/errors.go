package gtfsrt

import (
	"strconv"
)

// Class is the kind of fault of a body that is no usable snapshot.
type Class string

// The classes.
const (
	// Empty: not a single byte.
	Empty Class = "empty"
	// NotGTFSRT: something else, such as a web page, text, or another message.
	NotGTFSRT Class = "not_gtfs_rt"
	// BadProtobuf: cut off or broken.
	BadProtobuf Class = "bad_protobuf"
	// BadJSON: cut off or broken, or with a value of a wrong type.
	BadJSON Class = "bad_json"
	// TooLarge: more bytes, entities or stops than are taken.
	TooLarge Class = "too_large"
	// Differential: a form of the feed that is not supported.
	Differential Class = "differential"
)

// DecodeError says why a body is no usable snapshot. Nothing of it was used.
type DecodeError struct {
	Class Class
	// Detail is a sentence without its first capital and full stop.
	Detail string
	// Hint says what to do about it.
	Hint string
	// Head is the beginning of the body, escaped, or empty where it tells nothing.
	Head string
}

// headMax bounds the bytes of a body that an error shows.
const headMax = 64

// Error gives class, detail and the beginning of the body.
func (e *DecodeError) Error() string {
	s := string(e.Class) + ": " + e.Detail
	if e.Head != "" {
		s += ", it begins with " + e.Head
	}
	return s
}

func headOf(body []byte) string {
	return strconv.QuoteToASCII(string(body[:min(len(body), headMax)]))
}
