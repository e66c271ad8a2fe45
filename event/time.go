package event

import (
	"encoding/binary"
	"time"
)

const (
	msPerSecond = 1_000
	msPerMinute = 60 * msPerSecond
	msPerHour   = 60 * msPerMinute
	msPerDay    = 24 * msPerHour

	// The first and last millisecond of the years 0000 to 9999.
	timeLowest  int64 = -62_167_219_200_000
	timeHighest int64 = 253_402_300_799_999
)

// ParseTime reads an instant in RFC 3339 and cuts it to Unix milliseconds,
// towards the past. It is strict: upper-case T and Z, two digits everywhere, a
// point before the fraction, no leap second, an offset of at most 23:59. ok is
// false for anything else, and for an instant outside of the years 0000 to 9999
// in UTC, which could not be written again.
func ParseTime(text []byte) (ms int64, ok bool) {
	var c dayCache
	return c.parse(text)
}

// AppendTime appends the instant in RFC 3339 and UTC, with milliseconds only
// where they are not zero. An instant outside of the years 0000 to 9999 is
// written as package time writes it; [ParseTime] refuses that.
func AppendTime(dst []byte, ms int64) []byte {
	if ms < timeLowest || ms > timeHighest {
		return time.UnixMilli(ms).UTC().AppendFormat(dst, "2006-01-02T15:04:05.999Z")
	}
	days := ms / msPerDay
	rest := ms % msPerDay
	if rest < 0 {
		days--
		rest += msPerDay
	}
	year, month, day := civil(days)
	dst = append2(dst, year/100)
	dst = append2(dst, year%100)
	dst = append(dst, '-')
	dst = append2(dst, month)
	dst = append(dst, '-')
	dst = append2(dst, day)
	dst = append(dst, 'T')
	dst = append2(dst, rest/msPerHour)
	dst = append(dst, ':')
	dst = append2(dst, rest/msPerMinute%60)
	dst = append(dst, ':')
	dst = append2(dst, rest/msPerSecond%60)
	if frac := rest % msPerSecond; frac != 0 {
		dst = append(dst, '.', byte('0'+frac/100))
		dst = append2(dst, frac%100)
	}
	return append(dst, 'Z')
}

func append2(dst []byte, n int64) []byte { return append(dst, byte('0'+n/10), byte('0'+n%10)) }

// dayCache parses times and remembers the day parsed last: the records of a
// stream lie on the same day for hours. The zero value is ready.
type dayCache struct {
	head uint64 // "2026-11-"
	tail uint16 // "30"
	ms   int64  // midnight of that day
}

const timeLen = len("2006-01-02T15:04:05")

func (c *dayCache) parse(s []byte) (ms int64, ok bool) {
	if len(s) <= timeLen {
		return 0, false
	}
	day, ok := c.day(s[:10])
	clock, clockOK := clockMS(s[11:19])
	if !ok || !clockOK || s[10] != 'T' {
		return 0, false
	}
	ms = day + clock
	s = s[timeLen:]
	if s[0] == '.' {
		n, frac := 1, int64(0)
		for ; n < len(s) && isDigit(s[n]); n++ {
			if n <= 3 {
				frac = frac*10 + int64(s[n]-'0')
			}
		}
		for digits := n; digits <= 3; digits++ {
			frac *= 10
		}
		if n == 1 {
			return 0, false
		}
		ms += frac
		s = s[n:]
	}
	offset, ok := offsetMS(s)
	ms -= offset
	return ms, ok && ms >= timeLowest && ms <= timeHighest
}

// day gives the midnight of "2006-01-02".
func (c *dayCache) day(s []byte) (ms int64, ok bool) {
	head, tail := binary.LittleEndian.Uint64(s), binary.LittleEndian.Uint16(s[8:])
	if head == c.head && tail == c.tail && c.tail != 0 { // zero: nothing is cached
		return c.ms, true
	}
	for i, b := range s[:10] {
		if i == 4 || i == 7 {
			ok = b == '-'
		} else {
			ok = isDigit(b)
		}
		if !ok {
			return 0, false
		}
	}
	year := number2(s)*100 + number2(s[2:])
	month, day := number2(s[5:]), number2(s[8:])
	if month < 1 || month > 12 || day < 1 || day > daysIn(year, month) {
		return 0, false
	}
	*c = dayCache{head: head, tail: tail, ms: daysFrom(year, month, day) * msPerDay}
	return c.ms, true
}

const (
	highBits = 0x8080808080808080
	// The text of a clock with every digit zero, and what must be added to a
	// digit's value, or to the difference from a colon, to set its high bit
	// when it is too great: tens of minutes and seconds above 5, other digits
	// above 9, a colon that is none.
	clockZero = 0x30303a30303a3030 // "00:00:00"
	clockOver = 0x767a7f767a7f7676
)

// clockMS reads "15:04:05", all eight bytes at once.
func clockMS(s []byte) (ms int64, ok bool) {
	x := binary.LittleEndian.Uint64(s) ^ clockZero
	if (x|(x+clockOver))&highBits != 0 {
		return 0, false
	}
	hour := int64(x&15*10 + x>>8&15)
	minute := int64(x>>24&15*10 + x>>32&15)
	second := int64(x>>48&15*10 + x>>56&15)
	return hour*msPerHour + minute*msPerMinute + second*msPerSecond, hour < 24
}

// offsetMS reads "Z" or "+07:00".
func offsetMS(s []byte) (ms int64, ok bool) {
	if len(s) == 1 {
		return 0, s[0] == 'Z'
	}
	if len(s) != len("+07:00") || s[3] != ':' || !isDigit(s[1]) || !isDigit(s[2]) || !isDigit(s[4]) || !isDigit(s[5]) {
		return 0, false
	}
	hours, minutes := number2(s[1:]), number2(s[4:])
	ms = hours*msPerHour + minutes*msPerMinute
	if s[0] == '-' {
		ms = -ms
	}
	return ms, (s[0] == '+' || s[0] == '-') && hours < 24 && minutes < 60
}

func isDigit(b byte) bool { return b-'0' <= 9 }

func number2(s []byte) int64 { return int64(s[0]-'0')*10 + int64(s[1]-'0') }

func daysIn(year, month int64) int64 {
	switch month {
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	default:
		return 31
	}
}

// The civil calendar, counted in years that begin on 1 March, so that the leap
// day is the last of its year and the months before it have a fixed pattern.
const (
	daysPer400Years = 146_097
	daysToEpoch     = 719_468 // from 0000-03-01 to 1970-01-01
)

// daysFrom counts the days from 1970-01-01 to a date of the years 0 to 9999.
func daysFrom(year, month, day int64) int64 {
	if month <= 2 {
		year--
		month += 12
	}
	year += 400 // not below zero
	ofYear := (153*(month-3)+2)/5 + day - 1
	return year*365 + year/4 - year/100 + year/400 + ofYear - daysPer400Years - daysToEpoch
}

// civil is the inverse of daysFrom.
func civil(days int64) (year, month, day int64) {
	days += daysToEpoch + daysPer400Years // not below zero
	era := days / daysPer400Years
	ofEra := days % daysPer400Years
	ofEraYear := (ofEra - ofEra/1460 + ofEra/36524 - ofEra/146096) / 365
	ofYear := ofEra - (365*ofEraYear + ofEraYear/4 - ofEraYear/100)
	shifted := (5*ofYear + 2) / 153
	day = ofYear - (153*shifted+2)/5 + 1
	month = shifted + 3
	year = era*400 + ofEraYear - 400
	if month > 12 {
		month -= 12
		year++
	}
	return year, month, day
}
