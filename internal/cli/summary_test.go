package cli

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/peil-stream/peil"
	"github.com/peil-stream/peil/internal/processor"
	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/stream"
)

// busy are figures with long numbers everywhere.
func busy() figures {
	start := time.Date(2026, 11, 30, 12, 30, 0, 0, time.UTC).UnixMilli()
	f := figures{
		feed: "city7", rate: 1234.4, rateOver: time.Minute, feedAge: 12 * time.Second, feedSeen: true,
		nextPoll: 17500 * time.Millisecond, morePolls: true, watermark: start + 667_000, open: 1, held: 1_008_120,
		counts: sink.Counts{Accepted: 2_000_000, Late: 1204, Dead: 84, Ignored: 3}, claimed: true,
		reasons: []peil.Count{
			{Name: "bad_json", N: 1},
			{Name: "bad_value", N: 2},
			{Name: "future_event", N: 1009},
			{Name: "implausible_time", N: 4},
			{Name: "missing_field", N: 17},
		},
		addr: "127.0.0.1:8080", pid: 1234567,
	}
	for n := range int64(8) {
		f.final = append(f.final, sink.Aggregate{
			Start: start - n*300_000, End: start - (n-1)*300_000, Count: 11_204, Mean: -1074.06, P90: 231, Max: 86_399, Min: -43_200,
		})
	}
	return f
}

func texts(rows []row) string {
	var b strings.Builder
	for _, r := range rows {
		b.WriteString(r.text + "\n")
	}
	return b.String()
}

func TestPicture(t *testing.T) {
	t.Parallel()
	f := busy()
	f.final = f.final[:2]
	for width, want := range map[int]string{
		80: `city7   1,234 events/s over the last 60 s   feed 12 s old   next poll in 18 s
watermark 12:41:07 UTC   1 open window   1,008,120 uncommitted messages

window (UTC)      events   mean s  p90 s   max s   min s
12:30 – 12:35     11,204 -1,074.1    231  86,399 -43,200
12:25 – 12:30     11,204 -1,074.1    231  86,399 -43,200

late          1,204 of 2,001,291 records in all runs, counted but not added
dead letters  84 in all runs; this run: 1,009 future_event, 17 missing_field,
              4 implausible_time, 2 bad_value, 1 bad_json
API           http://127.0.0.1:8080/api/v1/windows
metrics       http://127.0.0.1:8080/metrics
stop with Ctrl-C, or kill -9 1234567 and start again; peil verify proves the
rows
`,
		60: `city7   1,234 events/s over the last 60 s   feed 12 s old
next poll in 18 s
watermark 12:41:07 UTC   1 open window
1,008,120 uncommitted messages

window (UTC)      events   mean s  p90 s   max s   min s
12:30 – 12:35     11,204 -1,074.1    231  86,399 -43,200
12:25 – 12:30     11,204 -1,074.1    231  86,399 -43,200

late          1,204 of 2,001,291 records in all runs,
              counted but not added
dead letters  84 in all runs; this run: 1,009 future_event,
              17 missing_field, 4 implausible_time,
              2 bad_value, 1 bad_json
API           http://127.0.0.1:8080/api/v1/windows
metrics       http://127.0.0.1:8080/metrics
stop with Ctrl-C, or kill -9 1234567 and start again; peil
verify proves the rows
`,
	} {
		if diff := cmp.Diff(want, texts(picture(&f, width, 24))); diff != "" {
			t.Errorf("at %d columns (-want +got):\n%s", width, diff)
		}
	}
}

// TestPictureFits holds that nothing is wider or higher than the terminal, down
// to one that is too small for anything.
func TestPictureFits(t *testing.T) {
	t.Parallel()
	f := busy()
	for _, width := range []int{200, 100, 80, 60, 40, 20, 1, 0} {
		for _, height := range []int{50, 24, 12, 5, 1, 0, -1} {
			rows := picture(&f, width, height)
			if len(rows) > max(height, 0) {
				t.Errorf("%d rows at %d by %d", len(rows), width, height)
			}
			for _, r := range rows {
				if columns(r.text) > width {
					t.Errorf("%d columns at %d by %d: %q", columns(r.text), width, height, r.text)
				}
			}
			if width >= 60 && height >= 50 && strings.Contains(texts(rows), "…") {
				t.Errorf("something is cut at %d by %d:\n%s", width, height, texts(rows))
			}
			if width >= 60 && height >= 24 && !strings.Contains(texts(rows), "the rows") && !strings.Contains(texts(rows), "proves the\nrows") {
				t.Errorf("the last line is missing at %d by %d:\n%s", width, height, texts(rows))
			}
		}
	}
}

