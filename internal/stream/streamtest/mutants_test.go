package streamtest_test

import (
	"context"
	"database/sql"
	"errors"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/peil-stream/peil/internal/sqlitefile"
	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/internal/stream/sqlite"
	"github.com/peil-stream/peil/internal/stream/streamtest"
)

// mutant is a log that is broken on purpose: the embedded log with some of its
// methods replaced. The zero value is sound.
type mutant struct {
	stream.Log

	append   func(ctx context.Context, l stream.Log, msgs []stream.Message) error
	read     func(seq iter.Seq2[stream.Record, error]) iter.Seq2[stream.Record, error]
	bounds   func(stream.Bounds) stream.Bounds
	describe func([]stream.Topic) []stream.Topic
	publish  func(ctx context.Context, p *mutantPublisher, msgs []stream.Message, changes []stream.Change) error
	handler  func(l stream.Log, h stream.Handler) stream.Handler
	run      func(err error) error
	sub      func(*stream.Subscription)
	hints    *hints
	id       func(string) string
	die      func(ctx context.Context, l stream.Log, p stream.Partition) error
}

func (m *mutant) Append(ctx context.Context, msgs ...stream.Message) error {
	if m.append == nil {
		return m.Log.Append(ctx, msgs...)
	}
	return m.append(ctx, m.Log, msgs)
}

func (m *mutant) Read(ctx context.Context, p stream.Partition, from, to int64) iter.Seq2[stream.Record, error] {
	seq := m.Log.Read(ctx, p, from, to)
	if m.read == nil {
		return seq
	}
	return m.read(seq)
}

func (m *mutant) Bounds(ctx context.Context, ps ...stream.Partition) ([]stream.Bounds, error) {
	bs, err := m.Log.Bounds(ctx, ps...)
	if m.bounds != nil {
		for i := range bs {
			bs[i] = m.bounds(bs[i])
		}
	}
	return bs, err
}

func (m *mutant) Describe(ctx context.Context, names ...string) ([]stream.Topic, error) {
	topics, err := m.Log.Describe(ctx, names...)
	if m.describe != nil {
		topics = m.describe(topics)
	}
	return topics, err
}

func (m *mutant) OpenPublisher(ctx context.Context, spec stream.PublisherSpec) (stream.Publisher, error) {
	if m.id != nil {
		spec.ID = m.id(spec.ID)
	}
	p, err := m.Log.OpenPublisher(ctx, spec)
	if err != nil || m.publish == nil {
		return p, err
	}
	return &mutantPublisher{Publisher: p, log: m.Log, spec: spec, publish: m.publish}, nil
}

func (m *mutant) Consumer(sub stream.Subscription) (stream.Consumer, error) {
	if m.sub != nil {
		m.sub(&sub)
	}
	c, err := m.Log.Consumer(sub)
	return &mutantConsumer{Consumer: c, of: m}, err
}

type mutantPublisher struct {
	stream.Publisher

	log     stream.Log
	spec    stream.PublisherSpec
	publish func(ctx context.Context, p *mutantPublisher, msgs []stream.Message, changes []stream.Change) error
}

func (p *mutantPublisher) Publish(ctx context.Context, msgs []stream.Message, changes []stream.Change) error {
	return p.publish(ctx, p, msgs, changes)
}

type mutantConsumer struct {
	stream.Consumer

	of *mutant
}

func (c *mutantConsumer) Run(ctx context.Context, h stream.Handler) error {
	if c.of.handler != nil {
		h = c.of.handler(c.of.Log, h)
	}
	if c.of.hints != nil {
		h = c.of.hints.handler(h)
	}
	err := c.Consumer.Run(ctx, h)
	if c.of.run != nil {
		err = c.of.run(err)
	}
	return err
}

func (c *mutantConsumer) Hint(ctx context.Context, next map[stream.Partition]int64) error {
	if c.of.hints != nil {
		c.of.hints.give(next)
	}
	return c.Consumer.Hint(ctx, next)
}

