package telemetry

import (
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Ages is a gauge of how long ago something was, computed when it is asked for:
// it goes on growing when the code that would update it hangs. Safe for
// concurrent use.
type Ages struct {
	desc *prometheus.Desc
	now  func() time.Time

	mu    sync.Mutex
	since map[string]instant
}

// instant is a moment and the values of its labels.
type instant struct {
	labels []string
	at     time.Time
}

func newAges(name, help string, labels []string, now func() time.Time) *Ages {
	return &Ages{
		desc:  prometheus.NewDesc(name, help, labels, nil),
		now:   now,
		since: map[string]instant{},
	}
}

// Since sets the moment from which the age counts. The zero time stands for
// nothing to wait for: an age of 0.
func (a *Ages) Since(at time.Time, labels ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.since[key(labels)] = instant{labels: append([]string(nil), labels...), at: at}
}

// Forget removes an age.
func (a *Ages) Forget(labels ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.since, key(labels))
}

// key joins the values of labels; they hold no control characters.
func key(labels []string) string { return strings.Join(labels, "\x00") }

// Describe implements prometheus.Collector.
func (a *Ages) Describe(out chan<- *prometheus.Desc) { out <- a.desc }

// Collect implements prometheus.Collector.
func (a *Ages) Collect(out chan<- prometheus.Metric) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	for _, i := range a.since {
		age := 0.0
		if !i.at.IsZero() {
			age = now.Sub(i.at).Seconds()
		}
		out <- prometheus.MustNewConstMetric(a.desc, prometheus.GaugeValue, age, i.labels...)
	}
}
