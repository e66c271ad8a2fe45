package cli

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/peil-stream/peil"
	"github.com/peil-stream/peil/internal/config"
	"github.com/peil-stream/peil/internal/telemetry"
)

// run makes an instance from the configuration and runs it to its end.
func (a *app) run(ctx context.Context, cfg peil.Config, with func(context.Context, *peil.Instance)) (*peil.Instance, error) {
	cfg.Version = readVersion().Version
	if cfg.Logger == nil {
		cfg.Logger = a.log
	}
	i, err := peil.New(cfg)
	if err != nil {
		return nil, explain(err)
	}
	if with == nil {
		return i, explain(i.Run(ctx))
	}
	side, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		with(side, i)
	}()
	err = i.Run(ctx)
	stop()
	<-done
	return i, explain(err)
}

// warnings is the log of a command whose own output says what it does: lines
// that need nobody are left out, but for a user who asks for them. They go to out,
// which stands for standard error.
func (a *app) warnings(out io.Writer) *slog.Logger {
	log, err := telemetry.NewLogger(out, telemetry.Log{
		Level:    cmp.Or(a.logLevel, a.env("PEIL_LOG_LEVEL"), "warn"),
		Format:   cmp.Or(a.logFormat, a.env("PEIL_LOG_FORMAT")),
		Terminal: isTerminal(a.stderr),
	})
	if err != nil {
		return a.log // the same words were accepted before
	}
	return log
}

// explain gives an error the exit code and the hint that it stands for.
func explain(err error) error {
	if err == nil {
		return nil
	}
	exit := &ExitError{Code: ExitFailure, Err: err}
	switch {
	case errors.Is(err, peil.ErrUnsupported):
		exit.Code = ExitUsage
	case errors.Is(err, peil.ErrNoDatabase), errors.Is(err, peil.ErrUnreachable):
		exit.Code = ExitUnreachable
	}
	if h, ok := errors.AsType[interface {
		error
		Hint() string
	}](err); ok {
		exit.Hint = h.Hint()
	}
	return exit
}

// listens says whether the user has asked for an address to listen on.
func listens(l *config.Loaded) bool { return l.Origin("http.listen").Kind != config.FromDefault }

func newProcessCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "process",
		Short: "Read the log into the tables until stopped.",
		Example: `# Process what is in the log, and serve metrics and the API.
peil process --data-dir ./peil-data`,
		GroupID: groupRun,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := a.config(cmd)
			if err != nil {
				return err
			}
			_, err = a.run(cmd.Context(), peil.Config{Settings: l.Config, Process: true, Serve: true}, nil)
			return err
		},
	}
	return cmd
}

func newServeCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "serve",
		Short: "Serve the API over the tables, beside a process that writes them.",
		Example: `# Ask for the newest windows of a line.
peil serve --listen 127.0.0.1:8081
curl 'http://127.0.0.1:8081/api/v1/aggregates?dimension=line&id=nl:CXX:1011'`,
		GroupID: groupRun,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := a.config(cmd)
			if err != nil {
				return err
			}
			return explain(peil.Serve(cmd.Context(), l.Config, readVersion().Version, a.log))
		},
	}
}
