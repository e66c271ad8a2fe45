package verify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/stream"
)

// Options of [Run].
type Options struct {
	// Viewer opens the one view of the tables that is compared.
	Viewer sink.Viewer
	// Reader reads the log.
	Reader stream.Reader
	// ArrivalsTopics hold predictions, PositionsTopics vehicle positions. A topic
	// that neither log nor tables know is passed over.
	ArrivalsTopics  []string
	PositionsTopics []string
	// WindowSize, Lateness and MaxSkew are what the rows were made with, in whole
	// milliseconds. WindowSize is positive, the others are not negative.
	WindowSize time.Duration
	Lateness   time.Duration
	MaxSkew    time.Duration
	// Fingerprint of these settings as the processor stores it. Where the tables
	// have another one, Run returns a [*FingerprintError] instead of a report full
	// of differences. Empty: not compared.
	Fingerprint string
	// Progress is called now and then with the offsets read and to be read. Nil:
	// never.
	Progress func(done, total int64)
}

func (o *Options) validate() error {
	var errs []error
	if o.Viewer == nil || o.Reader == nil {
		errs = append(errs, errors.New("verify: no tables or no log"))
	}
	if o.WindowSize < time.Millisecond || o.WindowSize%time.Millisecond != 0 {
		errs = append(errs, fmt.Errorf("verify: window size %s is not a positive number of milliseconds", o.WindowSize))
	}
	if o.Lateness < 0 {
		errs = append(errs, fmt.Errorf("verify: lateness %s is negative", o.Lateness))
	}
	if o.MaxSkew < 0 {
		errs = append(errs, fmt.Errorf("verify: max skew %s is negative", o.MaxSkew))
	}
	return errors.Join(errs...)
}

// FingerprintError says that the stored rows were made with other settings than
// those to verify with.
type FingerprintError struct {
	Partition      stream.Partition
	Stored, Wanted string
}

func (e *FingerprintError) Error() string {
	return fmt.Sprintf("%s: the rows were made with settings %q, and these are %q", e.Partition, e.Stored, e.Wanted)
}

// rules are the numbers of the batch job, in milliseconds.
type rules struct {
	size, lateness, maxSkew int64
}

// start is the start of the window that holds t: floor division, below zero too.
func (r rules) start(t int64) int64 {
	start := t - t%r.size
	if start > t {
		start -= r.size
	}
	return start
}

// end is the end of the window that holds t.
func (r rules) end(t int64) int64 { return r.start(t) + r.size }

// verifier is one run.
type verifier struct {
	rules
	opts     Options
	tables   *tables
	topics   []*topic
	ids      interner
	trips    newest[tripKey, sink.Trip]
	vehicles newest[string, sink.Vehicle]
	report   Report

	done, total int64
}

// topic is one topic of the log and what is known of its partitions.
type topic struct {
	stream.Topic
	// windowed: its records are predictions and go into windows.
	windowed bool
	parts    []*partition
}

// Run compares the tables with the log. It returns a report whether or not there
// are differences; an error means that it could not compare: tables or log cannot
// be read, ctx is done, or a [*FingerprintError].
func Run(ctx context.Context, o Options) (Report, error) {
	if err := o.validate(); err != nil {
		return Report{}, err
	}
	v := &verifier{
		rules: rules{
			size:     o.WindowSize.Milliseconds(),
			lateness: o.Lateness.Milliseconds(),
			maxSkew:  o.MaxSkew.Milliseconds(),
		},
		opts:     o,
		ids:      interner{},
		trips:    newest[tripKey, sink.Trip]{},
		vehicles: newest[string, sink.Vehicle]{},
		report: Report{ // a list without entries is a list in JSON too
			Differences: []Difference{}, Pending: []Pending{}, ToBeRevised: []Revision{}, Unjudged: []Unjudged{},
		},
	}
	if err := v.run(ctx); err != nil {
		return Report{}, err
	}
	return v.report, nil
}

func (v *verifier) run(ctx context.Context) error {
	// The tables first: the log only grows, so every stored position lies within
	// what is read afterwards.
	if err := v.readTables(ctx); err != nil {
		return fmt.Errorf("read tables: %w", err)
	}
	if err := v.fingerprints(); err != nil {
		return err
	}
	if err := v.plan(ctx); err != nil {
		return fmt.Errorf("look at the log: %w", err)
	}
	for _, t := range v.topics {
		for _, p := range t.parts {
			if err := v.replay(ctx, t, p); err != nil {
				return fmt.Errorf("read %s: %w", p.id, err)
			}
		}
	}
	v.progress(0)
	v.compareOffsets()
	v.compareSegments()
	v.compareAggregates()
	v.compareState()
	return nil
}

func (v *verifier) fingerprints() error {
	for _, o := range v.tables.offsetRows {
		// A row that was only registered has no fingerprint yet.
		if v.opts.Fingerprint != "" && o.Fingerprint != "" && o.Fingerprint != v.opts.Fingerprint {
			return &FingerprintError{Partition: o.Partition, Stored: o.Fingerprint, Wanted: v.opts.Fingerprint}
		}
	}
	return nil
}

// progress tells how far the reading is; n is the offsets passed since the last
// call.
func (v *verifier) progress(n int64) {
	v.done += n
	if v.opts.Progress != nil {
		v.opts.Progress(v.done, v.total)
	}
}

// plan looks up the topics in the log and decides what of each partition is read.
func (v *verifier) plan(ctx context.Context) error {
	for i, names := range [][]string{v.opts.ArrivalsTopics, v.opts.PositionsTopics} {
		for _, name := range names {
			t, err := v.describe(ctx, name, i == 0)
			if err != nil {
				return err
			}
			v.topics = append(v.topics, t)
		}
	}
	for _, t := range v.topics {
		for _, p := range t.parts {
			bounds, err := stream.BoundsOf(ctx, v.opts.Reader, p.id)
			if err != nil {
				return fmt.Errorf("bounds of %s: %w", p.id, err)
			}
			v.begin(t, p, bounds)
			v.total += p.to - p.from
		}
	}
	return nil
}

// describe makes a topic with its partitions. One that the log does not have has
// none.
func (v *verifier) describe(ctx context.Context, name string, windowed bool) (*topic, error) {
	t := &topic{Topic: stream.Topic{Name: name}, windowed: windowed}
	found, err := v.opts.Reader.Describe(ctx, name)
	switch {
	case errors.Is(err, stream.ErrNoTopic):
		return t, nil
	case err != nil:
		return nil, err
	case len(found) != 1:
		return nil, fmt.Errorf("topic %s: the log described %d topics", name, len(found))
	}
	t.Topic = found[0]
	for i := range t.Partitions {
		p := &partition{id: stream.Partition{Topic: name, Index: i}}
		p.row, p.hasRow = v.tables.offsets[p.id]
		p.foreign = p.hasRow && p.row.TopicID != t.ID
		p.judged = p.hasRow && p.row.Stored && !p.foreign
		t.parts = append(t.parts, p)
	}
	return t, nil
}

// processed says whether anything of the topic was ever stored.
func (t *topic) processed() bool {
	for _, p := range t.parts {
		if p.hasRow && (p.row.Stored || p.foreign) {
			return true
		}
	}
	return false
}
