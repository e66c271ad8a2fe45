package peil

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/peil-stream/peil/internal/config"
	"github.com/peil-stream/peil/internal/stream/kafka"
)

// KafkaOptions are those of the log on brokers.
func KafkaOptions(c config.Kafka, logger *slog.Logger) (kafka.Options, error) {
	o := kafka.Options{
		Brokers: c.Brokers, SessionTimeout: c.SessionTimeout.Std(),
		SASL: kafka.SASL{
			Mechanism: c.SASL.Mechanism, Username: c.SASL.Username, Password: c.SASL.Password.Reveal(),
		},
		Logger: logger,
	}
	if !c.TLS.Enabled {
		return o, nil
	}
	var err error
	if o.TLS, err = tlsConfig(c.TLS); err != nil {
		return o, fmt.Errorf("kafka.tls: %w", err)
	}
	return o, nil
}

// tlsConfig reads the files that the settings name.
func tlsConfig(c config.TLS) (*tls.Config, error) {
	out := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read ca_file: %w", err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read ca_file: %s: %w", c.CAFile, errors.New("holds no certificate in PEM"))
		}
	}
	if c.CertFile != "" {
		cert, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read cert_file and key_file: %w", err)
		}
		out.Certificates = []tls.Certificate{cert}
	}
	return out, nil
}
