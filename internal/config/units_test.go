package config_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/peil-stream/peil/internal/config"
)

func TestParseDuration(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text string
		want time.Duration
		err  string
	}{
		{text: "5m", want: 5 * time.Minute},
		{text: "168h", want: 168 * time.Hour},
		{text: "1h30m", want: 90 * time.Minute},
		{text: "250ms", want: 250 * time.Millisecond},
		{text: "0s", want: 0},
		{text: "300", err: "300 has no unit: write 300s, 300m or 300h"},
		{text: "0", err: "0 has no unit: write 0s, 0m or 0h"},
		{text: "5 minutes", err: `"5 minutes" is not a duration such as 30s, 5m or 168h`},
		{text: "5d", err: `"5d" is not a duration such as 30s, 5m or 168h`},
		{text: "", err: `"" is not a duration such as 30s, 5m or 168h`},
	} {
		got, err := config.ParseDuration(test.text)
		if errText(err) != test.err || got.Std() != test.want || got.IsZero() != (err != nil) {
			t.Errorf("ParseDuration(%q) = %v, %v", test.text, got, err)
		}
	}
}

func TestParseBytes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text string
		want config.Bytes
		err  string
	}{
		{text: "16MiB", want: 16 << 20},
		{text: "16 MiB", want: 16 << 20},
		{text: "1GB", want: 1e9},
		{text: "64kB", want: 64000},
		{text: "12B", want: 12},
		{text: "16777216", err: "16777216 has no unit: write 16777216B, 16777216KiB or 16777216MiB"},
		{text: "16mb", err: `"16mb" is not a size such as 64KiB or 16MiB`},
		{text: "1.5MiB", err: `"1.5MiB" is not a size such as 64KiB or 16MiB`},
		{text: "MiB", err: `"MiB" is not a size such as 64KiB or 16MiB`},
		{text: "9007199254740992GiB", err: `"9007199254740992GiB" is too large`},
		{text: "99999999999999999999B", err: `"99999999999999999999B" is too large`},
	} {
		got, err := config.ParseBytes(test.text)
		if errText(err) != test.err || got != test.want {
			t.Errorf("ParseBytes(%q) = %v, %v", test.text, got, err)
		}
	}
}

func TestUnitsPrintWhatReadsBack(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		5 * time.Minute: "5m", time.Minute + time.Second: "1m1s", 168 * time.Hour: "168h", 0: "0s",
		time.Hour + 10*time.Second: "1h0m10s", 10 * time.Minute: "10m", 90 * time.Minute: "1h30m",
	} {
		if got := config.DurationOf(d).String(); got != want {
			t.Errorf("%d prints as %q, want %q", d, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		d := config.DurationOf(time.Duration(rapid.Int64().Draw(t, "nanoseconds")))
		if back, err := config.ParseDuration(d.String()); err != nil || back != d {
			t.Fatalf("%s reads back as %v, %v", d, back, err)
		}
		b := config.Bytes(rapid.Int64().Draw(t, "bytes"))
		if back, err := config.ParseBytes(b.String()); err != nil || back != b {
			t.Fatalf("%s reads back as %v, %v", b, back, err)
		}
	})
}

func TestMaskURL(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "",
		"postgres://peil:S3CRET@db:5432/peil?sslmode=require":         "postgres://peil:xxxxx@db:5432/peil?sslmode=require",
		"postgres://db/peil?user=peil&password=S3CRET":                "postgres://db/peil?user=xxxxx&password=xxxxx",
		"postgres:///peil?host=/run/postgresql":                       "postgres:///peil?host=/run/postgresql",
		"postgres://peil@db/peil":                                     "postgres://peil@db/peil",
		"https://S3CRET@feed.example/tu":                              "https://xxxxx@feed.example/tu",
		"https://feed.example/tu.pb?agency=RG&api_key=S3CRET":         "https://feed.example/tu.pb?agency=RG&api_key=xxxxx",
		"https://feed.example/tu.pb?Subscription%2DKey=S3CRET&v=2":    "https://feed.example/tu.pb?Subscription%2DKey=xxxxx&v=2",
		"https://feed.example/tu.pb?S3CRET":                           "https://feed.example/tu.pb?xxxxx",
		"https://feed.example/tu.pb?a=1;token=S3CRET":                 "https://feed.example/tu.pb?a=1&token=xxxxx",
		"https://feed.example/tu.pb?%zz=S3CRET":                       "https://feed.example/tu.pb?%zz=xxxxx",
		"https://feed.example/tu.pb#S3CRET":                           "https://feed.example/tu.pb",
		"peil:S3CRET@db:5432":                                         "xxxxx",
		"postgres://peil:S3C%RET@db":                                  "xxxxx",
		"host=db password=S3CRET":                                     "xxxxx",
		"postgres://peil:S3@CRET@db/peil":                             "postgres://peil:xxxxx@db/peil",
		"postgres://peil:S3/CRET@db/peil":                             "xxxxx",
		"https://feed.example/\x7f":                                   "xxxxx",
		"https://feed.example/tu?access_token=S3CRET&client_id=12345": "https://feed.example/tu?access_token=xxxxx&client_id=12345",
	} {
		if got := config.MaskURL(text); got != want {
			t.Errorf("MaskURL(%q) = %q, want %q", text, got, want)
		}
	}
}

// TestO02SecretsAreNotFormatted prints and marshals secrets in every way that
// comes to mind.
func TestO02SecretsAreNotFormatted(t *testing.T) {
	t.Parallel()
	c := config.Config{
		Kafka: config.Kafka{SASL: config.SASL{Password: config.NewSecret("SECRET123")}},
		Sink:  config.Sink{URL: config.NewURL("postgres://u:SECRET123@h/d")},
		Feeds: []config.Feed{{TripUpdates: config.NewURL("https://h/x?key=SECRET123")}},
	}
	if c.Kafka.SASL.Password.Reveal() != "SECRET123" || !strings.Contains(c.Sink.URL.Reveal(), "SECRET123") {
		t.Fatal("Reveal does not give the secret")
	}
	var printed []string
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%T"} {
		printed = append(printed, fmt.Sprintf(verb, c), fmt.Sprintf(verb, &c), fmt.Sprintf(verb, c.Kafka.SASL.Password), fmt.Sprintf(verb, c.Sink.URL))
	}
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	printed = append(printed, string(text))
	for _, p := range printed {
		if strings.Contains(p, "SECRET123") || strings.Contains(p, "534543524554313233") {
			t.Errorf("a secret is shown: %s", p)
		}
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
