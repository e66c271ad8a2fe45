package config

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Schema returns the JSON schema of the file, for editors and checkers. Values
// may hold ${VAR}, so an editor may find fault with what peil accepts, but never
// the other way round.
func Schema() ([]byte, error) {
	root := object("Configuration of peil.")
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "peil.yaml"
	for _, s := range append(settings(), secretFiles()...) {
		place(root, s.key, describeSetting(s, Config{}))
	}
	feed := object("One source of GTFS-Realtime.")
	feed["required"] = []string{"name"}
	for _, s := range feedSettings() {
		place(feed, s.key, describeSetting(s, Feed{}))
	}
	place(root, "feeds", map[string]any{
		"description": "Sources of GTFS-Realtime. They are set in the file only.",
		"type":        "array",
		"items":       feed,
	})
	out, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the schema: %w", err)
	}
	return append(out, '\n'), nil
}

func object(doc string) map[string]any {
	return map[string]any{
		"type":                 "object",
		"description":          doc,
		"additionalProperties": false,
		"properties":           map[string]any{},
	}
}

// place puts the schema of a key where its path says, making sections on the
// way.
func place(root map[string]any, path string, schema map[string]any) {
	names := strings.Split(path, ".")
	for _, name := range names[:len(names)-1] {
		properties := root["properties"].(map[string]any)
		section, ok := properties[name].(map[string]any)
		if !ok {
			section = object(sectionDoc(name))
			properties[name] = section
		}
		root = section
	}
	root["properties"].(map[string]any)[names[len(names)-1]] = schema
}

// sectionDoc says what the settings below a key are about.
func sectionDoc(name string) string {
	switch name {
	case "kafka":
		return "The consumer group, and the log where it is Kafka."
	case "tls":
		return "Encryption of the connections to the brokers."
	case "sasl":
		return "Authentication at the brokers."
	case "sink":
		return "Where the tables are."
	case "topics":
		return "Names of the topics, and into how many partitions new ones are cut."
	case "window":
		return "How event time is cut into windows."
	case "offsets":
		return "Where the progress of a partition is kept, and what to do without it."
	case "flush":
		return "When results are written to the tables."
	case "limits":
		return "Bounds of what is held in memory."
	case "segments":
		return "How long the parts of merged windows are kept."
	case "idle":
		return "When a quiet partition stops holding finality."
	case "future":
		return "What is done about clocks that run ahead."
	case "http":
		return "The API and the metrics."
	default:
		return ""
	}
}

func describeSetting[T any](s setting[T], zero T) map[string]any {
	out := map[string]any{"type": "string"}
	if s.fileOf == "" {
		out = s.at(&zero).schema()
	}
	out["description"] = s.doc
	if s.preset != "" {
		out["default"] = typed(s.preset, out["type"])
	}
	return out
}

// typed gives a default in the type that the schema names.
func typed(text string, kind any) any {
	if kind != "string" {
		var v any
		if json.Unmarshal([]byte(text), &v) == nil {
			return v
		}
	}
	return text
}
