package telemetry

import (
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// namespace begins the name of every metric.
const namespace = "peil"

// Metrics are all metrics of a process. Parts that run in another process stay
// silent. Make it with [New].
type Metrics struct {
	// Ingest.

	IngestEvents           *prometheus.CounterVec // by feed
	IngestSnapshots        *prometheus.CounterVec // by feed
	IngestSnapshotsSkipped *prometheus.CounterVec // by feed and reason
	// FeedAge by feed; set the header time of each snapshot that is taken.
	FeedAge *Ages

	// Records, as the processor judges them.

	Consumed     *prometheus.CounterVec // by topic
	DecodeErrors *prometheus.CounterVec // by topic
	DeadLetters  *prometheus.CounterVec // by topic and reason
	Late         prometheus.Counter
	Redelivered  prometheus.Counter
	RecordsLost  prometheus.Counter

	// Partitions that this process owns, by topic and partition.

	Uncommitted     *prometheus.GaugeVec
	CommittedOffset *prometheus.GaugeVec
	ConsumerLag     *prometheus.GaugeVec
	OpenWindows     *prometheus.GaugeVec
	Watermark       *prometheus.GaugeVec
	// FinalityHeld is 1 for each partition that holds the finality of its topic,
	// by topic, partition and reason; reset it before it is set.
	FinalityHeld *prometheus.GaugeVec
	// Held is the age of the oldest uncommitted record; set when it was read.
	Held *Ages

	// Writing.

	Flushes          prometheus.Counter
	FlushSeconds     prometheus.Histogram
	Commits          prometheus.Counter
	CommitFailures   prometheus.Counter
	Fenced           prometheus.Counter
	RefusedSegments  prometheus.Counter
	WindowsFinalised prometheus.Counter
	Revisions        prometheus.Counter

	registry  *prometheus.Registry
	reference []Metric
}

// Metric describes one metric, for reference pages.
type Metric struct {
	Name   string
	Type   string
	Labels []string
	Help   string
}

// New makes the metrics of a process of the named version, in a registry of
// their own, together with those of the Go runtime and the process.
func New(version string) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	m.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	m.ingest()
	m.records()
	m.partitions()
	m.writing()
	build := m.gauges("build_info", "Always 1; its labels say what runs.", "version", "go_version")
	build.WithLabelValues(version, runtime.Version()).Set(1)
	return m
}

func (m *Metrics) ingest() {
	m.IngestEvents = m.counters("ingest_events_total", "Events published.", "feed")
	m.IngestSnapshots = m.counters("ingest_snapshots_total", "Snapshots taken from feeds and captures.", "feed")
	m.IngestSnapshotsSkipped = m.counters("ingest_snapshots_skipped_total", "Snapshots left out, by why.", "feed", "reason")
	m.FeedAge = m.ages("feed_age_seconds", "Age of the newest snapshot, by its own header.", "feed")
}

func (m *Metrics) records() {
	m.Consumed = m.counters("consumed_total", "Records read.", "topic")
	m.DecodeErrors = m.counters("decode_errors_total", "Records that could not be decoded or are invalid.", "topic")
	m.DeadLetters = m.counters("dead_letters_total", "Records sent to the dead-letter topic, by why.", "topic", "reason")
	m.Late = m.counter("late_total", "Records dropped because their window was closed.")
	m.Redelivered = m.counter("redelivered_total", "Records read again after a restart that had been judged before.")
	m.RecordsLost = m.counter("records_lost_total", "Offsets that the log no longer held when they were to be read.")
}

func (m *Metrics) partitions() {
	labels := []string{"topic", "partition"}
	m.Uncommitted = m.gauges("processor_uncommitted_messages", "Messages read but not yet committed.", labels...)
	m.CommittedOffset = m.gauges("committed_offset", "Offset at which a restart would begin.", labels...)
	m.ConsumerLag = m.gauges("consumer_lag", "Offsets between the position and the end of the log.", labels...)
	m.OpenWindows = m.gauges("open_windows", "Windows that are still open.", labels...)
	m.Watermark = m.gauges("watermark_timestamp_seconds", "Event time up to which windows are closed, as a Unix time.", labels...)
	m.FinalityHeld = m.gauges("finality_held", "1 for each partition beyond which no window of its topic is final, by why.", "topic", "partition", "reason")
	m.Held = m.ages("held_seconds", "Age of the oldest message read but not yet committed.", labels...)
}

func (m *Metrics) writing() {
	m.Flushes = m.counter("flushes_total", "Flushes that became durable.")
	m.Commits = m.counter("commits_total", "Commits of a partition's offset.")
	m.CommitFailures = m.counter("commit_failures_total", "Commits of offsets that failed or whose outcome is not known.")
	m.Fenced = m.counter("fenced_total", "Partitions refused at a flush because another owner has claimed them.")
	m.RefusedSegments = m.counter("refused_segments_total", "Segments not stored because a stored one covers more.")
	m.WindowsFinalised = m.counter("windows_finalised_total", "Windows merged into their final rows.")
	m.Revisions = m.counter("revisions_total", "Final rows whose content changed later.")
	opts := prometheus.HistogramOpts{
		Namespace: namespace,
		Name:      "flush_seconds",
		Help:      "Time from the snapshot to the durable commit.",
		Buckets:   []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
	}
	m.FlushSeconds = prometheus.NewHistogram(opts)
	m.register(m.FlushSeconds, Metric{Name: opts.Name, Type: "histogram", Help: opts.Help})
}

func (m *Metrics) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
	m.register(c, Metric{Name: name, Type: "counter", Help: help})
	return c
}

func (m *Metrics) counters(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
	m.register(c, Metric{Name: name, Type: "counter", Labels: labels, Help: help})
	return c
}

func (m *Metrics) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, labels)
	m.register(g, Metric{Name: name, Type: "gauge", Labels: labels, Help: help})
	return g
}

func (m *Metrics) ages(name, help string, labels ...string) *Ages {
	a := newAges(prometheus.BuildFQName(namespace, "", name), help, labels, time.Now)
	m.register(a, Metric{Name: name, Type: "gauge", Labels: labels, Help: help})
	return a
}

// register adds a collector. Two of one name are a fault of the programmer.
func (m *Metrics) register(c prometheus.Collector, described Metric) {
	m.registry.MustRegister(c)
	described.Name = prometheus.BuildFQName(namespace, "", described.Name)
	m.reference = append(m.reference, described)
}

// Forget removes what is reported about a partition, when this process no longer
// owns it.
func (m *Metrics) Forget(topic string, partition int32) {
	index := Partition(partition)
	for _, g := range []*prometheus.GaugeVec{m.Uncommitted, m.CommittedOffset, m.ConsumerLag, m.OpenWindows, m.Watermark} {
		g.DeleteLabelValues(topic, index)
	}
	m.Held.Forget(topic, index)
}

// Partition is the value of the label partition.
func Partition(index int32) string { return strconv.Itoa(int(index)) }

// Registry is where all metrics are registered, for clients that bring their own.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }

// Reference describes all metrics that start with peil_, in the order of their
// declaration.
func (m *Metrics) Reference() []Metric { return append([]Metric(nil), m.reference...) }

// Handler serves the metrics to Prometheus.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
}
