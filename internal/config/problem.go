package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Kind says where a value comes from.
type Kind int

// The kinds of origin, by rising precedence.
const (
	FromDefault Kind = iota
	FromFile
	FromEnvironment
	FromFlag
)

// String gives default, file, environment or flag.
func (k Kind) String() string {
	switch k {
	case FromFile:
		return "file"
	case FromEnvironment:
		return "environment"
	case FromFlag:
		return "flag"
	case FromDefault:
	}
	return "default"
}

// Origin says where a value comes from.
type Origin struct {
	Kind Kind
	// Name is the path of the file, the name of the variable, or the flag with
	// its dashes. Empty for a default.
	Name string
	// Line and Column count from 1; only for a file.
	Line, Column int
	// SecretFile is the path that a *_file setting named. Empty: the value
	// stands where the rest of this origin says.
	SecretFile string
}

// String gives file:line:column, the name of the variable or flag, or default.
func (o Origin) String() string {
	where := o.Name
	switch {
	case o.Kind == FromDefault:
		return o.Kind.String()
	case o.Kind == FromFile && o.Line > 0:
		where += ":" + strconv.Itoa(o.Line) + ":" + strconv.Itoa(o.Column)
	}
	if o.SecretFile != "" {
		where = o.SecretFile + " (" + where + ")"
	}
	return where
}

// ProblemError is one thing that is wrong with a configuration.
type ProblemError struct {
	// Key is the path of the setting, such as window.size, or empty for a
	// problem of the file as a whole.
	Key string
	// Origin is where the wrong value stands. The zero Origin is a
	// configuration that was made by code.
	Origin Origin
	// Message says what is wrong. It holds no secret.
	Message string
	// uses names other settings that the judgement rests on. Where one of them
	// could not be read, nothing is said.
	uses []string
}

// Error gives where, which setting and what, as far as they are known.
func (p *ProblemError) Error() string {
	var parts []string
	if p.Origin.Kind != FromDefault {
		parts = append(parts, p.Origin.String())
	}
	if p.Key != "" {
		parts = append(parts, p.Key)
	}
	return strings.Join(append(parts, p.Message), ": ")
}

// Problems lists what an error of this package holds, in order; also a wrapped
// one.
func Problems(err error) []*ProblemError {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var out []*ProblemError
		for _, e := range joined.Unwrap() {
			out = append(out, Problems(e)...)
		}
		return out
	}
	if inner := errors.Unwrap(err); inner != nil {
		return Problems(inner)
	}
	if p, ok := errors.AsType[*ProblemError](err); ok {
		return []*ProblemError{p}
	}
	return nil
}

// join makes one error of the problems: those of the file by line, then those of
// the environment and the flags by name.
func join(problems []*ProblemError) error {
	slices.SortStableFunc(problems, func(a, b *ProblemError) int {
		return cmp.Or(
			cmp.Compare(a.Origin.Kind, b.Origin.Kind),
			cmp.Compare(a.Origin.Line, b.Origin.Line),
			cmp.Compare(a.Origin.Column, b.Origin.Column),
			cmp.Compare(a.Origin.Name, b.Origin.Name),
		)
	})
	errs := make([]error, len(problems))
	for i, p := range problems {
		errs[i] = p
	}
	return errors.Join(errs...)
}

func problem(key, format string, args ...any) *ProblemError {
	return &ProblemError{Key: key, Message: fmt.Sprintf(format, args...)}
}

// using names the settings that the judgement rests on besides its own.
func (p *ProblemError) using(keys ...string) *ProblemError {
	p.uses = keys
	return p
}
