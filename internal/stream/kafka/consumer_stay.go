package kafka

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/peil-stream/peil/internal/stream"
)

const (
	// batchesBuffered is the bound of an assignment's channel.
	batchesBuffered = 2
	// fetchesMost and fetchesLeast are how many fetches of a partition wait for
	// its channel when the client stops asking for it, and when it asks again.
	fetchesMost  = 3
	fetchesLeast = 1
	// fewRecords that are fewBytes together are put into the piece before them.
	fewRecords = 256
	fewBytes   = 32 << 10
)

// errTruncated: what a consumer has read is no longer in the log.
var errTruncated = errors.New("the log was cut and written anew")

// buffer is the memory of a batch.
type buffer struct{ records []stream.Record }

// stay is an assignment with the sending side of its channel. Its goroutine turns
// the client's records into batches and waits for the handler to take them; the
// poll loop never waits.
type stay struct {
	stream.Assignment

	m    *member
	out  chan stream.Batch
	wake chan struct{} // more waits, or the stay has failed
	stop chan struct{} // closed when the stay ends
	done chan struct{} // closed when nothing is sent any more
	err  error         // set before out is closed

	mu     sync.Mutex
	next   int64 // the least offset that may come
	queue  [][]*kgo.Record
	paused bool  // the client does not fetch the partition
	failed error // it will not be fetched again
	hinted int64 // guarded by the member's hinting
}

func (m *member) newStay(p stream.Partition, topicID string) *stay {
	s := &stay{
		m: m, hinted: -1,
		out:  make(chan stream.Batch, batchesBuffered),
		wake: make(chan struct{}, 1),
		stop: make(chan struct{}),
		done: make(chan struct{}),
	}
	s.Assignment = stream.Assignment{
		Partition: p, TopicID: topicID, StartEpoch: -1, Batches: s.out,
		Err: func() error { return s.err },
	}
	return s
}

// hungry says that the stay may soon have nothing to deliver.
func (s *stay) hungry() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue) == 0 && s.failed == nil
}

// push queues records, which are the stay's from then on, and pauses the partition
// if too much waits. It is called by the poll loop only.
func (s *stay) push(records []*kgo.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil {
		return
	}
	if at := records[0].Offset; at < s.next {
		s.fail(fmt.Errorf("%w: offset %d came at position %d", errTruncated, at, s.next))
		return
	}
	s.next = records[len(records)-1].Offset + 1
	if n := len(s.queue); n > 0 && few(s.queue[n-1], records) {
		s.queue[n-1] = append(s.queue[n-1], records...)
	} else {
		s.queue = append(s.queue, records)
	}
	if len(s.queue) >= fetchesMost && !s.paused {
		s.paused = true
		s.m.client.PauseFetchPartitions(s.named())
	}
	notify(s.wake)
}

// few says that pieces are small enough to be one.
func few(pieces ...[]*kgo.Record) bool {
	n, size := 0, 0
	for _, p := range pieces {
		if n += len(p); n > fewRecords {
			return false
		}
		for _, r := range p {
			size += len(r.Key) + len(r.Value)
		}
	}
	return size <= fewBytes
}

// abandon stops the partition for a reason.
func (s *stay) abandon(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail(why)
}

// fail stops the partition; s.mu is held. What was read before is delivered,
// unless the log no longer holds it.
func (s *stay) fail(err error) {
	if s.failed != nil {
		return
	}
	s.failed = fmt.Errorf("read %s: %w", s.Partition, err)
	if errors.Is(err, errTruncated) {
		s.queue = nil
	}
	s.paused = true
	s.m.client.PauseFetchPartitions(s.named())
	notify(s.wake)
	notify(s.m.room)
}

// pop takes the oldest piece. With nothing there it says why nothing will come,
// or nil.
func (s *stay) pop() (records []*kgo.Record, failed error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return nil, s.failed
	}
	records = s.queue[0]
	s.queue = slices.Delete(s.queue, 0, 1)
	if s.paused && s.failed == nil && len(s.queue) <= fetchesLeast {
		s.paused = false
		s.m.client.ResumeFetchPartitions(s.named())
	}
	if len(s.queue) == 0 {
		notify(s.m.room)
	}
	return records, nil
}

// feed sends batches until the stay ends or fails.
func (s *stay) feed() {
	defer close(s.done)
	defer close(s.out)
	for {
		records, failed := s.pop()
		if failed != nil {
			s.err = failed
			return
		}
		if records == nil {
			select {
			case <-s.wake:
			case <-s.stop:
				return
			}
		}
		for len(records) > 0 {
			b, n := s.batch(records)
			select {
			case s.out <- b:
				records = records[n:]
			case <-s.stop:
				b.Release()
				return
			}
		}
	}
}

// batch converts the first n records, without copying what they hold. Markers of
// transactions only move Next.
func (s *stay) batch(records []*kgo.Record) (_ stream.Batch, n int) {
	buf := s.m.pool.Get().(*buffer) // the pool holds nothing else
	rs := slices.Grow(buf.records[:0], len(records))[:len(records)]
	filled := 0
	for size, most := 0, s.m.sub.BatchBytes; n < len(records) && (size < most || n == 0); n++ {
		r := records[n]
		if r.Attrs.IsControl() {
			continue
		}
		size += len(r.Key) + len(r.Value)
		convert(&rs[filled], r)
		filled++
	}
	buf.records = rs[:filled]
	last := records[n-1]
	return stream.NewBatch(buf.records, last.Offset+1, last.LeaderEpoch, func() {
		clear(buf.records) // or it keeps what was fetched alive
		s.m.pool.Put(buf)
	}), n
}

// convert fills in a record in place, which costs half of what returning one does.
// The target is empty.
func convert(to *stream.Record, r *kgo.Record) {
	to.Offset, to.Key, to.Value = r.Offset, r.Key, r.Value
	to.Timestamp = stream.NoTimestamp
	if r.Attrs.TimestampType() >= 0 {
		to.Timestamp = r.Timestamp.UnixMilli()
	}
	if len(r.Headers) > 0 {
		to.Headers = make([]stream.Header, len(r.Headers))
		for i, h := range r.Headers {
			to.Headers[i] = stream.Header(h)
		}
	}
}

// finish ends the stay: nothing can be received after it returns, and the
// partition is free for another stay.
func (s *stay) finish() {
	close(s.stop)
	<-s.done
	for b := range s.out {
		b.Release()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = nil
	if s.paused {
		s.m.client.ResumeFetchPartitions(s.named())
	}
}

func (s *stay) named() map[string][]int32 {
	return map[string][]int32{s.Partition.Topic: {s.Partition.Index}}
}

func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
