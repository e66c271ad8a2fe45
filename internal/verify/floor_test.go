package verify

import "testing"

// TestK18WindowsBelowZero: an integer remainder would put -1 into the window
// after it.
func TestK18WindowsBelowZero(t *testing.T) {
	t.Parallel()
	r := rules{size: 300}
	for at, want := range map[int64]int64{-301: -600, -300: -300, -1: -300, 0: 0, 299: 0, 300: 300} {
		if got := r.start(at); got != want {
			t.Errorf("start(%d) = %d, want %d", at, got, want)
		}
		if got := r.end(at); got != want+300 {
			t.Errorf("end(%d) = %d, want %d", at, got, want+300)
		}
	}
}
