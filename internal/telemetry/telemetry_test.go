package telemetry_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/peil-stream/peil/internal/telemetry"
)

var update = flag.Bool("update", false, "write the golden files")

// touch gives every metric one series, so that all are gathered.
func touch(m *telemetry.Metrics) {
	labels := map[string][]string{}
	for _, metric := range m.Reference() {
		labels[metric.Name] = metric.Labels
	}
	v := reflect.ValueOf(m).Elem()
	for i := range v.NumField() {
		if !v.Type().Field(i).IsExported() {
			continue
		}
		desc := make(chan *prometheus.Desc, 1)
		v.Field(i).Interface().(prometheus.Collector).Describe(desc)
		name := regexp.MustCompile(`fqName: "([^"]*)"`).FindStringSubmatch((<-desc).String())[1]
		values := make([]string, len(labels[name]))
		for i := range values {
			values[i] = "1"
		}
		switch c := v.Field(i).Interface().(type) {
		case *prometheus.CounterVec:
			c.WithLabelValues(values...).Inc()
		case *prometheus.GaugeVec:
			c.WithLabelValues(values...).Set(1)
		case *telemetry.Ages:
			c.Since(time.Time{}, values...)
		}
	}
}

func scrape(m *telemetry.Metrics) string {
	rec := httptest.NewRecorder()
	m.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	body, _ := io.ReadAll(rec.Body)
	return string(body)
}

// TestMetricList compares the list with the golden file, and what is scraped with
// the list.
func TestMetricList(t *testing.T) {
	t.Parallel()
	m := telemetry.New("v1")
	var list strings.Builder
	for _, metric := range m.Reference() {
		fmt.Fprintf(&list, "%s %s {%s}\n  %s\n", metric.Name, metric.Type, strings.Join(metric.Labels, ","), metric.Help)
	}
	const name = "testdata/metrics.txt"
	if *update {
		if err := os.WriteFile(name, []byte(list.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatalf("%v; go test -update writes it", err)
	}
	if diff := cmp.Diff(string(want), list.String()); diff != "" {
		t.Errorf("list of metrics mismatch (-want +got):\n%s", diff)
	}

	touch(m)
	body := scrape(m)
	for _, metric := range m.Reference() {
		if !strings.Contains(body, "# TYPE "+metric.Name+" "+metric.Type+"\n") {
			t.Errorf("%s is not scraped as a %s", metric.Name, metric.Type)
		}
	}
	if !strings.Contains(body, `peil_build_info{go_version="go`) || !strings.Contains(body, `version="v1"} 1`) {
		t.Error("build_info lacks its labels")
	}
	if !strings.Contains(body, "go_goroutines ") {
		t.Error("the metrics of the Go runtime are missing")
	}
}

func TestMetricsAreClean(t *testing.T) {
	t.Parallel()
	m := telemetry.New("v1")
	touch(m)
	problems, err := testutil.GatherAndLint(m.Registry())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "peil_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

// TestNamesThatOthersRelyOn are those that dashboards and alerts are written for.
func TestNamesThatOthersRelyOn(t *testing.T) {
	t.Parallel()
	m := telemetry.New("v1")
	got := map[string]string{}
	for _, metric := range m.Reference() {
		got[metric.Name] = strings.Join(metric.Labels, ",")
	}
	for name, labels := range map[string]string{
		"peil_consumed_total":                 "topic",
		"peil_decode_errors_total":            "topic",
		"peil_dead_letters_total":             "topic,reason",
		"peil_late_total":                     "",
		"peil_redelivered_total":              "",
		"peil_commits_total":                  "",
		"peil_commit_failures_total":          "",
		"peil_fenced_total":                   "",
		"peil_processor_uncommitted_messages": "topic,partition",
		"peil_committed_offset":               "topic,partition",
		"peil_consumer_lag":                   "topic,partition",
		"peil_held_seconds":                   "topic,partition",
		"peil_watermark_timestamp_seconds":    "topic,partition",
		"peil_open_windows":                   "topic,partition",
		"peil_flush_seconds":                  "",
		"peil_records_lost_total":             "",
		"peil_feed_age_seconds":               "feed",
	} {
		if l, ok := got[name]; !ok || l != labels {
			t.Errorf("%s{%s}: want labels {%s}", name, l, labels)
		}
	}
}

// TestForget asks that nothing of a partition remains, and all of its neighbour.
func TestForget(t *testing.T) {
	t.Parallel()
	m := telemetry.New("v1")
	for _, index := range []int32{1, 2} {
		p := telemetry.Partition(index)
		for _, g := range []*prometheus.GaugeVec{m.Uncommitted, m.CommittedOffset, m.ConsumerLag, m.OpenWindows, m.Watermark} {
			g.WithLabelValues("t", p).Set(1)
		}
		m.Held.Since(time.Time{}, "t", p)
	}
	m.Forget("t", 1)
	body := scrape(m)
	if n := strings.Count(body, `partition="1"`); n != 0 {
		t.Errorf("%d series of the forgotten partition remain", n)
	}
	if n := strings.Count(body, `partition="2"`); n != 6 {
		t.Errorf("%d series of the other partition, want 6", n)
	}
}

// TestAgesGrowByThemselves waits ten minutes without an update.
func TestAgesGrowByThemselves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := telemetry.New("v1")
		m.FeedAge.Since(time.Now().Add(-5*time.Second), "nl")
		m.FeedAge.Since(time.Time{}, "be")
		<-time.After(10 * time.Minute)
		want := `
# HELP peil_feed_age_seconds Age of the newest snapshot, by its own header.
# TYPE peil_feed_age_seconds gauge
peil_feed_age_seconds{feed="be"} 0
peil_feed_age_seconds{feed="nl"} 605
`
		if err := testutil.CollectAndCompare(m.FeedAge, strings.NewReader(want)); err != nil {
			t.Error(err)
		}
		m.FeedAge.Forget("nl")
		m.FeedAge.Forget("be")
		if n := testutil.CollectAndCount(m.FeedAge); n != 0 {
			t.Errorf("%d ages after Forget", n)
		}
	})
}

