package gtfsrt

import (
	"fmt"
	"iter"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/peil-stream/peil/internal/transit/gtfsrt/pb"
)

// Field numbers of the schema that are told apart before a message is read.
const (
	fieldHeader  protowire.Number = 1 // of FeedMessage
	fieldEntity  protowire.Number = 2 // of FeedMessage
	fieldID      protowire.Number = 1 // of FeedEntity
	fieldDeleted protowire.Number = 2 // of FeedEntity
	fieldTrip    protowire.Number = 3 // of FeedEntity
	fieldVehicle protowire.Number = 4 // of FeedEntity
	fieldAlert   protowire.Number = 5 // of FeedEntity

	// protoHeader is the first byte of a message that begins with its header.
	protoHeader = byte(fieldHeader)<<3 | byte(protowire.BytesType)
)

// fromWire reads a message in protobuf's binary form, or of its entities only
// what they are about.
func (l Limits) fromWire(body []byte, entities bool) (*pb.FeedMessage, *DecodeError) {
	kept, fault := l.prune(body, entities)
	if fault != nil {
		return nil, fault
	}
	m := new(pb.FeedMessage)
	if err := (proto.UnmarshalOptions{AllowPartial: true, DiscardUnknown: true}).Unmarshal(kept, m); err != nil {
		return nil, broken(body, clip(err.Error()))
	}
	if m.Header == nil {
		return nil, noHeader(body)
	}
	return m, nil
}

// prune gives a message without what is not used, and checks the bounds before
// anything is allocated for what they bound. Alerts are kept as empty ones, and
// so is what every entity is about if entities is false.
func (l Limits) prune(body []byte, entities bool) ([]byte, *DecodeError) {
	var kept, entity []byte
	count, parts := 0, 0
	for f, err := range fields(body) {
		if err == nil && f.sized(fieldEntity) {
			entity, err = pruneEntity(entity[:0], f.content, entities, &parts)
		}
		switch {
		case err != nil:
			return nil, broken(body, fmt.Sprintf("%v, after %d whole entities", err, count))
		case f.sized(fieldHeader):
			kept = append(kept, f.raw...)
		case f.sized(fieldEntity):
			count++
			kept = protowire.AppendBytes(protowire.AppendTag(kept, fieldEntity, protowire.BytesType), entity)
		}
		switch {
		case count > l.Entities:
			return nil, tooLarge("more than %d entities", l.Entities)
		case parts > l.Parts:
			return nil, tooLarge("more than %d stops and other fields in its trip updates and vehicle positions", l.Parts)
		}
	}
	return kept, nil
}

func pruneEntity(dst, message []byte, whole bool, parts *int) ([]byte, error) {
	for f, err := range fields(message) {
		if err != nil {
			return nil, err
		}
		switch {
		case f.sized(fieldTrip), f.sized(fieldVehicle):
			for _, err := range fields(f.content) {
				if err != nil {
					return nil, err
				}
				*parts++
			}
			if whole {
				dst = append(dst, f.raw...)
				continue
			}
			fallthrough
		case f.sized(fieldAlert):
			dst = protowire.AppendBytes(protowire.AppendTag(dst, f.number, protowire.BytesType), nil)
		case f.sized(fieldID), f.number == fieldDeleted:
			dst = append(dst, f.raw...)
		}
	}
	return dst, nil
}

// field is one field of a message: all its bytes, and its content if it has a
// length.
type field struct {
	number       protowire.Number
	form         protowire.Type
	raw, content []byte
}

// sized says whether this is a field of that number, in the form of messages and
// texts. One in another form is unknown to the schema.
func (f *field) sized(number protowire.Number) bool {
	return f.number == number && f.form == protowire.BytesType
}

// fields walks over the fields of a message up to the first that is broken.
func fields(message []byte) iter.Seq2[field, error] {
	return func(yield func(field, error) bool) {
		for at := 0; at < len(message); {
			number, form, size := protowire.ConsumeField(message[at:])
			if size < 0 {
				yield(field{}, fmt.Errorf("byte %d: %w", at, protowire.ParseError(size)))
				return
			}
			f := field{number: number, form: form, raw: message[at : at+size]}
			if form == protowire.BytesType {
				_, _, tag := protowire.ConsumeTag(f.raw)
				f.content, _ = protowire.ConsumeBytes(f.raw[tag:])
			}
			if !yield(f, nil) {
				return
			}
			at += size
		}
	}
}

func broken(body []byte, detail string) *DecodeError {
	return &DecodeError{
		Class: BadProtobuf, Detail: detail,
		Hint: "the body was cut off or is no protobuf; try again later", Head: headOf(body),
	}
}
