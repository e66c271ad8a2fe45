package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/peil-stream/peil/internal/config"
	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/internal/stream/kafka"
)

// topicPrefix begins the names of topics, groups and schemas that a run makes.
const topicPrefix = "peil-bench-"

// flushesLeast is how many flushes a whole job must have, and flushesAim how many it
// is set up for where the product's default would give fewer.
const (
	flushesLeast = 10
	flushesAim   = 40
)

// ErrTopic says that the topic that was named cannot be used.
var ErrTopic = errors.New("cannot use the topic")

// Options of [Run].
type Options struct {
	// Kafka is how the brokers are reached. Without brokers they are in the memory
	// of this process.
	Kafka kafka.Options
	// Postgres is the address of a database in which a schema may be made; empty
	// leaves that stage out.
	Postgres string
	Shape    Shape
	// Rounds in which every stage runs once. The median counts.
	Rounds int
	// Stages to run.
	Stages []string
	// Topic to use: read if it is there, else filled and kept. Empty: a new one.
	Topic string
	// Keep the topic that was made.
	Keep bool
	// Compression of what is written: none, snappy, lz4 or zstd.
	Compression string
	// Profile is the folder for profiles of each run of a stage, or empty.
	Profile string
	// Spawn runs a stage in a process of its own; nil runs it in this one.
	Spawn func(context.Context, Spec) (Measure, error)
	// Told hears what goes on: lines that stay, and how far the topic is filled.
	Told func(line string, passing bool)
}

// run is one run.
type run struct {
	Options

	brokers *brokers
	log     *kafka.Log
	kind    string // of the brokers
	groups  []string
	topic   stream.Topic
	ends    []stream.Bounds
	want    *expectation
	value   float64 // mean bytes of a value
	key     float64 // and of a key
}

// Run fills a topic, reads it by every stage in every round, and compares what the
// whole jobs wrote with what they must have written.
func Run(ctx context.Context, o Options) (_ *Report, err error) {
	r, tidy, err := start(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, tidy()) }()
	report := &Report{
		At: time.Now().UTC(), Machine: machine(), Records: r.records(), Broker: r.kind,
		OwnProcesses: o.Spawn != nil, Rounds: o.Rounds, FlushRecords: r.flushRecords(),
	}
	if report.Stages, err = r.measure(ctx); err != nil {
		return nil, err
	}
	return report, nil
}

// start connects to the brokers and fills the topic; what it returns ends the run
// and takes away what was made.
func start(ctx context.Context, o Options) (_ *run, tidy func() error, err error) {
	compression, err := codec(o.Compression)
	if err != nil {
		return nil, nil, err
	}
	r := &run{Options: o, kind: "kafka"}
	var ends []func() error // in reverse order
	all := func() (err error) {
		for _, end := range slices.Backward(ends) {
			err = errors.Join(err, end())
		}
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, all())
		}
	}()
	if len(r.Kafka.Brokers) == 0 {
		cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
		if err != nil {
			return nil, nil, fmt.Errorf("start brokers in memory: %w", err)
		}
		ends = append(ends, func() error { cluster.Close(); return nil })
		r.kind, r.Kafka.Brokers = "kfake", cluster.ListenAddrs()
	}
	if r.log, err = kafka.Open(ctx, r.Kafka); err != nil {
		return nil, nil, err
	}
	ends = append(ends, r.log.Close)
	client, err := r.log.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(compression),
		kgo.MaxBufferedRecords(fillBuffered), kgo.ProducerLinger(20*time.Millisecond))
	if err != nil {
		return nil, nil, err
	}
	ends = append(ends, func() error { client.Close(); return nil })
	r.brokers = &brokers{client: client, admin: kadm.NewClient(client)}
	made, err := r.prepare(ctx)
	if made {
		ends = append(ends, func() error { return r.brokers.remove(ctx, r.topic.Name) })
	}
	ends = append(ends, func() error { r.brokers.forget(ctx, r.groups); return nil })
	return r, all, err
}

