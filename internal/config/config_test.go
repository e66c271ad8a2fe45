package config_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/peil-stream/peil/internal/config"
)

func TestZeroConfigIsValidAndDocumented(t *testing.T) {
	t.Parallel()
	if err := (config.Config{}).Validate(); err != nil {
		t.Fatalf("the zero configuration is refused: %v", err)
	}
	want := config.Config{
		Kafka:    config.Kafka{Group: "peil", SessionTimeout: config.DurationOf(45 * time.Second)},
		DataDir:  "./peil-data",
		Topics:   config.Topics{Arrivals: "arrival-predictions", Positions: "vehicle-positions", Partitions: 4},
		Window:   config.Window{Size: config.DurationOf(5 * time.Minute), Lateness: config.DurationOf(2 * time.Minute)},
		Offsets:  config.Offsets{Store: "sink", Start: "earliest", OnLoss: "stop"},
		Flush:    config.Flush{Interval: config.DurationOf(5 * time.Second), Records: 250_000},
		Limits:   config.Limits{HeldRecords: 10_000_000, HeldFor: config.DurationOf(time.Hour), BatchBytes: 16 * config.MiB},
		Segments: config.Segments{Retention: config.DurationOf(7 * 24 * time.Hour)},
		Idle:     config.Idle{Timeout: config.DurationOf(time.Minute)},
		Future:   config.Future{MaxSkew: config.DurationOf(5 * time.Minute)},
		HTTP:     config.HTTP{Listen: "127.0.0.1:8080"},
	}
	got := config.Config{}.WithDefaults()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("WithDefaults mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(got, got.WithDefaults()); diff != "" {
		t.Fatalf("WithDefaults twice (-once +twice):\n%s", diff)
	}
}

func TestWithDefaultsKeepsWhatIsSet(t *testing.T) {
	t.Parallel()
	feeds := []config.Feed{{Name: "nl", Poll: config.DurationOf(time.Second)}, {Name: "be"}}
	c := config.Config{
		Window: config.Window{Lateness: config.DurationOf(0)},
		Feeds:  feeds,
	}
	got := c.WithDefaults()
	if got.Window.Lateness != config.DurationOf(0) {
		t.Errorf("a lateness of 0s became %s", got.Window.Lateness)
	}
	if got.Feeds[0].Poll.Std() != time.Second || got.Feeds[1].Poll.Std() != 30*time.Second || got.Feeds[1].Emit != "predictions" {
		t.Errorf("feeds %+v", got.Feeds)
	}
	if !feeds[1].Poll.IsZero() {
		t.Error("WithDefaults changed the feeds of its caller")
	}
	if got.Topics.Arrivals != "<feed>.arrival-predictions" {
		t.Errorf("with several feeds topics.arrivals is %q", got.Topics.Arrivals)
	}
}

func TestTopicsOf(t *testing.T) {
	t.Parallel()
	one := config.Config{}
	if a, p := one.TopicsOf("nl"); a != "arrival-predictions" || p != "vehicle-positions" {
		t.Errorf("one feed: %s, %s", a, p)
	}
	two := config.Config{Feeds: []config.Feed{{Name: "nl"}, {Name: "be"}}, Topics: config.Topics{Positions: "<feed>.pos"}}
	if a, p := two.TopicsOf("be"); a != "be.arrival-predictions" || p != "be.pos" {
		t.Errorf("two feeds: %s, %s", a, p)
	}
}

func TestFingerprint(t *testing.T) {
	t.Parallel()
	base := config.Config{}
	if got, want := base.Fingerprint(), "size=5m lateness=2m max_skew=5m"; got != want {
		t.Fatalf("Fingerprint() = %q, want %q", got, want)
	}
	// What decides rows changes it, what does not leaves it.
	for name, c := range map[string]config.Config{
		"size":     {Window: config.Window{Size: config.DurationOf(time.Minute)}},
		"lateness": {Window: config.Window{Lateness: config.DurationOf(0)}},
		"skew":     {Future: config.Future{MaxSkew: config.DurationOf(time.Minute)}},
	} {
		if c.Fingerprint() == base.Fingerprint() {
			t.Errorf("%s does not change the fingerprint", name)
		}
	}
	other := config.Config{DataDir: "x", Flush: config.Flush{Records: 5}, Idle: config.Idle{Timeout: config.DurationOf(time.Hour)}}
	if other.Fingerprint() != base.Fingerprint() {
		t.Error("settings that decide no row change the fingerprint")
	}
}

