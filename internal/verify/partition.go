package verify

import (
	"context"
	"math"
	"regexp"
	"time"

	"github.com/peil-stream/peil/event"
	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/stream"
)

// stillOpen is the through offset of a window that its partition has not closed.
const stillOpen int64 = -1

// progressEvery is how many records lie between two looks at ctx and calls of
// Progress.
const progressEvery = 4_096

// partition is one partition: what is stored of it, and what the log says.
type partition struct {
	id     stream.Partition
	row    sink.Offset
	hasRow bool
	// foreign: the row belongs to an earlier topic of this name; it says nothing
	// about this log.
	foreign bool
	// judged: there is a stored position up to which the partition is compared.
	judged bool

	bounds   stream.Bounds
	from, to int64 // what is read: from <= offset < to
	// cold: reading begins where it is not known what came before.
	cold bool
	// known: the processor itself began at from, with the watermark coldMark as
	// its incident says; otherwise the log has been trimmed since.
	known    bool
	coldMark int64

	// What the log says.
	watermark int64 // as the records before it make it
	raised    int64 // the same by records alone, without the cold start
	counts    sink.Counts
	windows   map[int64]*share
	open      map[int64]*share
	// begins is B: windows that end at or before it may have begun before from.
	begins int64
	// firstTime is the log timestamp of the first record read, for a cold start.
	firstTime int64
}

// share is what one partition puts into one window.
type share struct {
	first, through int64
	records        int64
	cells          map[cell]*delays
}

// delays are the values of one cell.
type delays struct {
	operator string // the smallest, or empty
	values   []int32
}

// begin decides where the reading of a partition begins and ends.
func (v *verifier) begin(t *topic, p *partition, bounds stream.Bounds) {
	p.bounds = bounds
	p.watermark, p.raised, p.coldMark, p.begins = sink.NoTime, sink.NoTime, sink.NoTime, sink.NoTime
	p.firstTime = sink.NoTime
	p.windows, p.open = map[int64]*share{}, map[int64]*share{}
	switch {
	case p.judged:
		p.to = min(p.row.Point.Position, bounds.End)
	case t.windowed && !t.processed():
		p.to = bounds.End // only to see whether there would be anything to store
	}
	in, ok := v.tables.coldStarts[p.id]
	switch {
	case ok && p.judged && in.FromOffset > 0 && in.FromOffset >= bounds.Start && in.FromOffset <= p.row.Point.Position:
		p.cold, p.known = true, true
		p.from = in.FromOffset
		p.coldMark = lastInstant(in.Detail)
	case v.untouched(p):
		p.cold, p.known = true, true
		p.from = p.row.Point.Position
	case bounds.Start > 0:
		p.cold = true
		p.from = bounds.Start
	}
	p.to = max(p.to, p.from)
	if p.cold && t.windowed {
		p.begins = math.MaxInt64 // until a record says more
	}
}

// untouched says whether the processor has chosen to begin at the stored position
// and has read nothing since, as on a quiet partition of which it only wanted the
// newest records. Its incident comes with the first record.
func (v *verifier) untouched(p *partition) bool {
	if !p.judged || p.row.Watermark != sink.NoTime || p.row.Counts != (sink.Counts{}) || p.row.Point.Position == 0 {
		return false
	}
	for key := range v.tables.segments[p.id.Topic] {
		if key.partition == p.id.Index {
			return false
		}
	}
	return true
}

