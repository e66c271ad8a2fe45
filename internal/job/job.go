// Package job is the contract between the engine and a domain: a job turns one
// record of the log into an event time, cells and a whole number, and keeps the
// newest state rows. The engine knows no transit; transit is one job.
package job

import (
	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/window"
)

// Kind is what a record turned out to be.
type Kind uint8

// The kinds of a record.
const (
	// Event is a valid record; Record.HasValue says whether it carries a number.
	Event Kind = iota
	// Ignored is a record with a null value.
	Ignored
	// Heartbeat moves the watermark by the rule of R1.
	Heartbeat
	// Close raises the watermark to its own time.
	Close
	// Dead can never be processed; Reason and Detail say why.
	Dead
)

// Decoded is the result for one record. The job fills it; its slices are valid
// until the job's next Decode.
type Decoded struct {
	Kind Kind
	// Record holds Time, HasValue, Value, Label, Group and Extra for an Event,
	// and Time for a Heartbeat or Close. The engine fills Offset and LogTime.
	Record window.Record
	// Reason is a fixed code and Detail a sentence; both for Dead.
	Reason string
	Detail string
}

// Job decodes the records of one partition. It is owned by that partition's
// task and not safe for concurrent use.
type Job interface {
	// Decode judges one record. It never fails: what cannot be decoded is Dead.
	Decode(rec *stream.Record, out *Decoded)
	// Keep folds the state rows of the record decoded last into the newest rows.
	Keep(offset int64)
	// Take hands over the newest rows kept since the last Take.
	Take() sink.State
}

// Factory makes the job for a partition of a topic.
type Factory func(topic string) (j Job, windowed bool)