func TestLogger(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		log  telemetry.Log
		want string // pattern of all output
	}{
		{"a service", telemetry.Log{}, `^\{"time":"[^"]+Z","level":"INFO","msg":"flush done","partition":3\}\n$`},
		{"a terminal", telemetry.Log{Terminal: true}, `^time=\d\d:\d\d:\d\d\.\d{3}Z level=INFO msg="flush done" partition=3\n$`},
		{"chosen format", telemetry.Log{Terminal: true, Format: "json"}, `^\{`},
		{"chosen text", telemetry.Log{Format: "text"}, `^time=`},
		{"auto", telemetry.Log{Format: "auto"}, `^\{`},
		{"debug", telemetry.Log{Level: "debug", Format: "text"}, `msg="batch read"\n`},
		{"warn", telemetry.Log{Level: "warn"}, `^$`},
		{"ERROR", telemetry.Log{Level: "ERROR"}, `^$`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			logger, err := telemetry.NewLogger(&out, test.log)
			if err != nil {
				t.Fatal(err)
			}
			logger.Debug("batch read")
			logger.Info("flush done", slog.Int("partition", 3))
			if !regexp.MustCompile(test.want).MatchString(out.String()) {
				t.Fatalf("log %q does not match %s", out.String(), test.want)
			}
			for line := range strings.Lines(out.String()) {
				if strings.HasPrefix(line, "{") && !json.Valid([]byte(line)) {
					t.Errorf("not JSON: %s", line)
				}
			}
		})
	}
}

func TestLoggerRefuses(t *testing.T) {
	t.Parallel()
	_, err := telemetry.NewLogger(io.Discard, telemetry.Log{Level: "loud"})
	if want := `log level "loud" is not one of debug, info, warn, error`; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	_, err = telemetry.NewLogger(io.Discard, telemetry.Log{Format: "xml"})
	if want := `log format "xml" is not one of auto, text, json`; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}
