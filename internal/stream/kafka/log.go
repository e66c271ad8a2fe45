package kafka

import (
	"log/slog"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Log is a log on Kafka brokers. Safe for concurrent use. Publishers and
// consumers have clients of their own.
type Log struct {
	opts   Options
	client *kgo.Client // asks, and writes single messages
	admin  *kadm.Client
	log    *slog.Logger

	closing sync.Once
}

// Close releases the connections. Idempotent.
func (l *Log) Close() error {
	l.closing.Do(l.client.Close)
	return nil
}

// producing are the options of the clients that write: partitions are chosen by
// the caller, and every replica in sync acknowledges.
func producing() []kgo.Opt {
	return []kgo.Opt{
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequiredAcks(kgo.AllISRAcks()),
	}
}
