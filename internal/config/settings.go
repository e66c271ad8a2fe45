package config

import (
	"regexp"
	"strings"
	"time"
)

var (
	feedName  = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,99}$`)
	topicName = regexp.MustCompile(`^(<feed>\.)?[a-zA-Z0-9_-][a-zA-Z0-9._-]{0,148}$`)
	groupName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,200}$`)
)

// Suffixes of the doc of what a configuration may say and this version refuses.
const (
	notYet     = " (Not in this version.)"
	onlyReplay = " (Polling is not in this version; the feed's captures can be played.)"
)

// setting declares one key of the configuration, of a T.
type setting[T any] struct {
	// key is the path in the file, with dots.
	key string
	// doc is one or more sentences.
	doc string
	// preset is the default as it is written in a file. Empty: none.
	preset string
	// manyPreset is the default when there are several feeds, where it differs.
	manyPreset string
	// at is the place in the configuration. Nil for a *_file setting.
	at func(*T) value
	// fileOf names the setting whose value stands in the file that this one
	// names. Empty: the setting is a value itself.
	fileOf string
}

// env is the name of the setting's variable.
func (s setting[T]) env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(s.key, ".", "_"))
}

// applyDefault sets the default where nothing is set.
func (s setting[T]) applyDefault(v value, feeds int) {
	preset := s.preset
	if feeds > 1 && s.manyPreset != "" {
		preset = s.manyPreset
	}
	if preset == "" || !v.unset() {
		return
	}
	// The tables' defaults are tested to parse.
	_ = v.parse(preset)
}

// settings is the table of all keys but those of feeds, in the order in which
// they are printed. Settings that name a file with the value of another come
// from secretFiles.
func settings() []setting[Config] {
	var out []setting[Config]
	out = append(out, kafkaSettings()...)
	out = append(out, tableSettings()...)
	out = append(out, windowSettings()...)
	return append(out, limitSettings()...)
}

func kafkaSettings() []setting[Config] {
	return []setting[Config]{
		{
			key: "kafka.brokers",
			doc: "Brokers to begin with, as host:port. Without any, the log is the embedded one in data_dir.",
			at: func(c *Config) value {
				return list{&c.Kafka.Brokers, func(s string) error { return hostPort(s, false) }}
			},
		},
		{
			key:    "kafka.group",
			doc:    "Consumer group, and prefix of the transactional ids. One group per database schema.",
			preset: "peil",
			at: func(c *Config) value {
				return text{word{&c.Kafka.Group}, groupName, "a name of letters, digits, '.', '_' and '-'"}
			},
		},
		{
			key:    "kafka.session_timeout",
			doc:    "How long a process may be silent before the others of its group get its partitions. The brokers' group.min.session.timeout.ms and group.max.session.timeout.ms bound it.",
			preset: "45s",
			at:     func(c *Config) value { return period{&c.Kafka.SessionTimeout, time.Second, 30 * time.Minute} },
		},
		{
			key:    "kafka.tls.enabled",
			doc:    "Connect to the brokers by TLS.",
			preset: "false",
			at:     func(c *Config) value { return toggle{&c.Kafka.TLS.Enabled} },
		},
		{
			key: "kafka.tls.ca_file",
			doc: "Certificates to trust, PEM. Those of the system if it is not set.",
			at:  func(c *Config) value { return text{word: word{&c.Kafka.TLS.CAFile}} },
		},
		{
			key: "kafka.tls.cert_file",
			doc: "Certificate of this client, PEM.",
			at:  func(c *Config) value { return text{word: word{&c.Kafka.TLS.CertFile}} },
		},
		{
			key: "kafka.tls.key_file",
			doc: "Key of this client's certificate, PEM.",
			at:  func(c *Config) value { return text{word: word{&c.Kafka.TLS.KeyFile}} },
		},
		{
			key: "kafka.tls.server_name",
			doc: "Name that the brokers' certificates must bear. The broker's host if it is not set.",
			at:  func(c *Config) value { return text{word: word{&c.Kafka.TLS.ServerName}} },
		},
		{
			key: "kafka.sasl.mechanism",
			doc: "How to authenticate at the brokers. No authentication if it is not set.",
			at: func(c *Config) value {
				return choice{word{&c.Kafka.SASL.Mechanism}, []string{"plain", "scram-sha-256", "scram-sha-512"}}
			},
		},
		{
			key: "kafka.sasl.username",
			doc: "User at the brokers.",
			at:  func(c *Config) value { return text{word: word{&c.Kafka.SASL.Username}} },
		},
		{
			key: "kafka.sasl.password",
			doc: "Password of the user. Better kept in a file of its own or a variable.",
			at:  func(c *Config) value { return hidden{&c.Kafka.SASL.Password} },
		},
	}
}

