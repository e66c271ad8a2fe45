package window_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/peil-stream/peil/stats"
	"github.com/peil-stream/peil/window"
)

// t0 is 2026-09-21T14:15:00Z, the start of a window.
const t0 = int64(1790000100_000)

const second = int64(1000)

// feed drives a partition in the notation of the cases: times are seconds after t0.
type feed struct {
	*window.Partition
	t    *testing.T
	next int64
}

func newFeed(t *testing.T, r window.Resume) *feed {
	t.Helper()
	return &feed{Partition: newPartition(t, window.Config{}, r), t: t}
}

func (f *feed) offset() int64 {
	f.next++
	return f.next - 1
}

// add adds an event of the network nl with an honest log time.
func (f *feed) add(at float64, value int32) window.Verdict {
	return f.addAt(at, at+1, value)
}

func (f *feed) addAt(at, logAt float64, value int32) window.Verdict {
	return f.Add(&window.Record{
		Offset: f.offset(), Time: ms(at), LogTime: ms(logAt), HasValue: true, Value: value,
		Group: []window.Cell{{Dimension: "network", ID: []byte("nl")}},
	})
}

// empty adds an event without a value.
func (f *feed) empty(at float64) window.Verdict {
	return f.Add(&window.Record{Offset: f.offset(), Time: ms(at), LogTime: ms(at + 1)})
}

func ms(at float64) int64 { return t0 + int64(math.Round(at*1000)) }

// closed takes the closed segments and checks all but their data.
func (f *feed) closed(want ...window.Segment) []window.Segment {
	f.t.Helper()
	got := f.TakeClosed()
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(window.Segment{}, "Data"), cmpopts.EquateEmpty()); diff != "" {
		f.t.Fatalf("closed segments mismatch (-want +got):\n%s", diff)
	}
	return got
}

func (f *feed) verdicts(got []window.Verdict, want ...window.Verdict) {
	f.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		f.t.Fatalf("verdicts mismatch (-want +got):\n%s", diff)
	}
}

// rows merges segments and fails the test if that is an error.
func rows(tb fataler, segments ...window.Segment) []window.Row {
	tb.Helper()
	var data [][]byte
	for _, s := range segments {
		data = append(data, s.Data)
	}
	got, err := window.Merge(data...)
	if err != nil {
		tb.Fatalf("Merge: %v", err)
	}
	return got
}

// network is the row of values of the network nl.
func network(values ...int32) []window.Row {
	return []window.Row{{Dimension: "network", ID: "nl", Summary: naiveSummary(values)}}
}

// segment gives the window that starts at so many seconds after t0.
func segment(start, first, through, records int64) window.Segment {
	return window.Segment{
		Start: t0 + start*second, End: t0 + (start+300)*second,
		FirstOffset: first, ThroughOffset: through, Records: records,
	}
}

func TestK20Edges(t *testing.T) {
	t.Parallel()
	f := newFeed(t, window.Resume{Watermark: window.NoTime})
	f.verdicts([]window.Verdict{f.add(299.999, 1), f.add(300, 2), f.add(370, 3)},
		window.Accepted, window.Accepted, window.Accepted)
	if got := f.Watermark(); got != ms(250) {
		t.Fatalf("Watermark = %d, want %d", got, ms(250))
	}
	f.verdicts([]window.Verdict{f.add(10, 4)}, window.Accepted)
	f.add(419.999, 5)
	f.closed()
	if f.Closed(ms(299.999)) {
		t.Fatal("the window is closed at +419.999")
	}
	f.add(420, 6)
	got := f.closed(segment(0, 0, 5, 2))
	if diff := cmp.Diff(network(1, 4), rows(t, got...)); diff != "" {
		t.Fatalf("rows mismatch (-want +got):\n%s", diff)
	}
	if !f.Closed(ms(0)) || !f.Closed(ms(299.999)) || f.Closed(ms(300)) {
		t.Fatal("Closed does not say that exactly the first window is closed")
	}
	f.closed()
	f.verdicts([]window.Verdict{f.add(299.999, 7), f.add(300, 8)}, window.Late, window.Accepted)
}

