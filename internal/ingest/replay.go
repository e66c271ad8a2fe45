package ingest

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/peil-stream/peil/internal/transit/gtfsrt"
)

// Options of a replay.
type Options struct {
	// Paths are files, and folders with all that lies below them. Files named
	// *.pb and *.json, also *.gz, are snapshots; others are named as skipped.
	Paths []string
	// Speed is how much faster than recorded: 1 is real time. 0 is as fast as
	// possible.
	Speed float64
	// Close publishes close markers at the end.
	Close bool
	// Progress, if not nil, is told how far the replay is.
	Progress func(Progress)
	// Sleep waits for a duration or until ctx is done. Defaults to a timer.
	Sleep func(ctx context.Context, d time.Duration)
}

// Progress says how far a replay is.
type Progress struct {
	// Reading: the headers are read and nothing is published yet.
	Reading bool
	// Done of Total files or, when publishing, snapshots.
	Done, Total int
	// Path of the file that was done.
	Path string
	// Events that were published.
	Events int
}

// Skip is a file that was left out.
type Skip struct {
	Path   string
	Reason SkipReason
}

// Failure is a file that could not be used.
type Failure struct {
	Path string
	Err  error
}

// Report says what a replay did.
type Report struct {
	// Files that were found, and Snapshots that were published.
	Files, Snapshots int
	// Predictions and Positions that were published.
	Predictions, Positions int
	// NotNewer counts the snapshots that are not newer than what the topic holds:
	// published by an earlier run, or older.
	NotNewer int
	// Skipped are the files that were left out, with those of NotNewer.
	Skipped []Skip
	// Failed is the number of Failures. The others were published all the same.
	Failed   int
	Failures []Failure
	// CloseMarkers that were published.
	CloseMarkers int
	// Tally counts what was not used in the snapshots, or is odd.
	Tally gtfsrt.Tally
	// Interrupted: ctx was done before the end. The same replay goes on there.
	Interrupted bool
}

// Events is the number of events that were published.
func (r *Report) Events() int { return r.Predictions + r.Positions }

// BeforeError says that a capture lies wholly before what the topic holds, so
// that none of it can be published any more.
type BeforeError struct {
	Feed, Topic string
	// Ends is the last header time of the capture, and Holds that of the topic.
	Ends, Holds time.Time
}

// Error says which times do not fit.
func (e *BeforeError) Error() string {
	return fmt.Sprintf("the capture ends at %s, but topic %s holds feed %s up to %s already",
		e.Ends.UTC().Format(time.RFC3339), e.Topic, e.Feed, e.Holds.UTC().Format(time.RFC3339))
}

// Hint says what to do.
func (e *BeforeError) Hint() string {
	return "a topic takes a feed forward in time only: play captures in their order, or give this one another feed name or an empty data directory"
}

// recorded is one snapshot of a capture, known by its head.
type recorded struct {
	path   string
	header int64 // Unix milliseconds, or gtfsrt.NoTime
	kinds  [2]bool
	assume gtfsrt.Kind
}

// Replay plays captures: all snapshots at the paths in header-time order, ties by
// path. What was published by an earlier run is skipped, so a replay that was
// killed goes on when it is run again. When ctx is done it ends early, without an
// error. The ingester must not be used after an error.
func Replay(ctx context.Context, ing *Ingester, o Options) (Report, error) {
	if o.Speed < 0 || math.IsNaN(o.Speed) {
		return Report{}, fmt.Errorf("replay: a speed of %v", o.Speed)
	}
	p := &player{ing: ing, o: o}
	if p.o.Progress == nil {
		p.o.Progress = func(Progress) {}
	}
	if p.o.Sleep == nil {
		p.o.Sleep = sleep
	}
	if err := p.run(ctx); err != nil && ctx.Err() == nil {
		return p.report, fmt.Errorf("replay: %w", err)
	}
	p.report.Interrupted = ctx.Err() != nil
	return p.report, nil
}

// player is one replay.
type player struct {
	ing    *Ingester
	o      Options
	report Report
}

func (p *player) run(ctx context.Context) error {
	files, err := listFiles(ctx, p.o.Paths)
	if err != nil {
		return err
	}
	p.report.Files = len(files)
	snapshots := p.scan(ctx, files)
	if len(snapshots) == 0 && p.report.Failed == 0 && !p.skippedAlerts() && ctx.Err() == nil {
		return fmt.Errorf("no snapshot among %d files: they are named *.pb or *.json, also *.gz", len(files))
	}
	if err := p.admit(snapshots); err != nil {
		return err
	}
	slices.SortStableFunc(snapshots, func(a, b recorded) int {
		return cmp.Or(cmp.Compare(a.order(), b.order()), cmp.Compare(a.path, b.path))
	})
	if err := p.play(ctx, snapshots); err != nil || !p.o.Close || ctx.Err() != nil {
		return err
	}
	p.report.CloseMarkers, err = p.ing.CloseMarkers(ctx)
	return err
}

// order sorts a snapshot without a header time behind the others: it is dated by
// the fetch, which is now.
func (r recorded) order() int64 {
	if r.header == gtfsrt.NoTime {
		return math.MaxInt64
	}
	return r.header
}

// scan reads the heads of all files, and keeps no more than those.
func (p *player) scan(ctx context.Context, files []string) []recorded {
	var out []recorded
	for n, path := range files {
		if ctx.Err() != nil {
			return out
		}
		if r, ok := p.look(path); ok {
			out = append(out, r)
		}
		p.o.Progress(Progress{Reading: true, Done: n + 1, Total: len(files), Path: path})
	}
	return out
}

