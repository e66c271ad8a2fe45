package config

import (
	"errors"
	"fmt"
	"strings"
)

// Words of the settings that are one of a few.
const (
	StoreSink  = "sink"
	StoreKafka = "kafka"

	StartEarliest = "earliest"
	StartLatest   = "latest"

	OnLossStop     = "stop"
	OnLossContinue = "continue"

	EmitPredictions = "predictions"
	EmitArrivals    = "arrivals"
)

// feedPlaceholder stands for the name of the feed in the names of topics.
const feedPlaceholder = "<feed>"

// Config is what a user sets. The zero value of every field stands for its
// default; [Config.WithDefaults] fills it in.
type Config struct {
	Kafka    Kafka
	Sink     Sink
	DataDir  string // Folder of the embedded log and tables. Defaults to ./peil-data.
	Topics   Topics
	Window   Window
	Offsets  Offsets
	Flush    Flush
	Limits   Limits
	Segments Segments
	Idle     Idle
	Future   Future
	Feeds    []Feed
	HTTP     HTTP
}

// Kafka is the log. Without brokers it is the embedded one, in DataDir.
type Kafka struct {
	Brokers []string // Seeds as host:port. Defaults to none: the embedded log.
	Group   string   // Consumer group, and prefix of transactional ids. Defaults to peil.
	// SessionTimeout is how long a process may be silent before the others of its
	// group get its partitions. Defaults to 45 s.
	SessionTimeout Duration
	TLS            TLS
	SASL           SASL
}

// TLS of the connections to the brokers.
type TLS struct {
	Enabled    bool   // Defaults to false.
	CAFile     string // Certificates to trust, PEM. Defaults to those of the system.
	CertFile   string // Certificate of this client, PEM. Needs KeyFile.
	KeyFile    string // Key of this client, PEM. Needs CertFile.
	ServerName string // Name that the certificate must bear. Defaults to the broker's host.
}

// SASL authenticates at the brokers.
type SASL struct {
	Mechanism string // plain, scram-sha-256 or scram-sha-512. Defaults to none.
	Username  string
	Password  Secret
}

// Sink is where the tables are.
type Sink struct {
	URL URL // A postgres:// address. Defaults to SQLite in DataDir.
}

// Topics are the names of the topics. <feed> in a name stands for the feed's.
type Topics struct {
	Arrivals   string // Defaults to arrival-predictions; with several feeds to <feed>.arrival-predictions.
	Positions  string // Defaults to vehicle-positions; with several feeds to <feed>.vehicle-positions.
	Partitions int    // Of topics that peil creates, 1 to 1000. Defaults to 4.
}

// Window says how event time is cut.
type Window struct {
	Size     Duration // Length of a window, from 1s. Defaults to 5m.
	Lateness Duration // How long a window waits for older events, from 0s. Defaults to 2m.
}

// Offsets says where a partition's progress is kept and what to do without it.
type Offsets struct {
	Store  string // sink or kafka. Defaults to sink.
	Start  string // earliest or latest, where nothing is stored. Defaults to earliest.
	OnLoss string // stop or continue, where the log has lost unread records. Defaults to stop.
}

// Flush says when results are written.
type Flush struct {
	Interval Duration // Longest time between two flushes. Defaults to 5s.
	Records  int      // Records that a process has read since the last flush after which the next comes early. Defaults to 250000.
}

// Limits bound what is held in memory.
type Limits struct {
	HeldRecords int      // Records above the committed offset that are an incident. Defaults to 10000000.
	HeldFor     Duration // Age of the oldest uncommitted record that is an incident. Defaults to 1h.
	BatchBytes  Bytes    // Size of the batches that are read ahead, over all partitions together. Defaults to 16MiB.
}

// Segments says how long the parts of merged windows are kept.
type Segments struct {
	Retention Duration // Counted from the merge. Defaults to 168h.
}

// Idle says when a quiet partition stops holding finality.
type Idle struct {
	Timeout Duration // Defaults to 1m.
}

// Future bounds clocks that run ahead.
type Future struct {
	MaxSkew Duration // How far an event may lie after its own log timestamp. Defaults to 5m.
}

// Feed is one source of GTFS-Realtime.
type Feed struct {
	Name             string   // Prefix of all its ids.
	TripUpdates      URL      // At least one of TripUpdates and VehiclePositions is needed.
	VehiclePositions URL      //
	Static           URL      // Timetable as a GTFS zip. Defaults to none.
	Poll             Duration // Time between two polls, from 1s. Defaults to 30s.
	Emit             string   // predictions or arrivals. Defaults to predictions.
}

// HTTP is the API.
type HTTP struct {
	Listen string // host:port. Defaults to 127.0.0.1:8080.
}

// WithDefaults returns a copy in which every value that is not set has its
// default. Doing it twice changes nothing.
func (c Config) WithDefaults() Config {
	c.Feeds = append([]Feed(nil), c.Feeds...)
	for _, s := range settings() {
		s.applyDefault(s.at(&c), len(c.Feeds))
	}
	for i := range c.Feeds {
		for _, s := range feedSettings() {
			s.applyDefault(s.at(&c.Feeds[i]), len(c.Feeds))
		}
	}
	return c
}

// Validate reports all problems of a configuration at once. Each joined error is
// a [*ProblemError] that names the setting's key. Values that are not set count
// as their defaults.
func (c Config) Validate() error { return join(c.problems()) }

func (c Config) problems() []*ProblemError {
	c = c.WithDefaults()
	var out []*ProblemError
	for _, s := range settings() {
		if err := s.at(&c).check(); err != nil {
			out = append(out, problem(s.key, "%v", err))
		}
	}
	for i := range c.Feeds {
		for _, s := range feedSettings() {
			if err := s.at(&c.Feeds[i]).check(); err != nil {
				out = append(out, problem(feedKey(i, s.key), "%v", err))
			}
		}
	}
	out = append(out, c.kafkaProblems()...)
	out = append(out, c.topicProblems()...)
	return append(out, c.feedProblems()...)
}

