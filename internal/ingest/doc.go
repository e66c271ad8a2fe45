// Package ingest publishes the events of one feed's snapshots to the log, each
// once (R12), and plays recorded captures.
//
// Invariants:
//
//   - I1: The events of a poll, what is remembered of them, and the heartbeats are
//     published together or not at all; a poll of too many events is published in
//     parts of which each is so. Whatever is killed when, the same snapshot gives
//     exactly what is missing.
//   - I2: Within a part the order is: events by event time, messages of the
//     caller, heartbeats. Heartbeats and the source's header time stand in the last
//     part only, so nothing that is still to come lies behind them.
//   - I3: Two ingesters of one feed fence each other; the older one's next poll
//     fails with [stream.ErrFenced] and has no effect.
//   - I4: A close marker is published once for each state of the feed.
//   - I5: A replay decides by header times and paths alone in which order it
//     publishes, and holds one snapshot in memory at a time.
//
// An [Ingester] is owned by one goroutine. After an error from publishing it is
// dead, because the outcome may be unknown: open a new one, which reads again
// what was published.
package ingest