func codec(name string) (kgo.CompressionCodec, error) {
	switch name {
	case "", "none":
		return kgo.NoCompression(), nil
	case "snappy":
		return kgo.SnappyCompression(), nil
	case "lz4":
		return kgo.Lz4Compression(), nil
	case "zstd":
		return kgo.ZstdCompression(), nil
	}
	return kgo.CompressionCodec{}, fmt.Errorf("there is no compression %q", name)
}

// flushRecords is the product's default, or less, so that there are enough flushes.
// While one is written every partition may read as many records again, so one flush
// covers that number in each of them, and what is read while windows are merged.
func (r *run) flushRecords() int {
	preset, partitions := config.Config{}.WithDefaults().Flush.Records, int64(r.Shape.Partitions)
	if r.Shape.Records >= flushesLeast*int64(preset)*partitions {
		return preset
	}
	return int(max(1, r.Shape.Records/(flushesAim*partitions)))
}

// prepare sees to it that the topic holds the records, and computes what must come
// of them. made: the topic is to be deleted at the end.
func (r *run) prepare(ctx context.Context) (made bool, err error) {
	r.topic.Name = r.Topic
	if r.Topic == "" {
		r.topic.Name = topicPrefix + strings.ToLower(rand.Text()[:8])
	}
	exists, err := r.brokers.exists(ctx, r.topic.Name)
	if err != nil {
		return false, err
	}
	if !exists {
		made = r.Topic == "" && !r.Keep
		if err := r.fill(ctx, r.topic.Name); err != nil {
			return true, err // half a topic is of no use
		}
	}
	if err := r.inspect(ctx, r.topic.Name); err != nil {
		return made, err
	}
	r.told("computing what the rows must be")
	r.want = expect(r.Shape)
	return made, nil
}

func (r *run) told(format string, args ...any) {
	if r.Told != nil {
		r.Told(fmt.Sprintf(format, args...), false)
	}
}

func (r *run) fill(ctx context.Context, name string) error {
	begun := time.Now()
	if err := r.brokers.create(ctx, name, r.Shape.Partitions); err != nil {
		return err
	}
	err := r.brokers.fill(ctx, name, r.Shape, func(done int64) {
		if r.Told != nil {
			r.Told(fmt.Sprintf("filling %s: %d of %d records", name, done, r.Shape.Records), true)
		}
	})
	if err != nil {
		return err
	}
	r.told("filled %s with %d records in %.1f s", name, r.Shape.Records, time.Since(begun).Seconds())
	return nil
}

// inspect looks whether the topic holds exactly the records of the shape, as far as
// its bounds and first records tell.
func (r *run) inspect(ctx context.Context, name string) error {
	topics, err := r.log.Describe(ctx, name)
	if err != nil {
		return err
	}
	r.topic = topics[0]
	if r.topic.Partitions != r.Shape.Partitions {
		return fmt.Errorf("%w: %s has %d partitions, not %d", ErrTopic, name, r.topic.Partitions, r.Shape.Partitions)
	}
	partitions := make([]stream.Partition, r.topic.Partitions)
	for i := range partitions {
		partitions[i] = stream.Partition{Topic: name, Index: int32(i)}
	}
	if r.ends, err = r.log.Bounds(ctx, partitions...); err != nil {
		return err
	}
	held := -int64(r.Shape.Partitions) // the markers
	for _, b := range r.ends {
		held += b.End - b.Start
		if b.Start > 0 {
			return fmt.Errorf("%w: %s has been trimmed", ErrTopic, name)
		}
	}
	if held != r.Shape.Records {
		return fmt.Errorf("%w: %s holds %d records, not %d", ErrTopic, name, held, r.Shape.Records)
	}
	return r.inspectFirst(ctx, partitions)
}

