package config_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/peil-stream/peil/internal/config"
)

var update = flag.Bool("update", false, "write the golden files")

func noFiles(name string) ([]byte, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// files is a file system of a few texts.
func files(texts map[string]string) func(string) ([]byte, error) {
	return func(name string) ([]byte, error) {
		if text, ok := texts[name]; ok {
			return []byte(text), nil
		}
		return noFiles(name)
	}
}

// load reads a peil.yaml with an environment.
func load(yaml string, env ...string) (*config.Loaded, error) {
	return config.Load(config.Source{
		Environ:  env,
		ReadFile: files(map[string]string{"peil.yaml": yaml, "/run/pw": "SECRET123\n", "/run/empty": "\n"}),
	})
}

func TestLoadTakesEverything(t *testing.T) {
	t.Parallel()
	loaded, err := load(`# everything
kafka:
  brokers: [a:9092, b:9093]
  group: g
  session_timeout: 6s
  tls: {enabled: true, ca_file: ca.pem, cert_file: c.pem, key_file: k.pem, server_name: n}
  sasl: {mechanism: scram-sha-256, username: u, password: "p"}
sink: {url: postgres://u:p@h/d}
data_dir: /data
topics: {arrivals: <feed>.a, positions: <feed>.p, partitions: 12}
window: {size: 10m, lateness: 0s}
offsets: {store: kafka, start: latest, on_loss: continue}
flush: {interval: 100ms, records: 1_000}
limits: {held_records: 5, held_for: 2h, batch_bytes: 1MiB}
segments: {retention: 24h}
idle: {timeout: 30s}
future: {max_skew: 1m}
feeds:
  - {name: nl, trip_updates: "https://x/tu?key=k", vehicle_positions: "http://x/vp", static: https://x/gtfs.zip, poll: 1s, emit: arrivals}
  - name: be
    trip_updates: https://y/tu
http: {listen: ":9000"}
`)
	if err != nil {
		t.Fatal(err)
	}
	want := config.Config{
		Kafka: config.Kafka{
			Brokers: []string{"a:9092", "b:9093"},
			Group:   "g", SessionTimeout: config.DurationOf(6 * time.Second),
			TLS:  config.TLS{Enabled: true, CAFile: "ca.pem", CertFile: "c.pem", KeyFile: "k.pem", ServerName: "n"},
			SASL: config.SASL{Mechanism: "scram-sha-256", Username: "u", Password: config.NewSecret("p")},
		},
		Sink:     config.Sink{URL: config.NewURL("postgres://u:p@h/d")},
		DataDir:  "/data",
		Topics:   config.Topics{Arrivals: "<feed>.a", Positions: "<feed>.p", Partitions: 12},
		Window:   config.Window{Size: config.DurationOf(10 * time.Minute), Lateness: config.DurationOf(0)},
		Offsets:  config.Offsets{Store: "kafka", Start: "latest", OnLoss: "continue"},
		Flush:    config.Flush{Interval: config.DurationOf(100 * time.Millisecond), Records: 1000},
		Limits:   config.Limits{HeldRecords: 5, HeldFor: config.DurationOf(2 * time.Hour), BatchBytes: config.MiB},
		Segments: config.Segments{Retention: config.DurationOf(24 * time.Hour)},
		Idle:     config.Idle{Timeout: config.DurationOf(30 * time.Second)},
		Future:   config.Future{MaxSkew: config.DurationOf(time.Minute)},
		Feeds: []config.Feed{
			{
				Name: "nl", TripUpdates: config.NewURL("https://x/tu?key=k"), VehiclePositions: config.NewURL("http://x/vp"),
				Static: config.NewURL("https://x/gtfs.zip"), Poll: config.DurationOf(time.Second), Emit: "arrivals",
			},
			{Name: "be", TripUpdates: config.NewURL("https://y/tu"), Poll: config.DurationOf(30 * time.Second), Emit: "predictions"},
		},
		HTTP: config.HTTP{Listen: ":9000"},
	}
	if diff := cmp.Diff(want, loaded.Config); diff != "" {
		t.Fatalf("Load mismatch (-want +got):\n%s", diff)
	}
	if loaded.File != "peil.yaml" {
		t.Errorf("File = %q", loaded.File)
	}
}

func TestPrecedence(t *testing.T) {
	t.Parallel()
	const file = "kafka:\n  group: from-file\n"
	group := func(name, value string) config.Flag { return config.Flag{Name: name, Key: "kafka.group", Value: value} }
	for _, test := range []struct {
		name   string
		file   string
		env    []string
		flags  []config.Flag
		want   string
		origin string
	}{
		{"default", "", nil, nil, "peil", "default"},
		{"file", file, nil, nil, "from-file", "peil.yaml:2:10"},
		{"environment over file", file, []string{"PEIL_KAFKA_GROUP=from-env"}, nil, "from-env", "PEIL_KAFKA_GROUP"},
		{"last of a name", file, []string{"PEIL_KAFKA_GROUP=a", "PEIL_KAFKA_GROUP=b"}, nil, "b", "PEIL_KAFKA_GROUP"},
		{"flag over environment", file, []string{"PEIL_KAFKA_GROUP=from-env"}, []config.Flag{group("--group", "from-flag")}, "from-flag", "--group"},
		{"empty variable is not set", file, []string{"PEIL_KAFKA_GROUP="}, nil, "from-file", "peil.yaml:2:10"},
		{"empty flag goes back to the default", file, nil, []config.Flag{group("--group", "")}, "peil", "--group"},
		{"key without a value", "kafka:\n  group:\n", nil, nil, "peil", "default"},
		{"section without keys", "kafka:\n", nil, nil, "peil", "default"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			loaded, err := config.Load(config.Source{
				Environ: test.env, Flags: test.flags, ReadFile: files(map[string]string{"peil.yaml": test.file}),
			})
			if err != nil {
				t.Fatal(err)
			}
			if got, origin := loaded.Config.Kafka.Group, loaded.Origin("kafka.group").String(); got != test.want || origin != test.origin {
				t.Fatalf("group %q from %q, want %q from %q", got, origin, test.want, test.origin)
			}
		})
	}
}

