package dlq

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/peil-stream/peil/internal/stream"
)

// The headers of a dead letter.
const (
	HeaderTopic     = "peil-dlq-topic"
	HeaderPartition = "peil-dlq-partition"
	HeaderOffset    = "peil-dlq-offset"
	HeaderTimestamp = "peil-dlq-timestamp"
	HeaderReason    = "peil-dlq-reason"
	HeaderError     = "peil-dlq-error"
	HeaderAt        = "peil-dlq-at"
	// HeaderSHA256 and HeaderBytes stand only on a pointer: the hash and length
	// of the whole original value.
	HeaderSHA256 = "peil-dlq-sha256"
	HeaderBytes  = "peil-dlq-bytes"
)

const (
	// messageMax is the largest message passed on whole: the batch limit of
	// Kafka's defaults (1,000,012 bytes) less room for the headers added here
	// and for the framing of a batch.
	messageMax = 1_000_012 - 8<<10
	// pointerMax is how much of key and value a pointer keeps.
	pointerMax = 1 << 10
	// detailMax bounds the error text, and topicMax the name of a topic, which
	// is Kafka's limit.
	detailMax = 500
	topicMax  = 249
	// headerFraming is what the log needs for a header beside its text.
	headerFraming = 16
	// headerPrefix begins the names of the headers that are set here.
	headerPrefix = "peil-dlq-"
)

// Topic is the dead-letter topic of a topic.
func Topic(topic string) string { return "dlq." + topic }

// Entry is a record that cannot be processed.
type Entry struct {
	Partition stream.Partition
	// Record may be a view; Message copies what it keeps.
	Record *stream.Record
	// Reason is a fixed code, Detail a sentence for people.
	Reason, Detail string
	At             time.Time
}

// Message builds the dead letter. It shares no memory with the record. partition
// is the index in the dead-letter topic. Its size is bounded whatever the record
// holds, so a log that takes messages of its default size takes it.
func Message(e Entry, partition int32) stream.Message {
	r := e.Record
	m := stream.Message{
		Topic:     Topic(e.Partition.Topic),
		Partition: partition,
		Key:       bytes.Clone(r.Key),
		Value:     bytes.Clone(r.Value),
	}
	size := len(m.Key) + len(m.Value)
	for _, h := range r.Headers {
		if strings.HasPrefix(h.Key, headerPrefix) {
			continue
		}
		size += len(h.Key) + len(h.Value) + headerFraming
		m.Headers = append(m.Headers, stream.Header{Key: h.Key, Value: bytes.Clone(h.Value)})
	}
	if size > messageMax {
		shrink(&m)
	}
	o := originOf(e)
	for _, h := range []struct{ key, value string }{
		{HeaderTopic, o.topic},
		{HeaderPartition, strconv.FormatInt(o.partition, 10)},
		{HeaderOffset, strconv.FormatInt(o.offset, 10)},
		{HeaderTimestamp, strconv.FormatInt(o.timestamp, 10)},
		{HeaderReason, e.Reason},
		{HeaderError, clip(e.Detail, detailMax)},
		{HeaderAt, e.At.UTC().Format("2006-01-02T15:04:05.000Z")},
	} {
		m.Headers = append(m.Headers, stream.Header{Key: h.key, Value: []byte(h.value)})
	}
	return m
}

// origin is where a record lay first.
type origin struct {
	topic                        string
	partition, offset, timestamp int64
}

// originOf gives the coordinates of a record, or the first ones of a replayed
// dead letter that dies again, so that it can be traced to where it came from
// (R14). Anybody may write such headers, so they count only if all four are
// there and sound.
func originOf(e Entry) origin {
	own := origin{
		topic: e.Partition.Topic, partition: int64(e.Partition.Index),
		offset: e.Record.Offset, timestamp: e.Record.Timestamp,
	}
	topic, ok := e.Record.Header(HeaderTopic)
	if !ok || len(topic) == 0 || len(topic) > topicMax || !utf8.Valid(topic) {
		return own
	}
	first := origin{topic: string(topic)}
	for _, n := range []struct {
		key  string
		bits int
		into *int64
	}{
		{HeaderPartition, 32, &first.partition},
		{HeaderOffset, 64, &first.offset},
		{HeaderTimestamp, 64, &first.timestamp},
	} {
		text, _ := e.Record.Header(n.key)
		x, err := strconv.ParseInt(string(text), 10, n.bits)
		if err != nil || x < -1 {
			return own
		}
		*n.into = x
	}
	return first
}

// shrink turns a message into a pointer: first bytes of key and value, no
// foreign headers, hash and length of the value.
func shrink(m *stream.Message) {
	sum := sha256.Sum256(m.Value)
	length := strconv.Itoa(len(m.Value))
	m.Value = m.Value[:min(len(m.Value), pointerMax):min(len(m.Value), pointerMax)]
	m.Key = m.Key[:min(len(m.Key), pointerMax):min(len(m.Key), pointerMax)]
	m.Headers = []stream.Header{
		{Key: HeaderSHA256, Value: []byte(hex.EncodeToString(sum[:]))},
		{Key: HeaderBytes, Value: []byte(length)},
	}
}

// clip cuts s to at most n bytes without cutting a rune in two.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
