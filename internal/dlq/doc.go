// Package dlq keeps records that can never be processed: each becomes a message
// on `dlq.<topic>` with its original key, value and headers, and headers that
// say where it came from and why it died (R7 of the design).
//
// Invariants:
//
//   - I1: A lane counts an entry as acknowledged only after the log has said
//     that the message is durable.
//   - I2: Enqueue never blocks. What is outstanding is bounded by the owner of
//     the lane, who stops reading at [LaneMax] and goes on when Wake tells.
//   - I3: A lane that cannot write holds no other lane.
//   - I4: A message that the log would refuse for its size becomes a pointer:
//     coordinates, reason, hash and the first bytes of the value.
//
// A [Lane] belongs to one partition's task, which enqueues and runs it; its
// counters anyone may read.
package dlq