func TestLists(t *testing.T) {
	t.Parallel()
	want := []string{"a:1", "b:2"}
	for name, source := range map[string][2]string{
		"flow":         {"kafka:\n  brokers: [a:1, b:2]\n", ""},
		"flow in flow": {"kafka: {brokers: [a:1, b:2], group: peil}", ""},
		"block":        {"kafka:\n  brokers:\n    - a:1\n    - \"b:2\"\n", ""},
		"commas":       {"kafka: {brokers: 'a:1, b:2'}", ""},
		"expanded":     {"kafka: {brokers: '${HOSTS}'}", "HOSTS=a:1,b:2"},
		"environment":  {"kafka: {brokers: [c:3]}", "PEIL_KAFKA_BROKERS=a:1, b:2"},
	} {
		loaded, err := load(source[0], source[1])
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(want, loaded.Config.Kafka.Brokers); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestEveryVariableSetsItsKey(t *testing.T) {
	t.Parallel()
	values := map[string]string{
		"kafka.brokers": "h:1,i:2", "kafka.group": "g", "kafka.session_timeout": "7s", "kafka.tls.enabled": "true", "kafka.tls.ca_file": "a",
		"kafka.tls.cert_file": "c", "kafka.tls.key_file": "k", "kafka.tls.server_name": "n",
		"kafka.sasl.mechanism": "plain", "kafka.sasl.username": "u", "kafka.sasl.password": "p",
		"sink.url": "postgres://h/d", "data_dir": "d",
		"topics.arrivals": "a", "topics.positions": "p", "topics.partitions": "7",
		"window.size": "1m", "window.lateness": "1m", "offsets.store": "kafka", "offsets.start": "latest",
		"offsets.on_loss": "continue", "flush.interval": "1m", "flush.records": "7", "limits.held_records": "7",
		"limits.held_for": "7m", "limits.batch_bytes": "7MiB", "segments.retention": "7m", "idle.timeout": "7m",
		"future.max_skew": "7m", "http.listen": ":1",
	}
	var env []string
	for _, s := range config.Settings() {
		value, ok := values[s.Key]
		switch {
		case ok:
			env = append(env, s.Env+"="+value)
		case !strings.HasSuffix(s.Key, "_file"):
			t.Errorf("no value for %s", s.Key)
		}
	}
	loaded, err := load("", env...)
	if err != nil {
		t.Fatal(err)
	}
	values["kafka.sasl.password"] = "xxxxx"
	for _, e := range loaded.Entries() {
		variable := "PEIL_" + strings.ToUpper(strings.ReplaceAll(e.Key, ".", "_"))
		if e.Origin != variable || e.Value != values[e.Key] {
			t.Errorf("%s gives %+v, want %q", variable, e, values[e.Key])
		}
	}
}

func TestUnknownVariables(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, file, env, want string
	}{
		{name: "not ours", env: "PEILER=1"},
		{name: "misspelt", env: "PEIL_WINDW_SIZE=5m", want: "PEIL_WINDW_SIZE: is no setting of peil; did you mean PEIL_WINDOW_SIZE?"},
		{name: "unlike any", env: "PEIL_SOMETHING_ELSE_ALTOGETHER=5m", want: "PEIL_SOMETHING_ELSE_ALTOGETHER: is no setting of peil"},
		{name: "feeds", env: "PEIL_FEEDS_0_NAME=nl", want: "PEIL_FEEDS_0_NAME: feeds are set in the file only"},
		{name: "empty", env: "PEIL_WINDW_SIZE="},
		{name: "used by the file", file: "kafka: {group: '${PEIL_MY_GROUP}'}", env: "PEIL_MY_GROUP=g"},
		{name: "of the command", env: "PEIL_LOG_LEVEL=debug"},
		{name: "of the tests", env: "PEIL_TEST_POSTGRES_URL=x"},
		{name: "kubernetes host", env: "PEIL_SERVICE_HOST=10.0.0.1"},
		{name: "kubernetes port", env: "PEIL_PORT=tcp://10.0.0.1:8080"},
		{name: "kubernetes named port", env: "PEIL_KAFKA_SERVICE_PORT_BROKER=9092"},
		{name: "kubernetes address", env: "PEIL_KAFKA_PORT_9092_TCP_ADDR=10.0.0.1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := load(test.file, test.env)
			if errText(err) != test.want {
				t.Fatalf("error %q, want %q", errText(err), test.want)
			}
		})
	}
}

