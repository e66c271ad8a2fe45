//go:build integration

package bench

import (
	"errors"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/sink/postgres"
	"github.com/peil-stream/peil/internal/testkit/services"
)

// TestOnKafkaAndPostgres runs all stages on real services, beside the tables of
// somebody else in the same database, and leaves nothing behind.
func TestOnKafkaAndPostgres(t *testing.T) {
	t.Parallel()
	address := services.Postgres(t)
	other, err := postgres.Open(t.Context(), postgres.Options{URL: address})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := other.Record(t.Context(), sink.Incident{Kind: "mine", Partition: -1}); err != nil {
		t.Fatal(err)
	}
	o := small(t)
	o.Kafka.Brokers, o.Postgres, o.Compression = services.Kafka(t), address, "snappy"
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Stages) != 6 || r.Broker != "kafka" || r.Differences() != 0 || r.Stages[5].Check.Rows != r.Stages[4].Check.Rows {
		t.Errorf("report %+v", r)
	}

	v, err := other.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	incidents, err := v.Incidents(t.Context(), 0)
	offsets, more := v.Offsets(t.Context())
	if err := errors.Join(err, more, v.Close()); err != nil || len(incidents) != 1 || len(offsets) != 0 {
		t.Errorf("the other tables: %d incidents, %d offsets: %v", len(incidents), len(offsets), err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(o.Kafka.Brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	topics, err := kadm.NewClient(client).ListTopics(t.Context())
	if err != nil || slices.Contains(topics.Names(), r.Records.Topic) {
		t.Errorf("topics %v are left: %v", topics.Names(), err)
	}

	o.Postgres, o.Stages = "postgres://127.0.0.1:1/none", []string{StagePostgres}
	if _, err := Run(t.Context(), o); !errors.Is(err, sink.ErrTransient) {
		t.Errorf("a database that is away: %v", err)
	}
}
