package event_test

import (
	"math"
	"testing"

	"github.com/peil-stream/peil/event"
)

const (
	second  int64 = 1_000
	t0      int64 = 1_790_000_100 * second
	maxSkew       = 300 * second
	window        = 300 * second
)

type judgeCase struct {
	name       string
	t, logTime int64
	want       event.Reason // empty: none
}

func judgeCases() []judgeCase {
	return []judgeCase{
		{"honest", t0, t0 + 5*second, ""},
		{"old but plausible", event.TimeMin, t0, ""},
		{"at the bound", t0 + maxSkew, t0, ""},
		{"just after the bound", t0 + maxSkew + 1, t0, event.FutureEvent},
		{"no log time", t0, -1, event.NoTimestamp},
		{"no log time goes first", event.TimeMin - 1, -1, event.NoTimestamp},
		{"log time zero is one", t0, 0, event.FutureEvent},
		{"just before 2000", event.TimeMin - 1, t0, event.ImplausibleTime},
		{"before 2000 by a log of 1970", -1, 0, event.ImplausibleTime},
		{"lowest time", math.MinInt64, t0, event.ImplausibleTime},
		{"highest time", math.MaxInt64, 0, event.FutureEvent},
		{"highest log time", t0, math.MaxInt64, ""},
		{"lowest against highest", math.MinInt64, math.MaxInt64, event.ImplausibleTime},
	}
}

func TestJudgeTime(t *testing.T) {
	t.Parallel()
	for _, tt := range judgeCases() {
		checkJudge(t, tt, event.JudgeTime(tt.t, tt.logTime, maxSkew))
	}
}

// TestK14FutureEventIsJudgedByItsOwnLogTime: the event of 24 h ahead is refused
// whatever came before it, and the honest ones around it are not.
func TestK14FutureEventIsJudgedByItsOwnLogTime(t *testing.T) {
	t.Parallel()
	for _, tt := range []judgeCase{
		{"0:0", t0 + 10*second, t0 + 11*second, ""},
		{"0:1", t0 + 86_400*second, t0 + 12*second, event.FutureEvent},
		{"0:2", t0 + 20*second, t0 + 21*second, ""},
		{"0:12", t0 + 430*second, t0 + 431*second, ""},
		{"0:1, were the log as far ahead", t0 + 86_400*second, t0 + 86_400*second, ""},
	} {
		checkJudge(t, tt, event.JudgeTime(tt.t, tt.logTime, maxSkew))
	}
}

func TestJudgeClose(t *testing.T) {
	t.Parallel()
	const wide, narrow = 2 * window, window / 10
	for _, tt := range []struct {
		judgeCase
		windowSize int64
	}{
		{judgeCase{"at the window size", t0 + wide, t0, ""}, wide},
		{judgeCase{"after the window size", t0 + wide + 1, t0, event.FutureEvent}, wide},
		{judgeCase{"max skew is greater", t0 + maxSkew, t0, ""}, narrow},
		{judgeCase{"after max skew", t0 + maxSkew + 1, t0, event.FutureEvent}, narrow},
		{judgeCase{"no log time", t0, -1, event.NoTimestamp}, window},
		{judgeCase{"before 2000", event.TimeMin - 1, t0, event.ImplausibleTime}, window},
		{judgeCase{"highest time", math.MaxInt64, 0, event.FutureEvent}, math.MaxInt64 - 1},
	} {
		checkJudge(t, tt.judgeCase, event.JudgeClose(tt.t, tt.logTime, maxSkew, tt.windowSize))
	}
}

func checkJudge(t *testing.T, tt judgeCase, err *event.Error) {
	t.Helper()
	if got := verdictOf(err).Reason; got != tt.want {
		t.Errorf("%s: judged %v, want %q", tt.name, err, tt.want)
	}
	if err != nil {
		checkError(t, nil, err, verdictOf(err))
	}
}

func TestJudgeDetail(t *testing.T) {
	t.Parallel()
	want := "future_event: timestamp 2026-09-22T14:15:00Z lies too far after the log's own time 2026-09-21T14:15:00Z"
	if err := event.JudgeTime(t0+86_400*second, t0, maxSkew); err == nil || err.Error() != want {
		t.Errorf("JudgeTime = %v, want %s", err, want)
	}
}
