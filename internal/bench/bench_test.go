package bench

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/peil-stream/peil/internal/sink"
)

// A service that the integration tests have started lives as long as the binary.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/peil-stream/peil/internal/testkit/services.start.func1"))
}

// small is a run that takes a moment.
func small(t *testing.T) Options {
	t.Helper()
	return Options{
		Shape: Shape{Seed: 7, Records: 20_000, Partitions: 3}, Rounds: 1, Stages: Stages(),
		Told: func(line string, passing bool) {
			if !passing {
				t.Log(line)
			}
		},
	}
}

// Not parallel: it looks at the processor time of the process.
func TestEveryStageReadsEverythingAndTheRowsAreRight(t *testing.T) {
	r, err := Run(t.Context(), small(t))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{StageRaw, StageBatches, StageDecode, StageWindows, StageSQLite}
	var got []string
	for _, s := range r.Stages {
		got = append(got, s.Stage)
		m := s.Runs[0]
		if m.Records != 20_003 || m.Bytes == 0 || m.Seconds <= 0 || m.PeakBytes == 0 || m.CPUSeconds <= 0 || s.RecordsPerSecond <= 0 || s.Ratio == nil {
			t.Errorf("stage %s: %+v", s.Stage, s)
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("stages %v, want %v", got, want)
	}
	whole := r.Stages[4]
	if whole.Check == nil || whole.Check.Differences != 0 || whole.Check.Rows < 12*1000 || whole.Check.Trips < 10_000 || whole.Check.Partitions != 3 {
		t.Errorf("check %+v", whole.Check)
	}
	if whole.Flushes < 1 {
		t.Errorf("%d flushes", whole.Flushes)
	}
	if r.Differences() != 0 || r.Broker != "kfake" || r.OwnProcesses || r.Records.ValueBytes < 185 || r.Records.ValueBytes > 190 {
		t.Errorf("report %+v", r)
	}
}

// TestAWrongRowIsFound runs the whole job once and spoils one thing at a time of
// what it is compared with.
func TestAWrongRowIsFound(t *testing.T) {
	t.Parallel()
	o := small(t)
	o.Shape.Records = 2_000
	r, tidy, err := start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := tidy(); err != nil {
			t.Error(err)
		}
	}()
	s := Spec{
		Stage: StageSQLite, Brokers: r.Kafka.Brokers, Topic: r.topic.Name, Group: "g", Partitions: 3, Messages: 2_003,
		FlushRecords: 200, Database: filepath.Join(t.TempDir(), "peil.db"),
	}
	if _, err := RunStage(t.Context(), s, r.Kafka); err != nil {
		t.Fatal(err)
	}
	spoilRow := func(f func(*row)) func(*expectation) {
		return func(e *expectation) {
			for k, v := range e.rows {
				f(&v)
				e.rows[k] = v
				return
			}
		}
	}
	spoilTrip := func(f func(*trip)) func(*expectation) {
		return func(e *expectation) {
			for k, v := range e.trips {
				f(&v)
				e.trips[k] = v
				return
			}
		}
	}
	faults := []struct {
		name  string
		spoil func(*expectation)
		want  int64
	}{
		{"none", func(*expectation) {}, 0},
		{"count", spoilRow(func(r *row) { r.count++ }), 1},
		{"mean", spoilRow(func(r *row) { r.mean += 1e-9 }), 1},
		{"p90", spoilRow(func(r *row) { r.p90++ }), 1},
		{"max", spoilRow(func(r *row) { r.max++ }), 1},
		{"min", spoilRow(func(r *row) { r.min-- }), 1},
		{"operator", spoilRow(func(r *row) { r.operator = "" }), 1},
		{"a row too many in the tables", func(e *expectation) { delete(e.rows, firstKey(e.rows)) }, 1},
		{"rows missing in the tables", func(e *expectation) { e.rows[rowKey{id: "x"}], e.rows[rowKey{id: "y"}] = row{}, row{} }, 2},
		{"delay of a trip", spoilTrip(func(t *trip) { t.delay++ }), 1},
		{"stop of a trip", spoilTrip(func(t *trip) { t.sequence++ }), 1},
		{"time of a trip", spoilTrip(func(t *trip) { t.at++ }), 1},
		{"a trip missing in the tables", func(e *expectation) { e.trips["x"] = trip{} }, 1},
		{"a count of offsets", func(e *expectation) { e.accepted[1]-- }, 1},
	}
	err = view(t.Context(), &s, func(v sink.View) error {
		for _, fault := range faults {
			want := &expectation{rows: maps.Clone(r.want.rows), trips: maps.Clone(r.want.trips), accepted: slices.Clone(r.want.accepted)}
			fault.spoil(want)
			c, err := want.compare(t.Context(), v, r.topic, r.ends)
			if err != nil {
				return err
			}
			if c.Differences != fault.want || (len(c.Examples) > 0) != (fault.want > 0) {
				t.Errorf("%s: %+v, want %d differences", fault.name, c, fault.want)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func firstKey(rows map[rowKey]row) (k rowKey) {
	for k = range rows {
		return k
	}
	return k
}

func TestATopicIsReused(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	o := small(t)
	o.Kafka.Brokers, o.Topic, o.Stages = cluster.ListenAddrs(), "mine", []string{StageRaw}
	for range 2 {
		r, err := Run(t.Context(), o)
		if err != nil || r.Records.Topic != "mine" || r.Broker != "kafka" {
			t.Fatalf("%+v: %v", r, err)
		}
	}
	for _, other := range []struct {
		name   string
		change func(*Shape)
	}{
		{"more records", func(s *Shape) { s.Records++ }},
		{"other partitions", func(s *Shape) { s.Partitions++ }},
		{"another seed", func(s *Shape) { s.Seed++ }},
	} {
		wrong := o
		other.change(&wrong.Shape)
		if _, err := Run(t.Context(), wrong); !errors.Is(err, ErrTopic) {
			t.Errorf("%s: %v, want ErrTopic", other.name, err)
		}
	}
}

// TestAStopLeavesNothingBehind: a run that is given up deletes its topics and its
// groups.
func TestAStopLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, at := range []string{"filling", "filled", "round 1 of 1: batches"} {
		ctx, cancel := context.WithCancel(t.Context())
		o := small(t)
		o.Kafka.Brokers, o.Shape.Records = cluster.ListenAddrs(), 100_001
		o.Told = func(line string, _ bool) {
			if strings.HasPrefix(line, at) {
				cancel()
			}
		}
		if _, err := Run(ctx, o); !errors.Is(err, context.Canceled) {
			t.Errorf("stopped at %q: %v", at, err)
		}
		cancel()
		topics, err := kadm.NewClient(client).ListTopics(t.Context())
		if err != nil || len(topics) != 0 {
			t.Errorf("stopped at %q: topics %v are left: %v", at, topics.Names(), err)
		}
		groups, err := kadm.NewClient(client).ListGroups(t.Context())
		if err != nil || len(groups) != 0 {
			t.Errorf("stopped at %q: groups %v are left: %v", at, groups.Groups(), err)
		}
	}
}
