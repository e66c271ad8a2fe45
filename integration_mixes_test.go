//go:build integration

package peil_test

import (
	"strconv"
	"strings"
	"testing"
)

// TestMixes plays the Dutch capture with each log and each database. The rows are
// the same everywhere, and those that the tests without services hold.
func TestMixes(t *testing.T) {
	t.Parallel()
	batch := []string{"run", "--replay", dutchNetwork, "--feed", "nl", "--emit", "arrivals", "--close", "--until-done"}
	embedded := newPlace(t, false, false)
	embedded.run(t, 0, batch...)
	checkDutch(t, embedded.dir)
	want := embedded.results(t)
	for name, on := range map[string]struct{ kafka, postgres bool }{
		"embedded and SQLite":   {false, false},
		"embedded and Postgres": {false, true},
		"Kafka and SQLite":      {true, false},
		"Kafka and Postgres":    {true, true},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, on.kafka, on.postgres)
			p.run(t, 0, batch...)
			if got := p.results(t); got != want {
				t.Fatalf("the rows differ from those of the embedded log and tables:\n%s", firstDifference(want, got))
			}
			if got := p.counts(t); got != [4]int64{57_021, 0, 0, 0} {
				t.Errorf("accepted, late, dead and ignored: %d", got)
			}
			p.verify(t)
			once := p.dump(t)
			p.run(t, 0, batch...)
			if again := p.dump(t); again != once {
				t.Errorf("running the finished batch again changes the tables:\n%s", firstDifference(once, again))
			}
		})
	}
}

// TestKilledThreeTimes kills ingest and processor of a city three times at work, on
// Kafka and Postgres. What they leave behind equals an undisturbed run on the
// embedded log and tables.
func TestKilledThreeTimes(t *testing.T) {
	t.Parallel()
	const kills = 3
	city := []string{"demo", "--seed", "7", "--from", "2026-03-02T06:00:00Z", "--polls", strconv.Itoa(200)}
	whole := newPlace(t, false, false)
	whole.run(t, 0, city...)
	size := whole.published(t)

	p := newPlace(t, true, true)
	p.env = []string{"PEIL_FLUSH_RECORDS=500"} // small steps, or all is read before a kill comes
	read := func() int64 { return p.number(t, "SELECT sum(position) FROM consumer_offsets") }
	for n := range kills {
		from := read()
		pr := p.start(t, city...)
		await(t, "the processor to get on", func() bool { return read() > from+size/(5*kills) }, pr)
		pr.kill()
		t.Logf("kill %d: %d of %d offsets read", n+1, read(), size)
	}
	if at := read(); at >= size*9/10 {
		t.Fatalf("at the last kill %d of %d offsets were read: too late", at, size)
	}
	p.run(t, 0, city...)
	if want, got := whole.results(t), p.results(t); got != want {
		t.Fatalf("the rows differ from an undisturbed run:\n%s", firstDifference(want, got))
	}
	if want, got := whole.counts(t), p.counts(t); got != want {
		t.Errorf("accepted, late, dead and ignored: %d, undisturbed %d", got, want)
	}
	p.verify(t)
}
