package streamtest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/peil-stream/peil/internal/stream"
)

// checkTimeout bounds one check if Features does not say.
const checkTimeout = 30 * time.Second

// Features says which parts of the contract an adapter's harness can show. A
// feature that is false leaves out the checks that need it.
type Features struct {
	// BroughtTimestamps: a message's own timestamp is kept.
	BroughtTimestamps bool
	// Trim: the harness can remove records from the front of a partition.
	Trim bool
	// Delete: the harness can delete a topic.
	Delete bool
	// Gaps: the harness can make offsets without records, as aborted
	// transactions do.
	Gaps bool
	// LostAnswers: the harness can lose the answer of a commit.
	LostAnswers bool
	// Deaths: the harness can leave a publish in the middle.
	Deaths bool
	// Members: several members of a group run at the same time.
	Members bool
	// Timeout bounds one check. Defaults to 30 s.
	Timeout time.Duration
}

// Harness is a log under test, empty but for what other harnesses of the same
// broker made under other prefixes.
type Harness struct {
	// Log under test.
	Log stream.Log
	// Prefix of all names of topics, groups and publishers, where harnesses
	// share a broker.
	Prefix string
	// Reopen closes Log, puts another one that holds the same data in its place,
	// as a new process would, and returns it.
	Reopen func(ctx context.Context) (stream.Log, error)
	// Trim removes the records below an offset (Features.Trim).
	Trim func(ctx context.Context, p stream.Partition, before int64) error
	// Delete removes a topic (Features.Delete).
	Delete func(ctx context.Context, topic string) error
	// Gap makes at least one offset without a record at the end of a partition
	// (Features.Gaps).
	Gap func(ctx context.Context, p stream.Partition) error
	// LoseAnswer makes the commit of the next Publish fail, before or after it
	// took effect (Features.LostAnswers).
	LoseAnswer func(afterEffect bool)
	// Die opens a publisher id, publishes a record to p, and dies before that has
	// taken effect, without a word to anybody (Features.Deaths).
	Die func(ctx context.Context, id string, p stream.Partition) error
}

// Check is one check of the suite.
type Check struct {
	Name string
	// Run returns what is wrong with the log of a fresh harness, or nil.
	Run func(ctx context.Context, h *Harness) error

	needs func(Features) bool
}

// Checks returns the checks that an adapter with these features must pass.
func Checks(f Features) []Check {
	var checks []Check
	for _, group := range [][]Check{topicChecks(), appendChecks(), readChecks(), publishChecks(), publisherChecks(), consumeChecks(), memberChecks()} {
		for _, c := range group {
			if c.needs == nil || c.needs(f) {
				checks = append(checks, c)
			}
		}
	}
	return checks
}

// Run runs the suite; open makes a fresh harness for each check and cleans up
// with t.
func Run(t *testing.T, f Features, open func(t *testing.T) *Harness) {
	t.Helper()
	if f.Timeout == 0 {
		f.Timeout = checkTimeout
	}
	for _, c := range Checks(f) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), f.Timeout)
			defer cancel()
			if err := c.Run(ctx, open(t)); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func needsTrim(f Features) bool        { return f.Trim }
func needsDelete(f Features) bool      { return f.Delete }
func needsGaps(f Features) bool        { return f.Gaps }
func needsLostAnswers(f Features) bool { return f.LostAnswers }
func needsMembers(f Features) bool     { return f.Members }
func needsDeaths(f Features) bool      { return f.Deaths }
func needsBrought(f Features) bool     { return f.BroughtTimestamps }

// name is a name of this harness alone.
func (h *Harness) name(s string) string { return h.Prefix + s }

// topic makes a topic and returns its name.
func (h *Harness) topic(ctx context.Context, s string, partitions int32) (string, error) {
	name := h.name(s)
	if err := h.Log.Create(ctx, stream.TopicSpec{Name: name, Partitions: partitions}); err != nil {
		return "", fmt.Errorf("create(%s): %w", name, err)
	}
	return name, nil
}

// publisher opens a publisher whose memory lies beside a topic of this harness.
func (h *Harness) publisher(ctx context.Context, id string) (stream.Publisher, error) {
	return h.Log.OpenPublisher(ctx, stream.PublisherSpec{ID: id, Topic: h.name("published")})
}

// texts are messages with these values for one partition.
func texts(topic string, partition int32, values ...string) []stream.Message {
	msgs := make([]stream.Message, len(values))
	for i, v := range values {
		msgs[i] = stream.Message{Topic: topic, Partition: partition, Value: []byte(v)}
	}
	return msgs
}

// numbered are the values prefix0000 and on.
func numbered(prefix string, n int) []string {
	values := make([]string, n)
	for i := range values {
		values[i] = fmt.Sprintf("%s%04d", prefix, i)
	}
	return values
}

// want says that an error must be of a kind.
func want(what string, err, kind error) error {
	if !errors.Is(err, kind) {
		return fmt.Errorf("%s: the error is %w, want one that wraps %q", what, orNone(err), kind.Error())
	}
	return nil
}

func orNone(err error) error {
	if err == nil {
		return errors.New("nil")
	}
	return err
}
