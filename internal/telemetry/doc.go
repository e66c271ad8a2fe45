// Package telemetry holds what peil tells about itself: its metrics, with a
// registry of their own, and the set-up of its log.
//
// Invariants:
//
//   - I1: All metrics are declared in one place, start with peil_, and are in
//     base units.
//   - I2: No label has values that grow without bound: a feed, a topic, a
//     partition, or a fixed code; never an id out of a feed.
//   - I3: What belongs to a partition is removed when the partition goes, so
//     that no instance reports what it no longer owns.
//
// [Metrics] is safe for concurrent use. There is no global registry and no
// default logger.
package telemetry