func TestValidateReportsAllProblemsByKey(t *testing.T) {
	t.Parallel()
	c := config.Config{
		Kafka: config.Kafka{
			Brokers: []string{"localhost"},
			TLS:     config.TLS{CertFile: "c.pem"},
			SASL:    config.SASL{Mechanism: "plain", Username: "u"},
		},
		Topics:  config.Topics{Arrivals: "same", Positions: "same", Partitions: 1001},
		Window:  config.Window{Size: config.DurationOf(1500 * time.Microsecond), Lateness: config.DurationOf(-1)},
		Offsets: config.Offsets{Store: "both"},
		Feeds: []config.Feed{
			{Name: "nl", TripUpdates: config.NewURL("https://x")},
			{Name: "nl", TripUpdates: config.NewURL("ftp://x")},
			{VehiclePositions: config.NewURL("https://x"), Poll: config.DurationOf(time.Millisecond), Emit: "all"},
			{Name: "be"},
		},
		HTTP: config.HTTP{Listen: "8080"},
	}
	err := c.Validate()
	want := []string{
		`kafka.brokers: "localhost" is not host:port`,
		`topics.partitions: 1001 is not between 1 and 1000`,
		`window.size: 1.5ms is not between 1s and 24h`,
		`window.lateness: -1ns is not between 0s and 24h`,
		`offsets.store: "both" is not one of sink, kafka`,
		`http.listen: "8080" is not host:port: write :8080 or 127.0.0.1:8080`,
		`feeds[1].trip_updates: must start with https:// or http://`,
		`feeds[2].poll: 1ms is not between 1s and 24h`,
		`feeds[2].emit: "all" is not one of predictions, arrivals`,
		`kafka.tls.cert_file: has no effect without kafka.tls.enabled: true`,
		`kafka.tls.cert_file: needs kafka.tls.key_file too`,
		`kafka.sasl.mechanism: needs kafka.sasl.username and kafka.sasl.password or kafka.sasl.password_file`,
		`topics.arrivals: with several feeds each needs a topic of its own: the name must start with <feed>. as in <feed>.same`,
		`topics.positions: with several feeds each needs a topic of its own: the name must start with <feed>. as in <feed>.same`,
		`topics.positions: is the same topic as topics.arrivals`,
		`feeds[1].name: "nl" is the name of feeds[0] too`,
		`feeds[2].name: is missing`,
		`feeds[3]: needs trip_updates, vehicle_positions or both`,
	}
	if diff := cmp.Diff(strings.Join(want, "\n"), fmt.Sprint(err)); diff != "" {
		t.Fatalf("Validate mismatch (-want +got):\n%s", diff)
	}
	if got := len(config.Problems(err)); got != len(want) {
		t.Errorf("Problems gives %d, want %d", got, len(want))
	}
}

// TestR12OneTopicCarriesOneFeed: one feed may call its topics as it likes, two
// need the feed in the name, and the default gives it to them.
func TestR12OneTopicCarriesOneFeed(t *testing.T) {
	t.Parallel()
	nl := config.Feed{Name: "nl", TripUpdates: config.NewURL("https://x")}
	be := config.Feed{Name: "be", TripUpdates: config.NewURL("https://y")}
	for _, test := range []struct {
		name     string
		arrivals string
		feeds    []config.Feed
		ok       bool
	}{
		{"one feed", "delays", []config.Feed{nl}, true},
		{"two feeds in one topic", "delays", []config.Feed{nl, be}, false},
		{"two feeds in the default topic by name", "arrival-predictions", []config.Feed{nl, be}, false},
		{"two feeds with a fixed prefix", "nl.delays", []config.Feed{nl, be}, false},
		{"two feeds, each its own", "<feed>.delays", []config.Feed{nl, be}, true},
		{"two feeds by default", "", []config.Feed{nl, be}, true},
	} {
		c := config.Config{Topics: config.Topics{Arrivals: test.arrivals}, Feeds: test.feeds}
		if err := c.Validate(); (err == nil) != test.ok {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

func TestDurationsAreWholeMilliseconds(t *testing.T) {
	t.Parallel()
	c := config.Config{Window: config.Window{Size: config.DurationOf(time.Second + time.Microsecond)}}
	if got, want := errText(c.Validate()), "window.size: 1.000001s is not a whole number of milliseconds"; got != want {
		t.Errorf("Validate() = %q, want %q", got, want)
	}
}

func TestProblemsOfOtherErrors(t *testing.T) {
	t.Parallel()
	if got := config.Problems(errors.New("x")); got != nil {
		t.Fatalf("Problems = %v", got)
	}
	if got := config.Problems(nil); got != nil {
		t.Fatalf("Problems(nil) = %v", got)
	}
}

// TestEveryFieldIsASetting changes each leaf of Config and asks that the printed
// settings show it: a field that the table does not know would be set by nobody.
func TestEveryFieldIsASetting(t *testing.T) {
	t.Parallel()
	loaded, err := config.Load(config.Source{ReadFile: noFiles})
	if err != nil {
		t.Fatal(err)
	}
	leaves := 0
	var walk func(v reflect.Value, path string)
	walk = func(v reflect.Value, path string) {
		switch v.Interface().(type) {
		case config.Duration, config.Secret, config.URL, []string, string, int, bool, config.Bytes:
			leaves++
			return
		case []config.Feed:
			return
		}
		if v.Kind() != reflect.Struct {
			t.Errorf("%s: no setting can be a %s", path, v.Type())
			return
		}
		for i := range v.NumField() {
			walk(v.Field(i), path+"."+v.Type().Field(i).Name)
		}
	}
	walk(reflect.ValueOf(config.Config{}), "Config")
	if entries := len(loaded.Entries()); leaves != entries {
		t.Errorf("Config has %d values, the table %d settings", leaves, entries)
	}
}

func TestCheckFeedName(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{
		"nl": true, "9": true, "a.b_c-d": true,
		"": false, "NL": false, "-a": false, ".a": false, "a b": false, "a:b": false, "é": false,
		strings.Repeat("a", 101): false,
	} {
		if err := config.CheckFeedName(name); (err == nil) != ok {
			t.Errorf("CheckFeedName(%q) = %v, want ok %v", name, err, ok)
		}
	}
}
