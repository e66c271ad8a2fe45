// Package wire is for tests only: the way between a client and Kafka brokers,
// which a test breaks at a chosen request, before the request has arrived or
// after its answer was given.
package wire
