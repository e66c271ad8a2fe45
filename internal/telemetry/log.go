package telemetry

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"
)

// Formats of the log.
const (
	FormatAuto = "auto"
	FormatText = "text"
	FormatJSON = "json"
)

// Log says how to log.
type Log struct {
	// Level is debug, info, warn or error. Defaults to info.
	Level string
	// Format is auto, text or json. Defaults to auto: text on a terminal, else
	// JSON.
	Format string
	// Terminal says whether a person reads along.
	Terminal bool
}

// NewLogger makes a logger that writes to w. An unknown level or format is an
// error that names the choices.
func NewLogger(w io.Writer, log Log) (*slog.Logger, error) {
	var level slog.Level
	switch strings.ToLower(log.Level) {
	case "debug":
		level = slog.LevelDebug
	case "", "info":
		level = slog.LevelInfo
	case "warn":
		level = slog.LevelWarn
	case "error":
		level = slog.LevelError
	default:
		return nil, fmt.Errorf("log level %q is not one of debug, info, warn, error", log.Level)
	}
	format := log.Format
	if format == "" || format == FormatAuto {
		format = FormatJSON
		if log.Terminal {
			format = FormatText
		}
	}
	switch format {
	case FormatJSON:
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: utc})), nil
	case FormatText:
		return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: clock})), nil
	default:
		return nil, fmt.Errorf("log format %q is not one of %s, %s, %s", log.Format, FormatAuto, FormatText, FormatJSON)
	}
}

// utc writes the time of a line in UTC, as all instants of peil are.
func utc(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.Time(slog.TimeKey, a.Value.Time().UTC())
	}
	return a
}

// clock shortens the time of a line, in UTC, to what a person who reads along
// needs.
func clock(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.String(slog.TimeKey, a.Value.Time().UTC().Format(time.TimeOnly+".000Z"))
	}
	return a
}
