package cli

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/peil-stream/peil"
	"github.com/peil-stream/peil/internal/sink"
)

// figures are what the summary shows, as of one moment.
type figures struct {
	feed string
	// rate is judged records a second over rateOver.
	rate     float64
	rateOver time.Duration
	// feedAge is the age of the newest poll, and nextPoll the time until the next
	// one: 0 while the feed catches up with the clock. Unknown where the flag
	// beside it is false.
	feedAge   time.Duration
	feedSeen  bool
	nextPoll  time.Duration
	morePolls bool
	watermark int64 // Unix milliseconds, sink.NoTime or sink.Infinity
	open      int
	held      int64 // records read but not committed
	final     []sink.Aggregate
	// counts are those of all runs over the same tables, once claimed says that
	// they are known.
	counts  sink.Counts
	claimed bool
	// reasons are those of the dead letters of this run.
	reasons []peil.Count
	addr    string
	pid     int
}

// row is a line of the picture.
type row struct {
	text string
	bold bool
}

// windowRow is a window, 56 columns wide.
const windowRow = "%-13s %10s %8s %6s %7s %7s"

// picture draws the figures in at most height lines of at most width columns.
// Where not all fits, older windows are left out first. Nothing in it depends on
// the terminal or the clock.
func picture(f *figures, width, height int) []row {
	head := slices.Concat(
		flow(width, "", "   ", f.feed, f.rateText(), f.feedText(), f.pollText()),
		flow(width, "", "   ", "watermark "+instant(f.watermark), plural(int64(f.open), "open window"), plural(f.held, "uncommitted message")),
		[]row{{}, {text: windowHead(), bold: true}},
	)
	foot := slices.Concat(
		[]row{{}},
		flow(width, "late          ", ", ", f.lateText()...),
		flow(width, "dead letters  ", ", ", f.deadText()...),
	)
	if f.addr != "" {
		foot = append(foot, flow(width, "API           ", " ", "http://"+f.addr+"/api/v1/windows")...)
		foot = append(foot, flow(width, "metrics       ", " ", "http://"+f.addr+"/metrics")...)
	}
	foot = append(foot, flow(width, "", " ", strings.Fields(f.farewell())...)...)

	final := f.final[:max(0, min(len(f.final), height-len(head)-len(foot)))]
	rows := head
	if len(f.final) == 0 {
		rows = append(rows, row{text: "none is final yet"})
	}
	for i := range final {
		w := &final[i]
		rows = append(rows, row{text: fmt.Sprintf(windowRow, span(w.Start, w.End), grouped(w.Count), groupedTenth(w.Mean),
			grouped(int64(math.Round(w.P90))), grouped(int64(w.Max)), grouped(int64(w.Min)))})
	}
	rows = append(rows, foot...)
	rows = rows[:min(len(rows), max(height, 0))]
	for i := range rows {
		rows[i].text = cut(rows[i].text, width)
	}
	return rows
}

// windowHead names the columns of windowRow.
func windowHead() string {
	return fmt.Sprintf(windowRow, "window (UTC)", "events", "mean s", "p90 s", "max s", "min s")
}

// line is the same on one line, for a log.
func line(f *figures) string {
	newest := "no final window yet"
	if len(f.final) > 0 {
		w := f.final[0]
		newest = fmt.Sprintf("newest final window %s with %s, mean %s s, p90 %s s",
			span(w.Start, w.End), plural(w.Count, "event"), groupedTenth(w.Mean), grouped(int64(math.Round(w.P90))))
	}
	return fmt.Sprintf("%s: %s, %s, watermark %s, %s, %s, %s, late %s, dead letters %s\n",
		f.feed, f.rateText(), f.feedText(), instant(f.watermark), plural(int64(f.open), "open window"),
		plural(f.held, "uncommitted message"), newest, strings.Join(f.lateText(), ", "), strings.Join(f.deadText(), ", "))
}

func (f *figures) rateText() string {
	rate := grouped(int64(math.Round(f.rate)))
	if f.rate > 0 && f.rate < 10 {
		rate = strconv.FormatFloat(f.rate, 'f', 1, 64)
	}
	return fmt.Sprintf("%s events/s over the last %d s", rate, max(1, int(f.rateOver.Round(time.Second)/time.Second)))
}

