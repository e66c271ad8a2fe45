package ledger

// Ledger tracks what of one partition is read but not yet committable, and why.
// [New] makes one.
type Ledger struct {
	position int64 // next offset to read
	received int64 // records received, which is the ordinal of the next one

	// Windows by rising first offset, each split by the mark in flight.
	open   []entry
	marked []entry
	// known holds the window ends in open, and end is the one used last.
	known map[int64]struct{}
	end   int64
	hot   bool

	// The first record of no window, after and before the mark.
	other       entry
	markedOther entry

	inFlight bool
}

// entry is the first record of something that is not durable yet.
type entry struct {
	end     int64
	offset  int64
	ordinal int64
	// set is false where there is no such record.
	set bool
}

// Point is what may be committed once a snapshot is durable.
type Point struct {
	// Next is where a restart begins: the lowest received offset that is not
	// durable even then, or Position if there is none.
	Next int64
	// Position is the next offset to read at the moment of the mark.
	Position int64
	// Pending is the number of records received up to the mark that lie at or
	// above Next.
	Pending int64
}

// Hold is a window that holds the committed offset back.
type Hold struct {
	// End of the window, as given to [Ledger.Window].
	End int64
	// FirstOffset is its first record.
	FirstOffset int64
}

// New returns a ledger of which nothing was received yet and that reads from the
// offset next.
func New(next int64) *Ledger {
	return &Ledger{position: next, known: make(map[int64]struct{})}
}

// Window receives a record that was accepted into the window with that end. The
// end only names the window; any number that differs between windows will do.
func (l *Ledger) Window(offset, end int64) {
	l.receive(offset)
	if l.hot && l.end == end {
		return
	}
	l.hot, l.end = true, end
	if _, ok := l.known[end]; ok {
		return
	}
	l.known[end] = struct{}{}
	l.open = append(l.open, entry{end: end, offset: offset, ordinal: l.received - 1, set: true})
}

// Other receives a record that belongs to no window: a position, a heartbeat, a
// dead letter, a late or redelivered record, one without a value or to be ignored.
func (l *Ledger) Other(offset int64) {
	l.receive(offset)
	if !l.other.set {
		l.other = entry{offset: offset, ordinal: l.received - 1, set: true}
	}
}

func (l *Ledger) receive(offset int64) {
	check(offset >= l.position, "an offset does not rise")
	l.position = offset + 1
	l.received++
}

// Advance moves the position over offsets that carry no record. It must not fall.
func (l *Ledger) Advance(position int64) {
	check(position >= l.position, "the position falls")
	l.position = position
}

// Mark says that a snapshot was taken now which holds the segments of the windows
// with these ends and the effect of every other record received so far. It returns
// what may be committed with that snapshot, in the same transaction or after it.
// Until [Ledger.Release] there must be no other Mark. Every end must belong to a
// window that was received and not marked yet; a record that comes later for the
// same end opens a new entry.
func (l *Ledger) Mark(closed []int64) Point {
	check(!l.inFlight, "a mark while a snapshot is in flight")
	l.inFlight = true
	l.markedOther, l.other = l.other, entry{}

	for _, end := range closed {
		_, ok := l.known[end]
		check(ok, "a closed window is not held")
		delete(l.known, end)
	}
	if len(closed) > 0 {
		l.hot = false
		open := l.open[:0]
		for _, e := range l.open {
			if _, ok := l.known[e.end]; ok {
				open = append(open, e)
			} else {
				l.marked = append(l.marked, e)
			}
		}
		l.open = open
	}

	p := Point{Next: l.position, Position: l.position}
	if len(l.open) > 0 {
		p.Next = l.open[0].offset
		p.Pending = l.received - l.open[0].ordinal
	}
	return p
}

// Release says that the marked snapshot has become durable.
func (l *Ledger) Release() {
	check(l.inFlight, "a release without a mark")
	l.inFlight = false
	l.marked = l.marked[:0]
	l.markedOther = entry{}
}

// Committed is the lowest received offset that is not durable, or the position if
// there is none.
func (l *Ledger) Committed() int64 {
	if e := l.lowest(); e.set {
		return e.offset
	}
	return l.position
}

// Pending is the number of received records at or above [Ledger.Committed].
func (l *Ledger) Pending() int64 {
	if e := l.lowest(); e.set {
		return l.received - e.ordinal
	}
	return 0
}

// lowest returns the first record that is not durable.
func (l *Ledger) lowest() entry {
	var low entry
	take := func(e entry) {
		if e.set && (!low.set || e.offset < low.offset) {
			low = e
		}
	}
	take(l.other)
	take(l.markedOther)
	if len(l.open) > 0 {
		take(l.open[0])
	}
	if len(l.marked) > 0 {
		take(l.marked[0])
	}
	return low
}

// Position is the next offset to read.
func (l *Ledger) Position() int64 { return l.position }

// InFlight says whether a snapshot is marked and not yet released.
func (l *Ledger) InFlight() bool { return l.inFlight }

// Holds returns the windows that are not durable, by first offset. The same end
// occurs twice if a window that is in flight got another record. The caller owns
// the slice.
func (l *Ledger) Holds() []Hold {
	holds := make([]Hold, 0, len(l.open)+len(l.marked))
	a, b := l.open, l.marked
	for len(a) > 0 || len(b) > 0 {
		next := &a
		if len(a) == 0 || len(b) > 0 && b[0].offset < a[0].offset {
			next = &b
		}
		holds = append(holds, Hold{End: (*next)[0].end, FirstOffset: (*next)[0].offset})
		*next = (*next)[1:]
	}
	return holds
}

// check panics if a rule that the caller must keep does not hold: going on would
// let an offset be committed past work that is not durable.
func check(ok bool, broken string) {
	if !ok {
		panic("ledger: " + broken)
	}
}
