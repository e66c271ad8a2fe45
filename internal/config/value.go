package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// value is one setting's place in a [Config], with what may stand there.
type value interface {
	// parse sets the place from text. An error leaves it as it was and holds
	// no secret.
	parse(text string) error
	// check judges what stands in the place; not set is right.
	check() error
	// unset says whether the place holds the zero value.
	unset() bool
	// reset sets the zero value.
	reset()
	// show gives the value as it is written in a file, without secrets.
	show() string
	// schema gives the JSON schema of the value, without its documentation.
	schema() map[string]any
}

// word is the place of a string, for the kinds of value that are one.
type word struct{ at *string }

func (v word) unset() bool  { return *v.at == "" }
func (v word) reset()       { *v.at = "" }
func (v word) show() string { return *v.at }

// text is a free text of a form.
type text struct {
	word
	// what completes "is not …", and pattern decides; nil: anything.
	pattern *regexp.Regexp
	what    string
}

func (v text) parse(s string) error {
	if err := (text{word{&s}, v.pattern, v.what}).check(); err != nil {
		return err
	}
	*v.at = s
	return nil
}

func (v text) check() error {
	if *v.at == "" {
		return nil
	}
	if strings.ContainsFunc(*v.at, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return errors.New("contains a control character")
	}
	if v.pattern != nil && !v.pattern.MatchString(*v.at) {
		return fmt.Errorf("%s is not %s", quote(*v.at), v.what)
	}
	return nil
}

func (v text) schema() map[string]any {
	out := map[string]any{"type": "string"}
	if v.pattern != nil {
		out["pattern"] = v.pattern.String()
	}
	return out
}

// choice is one of a few words.
type choice struct {
	word
	words []string
}

func (v choice) parse(s string) error {
	if err := (choice{word{&s}, v.words}).check(); err != nil {
		return err
	}
	*v.at = s
	return nil
}

func (v choice) check() error {
	if *v.at == "" || slices.Contains(v.words, *v.at) {
		return nil
	}
	return fmt.Errorf("%s is not one of %s", quote(*v.at), strings.Join(v.words, ", "))
}

func (v choice) schema() map[string]any {
	return map[string]any{"type": "string", "enum": v.words}
}

// count is a whole number within bounds. Zero is never within them: it means
// that the number is not set.
type count struct {
	at       *int
	min, max int
}

func (v count) parse(s string) error {
	n, err := strconv.Atoi(strings.ReplaceAll(s, "_", ""))
	if err != nil {
		return fmt.Errorf("%s is not a whole number between %d and %d", quote(s), v.min, v.max)
	}
	if err := v.within(n); err != nil {
		return err
	}
	*v.at = n
	return nil
}

func (v count) within(n int) error {
	if n < v.min || n > v.max {
		return fmt.Errorf("%d is not between %d and %d", n, v.min, v.max)
	}
	return nil
}

func (v count) check() error {
	if v.unset() {
		return nil
	}
	return v.within(*v.at)
}

func (v count) unset() bool  { return *v.at == 0 }
func (v count) reset()       { *v.at = 0 }
func (v count) show() string { return strconv.Itoa(*v.at) }

func (v count) schema() map[string]any {
	return map[string]any{"type": "integer", "minimum": v.min, "maximum": v.max}
}

// toggle is on or off; off is the default of every toggle.
type toggle struct{ at *bool }

func (v toggle) parse(s string) error {
	switch s {
	case "true":
		*v.at = true
	case "false":
		*v.at = false
	default:
		return fmt.Errorf("%s is neither true nor false", quote(s))
	}
	return nil
}

func (v toggle) check() error           { return nil }
func (v toggle) unset() bool            { return !*v.at }
func (v toggle) reset()                 { *v.at = false }
func (v toggle) show() string           { return strconv.FormatBool(*v.at) }
func (v toggle) schema() map[string]any { return map[string]any{"type": "boolean"} }

// period is a length of time within bounds, in whole milliseconds.
type period struct {
	at       *Duration
	min, max time.Duration
}

func (v period) parse(s string) error {
	d, err := ParseDuration(s)
	if err != nil {
		return err
	}
	if err := (period{&d, v.min, v.max}).check(); err != nil {
		return err
	}
	*v.at = d
	return nil
}

func (v period) check() error {
	d := v.at.Std()
	switch {
	case v.unset():
		return nil
	case d < v.min || d > v.max:
		return fmt.Errorf("%s is not between %s and %s", v.at, DurationOf(v.min), DurationOf(v.max))
	case d%time.Millisecond != 0:
		return fmt.Errorf("%s is not a whole number of milliseconds", v.at)
	default:
		return nil
	}
}

func (v period) unset() bool  { return v.at.IsZero() }
func (v period) reset()       { *v.at = Duration{} }
func (v period) show() string { return v.at.String() }

func (v period) schema() map[string]any {
	return map[string]any{"type": "string", "pattern": `^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`}
}

