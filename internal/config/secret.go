package config

import (
	"fmt"
	"io"
	"net/url"
	"regexp"
	"strings"
)

// masked stands for a secret wherever one would be shown.
const masked = "xxxxx"

// sensitive matches the names of query parameters whose values are not shown.
var sensitive = regexp.MustCompile(`(?i)key|token|secret|pass|pwd|sig|auth|cred|code|session|apikey|user`)

// Secret is a text that no message, log or marshalled form shows.
type Secret struct{ text string }

// NewSecret wraps a text.
func NewSecret(text string) Secret { return Secret{text} }

// Reveal returns the text, for the one place that needs it.
func (s Secret) Reveal() string { return s.text }

// IsZero says whether the secret is empty.
func (s Secret) IsZero() bool { return s.text == "" }

// Equal says whether both hold the same text.
func (s Secret) Equal(other Secret) bool { return s == other }

// String gives a mask, or the empty string for an empty secret.
func (s Secret) String() string {
	if s.text == "" {
		return ""
	}
	return masked
}

// Format writes the mask for every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalText gives the mask.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// URL is an address that may hold secrets: a password, or a key among its query
// parameters. What is shown of it is what [MaskURL] leaves.
type URL struct{ text string }

// NewURL wraps an address; it is checked with the configuration that holds it.
func NewURL(text string) URL { return URL{text} }

// Reveal returns the whole address, for the one place that connects to it.
func (u URL) Reveal() string { return u.text }

// IsZero says whether there is no address.
func (u URL) IsZero() bool { return u.text == "" }

// Equal says whether both are the same address.
func (u URL) Equal(other URL) bool { return u == other }

// String gives the address without its secrets.
func (u URL) String() string { return MaskURL(u.text) }

// Format writes the address without its secrets for every verb.
func (u URL) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, u.String()) }

// MarshalText gives the address without its secrets.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// MaskURL returns an address with everything masked that is likely secret: the
// password, for web addresses the user too (it is often a token), and the values
// of query parameters whose names speak of keys, tokens, passwords and the like.
// What cannot be parsed is masked whole.
func MaskURL(text string) string {
	if text == "" {
		return ""
	}
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" || u.Scheme == "" || strings.Contains(u.Host+u.Path, "@") {
		return masked
	}
	var out strings.Builder
	out.WriteString(u.Scheme + "://")
	if u.User != nil {
		_, hasPassword := u.User.Password()
		switch {
		case u.Scheme == "http" || u.Scheme == "https":
			out.WriteString(masked + "@")
		case hasPassword:
			out.WriteString(url.User(u.User.Username()).String() + ":" + masked + "@")
		default:
			out.WriteString(u.User.String() + "@")
		}
	}
	out.WriteString(u.Host)
	out.WriteString(u.EscapedPath())
	if u.RawQuery != "" {
		out.WriteString("?" + maskQuery(u.RawQuery))
	}
	return out.String()
}

// maskQuery keeps the order of the parameters, so that a reader recognises them.
func maskQuery(raw string) string {
	params := strings.FieldsFunc(raw, func(r rune) bool { return r == '&' || r == ';' })
	for i, param := range params {
		name, _, hasValue := strings.Cut(param, "=")
		decoded, err := url.QueryUnescape(name)
		switch {
		case !hasValue:
			params[i] = masked // a bare key
		case err != nil || sensitive.MatchString(decoded):
			params[i] = name + "=" + masked
		}
	}
	return strings.Join(params, "&")
}
