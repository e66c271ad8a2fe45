//go:build integration

package services

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// careless makes the server quick: its data does not outlive the tests anyway.
var careless = []string{
	"-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off",
	"-c", "shared_buffers=64MB", "-c", "max_connections=200",
}

var postgres = sync.OnceValues(func() (string, error) {
	// The server lives as long as the test binary, so no test's context fits.
	ctx := context.Background()
	var errs []error
	for range attempts {
		server, err := startPostgres(ctx)
		if err == nil {
			return server, nil
		}
		errs = append(errs, err)
	}
	return "", errors.Join(errs...)
})

// Postgres makes an empty database and returns its URL; it is dropped when the test
// ends, also if there are connections left.
func Postgres(tb testing.TB) string {
	tb.Helper()
	server := os.Getenv("PEIL_TEST_POSTGRES")
	if server == "" {
		var err error
		if server, err = postgres(); err != nil {
			tb.Fatal(err)
		}
		sayLog(tb, "postgres")
	}
	at, err := url.Parse(server)
	if err != nil {
		tb.Fatalf("PEIL_TEST_POSTGRES is no URL: %v", err)
	}
	// Two test binaries may share a server.
	name := fmt.Sprintf("peil_%d_%d", os.Getpid(), time.Now().UnixNano())
	if err := execute(tb.Context(), server, "CREATE DATABASE "+name); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := execute(context.Background(), server, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			tb.Error(err)
		}
	})
	at.Path = "/" + name
	return at.String()
}

func startPostgres(ctx context.Context) (string, error) {
	initdb, err := postgresProgram("initdb")
	if err != nil {
		return "", err
	}
	daemon, err := postgresProgram("postgres")
	if err != nil {
		return "", err
	}
	ports, err := freePorts(ctx, 1)
	if err != nil {
		return "", err
	}
	host, port, err := net.SplitHostPort(ports[0])
	if err != nil {
		return "", fmt.Errorf("read a port: %w", err)
	}
	as, err := postgresUser()
	if err != nil {
		return "", err
	}
	folder, err := os.MkdirTemp("", "peil-postgres-")
	if err != nil {
		return "", fmt.Errorf("make a folder for Postgres: %w", err)
	}
	if as != nil {
		if err := os.Chown(folder, int(as.Uid), int(as.Gid)); err != nil {
			return "", errors.Join(fmt.Errorf("give Postgres its folder: %w", err), os.RemoveAll(folder))
		}
	}
	data := filepath.Join(folder, "data")
	init := exec.CommandContext(ctx, initdb, "-D", data, "-U", "postgres", "--auth=trust", "--no-locale", "-E", "UTF8", "--no-sync")
	init.Dir, init.SysProcAttr = folder, &syscall.SysProcAttr{Credential: as}
	if out, err := init.CombinedOutput(); err != nil {
		return "", errors.Join(fmt.Errorf("make a Postgres cluster: %w\n%s", err, out), os.RemoveAll(folder))
	}
	server := "postgres://postgres@" + ports[0] + "/postgres?sslmode=disable"
	command := append([]string{daemon, "-D", data, "-k", folder, "-h", host, "-p", port}, careless...)
	return server, start(ctx, service{
		name: "postgres", command: command, signal: "QUIT", folder: folder, as: as,
		ready: func(ctx context.Context) error { return execute(ctx, server, "SELECT 1") },
	})
}

// postgresProgram finds a program of the server: on the path, or where Debian puts
// the newest version.
func postgresProgram(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if err != nil || len(found) == 0 {
		return program(name, "the PostgreSQL server, 15 or newer")
	}
	version := func(path string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path)))) // 0: an odd folder is the last choice
		return n
	}
	return slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) }), nil
}

// postgresUser is who runs the server; nil: who runs the tests. It refuses to be run
// by root.
func postgresUser() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("find a user to run Postgres, which root may not: %w", err)
	}
	return userIDs(u.Uid, u.Gid)
}

func execute(ctx context.Context, server, statement string) (err error) {
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return fmt.Errorf("connect to Postgres: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	if _, err := conn.Exec(ctx, statement); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}
