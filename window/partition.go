package window

import (
	"fmt"
	"hash/maphash"
	"math"
	"slices"
)

// What a partition keeps of closed windows for the next ones: enough for the
// steady state, and little enough that one peak is not held for ever.
const (
	spareWindows = 2
	spareBytes   = 16 << 20
	scratchBytes = 2 << 20
)

// Partition is the open windows of one partition. [NewPartition] makes one.
type Partition struct {
	size, lateness int64
	position       int64
	watermark      int64
	// bar is the time that must be exceeded to raise the watermark.
	bar int64

	open    []*windowLog // by start; a window is here as soon as it has a record
	hot     *windowLog   // the window of the last value, as long as it is open
	closed  []Segment
	records int64

	seed  maphash.Seed
	spare []*windowLog
	fold  folder
}

// windowLog is the log of one window.
type windowLog struct {
	start, end  int64
	firstOffset int64
	names       interner
	log         []entry
}

// entry is one record of an open window. Group and extra are numbers of the
// window's interner; extra 0 is no cell.
type entry struct {
	group uint32
	extra uint32
	value int32
}

// entryBytes is the size of an entry.
const entryBytes = 12

// NewPartition returns the windows of a partition that reads on from r, none of
// them open.
func NewPartition(cfg Config, r Resume) (*Partition, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("open windows: %w", err)
	}
	cfg = cfg.withDefaults()
	p := &Partition{
		size:     cfg.Size.Milliseconds(),
		lateness: cfg.Lateness.Milliseconds(),
		position: r.Position,
		seed:     maphash.MakeSeed(),
	}
	p.setWatermark(r.Watermark)
	return p, nil
}

// Add judges an event and, if it is accepted, puts its value into its window and
// lets it move the watermark. Nothing of r is kept.
func (p *Partition) Add(r *Record) Verdict {
	w := p.hot
	if w == nil || r.Time < w.start || r.Time >= w.end {
		start := Start(r.Time, p.size)
		if start+p.size <= p.watermark {
			if r.Offset < p.position {
				return Redelivered
			}
			return Late
		}
		if r.HasValue {
			w = p.window(start, r.Offset)
			p.hot = w
		}
	}
	if r.HasValue {
		w.log = append(w.log, w.names.entry(r))
		p.records++
	}
	p.observe(r.Offset, min(r.Time, r.LogTime))
	if r.Offset < p.position {
		return Replayed
	}
	return Accepted
}

// Heartbeat moves the watermark as an accepted event of that time would.
func (p *Partition) Heartbeat(offset, t, logTime int64) {
	p.observe(offset, min(t, logTime))
}

// CloseMarker raises the watermark to t itself, without lateness and whatever the
// log's clock says.
func (p *Partition) CloseMarker(offset, t int64) {
	if t > p.watermark {
		p.setWatermark(t)
		p.closeUpTo(offset)
	}
}

// ColdStart begins a partition of which it is not known what came before the first
// record read, which has the given log time. Every window that may have begun
// earlier counts as closed: the watermark rises to the end of the window that
// contains logTime + maxSkew, unless it is higher already. It returns the
// watermark. It must come before the first record.
func (p *Partition) ColdStart(logTime, maxSkew int64) int64 {
	check(len(p.open) == 0, "a cold start with windows open")
	b := Start(saturatingAdd(logTime, maxSkew), p.size) + p.size
	p.setWatermark(max(p.watermark, b))
	return p.watermark
}

// Watermark is the event time up to which windows are closed, or [NoTime].
func (p *Partition) Watermark() int64 { return p.watermark }

// Closed says whether the window of t is closed.
func (p *Partition) Closed(t int64) bool { return Start(t, p.size)+p.size <= p.watermark }

// Records is the number of records held in open windows.
func (p *Partition) Records() int64 { return p.records }

// Open describes the open windows that hold a record, by start. The caller owns
// the slice.
func (p *Partition) Open() []OpenWindow {
	out := make([]OpenWindow, len(p.open))
	for i, w := range p.open {
		out[i] = OpenWindow{Start: w.start, End: w.end, FirstOffset: w.firstOffset, Records: int64(len(w.log))}
	}
	return out
}

// OldestOpen is the start of the oldest open window that holds a record; ok is
// false if there is none.
func (p *Partition) OldestOpen() (start int64, ok bool) {
	if len(p.open) == 0 {
		return 0, false
	}
	return p.open[0].start, true
}

// TakeClosed returns the segments of the windows closed since the last call,
// oldest first. The caller owns them.
func (p *Partition) TakeClosed() []Segment {
	closed := p.closed
	p.closed = nil
	return closed
}

// observe lets the time of an accepted record or heartbeat move the watermark.
func (p *Partition) observe(offset, t int64) {
	if t > p.bar {
		p.setWatermark(t - p.lateness)
		p.closeUpTo(offset)
	}
}

func (p *Partition) setWatermark(t int64) {
	p.watermark = t
	p.bar = saturatingAdd(t, p.lateness)
}

// window returns the open window with that start and makes it if need be. There
// are only a few at a time, so a sorted slice serves.
func (p *Partition) window(start, offset int64) *windowLog {
	i, ok := slices.BinarySearchFunc(p.open, start, func(w *windowLog, start int64) int {
		switch {
		case w.start < start:
			return -1
		case w.start > start:
			return 1
		default:
			return 0
		}
	})
	if ok {
		return p.open[i]
	}
	var w *windowLog
	if n := len(p.spare); n > 0 {
		w = p.spare[n-1]
		p.spare = p.spare[:n-1]
	} else {
		w = new(windowLog)
		w.names.seed = p.seed
	}
	w.start, w.end, w.firstOffset = start, start+p.size, offset
	w.names.reset()
	p.open = slices.Insert(p.open, i, w)
	return w
}

// closeUpTo closes the windows that the watermark has passed; the record at offset
// moved it.
func (p *Partition) closeUpTo(offset int64) {
	n := 0
	for n < len(p.open) && p.open[n].end <= p.watermark {
		w := p.open[n]
		n++
		records := int64(len(w.log))
		var data []byte
		data, w.log = p.fold.encode(&w.names, w.log)
		p.closed = append(p.closed, Segment{
			Start: w.start, End: w.end,
			FirstOffset: w.firstOffset, ThroughOffset: offset,
			Records: records, Data: data,
		})
		p.records -= records
		if w == p.hot {
			p.hot = nil
		}
		if len(p.spare) < spareWindows && cap(w.log)*entryBytes+w.names.bytes() <= spareBytes {
			p.spare = append(p.spare, w)
		}
	}
	if n > 0 {
		p.open = slices.Delete(p.open, 0, n)
		p.fold.trim()
	}
}

// saturatingAdd adds a number that is not negative and stops at the largest int64.
func saturatingAdd(t, d int64) int64 {
	if t > math.MaxInt64-d {
		return math.MaxInt64
	}
	return t + d
}

// check panics if a rule that the caller must keep does not hold: the segments
// would no longer be a function of the log.
func check(ok bool, broken string) {
	if !ok {
		panic("window: " + broken)
	}
}