// mutantHandler stands between a consumer and its handler.
type mutantHandler struct {
	stream.Handler

	assigned func(ctx context.Context, as []*stream.Assignment)
	revoked  func(ctx context.Context, next stream.Handler, as []*stream.Assignment)
}

func (h *mutantHandler) Assigned(ctx context.Context, as []*stream.Assignment) error {
	if err := h.Handler.Assigned(ctx, as); err != nil {
		return err
	}
	if h.assigned != nil {
		h.assigned(ctx, as)
	}
	return nil
}

func (h *mutantHandler) Revoked(ctx context.Context, as []*stream.Assignment) {
	if h.revoked == nil {
		h.Handler.Revoked(ctx, as)
		return
	}
	h.revoked(ctx, h.Handler, as)
}

// relayed gives the handler channels of its own.
func relayed(h stream.Handler, relay func(ctx context.Context, from <-chan stream.Batch, to chan<- stream.Batch)) stream.Handler {
	return &relayHandler{Handler: h, relay: relay}
}

type relayHandler struct {
	stream.Handler

	relay func(ctx context.Context, from <-chan stream.Batch, to chan<- stream.Batch)
}

func (h *relayHandler) Assigned(ctx context.Context, as []*stream.Assignment) error {
	for _, a := range as {
		from, to := a.Batches, make(chan stream.Batch, 1)
		a.Batches = to
		go func() {
			defer close(to)
			h.relay(ctx, from, to)
		}()
	}
	return h.Handler.Assigned(ctx, as)
}