func TestPictureAtTheBeginning(t *testing.T) {
	t.Parallel()
	f := figures{feed: "city", watermark: sink.Infinity, morePolls: true, pid: 42}
	want := `city   0 events/s over the last 1 s   feed not seen yet   catching up
watermark not known yet   0 open windows   0 uncommitted messages

window (UTC)      events   mean s  p90 s   max s   min s
none is final yet

late          not known yet
dead letters  not known yet
stop with Ctrl-C, or kill -9 42 and start again; peil verify proves the rows
`
	if diff := cmp.Diff(want, texts(picture(&f, 80, 24))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	f.claimed, f.morePolls = true, false
	f.counts = sink.Counts{Accepted: 1, Dead: 84}
	got := texts(picture(&f, 80, 24))
	for _, want := range []string{
		"no more polls\n", "late          0 of 85 records in all runs, counted but not added\n", "dead letters  84 in all runs\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("after a restart without %q:\n%s", want, got)
		}
	}
}

// TestReadmeShowsThePicture holds that the README shows what the program draws,
// row by row but for the numbers.
func TestReadmeShowsThePicture(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var shown string
	for block := range strings.SplitSeq(string(text), "```\n") {
		if strings.Contains(block, windowHead()) {
			shown = block
		}
	}
	f := busy()
	f.feed, f.final = "city", f.final[:3]
	f.open = 2
	f.reasons = []peil.Count{
		{Name: "future_event", N: 19},
		{Name: "bad_value", N: 18},
		{Name: "missing_field", N: 17},
		{Name: "bad_json", N: 16},
		{Name: "bad_position", N: 15},
		{Name: "bad_id", N: 7},
		{Name: "implausible_time", N: 5},
	}
	form := func(text string) string {
		text = regexp.MustCompile(`-?\d[\d,.:]*`).ReplaceAllString(text, "N")
		text = regexp.MustCompile(`(N [a-z_]+,?\s+)*N [a-z_]+\nAPI`).ReplaceAllString(text, "reasons\nAPI")
		text = strings.ReplaceAll(text, "open windows", "open window")
		return strings.Join(strings.Fields(text), " ")
	}
	if diff := cmp.Diff(form(texts(picture(&f, 80, 24))), form(shown)); diff != "" {
		t.Errorf("the README shows something else (-program +README):\n%s", diff)
	}
}

