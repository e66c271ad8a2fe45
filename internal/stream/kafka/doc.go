// Package kafka is the log on Apache Kafka or Redpanda: transactional publishers
// whose memory is a compacted topic, members of consumer groups that start where
// the caller says, and readers of ranges. Only committed records are seen.
package kafka
