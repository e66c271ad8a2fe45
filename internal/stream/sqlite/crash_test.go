package sqlite_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/peil-stream/peil/internal/sqlitefile"
	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/internal/stream/sqlite"
)

// crashVariable makes the test binary publish to the file that it names until it
// is killed.
const crashVariable = "PEIL_STREAM_SQLITE_TEST_CRASH"

const crashPartitions = 3

// publishForEver publishes the numbers from the remembered one on, each to all
// partitions, and says so after each.
func publishForEver(ctx context.Context, path string) error {
	f, err := sqlitefile.Open(ctx, path, sqlitefile.Options{})
	if err != nil {
		return err
	}
	l, err := sqlite.New(ctx, f, sqlite.Options{})
	if err != nil {
		return err
	}
	if err := l.Create(ctx, stream.TopicSpec{Name: "t", Partitions: crashPartitions}); err != nil {
		return err
	}
	p, err := l.OpenPublisher(ctx, stream.PublisherSpec{ID: "p"})
	if err != nil {
		return err
	}
	last, err := remembered(p)
	if err != nil {
		return err
	}
	for n := last + 1; ; n++ {
		var msgs []stream.Message
		for i := range int32(crashPartitions) {
			msgs = append(msgs, stream.Message{Topic: "t", Partition: i, Key: make([]byte, 3000), Value: []byte(strconv.Itoa(n))})
		}
		if err := p.Publish(ctx, msgs, []stream.Change{{Key: "last", Value: []byte(strconv.Itoa(n))}}); err != nil {
			return err
		}
		fmt.Println("ack", n)
	}
}

func remembered(p stream.Publisher) (int, error) {
	for key, value := range p.Memory() {
		if key == "last" {
			return strconv.Atoi(string(value))
		}
	}
	return 0, nil
}

// TestCrash kills a publishing process again and again. Each number must be in
// each partition once, in order, up to what the memory says, and the memory at
// least at what was acknowledged.
func TestCrash(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "peil.db")
	kills := 10
	if testing.Short() {
		kills = 3
	}
	for kill := range kills {
		acknowledged := killPublisher(t, path, 1+3*kill)
		f, err := sqlitefile.Open(t.Context(), path, sqlitefile.Options{})
		if err != nil {
			t.Fatal(err)
		}
		l, err := sqlite.New(t.Context(), f, sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		p, err := l.OpenPublisher(t.Context(), stream.PublisherSpec{ID: "p"})
		if err != nil {
			t.Fatal(err)
		}
		last, err := remembered(p)
		if err != nil {
			t.Fatal(err)
		}
		if last < acknowledged || last > acknowledged+1 {
			t.Errorf("kill %d: %d acknowledged, %d remembered", kill, acknowledged, last)
		}
		for i := range int32(crashPartitions) {
			n := 0
			for r, err := range l.Read(t.Context(), stream.Partition{Topic: "t", Index: i}, 0, math.MaxInt64) {
				if err != nil {
					t.Fatal(err)
				}
				if n++; string(r.Value) != strconv.Itoa(n) {
					t.Fatalf("kill %d: record %d of partition %d is %s", kill, n, i, r.Value)
				}
			}
			if n != last {
				t.Errorf("kill %d: %d records in partition %d, %d remembered", kill, n, i, last)
			}
		}
		if err := errors.Join(p.Close(), l.Close(), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// killPublisher lets another process publish a number of times, kills it, and
// returns what it acknowledged last.
func killPublisher(t *testing.T, path string, times int) (last int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), crashVariable+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for n := 0; lines.Scan(); {
		if _, err := fmt.Sscanf(lines.Text(), "ack %d", &last); err != nil {
			t.Fatalf("the other process said %q", lines.Text())
		}
		if n++; n == times {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait() // says that it was killed
	if last == 0 {
		t.Fatal("the other process published nothing")
	}
	return last
}
