package processor

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/peil-stream/peil/internal/job"
	"github.com/peil-stream/peil/window"
)

// Where a partition without stored offsets begins.
const (
	StartEarliest = "earliest"
	StartLatest   = "latest"
)

// Config of a Processor. The zero value of a field is its documented default.
type Config struct {
	// Group is the consumer group. One group per database.
	Group string
	// Owner names this process in consumer_offsets.
	Owner string
	// Topics to read; they must exist.
	Topics []string
	// Job makes the decoder of each partition.
	Job job.Factory
	// Window holds size and lateness.
	Window window.Config
	// MaxSkew is how far an event time may lie after the log's timestamp; a
	// cold start leaves out the windows that it may concern. Defaults to 5 min.
	MaxSkew time.Duration
	// Fingerprint of the settings that decide rows (R5).
	Fingerprint string
	// Start is StartEarliest (default) or StartLatest.
	Start string
	// FlushInterval between flushes. Defaults to 5 s.
	FlushInterval time.Duration
	// FlushRecords flushes earlier once so many records were read since the
	// last one; a partition that has read so many while a flush is in flight
	// waits for it. Defaults to 250,000.
	FlushRecords int
	// IdleTimeout after which a quiet partition no longer holds finality.
	// Defaults to 60 s.
	IdleTimeout time.Duration
	// HeldRecords and HeldFor bound the uncommitted records of a partition: above
	// them there is an incident. Default to 10,000,000 and 1 h.
	HeldRecords int64
	HeldFor     time.Duration
	// Patience is how long a database that cannot answer is asked again before
	// the process gives up. Defaults to 1 min.
	Patience time.Duration
	// Retention of merged segments' data. Defaults to 7 days.
	Retention time.Duration
	// BatchBytes bounds the batches that are read ahead, over all partitions
	// together. Defaults to 16 MiB.
	BatchBytes int
	// FinalLimit is the number of windows finalised in one transaction.
	// Defaults to 50.
	FinalLimit int
	// Now is the wall clock. It stamps dead letters and tells how long records
	// are held; it never decides what is in a row. Defaults to time.Now.
	Now func() time.Time
	// Logger; nil discards.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&c.MaxSkew, 5*time.Minute)
	def(&c.FlushInterval, 5*time.Second)
	def(&c.IdleTimeout, time.Minute)
	def(&c.HeldFor, time.Hour)
	def(&c.Patience, time.Minute)
	def(&c.Retention, 7*24*time.Hour)
	if c.FlushRecords == 0 {
		c.FlushRecords = 250_000
	}
	if c.HeldRecords == 0 {
		c.HeldRecords = 10_000_000
	}
	if c.BatchBytes == 0 {
		c.BatchBytes = 16 << 20
	}
	if c.FinalLimit == 0 {
		c.FinalLimit = 50
	}
	if c.Start == "" {
		c.Start = StartEarliest
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	var errs []error
	need := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	need(c.Group != "", "processor: no group")
	need(len(c.Topics) > 0, "processor: no topics")
	need(c.Job != nil, "processor: no job")
	need(c.Start == StartEarliest || c.Start == StartLatest, "processor: start %q is neither earliest nor latest", c.Start)
	need(c.FlushInterval > 0, "processor: flush interval %s is not positive", c.FlushInterval)
	need(c.FlushRecords > 0, "processor: flush records %d is not positive", c.FlushRecords)
	errs = append(errs, c.Window.Validate())
	return errors.Join(errs...)
}