// The record that brings the watermark past a window is in the window after it,
// and a record is judged by the watermark before it.
func TestJudgedBeforeItMoves(t *testing.T) {
	t.Parallel()
	p := newPartition(t, window.Config{Size: 10 * time.Millisecond}, window.Resume{Watermark: window.NoTime})
	cell := window.Cell{Dimension: "network", ID: []byte("nl")}
	for offset, at := range []int64{0, 9, 10} {
		r := window.Record{Offset: int64(offset), Time: at, LogTime: at, HasValue: true, Extra: cell}
		if got := p.Add(&r); got != window.Accepted {
			t.Fatalf("Add(%d) = %v, want accepted", at, got)
		}
	}
	want := []window.Segment{{Start: 0, End: 10, FirstOffset: 0, ThroughOffset: 2, Records: 2}}
	if diff := cmp.Diff(want, p.TakeClosed(), cmpopts.IgnoreFields(window.Segment{}, "Data")); diff != "" {
		t.Fatalf("closed segments mismatch (-want +got):\n%s", diff)
	}
}

// One clock that runs 299 s fast must not make honest records late: the watermark
// follows the smaller of event time and log time.
func TestM07FastClock(t *testing.T) {
	t.Parallel()
	f := newFeed(t, window.Resume{Watermark: window.NoTime})
	fast := 0
	for i := range 164 {
		at := float64(i) * 5
		event := at
		if i%7 == 3 {
			fast++
			event += 299
		}
		if got := f.addAt(event, at, 0); got != window.Accepted {
			t.Fatalf("record %d = %v, want accepted", i, got)
		}
	}
	f.CloseMarker(f.offset(), ms(3600))
	var records int64
	for _, s := range f.TakeClosed() {
		records += s.Records
	}
	if fast < 23 || records != 164 {
		t.Fatalf("%d records in windows, %d of a fast clock; want 164 and 23", records, fast)
	}
}

// A slow clock does not hold the watermark back either: it follows the highest.
func TestWatermarkNeverFalls(t *testing.T) {
	t.Parallel()
	f := newFeed(t, window.Resume{Watermark: window.NoTime})
	if got := f.Watermark(); got != window.NoTime {
		t.Fatalf("Watermark of a new partition = %d, want NoTime", got)
	}
	steps := []struct {
		name string
		do   func()
		want float64
	}{
		{"an event", func() { f.add(100, 0) }, -20},
		{"an older event", func() { f.add(50, 0) }, -20},
		{"an event without a value", func() { f.empty(110) }, -10},
		{"a heartbeat", func() { f.Heartbeat(f.offset(), ms(120), ms(130)) }, 0},
		{"a heartbeat from the future", func() { f.Heartbeat(f.offset(), ms(900), ms(130)) }, 10},
		{"an older heartbeat", func() { f.Heartbeat(f.offset(), ms(0), ms(500)) }, 10},
		{"a close marker", func() { f.CloseMarker(f.offset(), ms(30)) }, 30},
		{"an older close marker", func() { f.CloseMarker(f.offset(), ms(29)) }, 30},
		{"a time that is not known", func() { f.CloseMarker(f.offset(), window.NoTime) }, 30},
		{"no log time", func() { f.Heartbeat(f.offset(), ms(900), -1) }, 30},
	}
	for _, s := range steps {
		s.do()
		if got := f.Watermark(); got != ms(s.want) {
			t.Fatalf("Watermark after %s = %d, want %d", s.name, got, ms(s.want))
		}
	}
}

func TestLateAppliesWithoutValue(t *testing.T) {
	t.Parallel()
	f := newFeed(t, window.Resume{Watermark: window.NoTime})
	f.verdicts([]window.Verdict{f.empty(420), f.empty(299.999), f.empty(300)},
		window.Accepted, window.Late, window.Accepted)
	f.CloseMarker(f.offset(), ms(900))
	f.closed() // no window had a value
	if _, ok := f.OldestOpen(); ok || f.Records() != 0 || len(f.Open()) != 0 {
		t.Fatal("events without a value opened a window")
	}
}

