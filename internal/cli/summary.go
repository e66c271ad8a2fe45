package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/peil-stream/peil"
	"github.com/peil-stream/peil/internal/sink"
)

// summary shows what an instance does: redrawn in place every second on a
// terminal, and as one line every ten seconds elsewhere.
type summary struct {
	out      io.Writer
	terminal bool
	style    style
	feed     string
	// polled is the time of the feed's newest poll, or zero.
	polled func() time.Time
	// windows is how many final windows are shown.
	windows int

	lines  int // drawn last
	judged int64
	at     time.Time
}

const (
	redrawEvery = time.Second
	printEvery  = 10 * time.Second
)

// run shows until ctx is done, and once more at the end.
func (s *summary) run(ctx context.Context, i *peil.Instance) {
	every := printEvery
	if s.terminal {
		every = redrawEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	s.at = time.Now()
	s.judged = judged(i)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.show(ctx, i)
		}
	}
}

func (s *summary) show(ctx context.Context, i *peil.Instance) {
	f, ok := s.gather(ctx, i)
	if !ok {
		return
	}
	text := s.line(f)
	if s.terminal {
		text = s.screen(f)
	}
	// Nobody may be reading any more; the work goes on.
	_, _ = io.WriteString(s.out, text)
}

// figures are what is shown.
type figures struct {
	rate        float64
	feedAge     time.Duration
	watermark   int64
	open        int
	uncommitted int64
	final       []sink.Aggregate
	dead        []peil.Count
	addr        string
}

func (s *summary) gather(ctx context.Context, i *peil.Instance) (f figures, ok bool) {
	now := time.Now()
	n := judged(i)
	if d := now.Sub(s.at).Seconds(); d > 0 {
		f.rate = float64(n-s.judged) / d
	}
	s.at, s.judged = now, n
	if at := s.polled(); !at.IsZero() {
		f.feedAge = now.Sub(at)
	}
	f.watermark = sink.Infinity
	starts := map[int64]bool{}
	for _, p := range i.Status() {
		f.uncommitted += p.Pending
		if p.Windowed {
			f.watermark = min(f.watermark, p.Watermark)
		}
		for _, w := range p.Open {
			starts[w.Start] = true
		}
	}
	f.open = len(starts)
	var err error
	if f.final, err = i.NewestFinal(ctx, s.windows); err != nil {
		return f, false // the instance itself reports what is wrong with its tables
	}
	f.dead = i.DeadLetters()
	f.addr = i.Addr()
	return f, true
}

func judged(i *peil.Instance) int64 {
	var n int64
	for _, p := range i.Status() {
		n += p.Counts.Total()
	}
	return n
}

// line is one line for a log.
func (s *summary) line(f figures) string {
	newest := "no final window yet"
	if len(f.final) > 0 {
		w := f.final[0]
		newest = fmt.Sprintf("newest final window %s with %d events, mean %.1f s, p90 %.0f s", span(w.Start, w.End), w.Count, w.Mean, w.P90)
	}
	return fmt.Sprintf("%s: %.0f events/s, feed %s, watermark %s, %d open windows, %d uncommitted messages, %s, dead letters %s\n",
		s.feed, f.rate, age(f.feedAge), instant(f.watermark), f.open, f.uncommitted, newest, deadText(f.dead, "none"))
}

// screen is the picture that is redrawn in place.
func (s *summary) screen(f figures) string {
	var b strings.Builder
	if s.lines > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\x1b[J", s.lines) // up over the last picture, and clear below
	}
	head := b.Len()
	fmt.Fprintf(&b, "%s   %.0f events/s   feed %s   watermark %s   %d open windows   %d uncommitted messages\n",
		s.style.bold(s.feed), f.rate, age(f.feedAge), instant(f.watermark), f.open, f.uncommitted)
	fmt.Fprintf(&b, "%s\n", s.style.bold(fmt.Sprintf("%-15s %9s %8s %7s %7s %7s", "window (UTC)", "events", "mean s", "p90 s", "max s", "min s")))
	if len(f.final) == 0 {
		fmt.Fprintln(&b, "none is final yet")
	}
	for _, w := range f.final {
		fmt.Fprintf(&b, "%-15s %9d %8.1f %7.0f %7d %7d\n", span(w.Start, w.End), w.Count, w.Mean, w.P90, w.Max, w.Min)
	}
	fmt.Fprintf(&b, "dead letters    %s\n", deadText(f.dead, "none"))
	if f.addr != "" {
		fmt.Fprintf(&b, "API             http://%s/api/v1/windows   metrics http://%s/metrics\n", f.addr, f.addr)
	}
	fmt.Fprintln(&b, "stop with Ctrl-C, or kill -9 it and start again; peil verify proves the rows")
	s.lines = strings.Count(b.String()[head:], "\n")
	return b.String()
}

func deadText(dead []peil.Count, none string) string {
	if len(dead) == 0 {
		return none
	}
	slices.SortFunc(dead, func(a, b peil.Count) int { return int(b.N - a.N) })
	parts := make([]string, len(dead))
	for i, d := range dead {
		parts[i] = fmt.Sprintf("%d %s", d.N, d.Name)
	}
	return strings.Join(parts, ", ")
}

func age(d time.Duration) string {
	if d == 0 {
		return "not seen yet"
	}
	return d.Round(time.Second).String() + " old"
}

func instant(ms int64) string {
	if ms == sink.NoTime || ms == sink.Infinity {
		return "not known yet"
	}
	return time.UnixMilli(ms).UTC().Format("15:04:05")
}

func span(start, end int64) string {
	const layout = "15:04"
	return time.UnixMilli(start).UTC().Format(layout) + " – " + time.UnixMilli(end).UTC().Format(layout)
}
