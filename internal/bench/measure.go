package bench

import (
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"
)

// Measure is what one stage cost, from the moment it had its partitions to the
// end of its last record.
type Measure struct {
	Seconds float64 `json:"seconds"`
	Records int64   `json:"records"`
	// Bytes of keys and values.
	Bytes int64 `json:"bytes"`
	// Allocations and AllocatedBytes of the heap.
	Allocations    uint64 `json:"allocations"`
	AllocatedBytes uint64 `json:"allocated_bytes"`
	// CPUSeconds, user and system, of the process.
	CPUSeconds float64 `json:"cpu_seconds"`
	// PeakBytes is the most memory that the process ever had in use, its start
	// and code included: resident where the system tells, else what Go's runtime
	// had from the system.
	PeakBytes int64 `json:"peak_bytes"`
	// Flushes are the transactions that a whole job has written.
	Flushes int64 `json:"flushes,omitempty"`
	// Slowest is the longest of them, in seconds.
	Slowest float64 `json:"slowest_flush_seconds,omitempty"`
}

// meter measures this process between start and stop.
type meter struct {
	begun  time.Time
	cpu    time.Duration
	memory runtime.MemStats
}

// start begins to measure; only the first call counts.
func (m *meter) start() {
	if !m.begun.IsZero() {
		return
	}
	runtime.GC()
	resetPeak()
	runtime.ReadMemStats(&m.memory)
	m.cpu = cpuTime()
	m.begun = time.Now()
}

func (m *meter) stop() Measure {
	took := time.Since(m.begun)
	cpu := cpuTime() - m.cpu
	var after runtime.MemStats
	runtime.ReadMemStats(&after)
	return Measure{
		Seconds: took.Seconds(), CPUSeconds: cpu.Seconds(), PeakBytes: peak(),
		Allocations: after.Mallocs - m.memory.Mallocs, AllocatedBytes: after.TotalAlloc - m.memory.TotalAlloc,
	}
}

// resetPeak lets the peak begin anew; where the system has no such switch it goes
// on from the start of the process.
func resetPeak() {
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // only Linux has it
}

// peak is the peak of the resident memory, or, where the system does not tell,
// all memory that Go's runtime has mapped and not given back.
func peak() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err == nil {
		for line := range strings.Lines(string(status)) {
			if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
				kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
				if err == nil {
					return kib << 10
				}
			}
		}
	}
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return int64(samples[0].Value.Uint64() - samples[1].Value.Uint64())
}