var instantPattern = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`)

// lastInstant is the last instant named in a text, or NoTime.
func lastInstant(s string) int64 {
	found := instantPattern.FindAllString(s, -1)
	if len(found) == 0 {
		return sink.NoTime
	}
	t, err := time.Parse(time.RFC3339, found[len(found)-1])
	if err != nil {
		return sink.NoTime
	}
	return t.UnixMilli()
}

// trimmed says that the log has lost records that the processor had seen.
func (p *partition) trimmed() bool { return p.cold && !p.known }

// reader goes through the records of one partition.
type reader struct {
	*verifier
	p        *partition
	windowed bool
	decoder  event.Decoder
	arrival  event.Prediction
	position event.Position
	marker   event.Marker
}

// replay goes through a partition's records in offset order.
func (v *verifier) replay(ctx context.Context, t *topic, p *partition) error {
	if p.from >= p.to {
		return nil
	}
	r := &reader{verifier: v, p: p, windowed: t.windowed}
	told, n := p.from, 0
	for rec, err := range v.opts.Reader.Read(ctx, p.id, p.from, p.to) {
		if err != nil {
			return err
		}
		v.report.Records++
		r.record(&rec)
		if n++; n%progressEvery == 0 {
			if err := ctx.Err(); err != nil {
				return context.Cause(ctx)
			}
			v.progress(rec.Offset + 1 - told)
			told = rec.Offset + 1
		}
	}
	v.progress(p.to - told)
	return nil
}

// record judges one record: R7 what it is, R8 its clock, R5 whether it is late,
// R1 how it moves the watermark.
func (r *reader) record(rec *stream.Record) {
	r.coldStart(rec)
	if rec.Value == nil {
		r.p.counts.Ignored++
		return
	}
	if kind, marked := rec.Header(event.MarkerHeader); marked {
		r.mark(rec, string(kind))
		return
	}
	if !r.windowed {
		r.vehicle(rec)
		return
	}
	a := &r.arrival
	if r.decoder.Prediction(rec.Value, a) != nil || event.JudgeTime(a.Timestamp, rec.Timestamp, r.maxSkew) != nil {
		r.p.counts.Dead++
		return
	}
	if a.HasDelay() && r.p.judged {
		r.keepTrip() // late ones too (R10)
	}
	if r.end(a.Timestamp) <= r.p.watermark {
		r.p.counts.Late++
		return
	}
	r.p.counts.Accepted++
	if a.HasDelay() {
		r.put(rec.Offset)
	}
	r.raise(rec.Offset, min(a.Timestamp, rec.Timestamp)-r.lateness)
}

// coldStart begins the watermark with B at the first record of a partition that
// is read from the middle (R5).
func (r *reader) coldStart(rec *stream.Record) {
	p := r.p
	if !p.cold || p.firstTime != sink.NoTime || rec.Timestamp < 0 {
		return
	}
	p.firstTime = rec.Timestamp
	if !r.windowed {
		return
	}
	p.begins = max(r.end(rec.Timestamp+r.maxSkew), p.coldMark)
	p.watermark = p.begins
}

// mark judges a heartbeat or close marker.
func (r *reader) mark(rec *stream.Record, kind string) {
	bad := kind != event.HeartbeatType && kind != event.CloseType ||
		r.decoder.Marker(rec.Value, &r.marker) != nil
	at := r.marker.Timestamp
	switch {
	case bad:
	case kind == event.CloseType:
		if event.JudgeClose(at, rec.Timestamp, r.maxSkew, r.size) == nil {
			r.raise(rec.Offset, at)
			return
		}
	case event.JudgeTime(at, rec.Timestamp, r.maxSkew) == nil:
		r.raise(rec.Offset, min(at, rec.Timestamp)-r.lateness)
		return
	}
	r.p.counts.Dead++
}

// vehicle judges a position: it has no window, so it is never late.
func (r *reader) vehicle(rec *stream.Record) {
	x := &r.position
	if r.decoder.Position(rec.Value, x) != nil || event.JudgeTime(x.Timestamp, rec.Timestamp, r.maxSkew) != nil {
		r.p.counts.Dead++
		return
	}
	r.p.counts.Accepted++
	if r.p.judged {
		r.keepVehicle(rec.Offset)
	}
	r.raise(rec.Offset, min(x.Timestamp, rec.Timestamp)-r.lateness)
}

// raise lifts the watermark and closes the windows that it passes.
func (r *reader) raise(offset, to int64) {
	p := r.p
	p.raised = max(p.raised, to)
	if to <= p.watermark {
		return
	}
	p.watermark = to
	for start, w := range p.open {
		if start+r.size <= to {
			w.through = offset
			delete(p.open, start)
		}
	}
}

// put adds the delay just decoded to its window, once in each of its cells.
func (r *reader) put(offset int64) {
	a := &r.arrival
	start := r.start(a.Timestamp)
	w := r.p.open[start]
	if w == nil {
		w = &share{first: offset, through: stillOpen, cells: map[cell]*delays{}}
		r.p.open[start], r.p.windows[start] = w, w
	}
	w.records++
	operator := r.ids.bytes(a.Operator)
	for _, c := range [...]struct {
		dimension string
		id        []byte
	}{{"line", a.LineID}, {"station", a.StationID}, {"operator", a.Operator}, {"network", a.Feed}} {
		if len(c.id) == 0 {
			continue
		}
		key := cell{c.dimension, r.ids.bytes(c.id)}
		d := w.cells[key]
		if d == nil {
			d = &delays{operator: operator}
			w.cells[key] = d
		}
		d.operator = smaller(d.operator, operator)
		d.values = append(d.values, a.DelayS)
	}
}

// smaller is the smaller of two operators, where an empty one is none.
func smaller(a, b string) string {
	if a == "" || b != "" && b < a {
		return b
	}
	return a
}
