// Package city simulates the buses of a made-up town and publishes them as a
// GTFS-Realtime feed through the real ingest, so that every part of the product
// can be tried and tested without a network.
//
// Invariants:
//
//   - I1: [City.Message] and [City.Noise] are pure functions of the
//     configuration and of the time asked for. Two processes with the same seed
//     say the same, in any order of asking, so a killed simulation goes on
//     exactly where it was.
//   - I2: Nothing ever passes the wall clock: [City.Run] publishes a poll only
//     once its time has come.
//   - I3: In each snapshot a vehicle is on one trip only, the stops of a trip
//     come in sequence, and their predicted times rise.
//   - I4: Every line runs at every time of the day.
//
// A City keeps nothing but a cache of the service days computed last. It is safe
// for concurrent use.
package city