func tableSettings() []setting[Config] {
	return []setting[Config]{
		{
			key: "sink.url",
			doc: "Database of the tables, such as postgres://host/peil. SQLite in data_dir if it is not set.",
			at: func(c *Config) value {
				return link{&c.Sink.URL, []string{"postgres", "postgresql"}, true}
			},
		},
		{
			key:    "data_dir",
			doc:    "Folder of the embedded log and tables, from the working directory. It is made if it is missing.",
			preset: "./peil-data",
			at:     func(c *Config) value { return text{word: word{&c.DataDir}} },
		},
		{
			key:        "topics.arrivals",
			doc:        "Topic of arrival predictions. <feed> stands for the name of the feed. With several feeds the name must start with it.",
			preset:     "arrival-predictions",
			manyPreset: "<feed>.arrival-predictions",
			at: func(c *Config) value {
				return text{word{&c.Topics.Arrivals}, topicName, "a name of a topic"}
			},
		},
		{
			key:        "topics.positions",
			doc:        "Topic of vehicle positions. <feed> stands for the name of the feed. With several feeds the name must start with it.",
			preset:     "vehicle-positions",
			manyPreset: "<feed>.vehicle-positions",
			at: func(c *Config) value {
				return text{word{&c.Topics.Positions}, topicName, "a name of a topic"}
			},
		},
		{
			key:    "topics.partitions",
			doc:    "Partitions of topics that are created. Topics that exist keep theirs.",
			preset: "4",
			at:     func(c *Config) value { return count{&c.Topics.Partitions, 1, 1000} },
		},
	}
}

func windowSettings() []setting[Config] {
	return []setting[Config]{
		{
			key:    "window.size",
			doc:    "Length of a window of event time. It cannot be changed over a database that holds rows.",
			preset: "5m",
			at:     func(c *Config) value { return period{&c.Window.Size, time.Second, 24 * time.Hour} },
		},
		{
			key:    "window.lateness",
			doc:    "How long a window waits for older events. It cannot be changed over a database that holds rows.",
			preset: "2m",
			at:     func(c *Config) value { return period{&c.Window.Lateness, 0, 24 * time.Hour} },
		},
		{
			key:    "offsets.store",
			doc:    "Where a restart begins: at the offsets in the sink (exactly-once effect) or at the lower of those and the group's in Kafka (at-least-once delivery). (The latter is not in this version.)",
			preset: StoreSink,
			at:     func(c *Config) value { return choice{word{&c.Offsets.Store}, []string{StoreSink, StoreKafka}} },
		},
		{
			key:    "offsets.start",
			doc:    "Where a partition begins that has no stored offset.",
			preset: StartEarliest,
			at: func(c *Config) value {
				return choice{word{&c.Offsets.Start}, []string{StartEarliest, StartLatest}}
			},
		},
		{
			key:    "offsets.on_loss",
			doc:    "What to do when the log no longer holds unread records: stop the partition, or record the lost range and continue. (To continue is not in this version.)",
			preset: OnLossStop,
			at: func(c *Config) value {
				return choice{word{&c.Offsets.OnLoss}, []string{OnLossStop, OnLossContinue}}
			},
		},
	}
}

