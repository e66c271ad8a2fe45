package assert_test

import (
	"errors"
	"testing"

	"github.com/peil-stream/peil/internal/assert"
)

// violation runs f and returns what it panicked with.
func violation(t *testing.T, f func()) (v *assert.ViolationError) {
	t.Helper()
	defer func() {
		err, _ := recover().(error)
		if err != nil && !errors.As(err, &v) {
			t.Fatalf("panic with %v, want a violation", err)
		}
	}()
	f()
	return nil
}

func TestThat(t *testing.T) {
	t.Parallel()
	if v := violation(t, func() { assert.That(true, "sum is right") }); v != nil {
		t.Fatalf("a condition that holds panicked: %v", v)
	}
	if v := violation(t, func() { assert.Thatf(true, "sum is %d", 3) }); v != nil {
		t.Fatalf("a condition that holds panicked: %v", v)
	}
	v := violation(t, func() { assert.That(false, "sum is right") })
	if v == nil || v.Error() != "broken invariant: sum is right" {
		t.Fatalf("That(false) gave %v", v)
	}
	v = violation(t, func() { assert.Thatf(false, "sum is %d", 3) })
	if v == nil || v.Message != "sum is 3" {
		t.Fatalf("Thatf(false) gave %v", v)
	}
}

func TestThatDoesNotAllocate(t *testing.T) {
	n := 1
	if got := testing.AllocsPerRun(100, func() { assert.That(n > 0, "n is positive") }); got != 0 {
		t.Fatalf("That allocates %v times", got)
	}
}
