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
	// detailMax bounds the error text.
	detailMax = 500
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
// is the index in the dead-letter topic.
func Message(e Entry, partition int32) stream.Message {
	r := e.Record
	m := stream.Message{
		Topic:     Topic(e.Partition.Topic),
		Partition: partition,
		Key:       bytes.Clone(r.Key),
		Value:     bytes.Clone(r.Value),
	}
	coordinates := map[string]string{
		HeaderTopic:     e.Partition.Topic,
		HeaderPartition: strconv.FormatInt(int64(e.Partition.Index), 10),
		HeaderOffset:    strconv.FormatInt(r.Offset, 10),
		HeaderTimestamp: strconv.FormatInt(r.Timestamp, 10),
	}
	// A replayed dead letter that dies again keeps its first coordinates, so
	// that it can be traced to where it came from (R14).
	size := len(m.Key) + len(m.Value)
	for _, h := range r.Headers {
		if strings.HasPrefix(h.Key, "peil-dlq-") {
			if _, ok := coordinates[h.Key]; ok {
				coordinates[h.Key] = string(h.Value)
			}
			continue
		}
		size += len(h.Key) + len(h.Value)
		m.Headers = append(m.Headers, stream.Header{Key: h.Key, Value: bytes.Clone(h.Value)})
	}
	if size > messageMax {
		shrink(&m)
	}
	for _, k := range []string{HeaderTopic, HeaderPartition, HeaderOffset, HeaderTimestamp} {
		m.Headers = append(m.Headers, stream.Header{Key: k, Value: []byte(coordinates[k])})
	}
	m.Headers = append(m.Headers,
		stream.Header{Key: HeaderReason, Value: []byte(e.Reason)},
		stream.Header{Key: HeaderError, Value: []byte(clip(e.Detail, detailMax))},
		stream.Header{Key: HeaderAt, Value: []byte(e.At.UTC().Format("2006-01-02T15:04:05.000Z"))},
	)
	return m
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
