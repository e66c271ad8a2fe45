package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/peil-stream/peil"
	"github.com/peil-stream/peil/internal/config"
)

func newConfigCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "config",
		Short:   "Check, print or describe the configuration.",
		GroupID: groupCheck,
		Example: `# Find everything that is wrong, with line and column.
peil config check

# See what is in force, and where each value comes from.
peil config print`,
		Args: cobra.ArbitraryArgs,
		RunE: a.chooseCommand,
	}
	cmd.AddCommand(newConfigCheckCommand(a), newConfigPrintCommand(a), newConfigSchemaCommand(a))
	return cmd
}

func newConfigCheckCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Report everything that is wrong with the configuration; exit 3 if anything is.",
		Example: `peil config check

# A file elsewhere, for another program to read.
peil config check --config /etc/peil/peil.yaml -o json`,
		Args: noArgs,
	}
	out := a.outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o, err := out()
		if err != nil {
			return err
		}
		loaded, err := a.load(cmd)
		problems := config.Problems(err)
		if err != nil && len(problems) == 0 {
			return configError(err)
		}
		if err == nil {
			if problems, err = unsupported(loaded); err != nil {
				return explain(err)
			}
		}
		if len(problems) == 0 && o.format == formatTable {
			return o.write([]byte(verdict(loaded)))
		}
		if err := o.problems(problems); err != nil {
			return err
		}
		if len(problems) > 0 {
			return &ExitError{Code: ExitFindings}
		}
		return nil
	}
	return cmd
}

// unsupported lists the settings that every command of this version refuses.
func unsupported(l *config.Loaded) ([]*config.ProblemError, error) {
	_, err := peil.New(peil.Config{Settings: l.Config}) // opens nothing
	return unsupportedIn(l, err)
}

func unsupportedIn(l *config.Loaded, err error) ([]*config.ProblemError, error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []*config.ProblemError
		for _, e := range joined.Unwrap() {
			some, err := unsupportedIn(l, e)
			if err != nil {
				return nil, err
			}
			all = append(all, some...)
		}
		return all, nil
	}
	if !errors.Is(err, peil.ErrUnsupported) {
		return nil, err
	}
	// The message begins with the key.
	key, message, _ := strings.Cut(err.Error(), ": ")
	return []*config.ProblemError{{Key: key, Origin: l.Origin(key), Message: message}}, nil
}

// verdict is what is said of a configuration without problems.
func verdict(l *config.Loaded) string {
	file := l.File
	if file == "" {
		file = "no file, defaults only"
	}
	text := file + ": no problems\n"
	if len(l.Config.Feeds) > 0 {
		text += "note: this version does not poll feeds over HTTP; it plays captures of them (peil run --replay PATH)\n"
	}
	return text
}

// problems prints what is wrong: as lines that an editor can follow, or as data.
func (o *output) problems(problems []*config.ProblemError) error {
	if o.format == formatTable {
		for _, p := range problems {
			if err := o.write([]byte(p.Error() + "\n")); err != nil {
				return err
			}
		}
		return nil
	}
	l := listing{columns: []string{"source", "name", "line", "column", "key", "message"}}
	for _, p := range problems {
		var line, col any
		if p.Origin.Line > 0 {
			line, col = p.Origin.Line, p.Origin.Column
		}
		l.add(p.Origin.Kind.String(), p.Origin.Name, line, col, p.Key, p.Message)
	}
	return o.list(l)
}

func newConfigPrintCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "print",
		Short: "Print the configuration in force and where each value comes from, without secrets.",
		Example: `peil config print

# What would hold with this variable set.
PEIL_WINDOW_SIZE=10m peil config print -o csv`,
		Args: noArgs,
	}
	out := a.outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o, err := out()
		if err != nil {
			return err
		}
		loaded, err := a.config(cmd)
		if err != nil {
			return err
		}
		l := listing{columns: []string{"key", "value", "origin"}}
		for _, e := range loaded.Entries() {
			l.add(e.Key, e.Value, e.Origin)
		}
		return o.list(l)
	}
	return cmd
}

func newConfigSchemaCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "schema",
		Short:   "Print the JSON schema of peil.yaml, for editors.",
		Example: `peil config schema > peil.schema.json`,
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			schema, err := config.Schema()
			if err != nil {
				return err
			}
			if _, err := a.stdout.Write(schema); err != nil {
				return fmt.Errorf("write the schema: %w", err)
			}
			return nil
		},
	}
}
