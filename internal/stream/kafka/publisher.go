package kafka

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/peil-stream/peil/internal/stream"
)

// memorySuffix makes the name of the topic that holds the memories of the
// publishers of a topic.
const memorySuffix = ".ingest-state"

// memoryPatience is how long a publisher waits for another one's transaction on
// the memory's topic: until the brokers abort it.
const memoryPatience = transactionTimeout + 10*time.Second

var errPublisherClosed = errors.New("publisher is closed")

// OpenPublisher first takes the transactional id, which fences the older
// publisher and ends its open transaction, and then reads the memory: nothing
// can change it any more.
func (l *Log) OpenPublisher(ctx context.Context, spec stream.PublisherSpec) (stream.Publisher, error) {
	p, err := l.openPublisher(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("open publisher %s: %w", spec.ID, err)
	}
	return p, nil
}

func (l *Log) openPublisher(ctx context.Context, spec stream.PublisherSpec) (*publisher, error) {
	p := &publisher{
		log:    l,
		id:     spec.ID,
		topic:  spec.Topic + memorySuffix,
		prefix: fmt.Sprintf("%d:%s:", len(spec.ID), spec.ID),
		memory: make(map[string][]byte),
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	addTopic(req, p.topic, 1, settings{
		"cleanup.policy": "compact",
		// Only segments that are full are compacted, and all of it is read when a
		// publisher opens.
		"segment.bytes": "16777216",
	})
	if err := l.create(ctx, req); err != nil {
		return nil, err
	}
	client, err := l.opts.transactional(spec.ID)
	if err != nil {
		return nil, err
	}
	p.client = client
	if _, _, err = client.ProducerID(ctx); err != nil {
		err = fmt.Errorf("fence: %w", classify(ctx, err))
	} else {
		err = p.load(ctx)
	}
	if err != nil {
		client.Close()
		return nil, err
	}
	return p, nil
}

type publisher struct {
	log    *Log
	id     string
	topic  string // of the memory
	prefix string // of this id's keys in it; the length keeps ids apart
	client *kgo.Client
	memory map[string][]byte
	dead   error // why no further publish is possible
}

// load reads the memory. The end to read to is the high watermark: another
// publisher's open transaction may lie before what this id has committed.
func (p *publisher) load(ctx context.Context) error {
	at := stream.Partition{Topic: p.topic}
	b, err := stream.BoundsOf(ctx, p.log, at)
	if err != nil {
		return fmt.Errorf("load memory: %w", err)
	}
	for r, err := range p.log.scan(ctx, at, b.Start, b.End, memoryPatience) {
		if err != nil {
			return fmt.Errorf("load memory from %s: %w", at, err)
		}
		key, mine := strings.CutPrefix(string(r.Key), p.prefix)
		switch {
		case !mine:
		case r.Value == nil:
			delete(p.memory, key)
		default:
			p.memory[key] = bytes.Clone(r.Value) // not the whole fetch
		}
	}
	return nil
}

// Memory yields what is remembered, this publisher's own changes included.
func (p *publisher) Memory() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for _, key := range slices.Sorted(maps.Keys(p.memory)) {
			if !yield(key, p.memory[key]) {
				return
			}
		}
	}
}

// Publish writes messages and memory in one transaction. After any error the
// publisher is dead.
func (p *publisher) Publish(ctx context.Context, msgs []stream.Message, changes []stream.Change) error {
	if p.dead != nil {
		return fmt.Errorf("publish as %s: publisher is dead: %w", p.id, p.dead)
	}
	last := make(map[string][]byte, len(changes))
	for _, c := range changes {
		last[c.Key] = slices.Clone(c.Value)
	}
	if len(msgs)+len(last) == 0 {
		return nil
	}
	err := checkSizes(msgs)
	if err == nil {
		err = p.log.transact(ctx, p.client, p.records(msgs, last))
	}
	if err != nil {
		p.end(err)
		return fmt.Errorf("publish as %s: %w", p.id, err)
	}
	for key, value := range last {
		if value == nil {
			delete(p.memory, key)
		} else {
			p.memory[key] = value
		}
	}
	return nil
}

// records are the messages, then the changes in order of their keys.
func (p *publisher) records(msgs []stream.Message, changes map[string][]byte) []kgo.Record {
	records := make([]kgo.Record, len(msgs)+len(changes))
	for i := range msgs {
		fill(&records[i], &msgs[i])
	}
	for i, key := range slices.Sorted(maps.Keys(changes)) {
		r := &records[len(msgs)+i]
		r.Topic, r.Key, r.Value = p.topic, []byte(p.prefix+key), changes[key]
	}
	return records
}

// end makes the publisher dead for a reason.
func (p *publisher) end(why error) {
	p.dead = why
	p.client.Close()
}

// Close ends the publisher; it fences nobody.
func (p *publisher) Close() error {
	if p.dead == nil {
		p.end(errPublisherClosed)
	}
	return nil
}
