package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"

	"github.com/peil-stream/peil/internal/config"
	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/internal/stream/kafka"
)

// The stages, each of which does more than the one before it.
const (
	// StageRaw is the client alone, with the options of the product.
	StageRaw = "raw"
	// StageBatches hands the records over to a goroutine of each partition.
	StageBatches = "batches"
	// StageDecode decodes and judges them there.
	StageDecode = "decode"
	// StageWindows keeps windows and ledger and encodes what closes.
	StageWindows = "windows"
	// StageSQLite and StagePostgres are the whole job.
	StageSQLite   = "sqlite"
	StagePostgres = "postgres"
)

// Stages lists all stages in their order.
func Stages() []string {
	return []string{StageRaw, StageBatches, StageDecode, StageWindows, StageSQLite, StagePostgres}
}

// readAhead is by how much the processor divides what may be read ahead; a whole
// job checks it.
const readAhead = 4

// Spec is one run of one stage.
type Spec struct {
	Stage   string   `json:"stage"`
	Brokers []string `json:"brokers"`
	// InMemory brokers are reached as they are, whatever a configuration says of
	// others.
	InMemory bool   `json:"in_memory"`
	Topic    string `json:"topic"`
	Group    string `json:"group"`
	// Partitions of the topic, and Messages in it: records and markers.
	Partitions int32 `json:"partitions"`
	Messages   int64 `json:"messages"`
	// FlushRecords is flush.records of a whole job.
	FlushRecords int `json:"flush_records"`
	// Database of a whole job: a file of SQLite, or the address of Postgres.
	Database string `json:"database,omitempty"`
	// Profile is the folder for profiles of processor time and allocations, or empty.
	Profile string `json:"profile,omitempty"`
}

func (s *Spec) subscription() stream.Subscription {
	ahead := int(config.Config{}.WithDefaults().Limits.BatchBytes)
	return stream.Subscription{
		Group: s.Group, Topics: []string{s.Topic}, BatchBytes: max(1, ahead/(readAhead*int(s.Partitions))),
	}
}

// RunStage runs one stage in this process. Options are those of the connection,
// but for the brokers.
func RunStage(ctx context.Context, s Spec, o kafka.Options) (m Measure, err error) {
	o.Brokers = s.Brokers
	log, err := kafka.Open(ctx, o)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	stop, err := s.profile()
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	switch s.Stage {
	case StageRaw:
		m, err = raw(ctx, log, &s)
	case StageBatches, StageDecode, StageWindows:
		m, err = read(ctx, log, &s)
	case StageSQLite, StagePostgres:
		m, err = whole(ctx, log, &s)
	default:
		err = fmt.Errorf("there is no stage %q", s.Stage)
	}
	if err != nil {
		return m, fmt.Errorf("stage %s: %w", s.Stage, err)
	}
	return m, nil
}

// profile begins a profile of processor time if one is wanted; what it returns ends
// it and adds one of allocations.
func (s *Spec) profile() (stop func() error, err error) {
	if s.Profile == "" {
		return func() error { return nil }, nil
	}
	cpu, err := os.Create(filepath.Join(s.Profile, s.Group+".cpu.pprof"))
	if err != nil {
		return nil, fmt.Errorf("make the profile: %w", err)
	}
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return nil, fmt.Errorf("make the profile: %w", errors.Join(err, cpu.Close()))
	}
	return func() error {
		pprof.StopCPUProfile()
		allocs, err := os.Create(filepath.Join(s.Profile, s.Group+".allocs.pprof"))
		if err != nil {
			return fmt.Errorf("make the profile: %w", errors.Join(err, cpu.Close()))
		}
		return errors.Join(pprof.Lookup("allocs").WriteTo(allocs, 0), allocs.Close(), cpu.Close())
	}, nil
}
