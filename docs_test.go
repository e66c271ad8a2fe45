package peil_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/peil-stream/peil/internal/config"
	"github.com/peil-stream/peil/internal/telemetry"
)

var update = flag.Bool("update", false, "write the generated pages of docs")

// TestReferencePages holds the generated pages against what they are made from.
func TestReferencePages(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"docs/configuration.md": configurationPage(),
		"docs/metrics.md":       metricsPage(),
	} {
		if *update {
			if err := os.WriteFile(name, []byte(want), 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s is stale: go test -run TestReferencePages -update .", name)
		}
	}
}

func configurationPage() string {
	var b strings.Builder
	b.WriteString(`# Configuration

Every key of peil.yaml, with its default and the variable that sets it. A flag goes before a variable, a variable
before the file, the file before the default; ` + "`peil config print`" + ` shows what is in force and where it comes from.
All problems are reported at once, with line and column. This page is generated.

| key | default | variable | what it does |
|---|---|---|---|
`)
	for _, s := range config.Settings() {
		fmt.Fprintf(&b, "| `%s` | %s | `%s` | %s |\n", s.Key, code(s.Default), s.Env, strings.ReplaceAll(s.Doc, "|", "\\|"))
	}
	b.WriteString(`
## A complete peil.yaml

Everything may be left out. Feeds stand in the file only.

` + "```yaml" + exampleFile + "```" + `

With this file ` + "`peil run --replay ./captures`" + ` plays captures of the feed ` + "`nl`" + `. Polling feeds over HTTP is
not in this version yet. With ` + "`kafka.brokers`" + ` set the log is Kafka or Redpanda, and with ` + "`sink.url`" + ` the tables are in
Postgres; see [postgres.md](postgres.md) for roles and timeouts.
`)
	return b.String()
}

// exampleFile is the peil.yaml that the reference shows.
const exampleFile = `
data_dir: ./peil-data             # the embedded log and tables

topics:
  arrivals: arrival-predictions
  positions: vehicle-positions
  partitions: 4                   # of topics that are made

window:
  size: 5m
  lateness: 2m                    # how long a window waits for older events

offsets:
  start: earliest                 # or latest

flush:
  interval: 5s
  records: 250000

limits:
  held_records: 10000000
  held_for: 1h
  batch_bytes: 16MiB

segments:
  retention: 168h

idle:
  timeout: 1m

future:
  max_skew: 5m

http:
  listen: 127.0.0.1:8080

feeds:
  - name: nl                      # prefix of all its ids
    trip_updates: https://example.org/tripUpdates.pb
    vehicle_positions: https://example.org/vehiclePositions.pb
    poll: 30s
    emit: predictions             # or arrivals
`

// TestReferenceExample holds that the file which the reference shows is accepted,
// and that what it sets are the defaults.
func TestReferenceExample(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "peil.yaml")
	if err := os.WriteFile(name, []byte(exampleFile), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := run(t, 0, "config", "check", "--config", name); !strings.Contains(out, "no problems") {
		t.Errorf("config check: %s", out)
	}
	loaded, err := config.Load(config.Source{File: name})
	if err != nil {
		t.Fatal(err)
	}
	set := 0
	for _, s := range config.Settings() {
		if loaded.Origin(s.Key).Kind == config.FromFile {
			set++
		}
	}
	if set < 15 {
		t.Errorf("only %d settings are shown", set)
	}
	for _, e := range loaded.Entries() {
		for _, s := range config.Settings() {
			if s.Key == e.Key && s.Default != e.Value {
				t.Errorf("%s is shown as %s, its default is %s", s.Key, e.Value, s.Default)
			}
		}
	}
}

func metricsPage() string {
	var b strings.Builder
	b.WriteString(`# Metrics

Served on /metrics. No label has values that grow without bound. This page is generated.

| metric | type | labels | what it says |
|---|---|---|---|
`)
	for _, m := range telemetry.New("").Reference() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.Name, m.Type, strings.Join(m.Labels, ", "), m.Help)
	}
	return b.String()
}

func code(s string) string {
	if s == "" {
		return "none"
	}
	return "`" + s + "`"
}

// TestLinksInPages holds that what the pages of this repository link to is there.
func TestLinksInPages(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(`\]\(([^)#\s]+)(#[^)]*)?\)`)
	for _, page := range append(pages, "README.md", "CONTRIBUTING.md", "CHANGELOG.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
			}
		}
	}
}

// TestCommandsInReadme holds that the commands which the README shows exist.
func TestCommandsInReadme(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile("(?:\\./cmd/peil|`peil) ([a-z]+)")
	seen := map[string]bool{}
	for _, m := range command.FindAllStringSubmatch(string(text), -1) {
		if !seen[m[1]] {
			seen[m[1]] = true
			run(t, 0, m[1], "--help")
		}
	}
	if len(seen) < 6 {
		t.Fatalf("only %d commands found in the README", len(seen))
	}
}
