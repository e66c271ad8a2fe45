package bench

import (
	"bufio"
	"cmp"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Report is the outcome of a run.
type Report struct {
	At      time.Time `json:"at"`
	Machine Machine   `json:"machine"`
	Records Records   `json:"records"`
	// Broker is "kafka", or "kfake" for the one in the memory of this process,
	// which shares the processors with the stages. Memory of a broker is in no
	// figure where stages run in processes of their own.
	Broker string `json:"broker"`
	// OwnProcesses: each run of a stage was a process of its own, so that memory
	// and processor time are its own.
	OwnProcesses bool `json:"own_processes"`
	Rounds       int  `json:"rounds"`
	FlushRecords int  `json:"flush_records"`
	// Stages in the order of [Stages].
	Stages []StageReport `json:"stages"`
}

// Machine is where it ran.
type Machine struct {
	OS        string `json:"os"`
	Arch      string `json:"arch"`
	CPU       string `json:"cpu,omitempty"`
	Cores     int    `json:"cores"`
	GoVersion string `json:"go_version"`
}

// Records is what was read.
type Records struct {
	Topic      string  `json:"topic"`
	Seed       uint64  `json:"seed"`
	Count      int64   `json:"count"`
	Partitions int32   `json:"partitions"`
	ValueBytes float64 `json:"value_bytes"` // mean of a record
	Lines      int     `json:"lines"`
	Stations   int     `json:"stations"`
	Operators  int     `json:"operators"`
	Trips      int     `json:"trips"`
	Seconds    int64   `json:"event_time_seconds"`
	Disorder   int64   `json:"disorder_seconds"`
}

// StageReport is one stage over all rounds: medians, but for the peak of memory,
// which is the highest.
type StageReport struct {
	Stage            string  `json:"stage"`
	RecordsPerSecond float64 `json:"records_per_second"`
	MBPerSecond      float64 `json:"mb_per_second"`
	// Ratio to the raw stage of the same round; nil without one.
	Ratio                *float64 `json:"ratio,omitempty"`
	RatioLow             *float64 `json:"ratio_low,omitempty"`
	RatioHigh            *float64 `json:"ratio_high,omitempty"`
	AllocationsPerRecord float64  `json:"allocations_per_record"`
	BytesPerRecord       float64  `json:"allocated_bytes_per_record"`
	CPUSeconds           float64  `json:"cpu_seconds"`
	PeakBytes            int64    `json:"peak_bytes"`
	Flushes              int64    `json:"flushes,omitempty"`
	// Check of the last round that was not clean, or of the last one.
	Check *Check `json:"check,omitempty"`
	// Runs are the single measures, by round.
	Runs []Measure `json:"runs"`
}

// Differences is how many rows of all whole jobs differ from what they must be.
func (r *Report) Differences() (n int64) {
	for _, s := range r.Stages {
		if s.Check != nil {
			n += s.Check.Differences
		}
	}
	return n
}

func machine() Machine {
	return Machine{
		OS: runtime.GOOS, Arch: runtime.GOARCH, CPU: cpuName(), Cores: runtime.NumCPU(), GoVersion: runtime.Version(),
	}
}

// cpuName is what the system calls the processor, or empty.
func cpuName() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "" // only Linux has it
	}
	defer func() { _ = f.Close() }() // it was only read
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, ok := strings.CutPrefix(lines.Text(), "model name"); ok {
			return strings.TrimLeft(name, "\t :")
		}
	}
	return ""
}

// summarise fills in the medians of a stage; raw are the runs of the raw stage, or
// none.
func (s *StageReport) summarise(raw []Measure) {
	of := func(f func(Measure) float64) float64 {
		all := make([]float64, len(s.Runs))
		for i, m := range s.Runs {
			all[i] = f(m)
		}
		return median(all)
	}
	s.RecordsPerSecond = of(func(m Measure) float64 { return float64(m.Records) / m.Seconds })
	s.MBPerSecond = of(func(m Measure) float64 { return float64(m.Bytes) / m.Seconds / 1e6 })
	s.AllocationsPerRecord = of(func(m Measure) float64 { return float64(m.Allocations) / float64(m.Records) })
	s.BytesPerRecord = of(func(m Measure) float64 { return float64(m.AllocatedBytes) / float64(m.Records) })
	s.CPUSeconds = of(func(m Measure) float64 { return m.CPUSeconds })
	s.PeakBytes = slices.MaxFunc(s.Runs, func(a, b Measure) int { return cmp.Compare(a.PeakBytes, b.PeakBytes) }).PeakBytes
	s.Flushes = slices.MinFunc(s.Runs, func(a, b Measure) int { return cmp.Compare(a.Flushes, b.Flushes) }).Flushes
	if len(raw) == 0 {
		return
	}
	ratios := make([]float64, len(s.Runs))
	for i, m := range s.Runs {
		ratios[i] = raw[i].Seconds / m.Seconds
	}
	middle, low, high := median(ratios), slices.Min(ratios), slices.Max(ratios)
	s.Ratio, s.RatioLow, s.RatioHigh = &middle, &low, &high
}

// median of at least one number.
func median(all []float64) float64 {
	all = slices.Sorted(slices.Values(all))
	n := len(all)
	return (all[(n-1)/2] + all[n/2]) / 2
}
