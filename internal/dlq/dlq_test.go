package dlq_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/peil-stream/peil/internal/dlq"
	"github.com/peil-stream/peil/internal/stream"
)

var at = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func header(m stream.Message, key string) string {
	r := stream.Record{Headers: m.Headers}
	v, _ := r.Header(key)
	return string(v)
}

func TestMessageKeepsTheOriginal(t *testing.T) {
	t.Parallel()
	rec := &stream.Record{
		Offset: 7, Timestamp: 1790000100000, Key: []byte("nl|t|"), Value: []byte("{broken"),
		Headers: []stream.Header{{Key: "trace", Value: []byte("a")}, {Key: "trace", Value: []byte("b")}},
	}
	m := dlq.Message(dlq.Entry{
		Partition: stream.Partition{Topic: "arrival-predictions", Index: 3}, Record: rec,
		Reason: "bad_json", Detail: "unexpected end", At: at,
	}, 3)
	want := stream.Message{
		Topic: "dlq.arrival-predictions", Partition: 3, Key: []byte("nl|t|"), Value: []byte("{broken"),
		Headers: []stream.Header{
			{Key: "trace", Value: []byte("a")},
			{Key: "trace", Value: []byte("b")},
			{Key: "peil-dlq-topic", Value: []byte("arrival-predictions")},
			{Key: "peil-dlq-partition", Value: []byte("3")},
			{Key: "peil-dlq-offset", Value: []byte("7")},
			{Key: "peil-dlq-timestamp", Value: []byte("1790000100000")},
			{Key: "peil-dlq-reason", Value: []byte("bad_json")},
			{Key: "peil-dlq-error", Value: []byte("unexpected end")},
			{Key: "peil-dlq-at", Value: []byte("2026-11-30T12:00:00.000Z")},
		},
	}
	if diff := cmp.Diff(want, m); diff != "" {
		t.Fatalf("Message mismatch (-want +got):\n%s", diff)
	}
	rec.Value[0] = 'X'
	if m.Value[0] != '{' {
		t.Fatal("the message shares memory with the record")
	}
}

func TestMessageTooLargeBecomesAPointer(t *testing.T) {
	t.Parallel()
	value := bytes.Repeat([]byte("x"), 1_048_000)
	sum := sha256.Sum256(value)
	m := dlq.Message(dlq.Entry{
		Partition: stream.Partition{Topic: "a", Index: 0},
		Record: &stream.Record{
			Offset: 1, Timestamp: 5, Key: bytes.Repeat([]byte("k"), 5000), Value: value,
			Headers: []stream.Header{{Key: "h", Value: bytes.Repeat([]byte("h"), 9000)}},
		},
		Reason: "too_large", Detail: strings.Repeat("é", 600), At: at,
	}, 0)
	if len(m.Value) != 1024 || len(m.Key) != 1024 {
		t.Fatalf("pointer keeps %d bytes of the value and %d of the key, want 1024 of each", len(m.Value), len(m.Key))
	}
	if got := header(m, dlq.HeaderSHA256); got != hex.EncodeToString(sum[:]) {
		t.Fatalf("hash %q", got)
	}
	if got := header(m, dlq.HeaderBytes); got != "1048000" {
		t.Fatalf("length %q", got)
	}
	if got := header(m, dlq.HeaderOffset); got != "1" {
		t.Fatalf("offset %q", got)
	}
	if got := header(m, dlq.HeaderError); len(got) > 500 || strings.ContainsRune(got, '\uFFFD') {
		t.Fatalf("error text of %d bytes is not clipped on a rune", len(got))
	}
}

func TestMessageOfAReplayedRecordKeepsItsFirstCoordinates(t *testing.T) {
	t.Parallel()
	m := dlq.Message(dlq.Entry{
		Partition: stream.Partition{Topic: "a", Index: 2},
		Record: &stream.Record{Offset: 900, Timestamp: 5, Value: []byte("x"), Headers: []stream.Header{
			{Key: dlq.HeaderTopic, Value: []byte("a")},
			{Key: dlq.HeaderPartition, Value: []byte("2")},
			{Key: dlq.HeaderOffset, Value: []byte("17")},
			{Key: dlq.HeaderTimestamp, Value: []byte("3")},
			{Key: dlq.HeaderReason, Value: []byte("old")},
		}},
		Reason: "bad_json", At: at,
	}, 2)
	if got := header(m, dlq.HeaderOffset); got != "17" {
		t.Fatalf("offset %q, want the first one, 17", got)
	}
	if got := header(m, dlq.HeaderReason); got != "bad_json" {
		t.Fatalf("reason %q", got)
	}
	seen := map[string]int{}
	for _, h := range m.Headers {
		seen[h.Key]++
	}
	for k, n := range seen {
		if n != 1 {
			t.Fatalf("header %s occurs %d times", k, n)
		}
	}
}

