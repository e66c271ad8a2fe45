package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"go.uber.org/goleak"
)

// hangs makes the test binary behave as peil with a command that waits for a
// signal and then goes on for ever.
const hangs = "PEIL_TEST_HANG"

func TestMain(m *testing.M) {
	if os.Getenv(hangs) != "" {
		a := &app{stdout: os.Stdout, stderr: os.Stderr, environ: os.Environ(), exit: os.Exit}
		os.Exit(a.main(context.Background(), []string{"hang"}, []constructor{newHangCommand}))
	}
	testscript.Main(leakChecked{m}, map[string]func(){
		"peil": func() {
			os.Exit(Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
		},
	})
}

// leakChecked fails a run that leaves goroutines behind.
type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() int {
	code := l.m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}

func newHangCommand(a *app) *cobra.Command {
	return &cobra.Command{Use: "hang", RunE: func(cmd *cobra.Command, _ []string) error {
		fmt.Fprintln(a.stdout, "ready")
		<-cmd.Context().Done()
		fmt.Fprintln(a.stdout, context.Cause(cmd.Context()))
		if os.Getenv(hangs) == "once" {
			return fmt.Errorf("wait: %w", cmd.Context().Err())
		}
		select {} // a clean-up that never ends
	}}
}

// TestScripts runs testdata/script. The command exits wants an exact code:
// exits 2 peil config print.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": func(ts *testscript.TestScript, neg bool, args []string) {
				if neg || len(args) < 2 {
					ts.Fatalf("usage: exits code program args...")
				}
				want, err := strconv.Atoi(args[0])
				ts.Check(err)
				got := 0
				if err := ts.Exec(args[1], args[2:]...); err != nil {
					exit, ok := errors.AsType[*exec.ExitError](err)
					if !ok {
						ts.Fatalf("run %s: %v", args[1], err)
					}
					got = exit.ExitCode()
				}
				if got != want {
					ts.Fatalf("exit code %d, want %d", got, want)
				}
			},
		},
	})
}

// signalled starts the hanging command and returns it with what it prints.
func signalled(t *testing.T, mode string) (*exec.Cmd, *bufio.Scanner, *bytes.Buffer) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), hangs+"="+mode)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(stdout), &stderr
}

func expectLine(t *testing.T, lines *bufio.Scanner, want string) {
	t.Helper()
	if !lines.Scan() || lines.Text() != want {
		t.Fatalf("line %q (%v), want %q", lines.Text(), lines.Err(), want)
	}
}

func exitCode(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	err := cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	if err != nil {
		t.Fatalf("wait: %v", err)
	}
	return 0
}

func TestFirstSignalCancels(t *testing.T) {
	t.Parallel()
	cmd, lines, stderr := signalled(t, "once")
	expectLine(t, lines, "ready")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	expectLine(t, lines, "stopped by terminated")
	if code := exitCode(t, cmd); code != ExitFailure {
		t.Errorf("exit code %d, want %d", code, ExitFailure)
	}
	if got := stderr.String(); got != "peil: stopped by terminated\n" {
		t.Errorf("stderr %q", got)
	}
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	cmd, lines, _ := signalled(t, "for ever")
	expectLine(t, lines, "ready")
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	expectLine(t, lines, "stopped by interrupt")
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code := exitCode(t, cmd); code != ExitSignal {
		t.Errorf("exit code %d, want %d", code, ExitSignal)
	}
}

// runWith runs one command that returns an error.
func runWith(err error) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, exit: func(int) {}}
	code = a.main(context.Background(), []string{"x"}, []constructor{func(*app) *cobra.Command {
		return &cobra.Command{Use: "x", RunE: func(*cobra.Command, []string) error { return err }}
	}})
	return code, out.String(), errs.String()
}

func TestErrorsChooseCodeAndHint(t *testing.T) {
	t.Parallel()
	unreachable := &ExitError{Code: ExitUnreachable, Err: errors.New("no broker answers"), Hint: "is it running?"}
	for _, test := range []struct {
		name   string
		err    error
		code   int
		stderr string
	}{
		{"success", nil, 0, ""},
		{"plain", errors.New("disk full"), 1, "peil: disk full\n"},
		{"with a hint", unreachable, 4, "peil: no broker answers\nhint: is it running?\n"},
		{"wrapped", fmt.Errorf("run: %w", unreachable), 4, "peil: run: no broker answers\nhint: is it running?\n"},
		{"several", errors.Join(errors.New("a"), errors.New("b")), 1, "peil: a\npeil: b\n"},
		{"silent findings", &ExitError{Code: ExitFindings}, 3, ""},
		{"cancelled by nobody's signal", context.Canceled, 1, "peil: context canceled\n"},
	} {
		code, stdout, stderr := runWith(test.err)
		if code != test.code || stdout != "" || stderr != test.stderr {
			t.Errorf("%s: code %d, stdout %q, stderr %q", test.name, code, stdout, stderr)
		}
	}
	if got := (&ExitError{Code: 3}).Error(); got != "exit code 3" {
		t.Errorf("Error() = %q", got)
	}
}

// TestWrongArgumentsAreUsage: what cobra itself refuses comes before the command
// runs.
func TestWrongArgumentsAreUsage(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: &stderr, exit: func(int) {}}
	code := a.main(context.Background(), []string{"x"}, []constructor{func(*app) *cobra.Command {
		return &cobra.Command{Use: "x", Args: cobra.ExactArgs(1), RunE: func(*cobra.Command, []string) error { return nil }}
	}})
	if want := "peil: accepts 1 arg(s), received 0\nhint: peil --help lists the commands and flags\n"; code != ExitUsage || stderr.String() != want {
		t.Errorf("code %d, stderr %q", code, stderr.String())
	}
}

// TestCommandsHaveManners walks the whole tree.
func TestCommandsHaveManners(t *testing.T) {
	t.Parallel()
	a := &app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard, exit: func(int) {}}
	root := a.root(commands())
	groups := map[string]bool{groupRun: true, groupCheck: true, groupOperate: true, groupOther: true}
	var walk func(cmd *cobra.Command, depth int)
	walk = func(cmd *cobra.Command, depth int) {
		path := cmd.CommandPath()
		if !strings.HasSuffix(cmd.Short, ".") || strings.Contains(cmd.Short, "\n") || len(cmd.Short) > 100 {
			t.Errorf("%s: Short is one sentence of at most 100 characters, not %q", path, cmd.Short)
		}
		if !strings.Contains(cmd.Example, "peil") {
			t.Errorf("%s: no example", path)
		}
		if depth == 1 && !groups[cmd.GroupID] {
			t.Errorf("%s: no group %q", path, cmd.GroupID)
		}
		if cmd.RunE == nil || cmd.Run != nil {
			t.Errorf("%s: has no RunE, or a Run beside it", path)
		}
		if cmd.Args == nil {
			t.Errorf("%s: says nothing of its arguments", path)
		}
		for _, child := range cmd.Commands() {
			walk(child, depth+1)
		}
	}
	walk(root, 0)
}

func TestSettingFlagOfNoSetting(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("a flag for a setting that does not exist was made")
		}
	}()
	settingFlag((&cobra.Command{}).Flags(), "x", "no.such.key", "X")
}
