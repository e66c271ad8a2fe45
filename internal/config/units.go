package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Duration is a length of time as written in a configuration, such as 30s, 5m or
// 168h. The zero value is not set, which is something else than a length of 0s.
type Duration struct {
	length time.Duration
	set    bool
}

// DurationOf returns a Duration that is set, also if d is zero.
func DurationOf(d time.Duration) Duration { return Duration{length: d, set: true} }

// ParseDuration reads a number with a unit.
func ParseDuration(text string) (Duration, error) {
	d, err := time.ParseDuration(text)
	switch {
	case err == nil && (d != 0 || strings.ContainsAny(text, "hmsnuµ")):
		return DurationOf(d), nil
	case isNumber(text):
		return Duration{}, fmt.Errorf("%s has no unit: write %ss, %sm or %sh", text, text, text, text)
	default:
		return Duration{}, fmt.Errorf("%s is not a duration such as 30s, 5m or 168h", quote(text))
	}
}

// Std returns the length; 0 if it is not set.
func (d Duration) Std() time.Duration { return d.length }

// Milliseconds returns the length in whole milliseconds.
func (d Duration) Milliseconds() int64 { return d.length.Milliseconds() }

// IsZero says whether the duration is not set.
func (d Duration) IsZero() bool { return !d.set }

// Equal says whether both are set to the same length or both are not set.
func (d Duration) Equal(other Duration) bool { return d == other }

// String gives the shortest form that reads back as the same length: 5m and not
// 5m0s. A duration that is not set gives the empty string.
func (d Duration) String() string {
	if !d.set {
		return ""
	}
	text := d.length.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// MarshalText gives String, for JSON.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// Bytes is a number of bytes as written in a configuration, such as 16MiB.
type Bytes int64

// Units of [Bytes].
const (
	KiB Bytes = 1 << 10
	MiB Bytes = 1 << 20
	GiB Bytes = 1 << 30
)

// byteUnits are the units that are read, the largest divisor first, as [Bytes]
// are printed by the first one that divides them.
func byteUnits() []struct {
	name string
	size Bytes
} {
	return []struct {
		name string
		size Bytes
	}{
		{"GiB", GiB},
		{"MiB", MiB},
		{"KiB", KiB},
		{"GB", 1e9},
		{"MB", 1e6},
		{"kB", 1e3},
		{"B", 1},
	}
}

// ParseBytes reads a whole number with a unit: B, kB, MB, GB, KiB, MiB or GiB.
func ParseBytes(text string) (Bytes, error) {
	if isNumber(text) {
		return 0, fmt.Errorf("%s has no unit: write %sB, %sKiB or %sMiB", text, text, text, text)
	}
	for _, unit := range byteUnits() {
		number, ok := strings.CutSuffix(text, unit.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		if errors.Is(err, strconv.ErrRange) || err == nil && n*int64(unit.size)/int64(unit.size) != n {
			return 0, fmt.Errorf("%s is too large", quote(text))
		}
		if err == nil {
			return Bytes(n) * unit.size, nil
		}
	}
	return 0, fmt.Errorf("%s is not a size such as 64KiB or 16MiB", quote(text))
}

// String gives the size in the largest binary unit that divides it.
func (b Bytes) String() string {
	for _, unit := range byteUnits()[:3] {
		if b != 0 && b%unit.size == 0 {
			return strconv.FormatInt(int64(b/unit.size), 10) + unit.name
		}
	}
	return strconv.FormatInt(int64(b), 10) + "B"
}

// MarshalText gives String, for JSON.
func (b Bytes) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// isNumber says whether the text is a plain decimal number.
func isNumber(text string) bool {
	_, err := strconv.ParseFloat(text, 64)
	return err == nil && !strings.ContainsAny(text, "xXpPnNiI")
}

// quote puts a value into a message: shortened, so that a wrong paste does not
// fill the terminal, and without what a URL keeps secret.
func quote(text string) string {
	const shown = 60
	if strings.Contains(text, "://") || strings.Contains(text, "@") {
		text = MaskURL(text)
	}
	if len(text) > shown {
		text = strings.ToValidUTF8(text[:shown], "") + "…"
	}
	return strconv.Quote(text)
}