// inspectFirst compares the first record of each partition, and measures values.
func (r *run) inspectFirst(ctx context.Context, partitions []stream.Partition) error {
	e := newEncoder(r.Shape.Partitions)
	first := make([][]byte, len(partitions))
	var one sample
	var value []byte
	size, keys, n := 0, 0, 0
	for g := newGenerator(r.Shape); n < 100_000 && g.draw(&one); n++ {
		value = e.value(value[:0], &one)
		size += len(value)
		keys += len(e.keys[one.trip])
		if p := e.partitions[one.trip]; first[p] == nil {
			first[p] = slices.Clone(value)
		}
	}
	r.value, r.key = float64(size)/float64(n), float64(keys)/float64(n)
	for i, p := range partitions {
		for rec, err := range r.log.Read(ctx, p, 0, 1) {
			if err != nil {
				return err
			}
			if first[i] != nil && string(rec.Value) != string(first[i]) {
				return fmt.Errorf("%w: %s does not hold the records of seed %d", ErrTopic, p.Topic, r.Shape.Seed)
			}
		}
	}
	return nil
}

func (r *run) records() Records {
	return Records{
		Topic: r.topic.Name, Seed: r.Shape.Seed, Count: r.Shape.Records, Partitions: r.Shape.Partitions, ValueBytes: r.value,
		Lines: Lines, Stations: Stations, Operators: Operators, Trips: Trips,
		Seconds: spanMS / 1000, Disorder: disorderMS / 1000,
	}
}

// measure runs every stage in every round.
func (r *run) measure(ctx context.Context) ([]StageReport, error) {
	var reports []StageReport
	for _, stage := range Stages() {
		if slices.Contains(r.Stages, stage) && (stage != StagePostgres || r.Postgres != "") {
			reports = append(reports, StageReport{Stage: stage})
		}
	}
	for round := range r.Rounds {
		for i := range reports {
			if err := r.one(ctx, round, &reports[i]); err != nil {
				return nil, err
			}
		}
	}
	var raw []Measure
	for i := range reports {
		s := &reports[i]
		if s.Stage == StageRaw {
			raw = s.Runs
		}
		s.summarise(raw)
	}
	return reports, nil
}

// one runs a stage once.
func (r *run) one(ctx context.Context, round int, s *StageReport) (err error) {
	group := fmt.Sprintf("%s%s-%s-%d", topicPrefix, strings.ToLower(rand.Text()[:8]), s.Stage, round+1)
	spec := Spec{
		Stage: s.Stage, Brokers: r.Kafka.Brokers, InMemory: r.kind == "kfake", Topic: r.topic.Name, Group: group,
		Partitions: r.Shape.Partitions, Messages: r.Shape.Records + int64(r.Shape.Partitions),
		FlushRecords: r.flushRecords(), Profile: r.Profile,
	}
	r.groups = append(r.groups, group)
	whole := s.Stage == StageSQLite || s.Stage == StagePostgres
	if whole {
		drop, err := r.database(ctx, &spec)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, drop()) }()
	}
	spawn := r.Spawn
	if spawn == nil {
		spawn = func(ctx context.Context, s Spec) (Measure, error) { return RunStage(ctx, s, r.Kafka) }
	}
	m, err := spawn(ctx, spec)
	if err != nil {
		return err
	}
	if m.Bytes == 0 {
		m.Bytes = int64((r.value + r.key) * float64(m.Records)) // the whole job does not count them
	}
	s.Runs = append(s.Runs, m)
	r.told("round %d of %d: %-8s %5.2f M records/s, %.1f s, %d MB", round+1, r.Rounds, s.Stage,
		float64(m.Records)/m.Seconds/1e6, m.Seconds, m.PeakBytes>>20)
	if !whole {
		return nil
	}
	return view(ctx, &spec, func(v sink.View) error {
		c, err := r.want.compare(ctx, v, r.topic, r.ends)
		if err == nil && (s.Check == nil || s.Check.Differences == 0) {
			s.Check = c
		}
		return err
	})
}

// database makes an empty database for a whole job; what it returns takes it away.
func (r *run) database(ctx context.Context, s *Spec) (drop func() error, err error) {
	if s.Stage == StagePostgres {
		return r.schema(ctx, s)
	}
	dir, err := os.MkdirTemp("", topicPrefix)
	if err != nil {
		return nil, fmt.Errorf("make a folder for the tables: %w", err)
	}
	s.Database = filepath.Join(dir, "peil.db")
	return func() error { return os.RemoveAll(dir) }, nil
}
