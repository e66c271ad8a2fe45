package kafka

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/peil-stream/peil/internal/stream"
)

const (
	// messageBytesMax bounds key, value and headers of one message. With what
	// the format adds, the client and the brokers by default take no more.
	messageBytesMax = 1_000_012
	// transactionTimeout is after how long the brokers abort a transaction that
	// nobody ends.
	transactionTimeout = 30 * time.Second
	// produceTimeout ends the waiting for acknowledgements while there is time
	// left to abort.
	produceTimeout = 25 * time.Second
	// endTimeout bounds the end of a transaction, which goes on when the caller
	// has given up: broken off, its outcome would be unknown.
	endTimeout = 10 * time.Second
	// abortTimeout bounds what is done for readers only: an abort that is not
	// heard happens by itself, but holds them until then.
	abortTimeout = 5 * time.Second
	// readableTimeout bounds the wait for records to become readable, which they
	// commonly are after a few milliseconds.
	readableTimeout = 2 * time.Second
	readablePause   = 2 * time.Millisecond
	// addedPause is between two looks for a partition that was added; the client
	// asks the brokers ten times a second at most.
	addedPause = 20 * time.Millisecond
)

// producing are the options of the clients that write.
func producing() []kgo.Opt {
	return []kgo.Opt{
		kgo.RecordPartitioner(partitioner()),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerLinger(0), // whoever writes has all messages and waits for the answer
	}
}

// transactional makes a client for the transactions of an id. The caller closes
// it.
func (o Options) transactional(id string) (*kgo.Client, error) {
	return o.client(append(producing(), kgo.TransactionalID(id), kgo.TransactionTimeout(transactionTimeout))...)
}

// Append writes one message as it is, and more of them in a transaction of a
// client that is made at the first such call.
func (l *Log) Append(ctx context.Context, msgs ...stream.Message) error {
	if len(msgs) == 0 {
		return nil
	}
	if err := checkSizes(msgs); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	records := make([]kgo.Record, len(msgs))
	for i := range msgs {
		fill(&records[i], &msgs[i])
	}
	var err error
	if len(records) == 1 {
		err = l.appendOne(ctx, &records[0])
	} else {
		err = l.appendAll(ctx, records)
	}
	if err != nil {
		return fmt.Errorf("append: %w", err)
	}
	return nil
}

// appendOne gives up waiting when ctx is done; the message may be written
// afterwards.
func (l *Log) appendOne(ctx context.Context, r *kgo.Record) error {
	waiting, cancel := context.WithTimeout(ctx, produceTimeout)
	defer cancel()
	if err := l.awaitAdded(waiting, l.client, []kgo.Record{*r}); err != nil {
		return err
	}
	done := make(chan error, 1)
	l.client.Produce(waiting, r, func(_ *kgo.Record, err error) { done <- err })
	var err error
	select {
	case err = <-done:
	case <-waiting.Done():
		err = fmt.Errorf("message may be written yet: %w", waiting.Err())
	}
	return classify(ctx, err)
}

func (l *Log) appendAll(ctx context.Context, records []kgo.Record) error {
	l.appending.Lock()
	defer l.appending.Unlock()
	if l.appender == nil {
		client, err := l.opts.transactional(l.opts.ClientID + ".append." + rand.Text())
		if err != nil {
			return err
		}
		if _, _, err := client.ProducerID(ctx); err != nil { // to begin would not heed ctx
			client.Close()
			return classify(ctx, err)
		}
		l.appender = client
	}
	if err := l.transact(ctx, l.appender, records); err != nil {
		l.appender.Close()
		l.appender = nil
		return err
	}
	return nil
}

// checkSizes refuses messages that no log takes, before anything is written.
func checkSizes(msgs []stream.Message) error {
	for i, m := range msgs {
		size := len(m.Key) + len(m.Value)
		for _, h := range m.Headers {
			size += len(h.Key) + len(h.Value)
		}
		if size > messageBytesMax {
			return fmt.Errorf("message %d: %w: %d bytes, the limit is %d", i, stream.ErrTooLarge, size, messageBytesMax)
		}
	}
	return nil
}

// fill makes a record of a message without copying.
func fill(r *kgo.Record, m *stream.Message) {
	r.Topic, r.Partition, r.Key, r.Value = m.Topic, m.Partition, m.Key, m.Value
	if m.Timestamp != 0 {
		r.Timestamp = time.UnixMilli(m.Timestamp)
	}
	if len(m.Headers) > 0 {
		r.Headers = make([]kgo.RecordHeader, len(m.Headers))
		for i, h := range m.Headers {
			r.Headers[i] = kgo.RecordHeader(h)
		}
	}
}

