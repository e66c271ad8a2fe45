//go:build integration

package services

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// patience is how long a service may take to answer after its start.
const patience = time.Minute

// attempts is how often a service is started: a port that was free a moment ago
// may be taken by the time the service wants it.
const attempts = 3

// supervisor runs a command until it ends or standard input does, and then removes
// a folder. Arguments: the signal to end it with, the folder, the command.
const supervisor = `
trap '' HUP INT TERM
signal=$1 folder=$2
shift 2
exec 3<&0
"$@" </dev/null 3<&- &
service=$!
{ cat <&3 >/dev/null; kill -"$signal" "$service"; } 2>/dev/null &
wait "$service"
rm -rf "$folder"
`

// service is a program to run.
type service struct {
	name string
	// command and its arguments.
	command []string
	// signal ends it at once.
	signal string
	// folder is removed when it has ended.
	folder string
	// as is whose rights it gets; nil: those of the test.
	as *syscall.Credential
	// ready returns nil once it answers.
	ready func(context.Context) error
}

// start runs a service and waits until it answers.
func start(ctx context.Context, s service) error {
	path := logPath(s.name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make a folder for logs: %w", err)
	}
	// Another run of the same tests may still be writing the old one.
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the old log: %w", err)
	}
	log, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("create a log: %w", err)
	}
	defer log.Close() // the service has its own handle

	cmd := exec.Command("/bin/sh", append([]string{"-c", supervisor, s.name, s.signal, s.folder}, s.command...)...)
	cmd.Stdout, cmd.Stderr = log, log
	// Ctrl-C in a terminal goes to the test, not to its services.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: s.as}
	hold, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("make a pipe: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", s.name, err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // how it ended is in its log
	}()
	if err := await(ctx, s, ended); err != nil {
		return errors.Join(fmt.Errorf("%s does not start, its log is %s: %w", s.name, path, err), hold.Close())
	}
	return nil // hold stays open until this process ends
}

// await waits until a service answers.
func await(ctx context.Context, s service, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		err := s.ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ended:
			return fmt.Errorf("it ended by itself: %w", err)
		case <-ctx.Done():
			return fmt.Errorf("it does not answer: %w", err)
		case <-again.C:
		}
	}
}

// logPath is where a service of this test binary logs to.
func logPath(name string) string {
	return filepath.Join(os.TempDir(), "peil-test-logs", filepath.Base(os.Args[0])+"-"+name+".log")
}

// sayLog names the log of a service when a test fails.
func sayLog(tb testing.TB, name string) {
	tb.Helper()
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("the log of %s: %s", name, logPath(name))
		}
	})
}

// freePorts returns n addresses of the loopback that nobody listens on.
func freePorts(ctx context.Context, n int) ([]string, error) {
	var all []string
	for range n {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		// Closed at the end only, so that no two are the same.
		defer l.Close() // nothing was accepted
		all = append(all, l.Addr().String())
	}
	return all, nil
}

// program finds a command of this machine.
func program(name, install string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("the integration tests need %s: install %s, or name a running service: %w", name, install, err)
	}
	return path, nil
}

// userIDs returns the numbers of a user of this machine.
func userIDs(uid, gid string) (*syscall.Credential, error) {
	u, err := strconv.ParseUint(uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("read a user's number: %w", err)
	}
	g, err := strconv.ParseUint(gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("read a group's number: %w", err)
	}
	return &syscall.Credential{Uid: uint32(u), Gid: uint32(g)}, nil
}