func TestExpansion(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, value, want, err string
	}{
		{name: "set", value: "${A}", want: "alpha"},
		{name: "within", value: "x-${A}.${B}-y", want: "x-alpha.beta-y"},
		{name: "set beats default", value: "${A:-d}", want: "alpha"},
		{name: "default", value: "${NO:-d}", want: "d"},
		{name: "empty counts as not set", value: "${EMPTY:-d}", want: "d"},
		{name: "empty default", value: "x${NO:-}", want: "x"},
		{name: "not expanded twice", value: "${NESTED:-d}", err: `peil.yaml:1:16: kafka.group: "${A}" is not a name of letters, digits, '.', '_' and '-'`},
		{name: "not set", value: "${NO}", err: "peil.yaml:1:16: kafka.group: the variable NO is not set; ${NO:-x} gives it a default"},
		{name: "not closed", value: "${A", err: "peil.yaml:1:16: kafka.group: ${ without }; write $${ for a literal ${"},
		{name: "no name", value: "${A B}", err: "peil.yaml:1:16: kafka.group: ${…} does not hold the name of a variable; write ${VAR} or ${VAR:-x}, and $${ for a literal ${"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			loaded, err := load("kafka: {group: '"+test.value+"'}", "A=alpha", "B=beta", "EMPTY=", "NESTED=${A}")
			if errText(err) != test.err {
				t.Fatalf("error %q, want %q", errText(err), test.err)
			}
			if err == nil && loaded.Config.Kafka.Group != test.want {
				t.Fatalf("group %q, want %q", loaded.Config.Kafka.Group, test.want)
			}
		})
	}
	// What is expanded stays one value, and a dollar alone is a dollar.
	loaded, err := load("data_dir: '${DIR}'\nkafka:\n  brokers: [h:1]\n  sasl: {mechanism: plain, username: '$x$', password: 'a$${b}$'}\n", "DIR=a: [b]")
	if err != nil {
		t.Fatal(err)
	}
	sasl := loaded.Config.Kafka.SASL
	if loaded.Config.DataDir != "a: [b]" || sasl.Username != "$x$" || sasl.Password.Reveal() != "a${b}$" {
		t.Fatalf("data_dir %q, username %q, password %q", loaded.Config.DataDir, sasl.Username, sasl.Password.Reveal())
	}
	if _, err := load("'${A}': x", "A=data_dir"); err == nil {
		t.Fatal("a key was expanded")
	}
}