// A record that was late before a restart is recognised as judged, and the window
// that it belongs to is not made again.
func TestK19Redelivered(t *testing.T) {
	t.Parallel()
	f := newFeed(t, window.Resume{Watermark: ms(300), Position: 3})
	f.verdicts([]window.Verdict{f.add(10, 999), f.add(310, 1), f.empty(311), f.add(10, 999), f.add(310, 2)},
		window.Redelivered, window.Replayed, window.Replayed, window.Late, window.Accepted)
	f.CloseMarker(f.offset(), ms(600))
	got := f.closed(segment(300, 1, 5, 2))
	if diff := cmp.Diff(network(1, 2), rows(t, got...)); diff != "" {
		t.Fatalf("rows mismatch (-want +got):\n%s", diff)
	}
}

// A partition that fell silent accepts old records as long as its own watermark
// has not passed their window.
func TestK15OwnWatermarkDecides(t *testing.T) {
	t.Parallel()
	f := newFeed(t, window.Resume{Watermark: window.NoTime})
	f.verdicts([]window.Verdict{f.add(250, 30)}, window.Accepted)
	if start, ok := f.OldestOpen(); !ok || start != ms(0) {
		t.Fatalf("OldestOpen = %d, %v, want %d", start, ok, ms(0))
	}
}

func TestK36DoubledHourIsTwoWindows(t *testing.T) {
	t.Parallel()
	p := newPartition(t, window.Config{}, window.Resume{Watermark: window.NoTime})
	for offset, at := range []int64{1792888200_000, 1792891800_000} {
		r := window.Record{Offset: int64(offset), Time: at, LogTime: at, HasValue: true}
		p.Add(&r)
	}
	p.CloseMarker(2, 1792900000_000)
	var starts []int64
	for _, s := range p.TakeClosed() {
		starts = append(starts, s.Start)
	}
	if diff := cmp.Diff([]int64{1792888200_000, 1792891800_000}, starts); diff != "" {
		t.Fatalf("windows mismatch (-want +got):\n%s", diff)
	}
}

// Windows far apart and out of order; some close together, by one record.
func TestWindowsInAnyOrder(t *testing.T) {
	t.Parallel()
	f := newFeed(t, window.Resume{Watermark: window.NoTime})
	// The log's clock is slow, so the watermark stays low.
	for _, at := range []float64{9000, 300, 0, 9000, 600, 301} {
		f.addAt(at, 0, int32(at))
	}
	want := []window.OpenWindow{
		{Start: ms(0), End: ms(300), FirstOffset: 2, Records: 1},
		{Start: ms(300), End: ms(600), FirstOffset: 1, Records: 2},
		{Start: ms(600), End: ms(900), FirstOffset: 4, Records: 1},
		{Start: ms(9000), End: ms(9300), FirstOffset: 0, Records: 2},
	}
	if diff := cmp.Diff(want, f.Open()); diff != "" {
		t.Fatalf("Open mismatch (-want +got):\n%s", diff)
	}
	f.Heartbeat(f.offset(), ms(720), ms(800))
	if got := f.Records(); got != 3 {
		t.Fatalf("Records = %d, want 3", got)
	}
	f.addAt(650, 0, 1)
	f.CloseMarker(f.offset(), ms(9300))
	f.closed(segment(0, 2, 6, 1), segment(300, 1, 6, 2), segment(600, 4, 8, 2), segment(9000, 0, 8, 2))
	if got := f.Records(); got != 0 {
		t.Fatalf("Records = %d, want 0", got)
	}
}

// A window that opens below the one used last, and one that closes while it is the
// one used last.
func TestHotWindowDoesNotOutliveItsClosing(t *testing.T) {
	t.Parallel()
	f := newFeed(t, window.Resume{Watermark: window.NoTime})
	f.add(10, 1)
	f.CloseMarker(f.offset(), ms(300))
	f.closed(segment(0, 0, 1, 1))
	f.verdicts([]window.Verdict{f.add(11, 2), f.add(300, 3)}, window.Late, window.Accepted)
	f.CloseMarker(f.offset(), ms(600))
	got := f.closed(segment(300, 3, 4, 1))
	if diff := cmp.Diff(network(3), rows(t, got...)); diff != "" {
		t.Fatalf("rows mismatch (-want +got):\n%s", diff)
	}
}

