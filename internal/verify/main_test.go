package verify_test

import (
	"flag"
	"os"
	"testing"
)

// checks is how many logs the property test draws: each is a file of its own and
// several runs of the processor, so the usual hundred would take long.
const checks = "20"

func TestMain(m *testing.M) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "rapid.checks" })
	if !chosen {
		if err := flag.Set("rapid.checks", checks); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