// fakeLog refuses the first appends and keeps the rest.
type fakeLog struct {
	mu     sync.Mutex
	refuse int
	got    []stream.Message
}

func (f *fakeLog) Append(_ context.Context, msgs ...stream.Message) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse > 0 {
		f.refuse--
		return errors.New("no leader")
	}
	f.got = append(f.got, msgs...)
	return nil
}

func TestLaneAcknowledgesOnlyWhatIsDurable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &fakeLog{refuse: 3}
		lane := dlq.NewLane(log, 1, nil)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { lane.Run(ctx) })
		for i := range 1200 {
			lane.Enqueue(dlq.Entry{
				Partition: stream.Partition{Topic: "a", Index: 1},
				Record:    &stream.Record{Offset: int64(i), Value: fmt.Appendf(nil, "%d", i)},
				Reason:    "bad_json", At: at,
			})
		}
		synctest.Wait() // the first append was refused; the writer pauses
		if lane.Acked() != 0 {
			t.Fatalf("%d acknowledged while the log refuses", lane.Acked())
		}
		for lane.Acked() < lane.Sent() {
			<-lane.Wake()
		}
		cancel()
		wg.Wait()
		if len(log.got) != 1200 {
			t.Fatalf("%d messages, want 1200", len(log.got))
		}
		for i, m := range log.got {
			if string(m.Value) != strconv.Itoa(i) {
				t.Fatalf("message %d is %s", i, m.Value)
			}
		}
	})
}

func TestLaneIsFullAtItsBound(t *testing.T) {
	t.Parallel()
	lane := dlq.NewLane(&fakeLog{}, 0, nil) // not running
	for range dlq.LaneMax {
		if lane.Full() {
			t.Fatal("full too early")
		}
		lane.Enqueue(dlq.Entry{Record: &stream.Record{}, At: at})
	}
	if !lane.Full() {
		t.Fatal("not full at the bound")
	}
}

// Anybody may write our headers: they must neither make a message too large nor
// lead to a place that does not exist.
func TestMessageTrustsNoForgedCoordinates(t *testing.T) {
	t.Parallel()
	for name, forged := range map[string][]stream.Header{
		"huge topic":   {{Key: dlq.HeaderTopic, Value: bytes.Repeat([]byte("x"), 999_000)}},
		"topic alone":  {{Key: dlq.HeaderTopic, Value: []byte("b")}},
		"no number":    {{Key: dlq.HeaderTopic, Value: []byte("b")}, {Key: dlq.HeaderPartition, Value: []byte("0")}, {Key: dlq.HeaderOffset, Value: []byte("x")}, {Key: dlq.HeaderTimestamp, Value: []byte("0")}},
		"many headers": slices.Repeat([]stream.Header{{Key: "k", Value: nil}}, 60_000),
	} {
		m := dlq.Message(dlq.Entry{
			Partition: stream.Partition{Topic: "a", Index: 2},
			Record:    &stream.Record{Offset: 900, Timestamp: 5, Value: []byte("x"), Headers: forged},
			Reason:    "bad_json", At: at,
		}, 2)
		size := len(m.Key) + len(m.Value)
		for _, h := range m.Headers {
			size += len(h.Key) + len(h.Value)
		}
		if size > 1_000_012-100 {
			t.Errorf("%s: a message of %d bytes", name, size)
		}
		if header(m, dlq.HeaderTopic) != "a" || header(m, dlq.HeaderOffset) != "900" {
			t.Errorf("%s: coordinates %s %s", name, header(m, dlq.HeaderTopic), header(m, dlq.HeaderOffset))
		}
	}
}
