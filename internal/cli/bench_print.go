package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/peil-stream/peil/internal/bench"
)

// printBench prints the stages as a listing, and around them what was read and
// whether the rows were right. JSON is the whole report. In CSV standard output is
// the stages alone, and the rest a message.
func (a *app) printBench(o *output, r *bench.Report) error {
	l := listing{columns: []string{
		"stage", "records_per_second", "mb_per_second", "ratio", "allocations_per_record", "allocated_bytes_per_record",
		"cpu_seconds", "peak_mb", "flushes",
	}}
	for _, s := range r.Stages {
		var ratio, flushes any
		if s.Ratio != nil {
			ratio = rounded(*s.Ratio, 3)
		}
		if s.Flushes > 0 {
			flushes = s.Flushes
		}
		l.add(s.Stage, int64(s.RecordsPerSecond), int64(s.MBPerSecond), ratio, rounded(s.AllocationsPerRecord, 4),
			rounded(s.BytesPerRecord, 1), rounded(s.CPUSeconds, 2), s.PeakBytes>>20, flushes)
	}
	switch o.format {
	case formatJSON:
		return o.document(r)
	case formatCSV:
		// Standard error may be closed; the data goes on.
		_, _ = io.WriteString(a.stderr, benchSummary(r))
		return o.list(l)
	}
	if err := o.list(l); err != nil {
		return err
	}
	return o.write([]byte("\n" + benchSummary(r)))
}

func rounded(x float64, digits int) float64 {
	short, err := strconv.ParseFloat(strconv.FormatFloat(x, 'f', digits, 64), 64)
	if err != nil {
		return x // it was written as a number just now
	}
	return short
}

// benchSummary says what was measured, and whether the rows were right.
func benchSummary(r *bench.Report) string {
	var b strings.Builder
	where := "Kafka"
	if r.Broker != "kafka" {
		where = "brokers in memory, which share the processors"
	}
	fmt.Fprintf(&b, "%d records of %.0f bytes in %d partitions on %s; medians of %s\n",
		r.Records.Count, r.Records.ValueBytes, r.Records.Partitions, where, count(int64(r.Rounds), "round"))
	fmt.Fprintf(&b, "%s, %d cores, %s/%s, %s; flush.records %d\n",
		r.Machine.CPU, r.Machine.Cores, r.Machine.OS, r.Machine.Arch, r.Machine.GoVersion, r.FlushRecords)
	for _, s := range r.Stages {
		c := s.Check
		if c == nil {
			continue
		}
		fmt.Fprintf(&b, "%s: %s, %s and %s compared, ", s.Stage,
			count(c.Rows, "row"), count(c.Trips, "newest row"), count(c.Partitions, "stored position"))
		if c.Differences == 0 {
			b.WriteString("all right\n")
			continue
		}
		b.WriteString(count(c.Differences, "difference") + "\n")
		for _, example := range c.Examples {
			b.WriteString("  " + printable(example) + "\n")
		}
	}
	return b.String()
}
