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
	client *kgo.Client // asks, fetches, and writes single messages
	admin  *kadm.Client
	log    *slog.Logger

	closing sync.Once

	appending sync.Mutex
	appender  *kgo.Client // writes in transactions; nil until it is needed
}

// Close releases the connections, once an append on its way has ended.
// Idempotent.
func (l *Log) Close() error {
	l.closing.Do(func() {
		l.client.Close()
		l.appending.Lock()
		defer l.appending.Unlock()
		if l.appender != nil {
			l.appender.Close()
		}
	})
	return nil
}