func (p *player) look(path string) (r recorded, ok bool) {
	if !isCapture(path) {
		p.skip(path, NoCapture)
		return r, false
	}
	head, ok := readAs(p, path, gtfsrt.Peek)
	if !ok {
		return r, false
	}
	r = recorded{path: path, header: head.Header, assume: kindByName(path)}
	for k := range r.kinds {
		r.kinds[k] = head.Has(gtfsrt.Kind(k), r.assume)
	}
	if r.kinds == [2]bool{} {
		p.skip(path, AlertsOnly)
		return r, false
	}
	return r, true
}

// readAs reads a file, or notes why that is not possible.
func readAs[T any](p *player, path string, decode func([]byte) (*T, error)) (*T, bool) {
	body, err := readCapture(path)
	if err != nil {
		p.fail(path, err)
		return nil, false
	}
	out, err := decode(body)
	if err != nil {
		p.fail(path, err)
		return nil, false
	}
	return out, true
}

func (p *player) skip(path string, reason SkipReason) {
	p.report.Skipped = append(p.report.Skipped, Skip{Path: path, Reason: reason})
}

func (p *player) skippedAlerts() bool {
	return slices.ContainsFunc(p.report.Skipped, func(s Skip) bool { return s.Reason == AlertsOnly })
}

func (p *player) fail(path string, err error) {
	p.report.Failed++
	p.report.Failures = append(p.report.Failures, Failure{Path: path, Err: err})
}

// admit refuses a capture that lies wholly before what the topic holds. One that
// ends exactly there has been played before.
func (p *player) admit(snapshots []recorded) error {
	var before *BeforeError
	for k := range [2]gtfsrt.Kind{} {
		ends, found := gtfsrt.NoTime, false
		for _, s := range snapshots {
			if s.kinds[k] {
				found = true
				ends = max(ends, s.order())
			}
		}
		last := p.ing.Last(gtfsrt.Kind(k))
		switch {
		case !found:
		case last == gtfsrt.NoTime || ends >= last:
			return nil
		default:
			topic := p.ing.cfg.ArrivalsTopic
			if gtfsrt.Kind(k) == gtfsrt.VehiclePositions {
				topic = p.ing.cfg.PositionsTopic
			}
			before = &BeforeError{Feed: p.ing.cfg.Feed, Topic: topic, Ends: time.UnixMilli(ends), Holds: time.UnixMilli(last)}
		}
	}
	if before != nil {
		return before
	}
	return nil
}

// play publishes the snapshots, in time with their headers if that is wanted.
func (p *player) play(ctx context.Context, snapshots []recorded) error {
	pace := pacer{speed: p.o.Speed, now: p.ing.cfg.Now}
	for n, r := range snapshots {
		if p.news(r) {
			p.o.Sleep(ctx, pace.wait(r.header))
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := p.one(ctx, r); err != nil {
				return fmt.Errorf("%s: %w", r.path, err)
			}
		} else {
			p.notNewer(r.path)
		}
		p.o.Progress(Progress{Done: n + 1, Total: len(snapshots), Path: r.path, Events: p.report.Events()})
	}
	return nil
}

// news says whether the snapshot is newer than what was published of any of its
// sources, so that it is worth reading, and waiting for.
func (p *player) news(r recorded) bool {
	for k, has := range r.kinds {
		if has && r.order() > p.ing.Last(gtfsrt.Kind(k)) {
			return true
		}
	}
	return false
}

func (p *player) notNewer(path string) {
	p.report.NotNewer++
	p.skip(path, NotNewer)
	p.ing.metrics.IngestSnapshotsSkipped.WithLabelValues(p.ing.cfg.Feed, string(NotNewer)).Inc()
}

// one publishes one snapshot. A file that has changed since its head was read is
// judged anew.
func (p *player) one(ctx context.Context, r recorded) error {
	s, ok := readAs(p, r.path, gtfsrt.Decode)
	if !ok {
		return nil
	}
	s.Assume = r.assume
	result, err := p.ing.Publish(ctx, s, p.ing.cfg.Now())
	if err != nil {
		return err
	}
	switch result.Skipped {
	case "":
		p.report.Snapshots++
		p.report.Predictions += result.Stats.Predictions
		p.report.Positions += result.Stats.Positions
		p.report.Tally.Add(&result.Stats.Tally)
	case Unchanged, OutOfOrder:
		p.notNewer(r.path)
	default:
		p.skip(r.path, result.Skipped)
	}
	return nil
}

// pacer tells how long to wait before a snapshot, so that the first is published
// at once and the others as far from it as their headers are, divided by the
// speed.
type pacer struct {
	speed  float64
	now    func() time.Time
	begun  bool
	start  time.Time
	header int64
}

func (c *pacer) wait(header int64) time.Duration {
	if c.speed == 0 || header == gtfsrt.NoTime {
		return 0
	}
	if !c.begun {
		c.begun, c.start, c.header = true, c.now(), header
		return 0
	}
	due := float64(header-c.header) / c.speed * float64(time.Millisecond)
	passed := c.now().Sub(c.start)
	return max(0, time.Duration(min(due, math.MaxInt64/2))-passed)
}

// sleep waits for a duration or until ctx is done.
func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