// mutants are the faults, each with the checks that must find it.
func mutants() map[string]struct {
	make func() *mutant
	by   []string
} {
	return map[string]struct {
		make func() *mutant
		by   []string
	}{
		"I2: an append is written one by one": {
			func() *mutant { return &mutant{append: appendOneByOne} },
			[]string{"append/all or none"},
		},
		"I2: a publish is written one by one": {
			func() *mutant { return &mutant{publish: publishOneByOne} },
			[]string{"publish/refused whole", "publish/seen whole", "publisher/failed"},
		},
		"I1: records of an append are turned round": {
			func() *mutant { return &mutant{append: appendReversed} },
			[]string{"append/order", "consume/everything once", "read/ranges"},
		},
		"I3: memory is written before the messages": {
			func() *mutant { return &mutant{publish: publishMemoryFirst} },
			[]string{"publish/refused whole", "publish/answer lost before", "publisher/published again", "publisher/failed"},
		},
		"I3: messages are written before the memory": {
			func() *mutant { return &mutant{publish: publishMessagesFirst} },
			[]string{"publish/answer lost before", "publisher/published again"},
		},
		"I3: an older publisher is not fenced": {
			func() *mutant { return &mutant{publish: publishUnfenced} },
			[]string{"publish/fencing", "publisher/taken over at once"},
		},
		"I3: a fenced publish says so and works": {
			func() *mutant { return &mutant{publish: publishThenFenced} },
			[]string{"publish/fencing", "publisher/taken over at once"},
		},
		"I3: deletes are forgotten": {
			func() *mutant { return &mutant{publish: publishWithoutDeletes} },
			[]string{"publish/memory of deletes"},
		},
		"I3: a publisher lives on after an error": {
			func() *mutant { return &mutant{publish: publishReopened} },
			[]string{"publish/refused whole", "publish/answer lost before", "publish/answer lost after"},
		},
		"I3: a publish that was given up takes effect": {
			func() *mutant { return &mutant{publish: publishUncancelled} },
			[]string{"publisher/cancelled"},
		},
		"I3: what a dead publisher wrote is seen": {
			func() *mutant { return &mutant{die: dieAfterwards} },
			[]string{"publisher/dead in the middle"},
		},
		"I3: ids are told apart by their first part": {
			func() *mutant {
				return &mutant{id: func(id string) string { first, _, _ := strings.Cut(id, ":"); return first }}
			},
			[]string{"publisher/names alike"},
		},
		"I3: memory has a bound": {
			func() *mutant { return &mutant{publish: publishBounded} },
			[]string{"publisher/much memory"},
		},
		"I4: a start outside of the log is moved into it": {
			func() *mutant { return &mutant{handler: resetSilently} },
			[]string{"consume/below the start", "consume/beyond the end"},
		},
		"I4: a consumer begins anew": {
			func() *mutant { return &mutant{handler: startAtZero} },
			[]string{"consume/from an offset", "consume/from the next offset"},
		},
		"I4: a read below the start is moved into the log": {
			func() *mutant { return &mutant{read: readWithoutErrors} },
			[]string{"read/trimmed", "topics/unknown", "read/stopped early"},
		},
		"I5: null becomes empty for readers": {
			func() *mutant { return &mutant{read: readNullAsEmpty} },
			[]string{"append/null and empty"},
		},
		"I5: empty becomes null for writers": {
			func() *mutant { return &mutant{append: appendEmptyAsNull} },
			[]string{"append/null and empty", "consume/null and headers"},
		},
		"headers are a map": {
			func() *mutant { return &mutant{append: appendHeadersOnce} },
			[]string{"append/headers", "consume/null and headers"},
		},
		"a key's partition is the first": {
			func() *mutant { return &mutant{append: appendToFirst} },
			[]string{"append/by key"},
		},
		"the end of the log is one too low": {
			func() *mutant {
				return &mutant{bounds: func(b stream.Bounds) stream.Bounds { return stream.Bounds{Start: b.Start, End: b.End - 1} }}
			},
			[]string{"read/ranges", "topics/made again"},
		},
		"topics have no ids": {
			func() *mutant { return &mutant{describe: describeByName} },
			[]string{"topics/made again", "consume/everything once"},
		},
		"batches come twice": {
			func() *mutant { return &mutant{handler: deliverTwice} },
			[]string{"consume/everything once"},
		},
		"batches of one record are dropped": {
			func() *mutant { return &mutant{handler: deliverSome} },
			[]string{"consume/everything once", "consume/from an offset"},
		},
		"one unread partition blocks the others": {
			func() *mutant { return &mutant{handler: deliverInTurn} },
			[]string{"consume/unread partition", "consume/different speeds"},
		},
		"I4: a partition that failed goes on at the start of the log": {
			func() *mutant { return &mutant{handler: goesOn} },
			[]string{"consume/below the start", "consume/trimmed meanwhile"},
		},
		"I4: a partition that failed does not say so": {
			func() *mutant { return &mutant{handler: swallowed} },
			[]string{"consume/below the start", "consume/trimmed meanwhile", "consume/beyond the end"},
		},
		"memory of a batch is used again too early": {
			func() *mutant { return &mutant{handler: releaseEarly} },
			[]string{"consume/batches kept"},
		},
		"batches have no bound": {
			func() *mutant { return &mutant{sub: func(s *stream.Subscription) { s.BatchBytes = 0 }} },
			[]string{"consume/bounded batches"},
		},
		"partitions are not revoked": {
			func() *mutant { return &mutant{handler: neverRevoked} },
			[]string{"member/revoked at the end"},
		},
		"a revoke has no bound": {
			func() *mutant { return &mutant{handler: revokedUnbounded} },
			[]string{"member/revoked at the end"},
		},
		"the error of Assigned is swallowed": {
			func() *mutant { return &mutant{run: func(error) error { return nil }} },
			[]string{"member/assigned fails", "member/no topic"},
		},
		"members of a group do not know each other": {
			func() *mutant { return &mutant{sub: ownGroup()} },
			[]string{"member/hand-over"},
		},
		"a restart begins at the hint": {
			func() *mutant { return &mutant{hints: new(hints)} },
			[]string{"member/hint"},
		},
	}
}