func TestSecretFiles(t *testing.T) {
	t.Parallel()
	const sasl = "kafka:\n  brokers: [h:1]\n  sasl:\n    mechanism: plain\n    username: u\n"
	for _, test := range []struct {
		name, file string
		env        []string
		want       string
		origin     string
		err        string
	}{
		{name: "file", file: sasl + "    password_file: /run/pw\n", want: "SECRET123", origin: "/run/pw (peil.yaml:6:20)"},
		{name: "environment", file: sasl, env: []string{"PEIL_KAFKA_SASL_PASSWORD_FILE=/run/pw"}, want: "SECRET123", origin: "/run/pw (PEIL_KAFKA_SASL_PASSWORD_FILE)"},
		{name: "higher level wins", file: sasl + "    password_file: /run/pw\n", env: []string{"PEIL_KAFKA_SASL_PASSWORD=other"}, want: "other", origin: "PEIL_KAFKA_SASL_PASSWORD"},
		{name: "both", file: sasl + "    password_file: /run/pw\n    password: x\n", err: "/run/pw (peil.yaml:6:20): kafka.sasl.password: is given both by itself and by a file; choose one"},
		{name: "missing", file: sasl + "    password_file: /run/none\n", err: "/run/none (peil.yaml:6:20): kafka.sasl.password: open /run/none: file does not exist"},
		{name: "empty", file: sasl + "    password_file: /run/empty\n", err: "/run/empty (peil.yaml:6:20): kafka.sasl.password: the file is empty"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			loaded, err := load(test.file, test.env...)
			if got := errText(err); got != test.err {
				t.Fatalf("error %q, want %q", got, test.err)
			}
			if err != nil {
				return
			}
			if got, origin := loaded.Config.Kafka.SASL.Password.Reveal(), loaded.Origin("kafka.sasl.password").String(); got != test.want || origin != test.origin {
				t.Fatalf("password %q from %q, want %q from %q", got, origin, test.want, test.origin)
			}
		})
	}
}

// TestFileErrors runs testdata/*.yaml and compares all that is reported with the
// .txt beside it.
func TestFileErrors(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(names) < 5 {
		t.Fatalf("found %d files: %v", len(names), err)
	}
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			_, err := config.Load(config.Source{File: name})
			got := strings.ReplaceAll(errText(err), filepath.Clean(name), "peil.yaml") + "\n"
			if strings.Contains(got, "SECRET123") {
				t.Errorf("an error shows a secret:\n%s", got)
			}
			golden(t, strings.TrimSuffix(name, ".yaml")+".txt", got)
		})
	}
}

func TestMissingFile(t *testing.T) {
	t.Parallel()
	if _, err := config.Load(config.Source{ReadFile: noFiles}); err != nil {
		t.Errorf("no peil.yaml: %v", err)
	}
	_, err := config.Load(config.Source{File: "x.yaml", ReadFile: noFiles})
	if want := "--config: open x.yaml: file does not exist"; errText(err) != want {
		t.Errorf("error %q, want %q", errText(err), want)
	}
	_, err = config.Load(config.Source{Environ: []string{"PEIL_CONFIG=y.yaml"}, ReadFile: noFiles})
	if want := "PEIL_CONFIG: open y.yaml: file does not exist"; errText(err) != want {
		t.Errorf("error %q, want %q", errText(err), want)
	}
	denied := func(string) ([]byte, error) { return nil, fs.ErrPermission }
	if _, err = config.Load(config.Source{ReadFile: denied}); errText(err) != "permission denied" {
		t.Errorf("a peil.yaml that cannot be read: %v", err)
	}
}

func TestSchema(t *testing.T) {
	t.Parallel()
	schema, err := config.Schema()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/schema.json", string(schema))
}

