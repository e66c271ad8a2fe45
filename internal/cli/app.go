package cli

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/peil-stream/peil/internal/config"
	"github.com/peil-stream/peil/internal/telemetry"
)

// app is what all commands of one run share.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	// environ has the form of os.Environ.
	environ []string
	// exit ends the process; it is os.Exit but in tests.
	exit func(int)

	// log is ready when a command runs.
	log *slog.Logger
	// started says that a command has begun to run: an error before that is
	// one of the command line.
	started bool

	configFile, logLevel, logFormat string
}

// env is the value of a variable, or empty.
func (a *app) env(name string) string {
	for _, entry := range slices.Backward(a.environ) {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// config loads the configuration with the flags of a command over it. Its error
// carries the exit code.
func (a *app) config(cmd *cobra.Command) (*config.Loaded, error) {
	loaded, err := a.load(cmd)
	if err != nil {
		return nil, configError(err)
	}
	return loaded, nil
}

// load is config with the plain error.
func (a *app) load(cmd *cobra.Command) (*config.Loaded, error) {
	src := config.Source{File: a.configFile, Environ: a.environ}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if key, ok := annotation(f, annotateKey); ok && f.Changed {
			src.Flags = append(src.Flags, config.Flag{Name: "--" + f.Name, Key: key, Value: f.Value.String()})
		}
	})
	return config.Load(src)
}

// prepare makes the log. A flag wins over the variable.
func (a *app) prepare(*cobra.Command) error {
	pick := func(flag, variable string) string {
		if flag != "" {
			return flag
		}
		return a.env(variable)
	}
	log, err := telemetry.NewLogger(a.stderr, telemetry.Log{
		Level:    pick(a.logLevel, "PEIL_LOG_LEVEL"),
		Format:   pick(a.logFormat, "PEIL_LOG_FORMAT"),
		Terminal: isTerminal(a.stderr),
	})
	if err != nil {
		return usageError("--log-level and --log-format, or PEIL_LOG_LEVEL and PEIL_LOG_FORMAT, choose the log", "%w", err)
	}
	a.log = log
	return nil
}

// isTerminal says whether a person reads what is written to w.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Annotations of flags.
const (
	annotateKey         = "peil-setting" // key of the setting that the flag sets
	annotateGroup       = "peil-group"   // heading in the help
	annotatePlaceholder = "peil-placeholder"
	annotateEnv         = "peil-env"
	annotateDefault     = "peil-default"
)

// annotate notes something about a flag.
func annotate(f *pflag.Flag, name, value string) {
	if f.Annotations == nil {
		f.Annotations = map[string][]string{}
	}
	f.Annotations[name] = []string{value}
}

func annotation(f *pflag.Flag, name string) (string, bool) {
	values := f.Annotations[name]
	if len(values) == 0 {
		return "", false
	}
	return values[0], true
}

// settingFlag adds a flag that sets a key of the configuration, with the
// documentation of that key.
func settingFlag(flags *pflag.FlagSet, name, key, placeholder string) *pflag.Flag {
	for _, s := range config.Settings() {
		if s.Key != key {
			continue
		}
		flags.String(name, "", s.Doc)
		f := flags.Lookup(name)
		annotate(f, annotateKey, key)
		annotate(f, annotatePlaceholder, placeholder)
		annotate(f, annotateEnv, s.Env)
		if s.Default != "" {
			annotate(f, annotateDefault, s.Default)
		}
		return f
	}
	// A key that does not exist is a fault that the first run of any test shows.
	panic(fmt.Sprintf("flag --%s: no setting %s", name, key))
}