func (f *figures) feedText() string {
	if !f.feedSeen {
		return "feed not seen yet"
	}
	return "feed " + ageOf(f.feedAge) + " old"
}

func (f *figures) pollText() string {
	switch {
	case !f.morePolls:
		return "no more polls"
	case f.nextPoll <= 0:
		return "catching up"
	default:
		return fmt.Sprintf("next poll in %d s", int(math.Ceil(f.nextPoll.Seconds())))
	}
}

func (f *figures) lateText() []string {
	if !f.claimed {
		return []string{"not known yet"}
	}
	return []string{
		fmt.Sprintf("%s of %s in all runs", grouped(f.counts.Late), plural(f.counts.Total(), "record")),
		"counted but not added",
	}
}

// deadText gives the total over all runs, and the reasons of this run, the most
// frequent first.
func (f *figures) deadText() []string {
	if !f.claimed {
		return []string{"not known yet"}
	}
	parts := []string{grouped(f.counts.Dead) + " in all runs"}
	reasons := slices.SortedFunc(slices.Values(f.reasons), func(a, b peil.Count) int { return int(b.N - a.N) })
	for i, d := range reasons {
		text := grouped(d.N) + " " + d.Name
		if i == 0 {
			parts[0] += "; this run: " + text
			continue
		}
		parts = append(parts, text)
	}
	return parts
}

func (f *figures) farewell() string {
	return fmt.Sprintf("stop with Ctrl-C, or kill -9 %d and start again; peil verify proves the rows", f.pid)
}

// flow puts parts behind a label, with a separator between them, and begins a new
// line under the first part where the next one does not fit.
func flow(width int, label, separator string, parts ...string) []row {
	var rows []row
	text, empty := label, true
	for i, part := range parts {
		last := i == len(parts)-1
		room := width
		if !last {
			room -= columns(strings.TrimRight(separator, " "))
		}
		switch {
		case empty:
			text += part
		case columns(text)+columns(separator)+columns(part) <= room:
			text += separator + part
		default:
			rows = append(rows, row{text: text + strings.TrimRight(separator, " ")})
			text = strings.Repeat(" ", columns(label)) + part
		}
		empty = false
	}
	return append(rows, row{text: text})
}

// columns is the width of a text of plain characters.
func columns(text string) int { return utf8.RuneCountInString(text) }

// cut shortens a text to a width.
func cut(text string, width int) string {
	if columns(text) <= width {
		return text
	}
	if width < 1 {
		return ""
	}
	return string([]rune(text)[:width-1]) + "…"
}

// plural gives 1 open window, 2 open windows.
func plural(n int64, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return grouped(n) + " " + thing
}

// grouped gives 1,234,567.
func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// groupedTenth gives 1,234.5.
func groupedTenth(x float64) string {
	text := strconv.FormatFloat(math.Abs(x), 'f', 1, 64)
	whole, tenth, _ := strings.Cut(text, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return strconv.FormatFloat(x, 'f', 1, 64) // far beyond any delay, or no number
	}
	sign := ""
	if x < 0 && text != "0.0" {
		sign = "-"
	}
	return sign + grouped(n) + "." + tenth
}

func instant(ms int64) string {
	if ms == sink.NoTime || ms == sink.Infinity {
		return "not known yet"
	}
	return time.UnixMilli(ms).UTC().Format("15:04:05") + " UTC"
}

func span(start, end int64) string {
	layout := "15:04"
	if start%60_000 != 0 || end%60_000 != 0 {
		layout = "15:04:05"
	}
	return time.UnixMilli(start).UTC().Format(layout) + " – " + time.UnixMilli(end).UTC().Format(layout)
}

// ageOf gives 12 s below two minutes, then 5m30s.
func ageOf(d time.Duration) string {
	if d = d.Round(time.Second); d < 2*time.Minute {
		return strconv.Itoa(int(d/time.Second)) + " s"
	}
	return d.String()
}
