package window_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/peil-stream/peil/window"
)

func TestK18StartRoundsDown(t *testing.T) {
	t.Parallel()
	tests := []struct {
		t, size, want int64
	}{
		{-1_000, 300_000, -300_000},
		{-300_000, 300_000, -300_000},
		{-301_000, 300_000, -600_000},
		{-1, 300_000, -300_000},
		{-300_001, 300_000, -600_000},
		{0, 300_000, 0},
		{299_999, 300_000, 0},
		{300_000, 300_000, 300_000},
		{1790000100_000, 300_000, 1790000100_000},
		{1790000399_999, 300_000, 1790000100_000},
		{7, 1, 7},
		{math.MaxInt64, 1 << 40, 1 << 62},
		{math.MinInt64, 1 << 40, -1 << 62},
	}
	for _, tt := range tests {
		if got := window.Start(tt.t, tt.size); got != tt.want {
			t.Errorf("Start(%d, %d) = %d, want %d", tt.t, tt.size, got, tt.want)
		}
	}
}

func TestStartContains(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		at := rapid.Int64Range(-1<<62, 1<<62).Draw(t, "t")
		size := rapid.Int64Range(1, math.MaxInt64/int64(time.Millisecond)).Draw(t, "size")
		start := window.Start(at, size)
		if start > at || at-start >= size {
			t.Fatalf("Start(%d, %d) = %d does not contain it", at, size, start)
		}
		if start%size != 0 {
			t.Fatalf("Start(%d, %d) = %d is not aligned", at, size, start)
		}
	})
}

func TestConfigValidate(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		cfg  window.Config
		want []string // parts of the message; nil: valid
	}{
		{"zero is the default", window.Config{}, nil},
		{"default", window.Config{Size: window.DefaultSize, Lateness: window.DefaultLateness}, nil},
		{"no lateness", window.Config{Size: time.Minute}, nil},
		{"smallest", window.Config{Size: time.Millisecond, Lateness: time.Millisecond}, nil},
		{"no size", window.Config{Lateness: time.Minute}, []string{"window size 0s is not positive"}},
		{"negative", window.Config{Size: -time.Minute, Lateness: -time.Minute}, []string{
			"window size -1m0s is not positive", "lateness -1m0s is negative",
		}},
		{"fractions", window.Config{Size: 1500 * time.Microsecond, Lateness: 1}, []string{
			"window size 1.5ms is not a whole number of milliseconds",
			"lateness 1ns is not a whole number of milliseconds",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := tt.cfg.Validate()
			_, made := window.NewPartition(tt.cfg, window.Resume{})
			if (err == nil) != (made == nil) {
				t.Fatalf("Validate(%+v) = %v, NewPartition says %v", tt.cfg, err, made)
			}
			if err == nil {
				if tt.want != nil {
					t.Fatalf("Validate(%+v) = nil, want %q", tt.cfg, tt.want)
				}
				return
			}
			if got, want := err.Error(), strings.Join(tt.want, "\n"); got != want {
				t.Fatalf("Validate(%+v) = %q, want %q", tt.cfg, got, want)
			}
		})
	}
}

func TestVerdictString(t *testing.T) {
	t.Parallel()
	for v, want := range map[window.Verdict]string{
		window.Accepted: "accepted", window.Replayed: "replayed",
		window.Late: "late", window.Redelivered: "redelivered", 200: "verdict(200)",
	} {
		if got := v.String(); got != want {
			t.Errorf("String() = %q, want %q", got, want)
		}
	}
}
