package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/peil-stream/peil/internal/config"
)

// Exit codes.
const (
	ExitOK          = 0
	ExitFailure     = 1   // a failure while running
	ExitUsage       = 2   // a wrong command line or configuration
	ExitFindings    = 3   // verify, diagnose or check found something
	ExitUnreachable = 4   // a service cannot be connected to
	ExitSignal      = 130 // a second signal
)

// ExitError is an error that chooses the exit code, with a hint for the user. An
// error of another type that a command returns is [ExitFailure].
type ExitError struct {
	Code int
	// Err is the message; nil for none, when the output has said it all.
	Err error
	// Hint says what to do, or is empty.
	Hint string
}

// Error gives the message without the hint.
func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap gives the error inside.
func (e *ExitError) Unwrap() error { return e.Err }

// usageError is a wrong command line.
func usageError(hint, format string, args ...any) error {
	return &ExitError{Code: ExitUsage, Err: fmt.Errorf(format, args...), Hint: hint}
}

// Main runs peil with the arguments after its name and returns the exit code. The
// environment has the form of os.Environ. Signals of the process cancel ctx for
// as long as Main runs.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, environ []string) int {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr, environ: environ, exit: os.Exit}
	return a.main(ctx, args, commands())
}

// main runs the chosen one of some commands.
func (a *app) main(ctx context.Context, args []string, list []constructor) int {
	ctx, stop := a.interruptible(ctx)
	defer stop()
	root := a.root(list)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return ExitOK
	}
	exit, ok := errors.AsType[*ExitError](err)
	cause := context.Cause(ctx)
	switch {
	case ok:
	case errors.Is(cause, errInterrupted) && errors.Is(err, context.Canceled):
		err = cause
		exit = &ExitError{Code: ExitFailure, Err: err}
	case !a.started:
		exit = &ExitError{Code: ExitUsage, Err: err, Hint: "peil --help lists the commands and flags"}
	default:
		exit = &ExitError{Code: ExitFailure, Err: err}
	}
	// The error may wrap the one that chose the code and say more than it.
	if exit.Err != nil {
		a.complain(err, exit.Hint)
	}
	return exit.Code
}

// complain prints an error and a hint.
func (a *app) complain(err error, hint string) {
	// Standard error may be closed; there is nobody left to tell.
	for line := range strings.Lines(err.Error()) {
		_, _ = fmt.Fprintf(a.stderr, "peil: %s\n", strings.TrimRight(line, "\r\n"))
	}
	if hint != "" {
		_, _ = fmt.Fprintf(a.stderr, "hint: %s\n", hint)
	}
}

// interruptible returns a context that the first SIGINT or SIGTERM cancels; the
// second one ends the process. The function that is returned undoes it and waits
// for the goroutine.
func (a *app) interruptible(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		a.watch(signals, quit, cancel)
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(quit)
		<-ended
		cancel(nil)
	}
}

func (a *app) watch(signals <-chan os.Signal, quit <-chan struct{}, cancel context.CancelCauseFunc) {
	for n := 0; ; n++ {
		select {
		case <-quit:
			return
		case sig := <-signals:
			if n > 0 {
				a.exit(ExitSignal)
				return
			}
			cancel(fmt.Errorf("%w by %s", errInterrupted, sig))
			if isTerminal(a.stderr) {
				_, _ = fmt.Fprintln(a.stderr, "peil: stopping; a second signal stops at once")
			}
		}
	}
}

// errInterrupted is the cause of a context that a signal has cancelled.
var errInterrupted = errors.New("stopped")

// configError turns what is wrong with a configuration into an exit.
func configError(err error) error {
	exit := &ExitError{
		Code: ExitUsage,
		Err:  err,
		Hint: fmt.Sprintf("peil config schema describes %s, and peil config print shows what is in force", config.DefaultFile),
	}
	problems := config.Problems(err)
	if len(problems) > 0 && !slices.ContainsFunc(problems, func(p *config.ProblemError) bool {
		return p.Origin.Kind != config.FromFlag || p.Key == ""
	}) {
		exit.Hint = "" // about a flag the messages say what there is to say
	}
	return exit
}