// size is a number of bytes within bounds; zero is never within them.
type size struct {
	at       *Bytes
	min, max Bytes
}

func (v size) parse(s string) error {
	b, err := ParseBytes(s)
	if err != nil {
		return err
	}
	if err := v.within(b); err != nil {
		return err
	}
	*v.at = b
	return nil
}

func (v size) within(b Bytes) error {
	if b < v.min || b > v.max {
		return fmt.Errorf("%s is not between %s and %s", b, v.min, v.max)
	}
	return nil
}

func (v size) check() error {
	if v.unset() {
		return nil
	}
	return v.within(*v.at)
}

func (v size) unset() bool  { return *v.at == 0 }
func (v size) reset()       { *v.at = 0 }
func (v size) show() string { return v.at.String() }

func (v size) schema() map[string]any {
	return map[string]any{"type": "string", "pattern": "^[0-9]+ ?(B|kB|MB|GB|KiB|MiB|GiB)$"}
}

// list is texts separated by commas, each judged by item.
type list struct {
	at   *[]string
	item func(string) error
}

func (v list) parse(s string) error {
	var items []string
	for item := range strings.SplitSeq(s, ",") {
		items = append(items, strings.TrimSpace(item))
	}
	if err := (list{&items, v.item}).check(); err != nil {
		return err
	}
	*v.at = items
	return nil
}

func (v list) check() error {
	var errs []string
	for _, item := range *v.at {
		if err := v.item(item); err != nil {
			errs = append(errs, err.Error())
		}
	}
	if len(errs) > 0 {
		return errors.New(strings.Join(errs, "; "))
	}
	return nil
}

func (v list) unset() bool  { return len(*v.at) == 0 }
func (v list) reset()       { *v.at = nil }
func (v list) show() string { return strings.Join(*v.at, ",") }

func (v list) schema() map[string]any {
	return map[string]any{"oneOf": []any{
		map[string]any{"type": "array", "items": map[string]any{"type": "string"}},
		map[string]any{"type": "string"},
	}}
}

// hidden is a secret.
type hidden struct{ at *Secret }

func (v hidden) parse(s string) error {
	*v.at = NewSecret(s)
	return nil
}

func (v hidden) check() error           { return nil }
func (v hidden) unset() bool            { return v.at.IsZero() }
func (v hidden) reset()                 { *v.at = Secret{} }
func (v hidden) show() string           { return v.at.String() }
func (v hidden) schema() map[string]any { return map[string]any{"type": "string"} }

// link is an address with one of a few schemes.
type link struct {
	at      *URL
	schemes []string
	// socket allows an address without a host: a database on a Unix socket.
	socket bool
}

func (v link) parse(s string) error {
	u := NewURL(s)
	if err := (link{&u, v.schemes, v.socket}).check(); err != nil {
		return err
	}
	*v.at = u
	return nil
}

func (v link) check() error {
	if v.unset() {
		return nil
	}
	want := strings.Join(v.schemes, ":// or ") + "://"
	u, err := url.Parse(v.at.Reveal())
	switch {
	case err != nil:
		// The error of package url repeats the address, with its secrets.
		return fmt.Errorf("is not an address that starts with %s", want)
	case !slices.Contains(v.schemes, u.Scheme):
		return fmt.Errorf("must start with %s", want)
	case u.Host == "" && !v.socket:
		return errors.New("names no host")
	default:
		return nil
	}
}

func (v link) unset() bool  { return v.at.IsZero() }
func (v link) reset()       { *v.at = URL{} }
func (v link) show() string { return v.at.String() }

func (v link) schema() map[string]any {
	return map[string]any{"type": "string", "format": "uri"}
}

// hostPort judges an address to listen on or to connect to. Port 0, any free
// port, makes sense only for the first.
func hostPort(address string, listen bool) error {
	host, port, err := net.SplitHostPort(address)
	n, numErr := strconv.ParseUint(port, 10, 16)
	if err != nil || numErr != nil || !listen && (host == "" || n == 0) || strings.ContainsAny(host, "@/ ") {
		switch {
		case listen && isPort(address):
			return fmt.Errorf("%s is not host:port: write :%s or 127.0.0.1:%s", quote(address), address, address)
		case listen:
			return fmt.Errorf("%s is not host:port, such as 127.0.0.1:8080 or :8080", quote(address))
		default:
			return fmt.Errorf("%s is not host:port", quote(address))
		}
	}
	return nil
}

// isPort says whether a text is a port alone.
func isPort(text string) bool {
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}

// address is host:port to listen on.
type address struct{ word }

func (v address) parse(s string) error {
	if err := (address{word{&s}}).check(); err != nil {
		return err
	}
	*v.at = s
	return nil
}

func (v address) check() error {
	if v.unset() {
		return nil
	}
	return hostPort(*v.at, true)
}

func (v address) schema() map[string]any { return map[string]any{"type": "string"} }
