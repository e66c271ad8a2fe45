// Package stats computes exact aggregates of whole numbers from sorted values.
//
// # Invariants
//
//	I1  A histogram is a multiset in its only form: bins by rising value, every
//	    count positive. Equal multisets are equal slices.
//	I2  [Merge] is the union of multisets: commutative, associative, and the
//	    empty histogram changes nothing. So it never matters into how many parts
//	    a stream of values was cut.
//	I3  A [Summary] is computed in integers and no number serves as "none yet":
//	    the only rounding is the one division in [Summary.Mean].
//
// Counts of one histogram add up to at most [CountMax]; within it a sum of int32
// values cannot overflow. Whoever reads histograms from outside checks that.
//
// The functions are pure and safe for concurrent use; the slices belong to the
// caller.
package stats