func limitSettings() []setting[Config] {
	const year = 366 * 24 * time.Hour
	return []setting[Config]{
		{
			key:    "flush.interval",
			doc:    "Longest time between two flushes.",
			preset: "5s",
			at:     func(c *Config) value { return period{&c.Flush.Interval, 10 * time.Millisecond, 5 * time.Minute} },
		},
		{
			key:    "flush.records",
			doc:    "Records after which a flush comes early.",
			preset: "250000",
			at:     func(c *Config) value { return count{&c.Flush.Records, 1, 100_000_000} },
		},
		{
			key:    "limits.held_records",
			doc:    "Records above the committed offset of a partition that are an incident.",
			preset: "10000000",
			at:     func(c *Config) value { return count{&c.Limits.HeldRecords, 1, 2_000_000_000} },
		},
		{
			key:    "limits.held_for",
			doc:    "Age of the oldest uncommitted record of a partition that is an incident.",
			preset: "1h",
			at:     func(c *Config) value { return period{&c.Limits.HeldFor, time.Second, year} },
		},
		{
			key:    "limits.batch_bytes",
			doc:    "Size of the batches that are read ahead, over all partitions together.",
			preset: "16MiB",
			at:     func(c *Config) value { return size{&c.Limits.BatchBytes, 64 * KiB, GiB} },
		},
		{
			key:    "segments.retention",
			doc:    "How long the parts of a window are kept after they were merged. Later records of it are stored, not merged.",
			preset: "168h",
			at:     func(c *Config) value { return period{&c.Segments.Retention, time.Minute, 10 * year} },
		},
		{
			key:    "idle.timeout",
			doc:    "How long a partition at the end of the log must be quiet until it no longer holds finality.",
			preset: "1m",
			at:     func(c *Config) value { return period{&c.Idle.Timeout, time.Second, 24 * time.Hour} },
		},
		{
			key:    "future.max_skew",
			doc:    "How far an event's time may lie after its own timestamp in the log. It cannot be changed over a database that holds rows.",
			preset: "5m",
			at:     func(c *Config) value { return period{&c.Future.MaxSkew, time.Second, 24 * time.Hour} },
		},
		{
			key:    "http.listen",
			doc:    "Where the API and the metrics listen, as host:port.",
			preset: "127.0.0.1:8080",
			at:     func(c *Config) value { return address{word{&c.HTTP.Listen}} },
		},
	}
}

// secretFiles are the settings that name a file with the value of another one.
func secretFiles() []setting[Config] {
	return []setting[Config]{
		{key: "kafka.sasl.password_file", doc: "File with the password of the user.", fileOf: "kafka.sasl.password"},
		{key: "sink.url_file", doc: "File with the address of the database.", fileOf: "sink.url"},
	}
}

// feedSettings is the table of the keys of one feed.
func feedSettings() []setting[Feed] {
	web := []string{"https", "http"}
	return []setting[Feed]{
		{
			key: "name",
			doc: "Name of the feed: prefix of all its ids. Required.",
			at: func(f *Feed) value {
				return text{word{&f.Name}, feedName, "a name of a-z, 0-9, '.', '_' and '-' that starts with a letter or digit"}
			},
		},
		{
			key: "trip_updates",
			doc: "Address of the trip updates." + onlyReplay,
			at:  func(f *Feed) value { return link{&f.TripUpdates, web, false} },
		},
		{
			key: "vehicle_positions",
			doc: "Address of the vehicle positions." + onlyReplay,
			at:  func(f *Feed) value { return link{&f.VehiclePositions, web, false} },
		},
		{
			key: "static",
			doc: "Address of the timetable, a GTFS zip." + notYet,
			at:  func(f *Feed) value { return link{&f.Static, web, false} },
		},
		{
			key:    "poll",
			doc:    "Time between two polls." + notYet,
			preset: "30s",
			at:     func(f *Feed) value { return period{&f.Poll, time.Second, 24 * time.Hour} },
		},
		{
			key:    "emit",
			doc:    "What becomes an event: every new prediction, or each arrival once it has happened.",
			preset: EmitPredictions,
			at:     func(f *Feed) value { return choice{word{&f.Emit}, []string{EmitPredictions, EmitArrivals}} },
		},
	}
}
