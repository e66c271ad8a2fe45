package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/peil-stream/peil"
	"github.com/peil-stream/peil/internal/processor"
	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/stream"
)

// summary shows what an instance does: redrawn in place every second on a
// terminal, and as one line every ten seconds elsewhere.
type summary struct {
	out      io.Writer
	terminal bool
	style    style
	feed     string
	// polled is the time of the feed's newest poll, and next that of the one to
	// come; zero if there is none.
	polled, next func() time.Time
	// windows is how many final windows are shown at most.
	windows int

	meter meter
	// mu orders the picture and the lines of the log that are written above it.
	mu    sync.Mutex
	drawn drawing
}

const (
	redrawEvery = time.Second
	printEvery  = 10 * time.Second
	// rateOver is the time over which the rate is taken: a feed that is polled
	// every 30 s would otherwise look dead for 29 of them.
	rateOver = time.Minute
)

// run shows until ctx is done.
func (s *summary) run(ctx context.Context, i *peil.Instance) {
	tick := time.NewTicker(redrawEvery)
	defer tick.Stop()
	printed := time.Now()
	s.meter.add(printed, i.Status())
	for {
		select {
		case <-ctx.Done():
			if s.terminal {
				s.write(wrapOn)
			}
			return
		case now := <-tick.C:
			if ctx.Err() != nil {
				continue // the user has been told so below the picture
			}
			status := i.Status()
			s.meter.add(now, status)
			if !s.terminal && now.Sub(printed) < printEvery {
				continue
			}
			printed = now
			s.show(ctx, i, now, status)
		}
	}
}

func (s *summary) show(ctx context.Context, i *peil.Instance, now time.Time, status []processor.PartitionStatus) {
	f, ok := s.gather(ctx, i, now, status)
	if !ok {
		return
	}
	if !s.terminal {
		s.write(line(&f))
		return
	}
	width, height := s.size()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write(s.drawn.draw(&f, width, height, s.style))
}

// above is a writer of lines to the same terminal: they take the place of the
// picture, which is next drawn below them.
func (s *summary) above(w io.Writer) io.Writer { return aside{s, w} }

type aside struct {
	s *summary
	w io.Writer
}

// Write is called with whole lines.
func (a aside) Write(lines []byte) (int, error) {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	a.s.write(a.s.drawn.erase())
	return a.w.Write(lines)
}

// write shows a text. Nobody may be reading any more; the work goes on.
func (s *summary) write(text string) { _, _ = io.WriteString(s.out, text) }

// size is that of the terminal now, or 80 by 24 where it does not say.
func (s *summary) size() (width, height int) {
	if f, ok := s.out.(*os.File); ok {
		if w, h, err := term.GetSize(int(f.Fd())); err == nil && w > 0 && h > 0 {
			return w, h
		}
	}
	return 80, 24
}

func (s *summary) gather(
	ctx context.Context, i *peil.Instance, now time.Time, status []processor.PartitionStatus,
) (f figures, ok bool) {
	f = figures{feed: s.feed, watermark: sink.Infinity, reasons: i.DeadLetters(), addr: i.Addr(), pid: os.Getpid()}
	f.rate, f.rateOver = s.meter.rate()
	if at := s.polled(); !at.IsZero() {
		f.feedAge, f.feedSeen = now.Sub(at), true
	}
	if at := s.next(); !at.IsZero() {
		f.nextPoll, f.morePolls = at.Sub(now), true
	}
	starts := map[int64]bool{}
	for n := range status {
		p := &status[n]
		f.claimed = true
		f.held += p.Pending
		f.counts.Accepted += p.Counts.Accepted
		f.counts.Late += p.Counts.Late
		f.counts.Dead += p.Counts.Dead
		f.counts.Ignored += p.Counts.Ignored
		if p.Windowed {
			f.watermark = min(f.watermark, p.Watermark)
		}
		for _, w := range p.Open {
			starts[w.Start] = true
		}
	}
	f.open = len(starts)
	var err error
	f.final, err = i.NewestFinal(ctx, s.windows)
	return f, err == nil // the instance itself reports what is wrong with its tables
}

// meter tells how many records a second were judged of late. Its zero value is
// ready.
type meter struct {
	last     map[stream.Partition]int64
	total    int64
	readings []reading // oldest first; the first one is rateOver old or the beginning
}

type reading struct {
	at    time.Time
	total int64
}

// add takes the counts of the partitions at an instant. They are totals over all
// runs, so what a partition had when it was claimed is not of this run.
func (m *meter) add(now time.Time, status []processor.PartitionStatus) {
	if m.last == nil {
		m.last = map[stream.Partition]int64{}
	}
	for i := range status {
		p := &status[i]
		before, seen := m.last[p.Partition]
		n := p.Counts.Total()
		// Under the first epoch nothing was there before. A partition that is
		// claimed again goes on from its stored counts, which may be lower.
		if seen || p.Epoch == 1 {
			m.total += max(0, n-before)
		}
		m.last[p.Partition] = n
	}
	m.readings = append(m.readings, reading{now, m.total})
	for len(m.readings) > 2 && now.Sub(m.readings[1].at) > rateOver-redrawEvery/2 { // a tick may come early
		m.readings = m.readings[1:]
	}
}

// rate gives records a second, and over which time.
func (m *meter) rate() (perSecond float64, over time.Duration) {
	if len(m.readings) == 0 {
		return 0, 0
	}
	first, last := m.readings[0], m.readings[len(m.readings)-1]
	if over = last.at.Sub(first.at); over <= 0 {
		return 0, 0
	}
	return float64(last.total-first.total) / over.Seconds(), over
}

// drawing is a picture on a terminal, redrawn in place.
type drawing struct {
	lines         int
	width, height int
}

// Control sequences of the terminal.
const (
	wrapOff    = "\x1b[?7l"
	wrapOn     = "\x1b[?7h"
	clearAll   = "\x1b[H\x1b[2J"
	clearBelow = "\x1b[J"
)

// draw gives what to write to replace the last picture. A line never wraps, so
// that lines are rows. When the terminal has another size than before nobody
// knows where it has put the old rows, and the screen is cleared.
func (d *drawing) draw(f *figures, width, height int, s style) string {
	rows := picture(f, width, height-1) // the cursor is on the line below
	var b strings.Builder
	b.WriteString(wrapOff)
	switch {
	case d.lines == 0:
	case d.width != width || d.height != height:
		b.WriteString(clearAll)
	default:
		b.WriteString(d.erase())
	}
	for _, r := range rows {
		if r.bold {
			r.text = s.bold(r.text)
		}
		b.WriteString(r.text + "\n")
	}
	b.WriteString(wrapOn)
	d.lines, d.width, d.height = len(rows), width, height
	return b.String()
}

// erase gives what to write to remove the picture. The cursor is then where it
// began.
func (d *drawing) erase() string {
	if d.lines == 0 {
		return ""
	}
	lines := d.lines
	d.lines = 0
	return fmt.Sprintf("\x1b[%dA\r%s", lines, clearBelow)
}
