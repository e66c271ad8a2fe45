package event

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
	"unicode/utf8"
)

const (
	// depthMax is the greatest nesting of a value, its own object included.
	depthMax = 10_000
	// failed is the position that a scanning method returns for a syntax error.
	failed = -1
)

// scanner reads strict JSON (RFC 8259 with the strictness of RFC 7493: UTF-8
// only, no lone surrogates, no duplicate names). Its methods take the position
// to read at and return the one after what they read, or failed. The zero value
// is ready; the scratch is kept from value to value.
type scanner struct {
	b []byte
	// text holds the strings of the present value that had to be unescaped, one
	// after the other. Views keep no capacity, so that appending to one copies.
	text []byte
	// names and nameBytes are the names of the objects that are open now, those
	// of inner objects after those of outer ones. At the top level only unknown
	// names lie here.
	names     []nameRef
	nameBytes []byte
	// open are the open arrays and objects inside the value's own object: where
	// the names of an object begin, or inArray.
	open []int32

	failAt  int
	failure string
}

// nameRef is where a name lies in nameBytes.
type nameRef struct{ lo, hi int32 }

const inArray int32 = -1

func (s *scanner) reset(value []byte) {
	s.b = value
	s.text = s.text[:0]
	s.names = s.names[:0]
	s.nameBytes = s.nameBytes[:0]
}

func (s *scanner) fail(at int, what string) int {
	s.failAt, s.failure = at, what
	return failed
}

func (s *scanner) space(i int) int {
	for i < len(s.b) && (s.b[i] == ' ' || s.b[i] == '\n' || s.b[i] == '\r' || s.b[i] == '\t') {
		i++
	}
	return i
}

const (
	eachByte = 0x0101010101010101
	quotes   = '"' * eachByte
	escapes  = '\\' * eachByte
	spaces   = ' ' * eachByte
)

// plainEnd returns the position of the first byte at or after i that is not
// plain text: a quote, a backslash, a control character or not ASCII; the length
// when there is none.
func plainEnd(b []byte, i int) int {
	for ; i+8 <= len(b); i += 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		// Each term sets the high bit of the bytes it looks for: quote,
		// backslash, below space, DEL, and what has the bit already. A carry or
		// borrow runs only from a byte that is marked to bytes above it, so
		// the lowest mark is exact.
		m := ((x ^ quotes - eachByte) | (x ^ escapes - eachByte) | (x - spaces) | (x + eachByte) | x) & highBits
		if m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
			break
		}
	}
	return i
}

// str reads a string whose opening quote is at i. The text is a view of the
// value, or of the scratch when the string has escapes.
func (s *scanner) str(i int) (text []byte, next int) {
	i++
	if j := plainEnd(s.b, i); j < len(s.b) && s.b[j] == '"' {
		return s.b[i:j:j], j + 1
	}
	text, _, next = s.strSlow(i)
	return text, next
}

// strSlow is str for every string, from after its opening quote. control says
// whether the text has a control character (C0, DEL or C1), in whatever form.
func (s *scanner) strSlow(from int) (text []byte, control bool, next int) {
	start, copied := from, false
	mark := len(s.text)
	for i := from; ; {
		i = plainEnd(s.b, i)
		if i == len(s.b) {
			return nil, false, s.fail(i, "a string does not end")
		}
		switch c := s.b[i]; {
		case c == '"':
			if !copied {
				return s.b[start:i:i], control, i + 1
			}
			s.text = append(s.text, s.b[from:i]...)
			return s.text[mark:len(s.text):len(s.text)], control, i + 1
		case c == '\\':
			s.text = append(s.text, s.b[from:i]...)
			copied = true
			var r rune
			if r, i = s.escape(i); i == failed {
				return nil, false, failed
			}
			from = i
			control = control || isControl(r)
			s.text = utf8.AppendRune(s.text, r)
		case c < ' ':
			return nil, false, s.fail(i, "a control character stands in a string")
		default:
			r, size := utf8.DecodeRune(s.b[i:])
			if r == utf8.RuneError && size == 1 {
				return nil, false, s.fail(i, "a string is not UTF-8")
			}
			control = control || isControl(r)
			i += size
		}
	}
}

func isControl(r rune) bool { return r < ' ' || r >= 0x7f && r <= 0x9f }

// escape reads one escape, or the two that make a surrogate pair.
func (s *scanner) escape(i int) (r rune, next int) {
	if i+1 >= len(s.b) {
		return 0, s.fail(i, "a string does not end")
	}
	switch c := s.b[i+1]; c {
	case '"', '\\', '/':
		return rune(c), i + 2
	case 'b':
		return '\b', i + 2
	case 'f':
		return '\f', i + 2
	case 'n':
		return '\n', i + 2
	case 'r':
		return '\r', i + 2
	case 't':
		return '\t', i + 2
	case 'u':
		return s.unicodeEscape(i)
	default:
		return 0, s.fail(i, "a string has an escape that JSON does not know")
	}
}

func (s *scanner) unicodeEscape(i int) (r rune, next int) {
	r, ok := s.hex4(i)
	if !ok {
		return 0, s.fail(i, `a string has a \u escape without four hexadecimal digits`)
	}
	next = i + len(`\u0000`)
	if r < 0xd800 || r > 0xdfff {
		return r, next
	}
	low, ok := s.hex4(next)
	if !ok || r > 0xdbff || low < 0xdc00 || low > 0xdfff {
		return 0, s.fail(i, "a string has half of a surrogate pair")
	}
	return (r-0xd800)<<10 + (low - 0xdc00) + 0x10000, next + len(`\u0000`)
}

