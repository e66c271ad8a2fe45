//go:build integration

package services_test

import (
	"bufio"
	"context"
	"errors"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/peil-stream/peil/internal/testkit/services"
)

// TestKafka commits a transaction and reads it back.
func TestKafka(t *testing.T) {
	t.Parallel()
	brokers := services.Kafka(t)
	client, err := kgo.NewClient(
		kgo.SeedBrokers(brokers...), kgo.MetadataMinAge(50*time.Millisecond), kgo.TransactionalID("services"),
		kgo.ConsumeTopics("services"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).CreateTopic(t.Context(), 1, 1, nil, "services"); err != nil {
		t.Fatal(err)
	}
	if err := client.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "services", Value: []byte("x")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := client.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	got := client.PollFetches(t.Context())
	if err := got.Err(); err != nil || got.NumRecords() != 1 {
		t.Fatalf("%d records, %v", got.NumRecords(), err)
	}
}

// TestPostgres holds that each call gives a database of its own.
func TestPostgres(t *testing.T) {
	t.Parallel()
	for range 2 {
		conn, err := pgx.Connect(t.Context(), services.Postgres(t))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), "CREATE TABLE only_here ()"); err != nil {
			t.Fatal(err)
		}
		if err := conn.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestServicesEndWithTheTest kills a test binary that has started both, and waits
// until neither answers any more and their folders are gone.
func TestServicesEndWithTheTest(t *testing.T) {
	t.Parallel()
	// Postgres may run as another user, who has no way into a folder of the test.
	folder, err := os.MkdirTemp("", "peil-services-") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(folder, os.ModeSticky|0o777); err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestStartAndHang$", "-test.v")
	child.Env = append(os.Environ(), "PEIL_TEST_HANG=1", "PEIL_TEST_KAFKA=", "PEIL_TEST_POSTGRES=", "TMPDIR="+folder)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var addresses []string
	for lines := bufio.NewScanner(out); len(addresses) == 0 && lines.Scan(); {
		if found, ok := strings.CutPrefix(lines.Text(), "started "); ok {
			addresses = strings.Fields(found)
		}
	}
	if err := errors.Join(child.Process.Kill(), ignoreExit(child.Wait())); err != nil || len(addresses) != 2 {
		t.Fatalf("the child says %q: %v", addresses, err)
	}
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for ctx := t.Context(); answers(ctx, addresses) || len(folders(t, folder)) > 0; {
		select {
		case <-ctx.Done():
			t.Fatal(ctx.Err())
		case <-poll.C:
		}
	}
}

// TestStartAndHang is the child of the test above; run by itself it has nothing to
// do.
func TestStartAndHang(t *testing.T) {
	t.Parallel()
	if os.Getenv("PEIL_TEST_HANG") == "" {
		return
	}
	at, err := url.Parse(services.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stdout.WriteString("started " + services.Kafka(t)[0] + " " + at.Host + "\n"); err != nil {
		t.Fatal(err)
	}
	<-t.Context().Done()
}

func ignoreExit(err error) error {
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil
	}
	return err
}

func answers(ctx context.Context, addresses []string) bool {
	for _, a := range addresses {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", a)
		if err == nil {
			_ = conn.Close() // nothing was sent
			return true
		}
	}
	return false
}

// folders are those that the services have made.
func folders(t *testing.T, in string) []fs.DirEntry {
	t.Helper()
	all, err := os.ReadDir(in)
	if err != nil {
		t.Fatal(err)
	}
	var left []fs.DirEntry
	for _, e := range all {
		if e.Name() != "peil-test-logs" {
			left = append(left, e)
		}
	}
	return left
}