func TestM18ColdStart(t *testing.T) {
	t.Parallel()
	const skew = 300 * second
	tests := []struct {
		name   string
		stored int64
		log    float64
		want   float64
	}{
		{"nothing stored", window.NoTime, 10, 600},
		{"at the start of a window", window.NoTime, 0, 600},
		{"at the end of a window", window.NoTime, 299.999, 600},
		{"stored is lower", ms(20), 10, 600},
		{"stored is higher", ms(900), 10, 900},
		{"B is kept over a restart", ms(600), 100, 600},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFeed(t, window.Resume{Watermark: tt.stored, Position: 0})
			if got := f.ColdStart(ms(tt.log), skew); got != ms(tt.want) || f.Watermark() != got {
				t.Fatalf("ColdStart = %d, watermark %d, want %d", got, f.Watermark(), ms(tt.want))
			}
			f.verdicts([]window.Verdict{f.add(tt.want-0.001, 1), f.add(tt.want, 1)}, window.Late, window.Accepted)
		})
	}
}

func TestColdStartAfterARecord(t *testing.T) {
	t.Parallel()
	f := newFeed(t, window.Resume{Watermark: window.NoTime})
	f.add(0, 1)
	defer func() {
		if got, want := recover(), "window: a cold start with windows open"; got != want {
			t.Fatalf("panic = %v, want %q", got, want)
		}
	}()
	f.ColdStart(ms(0), 0)
}

// Times at the ends of int64 neither panic nor wrap round.
func TestExtremeTimes(t *testing.T) {
	t.Parallel()
	f := newFeed(t, window.Resume{Watermark: window.NoTime})
	for _, at := range []int64{math.MinInt64, math.MinInt64 + 1, -1 << 62, math.MaxInt64, 1 << 62} {
		r := window.Record{Offset: f.offset(), Time: at, LogTime: math.MinInt64, HasValue: true}
		if got := f.Add(&r); got != window.Accepted {
			t.Fatalf("Add(%d) = %v, want accepted", at, got)
		}
	}
	if got := f.Watermark(); got != window.NoTime {
		t.Fatalf("Watermark = %d, want NoTime", got)
	}
	f.Heartbeat(f.offset(), math.MaxInt64, math.MaxInt64)
	if got, want := f.Watermark(), int64(math.MaxInt64)-120*second; got != want {
		t.Fatalf("Watermark = %d, want %d", got, want)
	}
	f.CloseMarker(f.offset(), math.MaxInt64)
	if got := len(f.TakeClosed()); got != 2 || f.Records() != 0 {
		t.Fatalf("%d windows closed, %d records left, want 2 and 0", got, f.Records())
	}
	if got := f.ColdStart(math.MaxInt64, math.MaxInt64); got != math.MaxInt64 {
		t.Fatalf("ColdStart = %d, want the stored watermark", got)
	}
}

// Ten delays: the aggregate that every later part is checked with.
func TestTenDelays(t *testing.T) {
	t.Parallel()
	f := newFeed(t, window.Resume{Watermark: window.NoTime})
	for i, v := range []int32{300, 0, 60, 220, 90, 120, 200, 120, 150, 180} {
		f.add(float64(i), v)
	}
	f.add(420, 0)
	got := rows(t, f.closed(segment(0, 0, 10, 10))...)
	want := []window.Row{{
		Dimension: "network", ID: "nl",
		Summary: stats.Summary{Count: 10, Sum: 1440, Min: 0, Max: 300, P90: 220},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("rows mismatch (-want +got):\n%s", diff)
	}
	if got[0].Mean() != 144.0 {
		t.Fatalf("Mean = %v, want 144", got[0].Mean())
	}
}