// transact writes the records, all or none, in order within each partition.
// [stream.ErrFenced]: another client has opened the transactional id. After any
// other error the outcome may be unknown. After an error the client is good for
// nothing but to be closed.
func (l *Log) transact(ctx context.Context, client *kgo.Client, records []kgo.Record) error {
	if err := l.awaitAdded(ctx, client, records); err != nil {
		return err
	}
	began := time.Now()
	if err := client.BeginTransaction(); err != nil {
		return fmt.Errorf("begin transaction: %w", ended(ctx, err, began))
	}
	if err := produce(ctx, client, records); err != nil {
		abort(ctx, client)
		return ended(ctx, err, began)
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	if err := client.EndTransaction(ending, kgo.TryCommit); err != nil {
		return fmt.Errorf("commit transaction, perhaps without effect: %w", ended(ctx, err, began))
	}
	l.awaitReadable(ctx, records)
	return nil
}

// awaitReadable waits until committed records can be read: the brokers answer a
// commit when it is decided, and tell the partitions afterwards. It gives up
// after a while, for another transaction may hold readers before the records.
func (l *Log) awaitReadable(ctx context.Context, records []kgo.Record) {
	ctx, cancel := context.WithTimeout(ctx, readableTimeout)
	defer cancel()
	last := make(map[stream.Partition]int64)
	for i := range records {
		r := &records[i]
		p := stream.Partition{Topic: r.Topic, Index: r.Partition}
		last[p] = max(last[p], r.Offset)
	}
	for {
		ends, err := l.offsets(ctx, slices.Collect(maps.Keys(last)), askEnd, committed)
		if err != nil {
			return
		}
		maps.DeleteFunc(last, func(p stream.Partition, offset int64) bool { return ends[p] > offset })
		if len(last) == 0 || pause(ctx, readablePause) != nil {
			return
		}
	}
}

// produce writes the records and waits until they are acknowledged.
func produce(ctx context.Context, client *kgo.Client, records []kgo.Record) error {
	waiting, cancel := context.WithTimeout(ctx, produceTimeout)
	defer cancel()
	var first atomic.Pointer[failure]
	promise := func(r *kgo.Record, err error) {
		if err != nil {
			first.CompareAndSwap(nil, &failure{r, err})
		}
	}
	for i := range records {
		if first.Load() != nil {
			break
		}
		client.Produce(waiting, &records[i], promise) // blocks while too much is on its way
	}
	err := client.Flush(waiting)
	f := first.Load()
	if f == nil && err == nil {
		err = awaitKnown(waiting, client, records)
	}
	if f == nil {
		return err
	}
	for i := range records {
		if &records[i] == f.record {
			return fmt.Errorf("message %d to %s/%d: %w", i, f.record.Topic, f.record.Partition, f.err)
		}
	}
	return f.err
}

// awaitKnown waits until the client knows the topics of records that it has
// written. The client sends the first records of a topic before it has noted its
// partitions (kgo v1.22.3), and the end of a transaction passes over partitions
// that are not noted: it is left out altogether, or the next transaction goes on
// with the sequence numbers of this one.
func awaitKnown(ctx context.Context, client *kgo.Client, records []kgo.Record) error {
	known := make(map[string]bool)
	for i := range records {
		r := &records[i]
		for !known[r.Topic] {
			leader, _, err := client.PartitionLeader(r.Topic, r.Partition)
			if err != nil {
				return err
			}
			if known[r.Topic] = leader >= 0; known[r.Topic] {
				break
			}
			if err := pause(ctx, time.Millisecond); err != nil {
				return err
			}
		}
	}
	return nil
}

// awaitAdded waits until the client knows partitions that were added to a topic
// since it looked: it refuses a message to a partition beyond those that it knows.
// A partition that the brokers do not know either wraps [stream.ErrNoTopic].
func (l *Log) awaitAdded(ctx context.Context, client *kgo.Client, records []kgo.Record) error {
	highest := make(map[string]int32)
	for i := range records {
		highest[records[i].Topic] = max(highest[records[i].Topic], records[i].Partition)
	}
	ctx, cancel := context.WithTimeout(ctx, produceTimeout)
	defer cancel()
	for topic, p := range highest {
		asked := false
		for knows(client, topic, 0) && !knows(client, topic, p) {
			if !asked {
				topics, err := l.Describe(ctx, topic)
				if err != nil {
					return err
				}
				if p >= topics[0].Partitions {
					return fmt.Errorf("%w with that partition: %s/%d", stream.ErrNoTopic, topic, p)
				}
				asked = true
			}
			client.ForceMetadataRefresh()
			if err := pause(ctx, addedPause); err != nil {
				return classify(ctx, err)
			}
		}
	}
	return nil
}

// knows says whether the client has looked at a partition. It has not at any of a
// topic before it writes the first message to it; then it looks by itself.
func knows(client *kgo.Client, topic string, partition int32) bool {
	leader, _, err := client.PartitionLeader(topic, partition)
	return err != nil || leader >= 0
}

// failure is the first error of a run of records.
type failure struct {
	record *kgo.Record
	err    error
}

// abort ends a transaction that must have no effect. Nothing is decided by its
// answers: a transaction that is not ended is aborted by the next client of its
// id, or by its timeout.
func abort(ctx context.Context, client *kgo.Client) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	_ = client.AbortBufferedRecords(ctx)
	_ = client.EndTransaction(ctx, kgo.TryAbort)
}

// ended gives the error of a transaction its kind. The codes of a client that
// was fenced also come when the brokers aborted a transaction that took too
// long; within its timeout they can mean only one thing. A client whose
// transaction or id the brokers have forgotten is dead, and a new one works.
func ended(ctx context.Context, err error, began time.Time) error {
	is := func(code *kerr.Error) bool { return errors.Is(err, code) }
	switch {
	case slices.ContainsFunc([]*kerr.Error{kerr.InvalidProducerEpoch, kerr.ProducerFenced, kerr.InvalidTxnState}, is):
		if time.Since(began) < transactionTimeout {
			return fmt.Errorf("%w: %w", stream.ErrFenced, err)
		}
	case slices.ContainsFunc([]*kerr.Error{
		kerr.OutOfOrderSequenceNumber, kerr.UnknownProducerID, kerr.InvalidProducerIDMapping,
		kerr.OperationNotAttempted, kerr.TransactionAbortable,
	}, is):
	default:
		return classify(ctx, err)
	}
	if ctx.Err() != nil {
		return classify(ctx, err)
	}
	return fmt.Errorf("%w: %w", stream.ErrUnavailable, err)
}
