package gtfsrt_test

import "iter"

// none is the memory of a publisher that never published.
func none(func(string, []byte) bool) {}

var _ iter.Seq2[string, []byte] = none