// TestSchemaDescribesEverything holds that no section and no key is without words.
func TestSchemaDescribesEverything(t *testing.T) {
	t.Parallel()
	text, err := config.Schema()
	if err != nil {
		t.Fatal(err)
	}
	type node struct {
		Description string           `json:"description"`
		Properties  map[string]*node `json:"properties"`
	}
	var root node
	if err := json.Unmarshal(text, &root); err != nil {
		t.Fatal(err)
	}
	n := 0
	var walk func(path string, at *node)
	walk = func(path string, at *node) {
		n++
		if at.Description == "" || strings.HasPrefix(at.Description, "Settings of") {
			t.Errorf("%s has no description", path)
		}
		for name, child := range at.Properties {
			walk(path+"."+name, child)
		}
	}
	walk("peil.yaml", &root)
	if n < 30 {
		t.Errorf("only %d keys were looked at", n)
	}
}

// TestDefaultsAreDocumentedAsTheyPrint: the reference and config print show one
// form of a value.
func TestDefaultsAreDocumentedAsTheyPrint(t *testing.T) {
	t.Parallel()
	loaded, err := load("")
	if err != nil {
		t.Fatal(err)
	}
	printed := map[string]string{}
	for _, e := range loaded.Entries() {
		printed[e.Key] = e.Value
	}
	for _, s := range config.Settings() {
		if printed[s.Key] != s.Default {
			t.Errorf("%s is documented as %q and prints as %q", s.Key, s.Default, printed[s.Key])
		}
	}
}

// TestUnknownKeysOfFeeds: the prefix that all keys of a feed share makes none of
// them near.
func TestUnknownKeysOfFeeds(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"url": "; did you mean feeds[0].trip_updates?", "trip_update": "; did you mean feeds[0].trip_updates?",
		"gtfs": "; did you mean feeds[0].static?", "interval": "; did you mean feeds[0].poll?",
		"pol": "; did you mean feeds[0].poll?", "xyzzy": "",
	} {
		_, err := load("feeds:\n  - name: nl\n    trip_updates: https://x/y\n    " + key + ": z\n")
		if want = "peil.yaml:4:5: feeds[0]." + key + ": is no setting of peil" + want; errText(err) != want {
			t.Errorf("error %q, want %q", errText(err), want)
		}
	}
}

func TestListenHints(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"8080":  `http.listen: "8080" is not host:port: write :8080 or 127.0.0.1:8080`,
		"here":  `http.listen: "here" is not host:port, such as 127.0.0.1:8080 or :8080`,
		"99999": `http.listen: "99999" is not host:port, such as 127.0.0.1:8080 or :8080`,
		":8080": "",
	} {
		err := (config.Config{HTTP: config.HTTP{Listen: text}}).Validate()
		if errText(err) != want {
			t.Errorf("%s: %q, want %q", text, errText(err), want)
		}
	}
}

func TestEntriesMaskSecrets(t *testing.T) {
	t.Parallel()
	loaded, err := load("sink:\n  url: postgres://u:SECRET123@h/d?sslmode=require\nfeeds:\n  - {name: nl, trip_updates: 'https://h/x?key=SECRET123'}\n")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, e := range loaded.Entries() {
		got[e.Key] = e.Value + " | " + e.Origin
	}
	for key, want := range map[string]string{
		"sink.url":              "postgres://u:xxxxx@h/d?sslmode=require | peil.yaml:2:8",
		"feeds[0].trip_updates": "https://h/x?key=xxxxx | peil.yaml:4:30",
		"feeds[0].poll":         "30s | default",
		"window.size":           "5m | default",
		"kafka.brokers":         " | default",
	} {
		if got[key] != want {
			t.Errorf("%s: %q, want %q", key, got[key], want)
		}
	}
	if strings.Contains(fmt.Sprint(got), "SECRET123") {
		t.Errorf("a secret is printed: %v", got)
	}
}

// golden compares with a file, or writes it with -update.
func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatalf("%v; go test -update writes it", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Fatalf("%s mismatch (-want +got):\n%s", name, diff)
	}
}

// FuzzLoad feeds any file. How: whatever it holds, reading ends without a panic
// in a valid configuration or in problems, and a marked secret in a value is
// never repeated.
func FuzzLoad(f *testing.F) {
	names, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data))
	}
	f.Add("kafka: {sasl: {password: ${X")
	f.Fuzz(func(t *testing.T, text string) {
		loaded, err := load(text, "X=SECRET123")
		if err == nil {
			if err := loaded.Config.Validate(); err != nil {
				t.Fatalf("Load accepts what Validate refuses: %v", err)
			}
			return
		}
		if len(config.Problems(err)) == 0 {
			t.Fatalf("an error without a problem: %v", err)
		}
	})
}
