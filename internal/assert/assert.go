package assert

import "fmt"

// ViolationError is what a failed assertion panics with. It is an error, so that who
// recovers it can wrap it.
type ViolationError struct {
	// Message says which invariant is broken.
	Message string
}

// Error gives the message.
func (v *ViolationError) Error() string { return "broken invariant: " + v.Message }

// That panics with a [*ViolationError] unless ok. The message says what must hold.
func That(ok bool, message string) {
	if !ok {
		panic(&ViolationError{Message: message})
	}
}

// Thatf is That with a formatted message. It is not for hot paths: the arguments
// are boxed also when the condition holds.
func Thatf(ok bool, format string, args ...any) {
	if !ok {
		panic(&ViolationError{Message: fmt.Sprintf(format, args...)})
	}
}