// hex4 reads \u0000.
func (s *scanner) hex4(i int) (r rune, ok bool) {
	if i+6 > len(s.b) || s.b[i] != '\\' || s.b[i+1] != 'u' {
		return 0, false
	}
	for _, c := range s.b[i+2 : i+6] {
		switch {
		case isDigit(c):
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// digits skips decimal digits.
func (s *scanner) digits(i int) int {
	for i < len(s.b) && isDigit(s.b[i]) {
		i++
	}
	return i
}

// number reads a number; plain says that it has neither fraction nor exponent.
func (s *scanner) number(i int) (plain bool, next int) {
	if s.b[i] == '-' {
		i++
	}
	first := i
	i = s.digits(i)
	if i == first || s.b[first] == '0' && i > first+1 {
		return false, s.fail(first, "a number is malformed")
	}
	plain = true
	if i < len(s.b) && s.b[i] == '.' {
		plain, first = false, i+1
		if i = s.digits(first); i == first {
			return false, s.fail(i, "a number is malformed")
		}
	}
	if i < len(s.b) && s.b[i]|0x20 == 'e' {
		plain, first = false, i+1
		if first < len(s.b) && (s.b[first] == '+' || s.b[first] == '-') {
			first++
		}
		if i = s.digits(first); i == first {
			return false, s.fail(i, "a number is malformed")
		}
	}
	return plain, i
}

// literal reads null, true or false.
func (s *scanner) literal(i int, word string) int {
	if len(s.b)-i < len(word) || string(s.b[i:i+len(word)]) != word {
		return s.fail(i, "there is a word that JSON does not know")
	}
	return i + len(word)
}

// scalar reads a value that is neither array nor object.
func (s *scanner) scalar(i int) int {
	if i >= len(s.b) {
		return s.fail(i, "the value ends too early")
	}
	switch c := s.b[i]; {
	case c == '"':
		_, i = s.str(i)
		return i
	case c == '-' || isDigit(c):
		_, i = s.number(i)
		return i
	case c == 'n':
		return s.literal(i, "null")
	case c == 't':
		return s.literal(i, "true")
	case c == 'f':
		return s.literal(i, "false")
	default:
		return s.fail(i, "a value was expected")
	}
}

// skip reads any value, however deep, without recursion.
func (s *scanner) skip(i int) int {
	s.open = s.open[:0]
	for {
		var entered bool
		if i, entered = s.enter(i); i == failed {
			return failed
		}
		if entered {
			continue
		}
		if i = s.leave(i); i == failed || len(s.open) == 0 {
			return i
		}
	}
}

// enter reads a scalar, an empty container, or the beginning of one up to its
// first value; only then it is entered.
func (s *scanner) enter(i int) (next int, entered bool) {
	if i >= len(s.b) || s.b[i] != '{' && s.b[i] != '[' {
		return s.scalar(i), false
	}
	if len(s.open)+1 >= depthMax {
		return s.fail(i, "the value is nested too deep"), false
	}
	object := s.b[i] == '{'
	i = s.space(i + 1)
	switch {
	case i >= len(s.b):
		return s.fail(i, "the value ends too early"), false
	case object && s.b[i] == '}', !object && s.b[i] == ']':
		return i + 1, false
	case !object:
		s.open = append(s.open, inArray)
		return i, true
	default:
		s.open = append(s.open, int32(len(s.names)))
		return s.name(i), true
	}
}

// leave reads what follows a value inside the open containers: the ends of those
// that end here, then either the beginning of the next value or nothing more.
func (s *scanner) leave(i int) int {
	for len(s.open) > 0 {
		top := s.open[len(s.open)-1]
		i = s.space(i)
		if i >= len(s.b) {
			return s.fail(i, "the value ends too early")
		}
		switch c := s.b[i]; {
		case c == ',' && top == inArray:
			return s.space(i + 1)
		case c == ',':
			return s.name(s.space(i + 1))
		case c == ']' && top == inArray:
		case c == '}' && top != inArray:
			if !s.unique(int(top)) {
				return s.fail(i, "an object has a name twice")
			}
		default:
			return s.fail(i, "a comma or an end was expected")
		}
		i++
		s.open = s.open[:len(s.open)-1]
	}
	return i
}

// name reads a member's name, keeps it, and goes on to the member's value.
func (s *scanner) name(i int) int {
	if i >= len(s.b) || s.b[i] != '"' {
		return s.fail(i, "a name was expected")
	}
	name, i := s.str(i)
	if i == failed {
		return failed
	}
	s.keepName(name)
	return s.colon(i)
}

// colon reads the colon after a name and the white space around it.
func (s *scanner) colon(i int) int {
	i = s.space(i)
	if i >= len(s.b) || s.b[i] != ':' {
		return s.fail(i, "a colon was expected")
	}
	return s.space(i + 1)
}

func (s *scanner) keepName(name []byte) {
	lo := len(s.nameBytes)
	s.nameBytes = append(s.nameBytes, name...)
	s.names = append(s.names, nameRef{lo: int32(lo), hi: int32(len(s.nameBytes))})
}

// unique reports whether the names of the innermost object, which begin at from,
// differ, and forgets them. It sorts: comparing each with each would take
// seconds for a hostile value.
func (s *scanner) unique(from int) bool {
	names := s.names[from:]
	if len(names) == 0 {
		return true
	}
	begin := names[0].lo // before sorting
	slices.SortFunc(names, func(a, b nameRef) int { return bytes.Compare(s.nameAt(a), s.nameAt(b)) })
	ok := true
	for i := 1; i < len(names) && ok; i++ {
		ok = !bytes.Equal(s.nameAt(names[i-1]), s.nameAt(names[i]))
	}
	s.nameBytes = s.nameBytes[:begin]
	s.names = s.names[:from]
	return ok
}

func (s *scanner) nameAt(n nameRef) []byte { return s.nameBytes[n.lo:n.hi] }