func (c Config) kafkaProblems() []*ProblemError {
	var out []*ProblemError
	tls, sasl := c.Kafka.TLS, c.Kafka.SASL
	if !tls.Enabled {
		for _, s := range []struct{ key, value string }{
			{"kafka.tls.ca_file", tls.CAFile},
			{"kafka.tls.cert_file", tls.CertFile},
			{"kafka.tls.key_file", tls.KeyFile},
			{"kafka.tls.server_name", tls.ServerName},
		} {
			if s.value != "" {
				out = append(out, problem(s.key, "has no effect without kafka.tls.enabled: true").using("kafka.tls.enabled"))
			}
		}
	}
	if tls.CertFile != "" && tls.KeyFile == "" {
		out = append(out, problem("kafka.tls.cert_file", "needs kafka.tls.key_file too").using("kafka.tls.key_file"))
	}
	if tls.KeyFile != "" && tls.CertFile == "" {
		out = append(out, problem("kafka.tls.key_file", "needs kafka.tls.cert_file too").using("kafka.tls.cert_file"))
	}
	switch {
	case sasl.Mechanism == "" && sasl.Username != "":
		out = append(out, problem("kafka.sasl.username", "has no effect without kafka.sasl.mechanism").using("kafka.sasl.mechanism"))
	case sasl.Mechanism == "" && !sasl.Password.IsZero():
		out = append(out, problem("kafka.sasl.password", "has no effect without kafka.sasl.mechanism").using("kafka.sasl.mechanism"))
	case sasl.Mechanism != "" && (sasl.Username == "" || sasl.Password.IsZero()):
		out = append(out, problem("kafka.sasl.mechanism", "needs kafka.sasl.username and kafka.sasl.password or kafka.sasl.password_file").
			using("kafka.sasl.username", "kafka.sasl.password"))
	}
	if c.Offsets.Store == StoreKafka && len(c.Kafka.Brokers) == 0 {
		out = append(out, problem("offsets.store", "kafka needs kafka.brokers; the embedded log keeps no offsets of groups").
			using("kafka", "kafka.brokers"))
	}
	return out
}

func (c Config) topicProblems() []*ProblemError {
	var out []*ProblemError
	for _, s := range []struct{ key, name string }{
		{"topics.arrivals", c.Topics.Arrivals},
		{"topics.positions", c.Topics.Positions},
	} {
		if len(c.Feeds) > 1 && !strings.HasPrefix(s.name, feedPlaceholder+".") {
			out = append(out, problem(s.key,
				"with several feeds each needs a topic of its own: the name must start with %s. as in %s.%s",
				feedPlaceholder, feedPlaceholder, strings.ReplaceAll(s.name, feedPlaceholder, "")))
		}
		if strings.HasPrefix(s.name, "dlq.") || strings.HasSuffix(s.name, ".ingest-state") {
			out = append(out, problem(s.key, "dlq.… and ….ingest-state are topics that peil makes for itself"))
		}
	}
	if c.Topics.Arrivals == c.Topics.Positions {
		out = append(out, problem("topics.positions", "is the same topic as topics.arrivals").using("topics.arrivals"))
	}
	return out
}

func (c Config) feedProblems() []*ProblemError {
	var out []*ProblemError
	first := map[string]int{}
	for i, feed := range c.Feeds {
		switch other, twice := first[feed.Name]; {
		case feed.Name == "":
			out = append(out, problem(feedKey(i, "name"), "is missing").using(feedKey(i, "")))
		case twice:
			out = append(out, problem(feedKey(i, "name"), "%s is the name of feeds[%d] too", quote(feed.Name), other))
		default:
			first[feed.Name] = i
		}
		if feed.TripUpdates.IsZero() && feed.VehiclePositions.IsZero() {
			out = append(out, problem(feedKey(i, ""), "needs trip_updates, vehicle_positions or both").
				using(feedKey(i, "trip_updates"), feedKey(i, "vehicle_positions")))
		}
	}
	return out
}

// Embedded says whether the log is the one in DataDir.
func (c Config) Embedded() bool { return len(c.Kafka.Brokers) == 0 }

// TopicsOf returns the names of the topics that carry a feed.
func (c Config) TopicsOf(feed string) (arrivals, positions string) {
	c = c.WithDefaults()
	return strings.ReplaceAll(c.Topics.Arrivals, feedPlaceholder, feed),
		strings.ReplaceAll(c.Topics.Positions, feedPlaceholder, feed)
}

// Fingerprint names what decides the windows and the fate of a record. Rows that
// were computed under another fingerprint cannot be continued.
func (c Config) Fingerprint() string {
	c = c.WithDefaults()
	return fmt.Sprintf("size=%s lateness=%s max_skew=%s", c.Window.Size, c.Window.Lateness, c.Future.MaxSkew)
}

// feedKey gives feeds[i] or feeds[i].name.
func feedKey(i int, name string) string {
	if name == "" {
		return fmt.Sprintf("feeds[%d]", i)
	}
	return fmt.Sprintf("feeds[%d].%s", i, name)
}

// errFeedName judges the name of a feed that comes from elsewhere, such as a
// flag.
var errFeedName = errors.New("a feed's name starts with a letter or digit and holds only a-z, 0-9, '.', '_' and '-'")

// CheckFeedName judges the name of a feed that does not come from a
// configuration, such as that of a replay.
func CheckFeedName(name string) error {
	if !feedName.MatchString(name) {
		return fmt.Errorf("%s: %w", quote(name), errFeedName)
	}
	return nil
}
