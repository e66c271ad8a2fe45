package kafka

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"time"
)

// Options of [Open].
type Options struct {
	// Brokers are the seeds, as host:port. Required.
	Brokers []string
	// ClientID is shown by the brokers' tools. Defaults to peil.
	ClientID string
	// TLS of the connections; nil is plain text.
	TLS *tls.Config
	// SASL authenticates; the zero value does not.
	SASL SASL
	// Dial makes the connections, where not the ordinary ones are wanted. TLS is
	// then its own affair.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// SessionTimeout is how long a member of a group may be silent before its
	// partitions are given to others. Defaults to 45 s, Kafka's own default.
	SessionTimeout time.Duration
	// RevokeTimeout bounds Revoked. Defaults to 12 s.
	RevokeTimeout time.Duration
	// RequestTimeout is how long a request that is not answered is tried again.
	// Defaults to 10 s: whoever waits for the log has a back-off of its own, and
	// the brokers abort a transaction after 30 s.
	RequestTimeout time.Duration
	// Logger; nil discards.
	Logger *slog.Logger
}

// SASL is a name and a password for the brokers.
type SASL struct {
	// Mechanism is plain, scram-sha-256 or scram-sha-512.
	Mechanism          string
	Username, Password string
}
