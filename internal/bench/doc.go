// Package bench measures how fast the job is: on one topic and in one run it
// reads the same records bare, decoded, with windows, and by the whole job, and
// checks every row that the whole job wrote.
//
// Invariants:
//
//   - I1: The records are a function of the seed, their number and the number of
//     partitions alone, so what is in the tables can be computed without the log.
//   - I2: The expected rows are computed from the generator by sorting all values
//     of a cell; nothing of window, stats, ledger or the decoder takes part.
//   - I3: Every stage reads with the options that the product reads with, and the
//     clock runs from the moment it is given its partitions until its last record
//     is done; for the whole job that is when every window is final and durable.
//   - I4: A topic that this package did not make is read and never written or
//     deleted; tables are made in a folder or schema of its own.
package bench