func TestLine(t *testing.T) {
	t.Parallel()
	f := busy()
	f.rate = 2.34
	want := "city7: 2.3 events/s over the last 60 s, feed 12s old, watermark 12:41:07 UTC, 1 open window, " +
		"1,008,120 uncommitted messages, newest final window 12:30 – 12:35 with 11,204 events, mean -1,074.1 s, p90 231 s, " +
		"late 1,204 of 2,001,291 records in all runs, counted but not added, dead letters 84 in all runs; this run: " +
		"1,009 future_event, 17 missing_field, 4 implausible_time, 2 bad_value, 1 bad_json\n"
	want = strings.Replace(want, "feed 12s old", "feed 12 s old", 1)
	if diff := cmp.Diff(want, line(&f)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// screen is a terminal that knows what a drawing writes.
type screen struct {
	width, row int
	rows       []string
	wraps      bool
}

func (s *screen) write(t *testing.T, text string) {
	t.Helper()
	for text != "" {
		var up int
		switch {
		case strings.HasPrefix(text, wrapOff):
			s.wraps, text = false, text[len(wrapOff):]
		case strings.HasPrefix(text, wrapOn):
			s.wraps, text = true, text[len(wrapOn):]
		case strings.HasPrefix(text, clearAll):
			s.rows, s.row, text = nil, 0, text[len(clearAll):]
		case strings.HasPrefix(text, clearBelow):
			s.rows, text = s.rows[:s.row], text[len(clearBelow):]
		case text[0] == '\r':
			text = text[1:]
		case text[0] == '\x1b':
			if _, err := fmt.Sscanf(text, "\x1b[%dA", &up); err != nil {
				t.Fatalf("unknown control sequence in %q", text)
			}
			if s.row -= up; s.row < 0 {
				t.Fatalf("up %d rows leaves the picture", up)
			}
			text = text[strings.Index(text, "A")+1:]
		default:
			line, rest, ok := strings.Cut(text, "\n")
			if !ok || columns(line) > s.width || s.wraps {
				t.Fatalf("line %q: ended %v, wraps %v, width %d", line, ok, s.wraps, s.width)
			}
			s.rows, text = append(s.rows, line), rest
			s.row++
		}
	}
}

// TestDrawingReplacesItself redraws pictures of other lengths, also on a terminal
// that changes its size.
func TestDrawingReplacesItself(t *testing.T) {
	t.Parallel()
	var d drawing
	s := screen{}
	f := busy()
	for n, size := range [][2]int{{80, 24}, {80, 24}, {60, 24}, {60, 24}, {100, 24}, {100, 10}, {200, 50}, {200, 50}} {
		f.final = busy().final[:n]
		f.reasons = busy().reasons[:n%5]
		s.width = size[0]
		s.write(t, d.draw(&f, size[0], size[1], style{}))
		want := texts(picture(&f, size[0], size[1]-1))
		if diff := cmp.Diff(want, strings.Join(s.rows, "\n")+"\n"); diff != "" {
			t.Errorf("drawing %d at %v (-want +got):\n%s", n, size, diff)
		}
		if !s.wraps {
			t.Errorf("drawing %d leaves the terminal without wrapping", n)
		}
	}
}

// TestLogLinesStandAboveThePicture writes to the log between two drawings.
func TestLogLinesStandAboveThePicture(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	s := &summary{out: &out, terminal: true}
	f := busy()
	log := s.above(&out)
	for range 2 {
		s.write(s.drawn.draw(&f, 80, 24, style{}))
		for _, line := range []string{"one\n", "two\n"} {
			if n, err := log.Write([]byte(line)); n != len(line) || err != nil {
				t.Fatal(n, err)
			}
		}
	}
	s.write(s.drawn.draw(&f, 80, 24, style{}))
	terminal := screen{width: 80, wraps: false}
	terminal.write(t, strings.ReplaceAll(out.String(), wrapOn, ""))
	want := "one\ntwo\none\ntwo\n" + texts(picture(&f, 80, 23))
	if diff := cmp.Diff(want, strings.Join(terminal.rows, "\n")+"\n"); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMeter(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_800_000_000, 0)
	status := func(index int32, epoch, n int64) processor.PartitionStatus {
		return processor.PartitionStatus{
			Partition: stream.Partition{Topic: "t", Index: index}, Epoch: epoch, Counts: sink.Counts{Accepted: n},
		}
	}
	check := func(m *meter, rate float64, over time.Duration) {
		t.Helper()
		if got, d := m.rate(); got != rate || d != over {
			t.Errorf("rate %v over %v, want %v over %v", got, d, rate, over)
		}
	}
	var m meter
	check(&m, 0, 0)
	m.add(at, nil)
	check(&m, 0, 0)
	// The first claim of all has nothing behind it; a later one starts with the
	// counts of earlier runs.
	m.add(at.Add(time.Second), []processor.PartitionStatus{status(0, 1, 100), status(1, 5, 1_000_000)})
	check(&m, 100, time.Second)
	m.add(at.Add(2*time.Second), []processor.PartitionStatus{status(0, 1, 200), status(1, 5, 1_000_200)})
	check(&m, 200, 2*time.Second)
	// Claimed again, with the counts that were stored.
	m.add(at.Add(4*time.Second), []processor.PartitionStatus{status(0, 1, 200), status(1, 6, 1_000_100)})
	check(&m, 100, 4*time.Second)
	// A minute later only the last minute counts, and little is kept.
	for n := range 90 {
		m.add(at.Add(time.Duration(5+n)*time.Second), []processor.PartitionStatus{status(1, 6, 1_000_100+int64(n)*60)})
	}
	check(&m, 60, time.Minute)
	if len(m.readings) > 62 {
		t.Errorf("%d readings are kept", len(m.readings))
	}
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		0: "0", 7: "7", 999: "999", 1000: "1,000", -1000: "-1,000", -999: "-999", 1234567: "1,234,567", 100_000: "100,000",
	} {
		if got := grouped(n); got != want {
			t.Errorf("grouped(%d) = %q", n, got)
		}
	}
	for x, want := range map[float64]string{0: "0.0", -0.01: "0.0", -0.5: "-0.5", 1234.56: "1,234.6", -1234.56: "-1,234.6"} {
		if got := groupedTenth(x); got != want {
			t.Errorf("groupedTenth(%v) = %q", x, got)
		}
	}
	if plural(1, "open window") != "1 open window" || plural(0, "open window") != "0 open windows" || plural(1200, "event") != "1,200 events" {
		t.Error("plural forms")
	}
}

func TestCityFeed(t *testing.T) {
	t.Parallel()
	if cityFeed(1) != "city" || cityFeed(7) != "city7" || cityFeed(0) != "city0" {
		t.Error("each city has a feed of its own")
	}
}

// TestCitySourceTellsTheNextPoll holds the time of the poll to come.
func TestCitySourceTellsTheNextPoll(t *testing.T) {
	t.Parallel()
	from := time.Unix(1_800_000_000, 0)
	s := &citySource{}
	s.options.From, s.options.Poll, s.options.Polls = from, cityPoll, 2
	if !s.newest().IsZero() || !s.next().Equal(from) {
		t.Errorf("before the first poll: %v, %v", s.newest(), s.next())
	}
	s.polled.Store(from.UnixMilli())
	if !s.newest().Equal(from) || !s.next().Equal(from.Add(cityPoll)) {
		t.Errorf("after the first poll: %v, %v", s.newest(), s.next())
	}
	s.polled.Store(from.Add(cityPoll).UnixMilli())
	if !s.next().IsZero() {
		t.Errorf("after the last poll: %v", s.next())
	}
}