// TestMutants says that the suite finds each fault, and finds nothing in a
// mutant without one.
func TestMutants(t *testing.T) {
	t.Parallel()
	checks := streamtest.Checks(features())
	t.Run("sound", func(t *testing.T) {
		t.Parallel()
		for _, c := range checks {
			if err := runMutant(t, c, &mutant{}, timeoutSound); err != nil {
				t.Errorf("%s: %v", c.Name, err)
			}
		}
	})
	for name, m := range mutants() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, by := range m.by {
				i := slices.IndexFunc(checks, func(c streamtest.Check) bool { return c.Name == by })
				if i < 0 {
					t.Fatalf("there is no check %q", by)
				}
				if err := runMutant(t, checks[i], m.make(), timeoutMutant); err == nil {
					t.Errorf("%q did not find the fault", by)
				} else {
					t.Logf("%s: %v", by, err)
				}
			}
		})
	}
}

// TestFeaturesLeaveOut says that a feature which is absent leaves out its checks
// and no others.
func TestFeaturesLeaveOut(t *testing.T) {
	t.Parallel()
	all, none := streamtest.Checks(features()), streamtest.Checks(streamtest.Features{})
	if len(none) == 0 || len(none) >= len(all) {
		t.Fatalf("%d checks with all features, %d without", len(all), len(none))
	}
	for _, c := range none {
		if strings.Contains(c.Name, "gaps") || strings.Contains(c.Name, "lost") || strings.Contains(c.Name, "trimmed") {
			t.Errorf("%q needs a feature", c.Name)
		}
	}
}

func features() streamtest.Features {
	return streamtest.Features{BroughtTimestamps: true, Trim: true, Delete: true, Gaps: true, LostAnswers: true, Deaths: true}
}

// The bound of a check: long for a sound log on a busy machine, short for what
// waits for something that a mutant never does.
const (
	timeoutSound  = time.Minute
	timeoutMutant = 2 * time.Second
)

func runMutant(t *testing.T, c streamtest.Check, m *mutant, timeout time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	b := &base{path: filepath.Join(t.TempDir(), "peil.db")}
	if err := b.open(ctx); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.file.Close(); err != nil {
			t.Error(err)
		}
	}()
	m.Log = b.log
	h := &streamtest.Harness{
		Log: m,
		Reopen: func(ctx context.Context) (stream.Log, error) {
			if err := errors.Join(b.log.Close(), b.file.Close(), b.open(ctx)); err != nil {
				return nil, err
			}
			m.Log = b.log
			return m, nil
		},
		Trim:   func(ctx context.Context, p stream.Partition, before int64) error { return b.log.Trim(ctx, p, before) },
		Delete: func(ctx context.Context, topic string) error { return b.log.Delete(ctx, topic) },
		Gap:    b.gap,
		Die: func(ctx context.Context, _ string, p stream.Partition) error {
			if m.die != nil {
				return m.die(ctx, b.log, p)
			}
			return nil // the file rolls back what a dead process had written
		},
		LoseAnswer: func(afterEffect bool) {
			b.lose = func(commit func() error) error {
				if !afterEffect {
					return errors.New("answer lost")
				}
				return errors.Join(commit(), errors.New("answer lost"))
			}
		},
	}
	return c.Run(ctx, h)
}

// base is the sound log under a mutant.
type base struct {
	path string
	file *sqlitefile.File
	log  *sqlite.Log
	lose func(commit func() error) error
}

func (b *base) open(ctx context.Context) (err error) {
	b.file, err = sqlitefile.Open(ctx, b.path, sqlitefile.Options{Commit: func(commit func() error) error {
		if lose := b.lose; lose != nil {
			b.lose = nil
			return lose(commit)
		}
		return commit()
	}})
	if err != nil {
		return err
	}
	b.log, err = sqlite.New(ctx, b.file, sqlite.Options{})
	return err
}

func (b *base) gap(ctx context.Context, p stream.Partition) error {
	return b.file.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE log_partitions SET log_end = log_end + 2
			WHERE partition = ? AND topic_id = (SELECT id FROM log_topics WHERE name = ?)`, p.Index, p.Topic)
		return err
	})
}
