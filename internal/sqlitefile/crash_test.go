package sqlitefile

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// roleVariable makes the test binary play another process.
const (
	roleVariable = "PEIL_SQLITEFILE_TEST_ROLE"
	pathVariable = "PEIL_SQLITEFILE_TEST_PATH"
)

// playRole runs in the other process until it is killed.
func playRole(role string) int {
	ctx := context.Background()
	f, err := Open(ctx, os.Getenv(pathVariable), Options{})
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	switch role {
	case "hold":
		fmt.Println("ready")
		<-ctx.Done() // never
	case "write":
		err = writeForEver(ctx, f)
	default:
		err = errors.New("unknown role " + role)
	}
	fmt.Println("error", err)
	return 1
}

// writeForEver writes batches of rowsPerBatch rows and says so after each.
func writeForEver(ctx context.Context, f *File) error {
	for batch := 1; ; batch++ {
		err := f.Write(ctx, func(tx *sql.Tx) error {
			var next int
			if err := tx.QueryRowContext(ctx, "SELECT coalesce(max(batch), 0) + 1 FROM t").Scan(&next); err != nil {
				return err
			}
			batch = next
			for i := range rowsPerBatch {
				if _, err := tx.ExecContext(ctx, "INSERT INTO t VALUES (?, ?, randomblob(500))", batch, i); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		fmt.Println("ack", batch)
	}
}

const rowsPerBatch = 50

type other struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

func startOther(t *testing.T, role, path string) *other {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), roleVariable+"="+role, pathVariable+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return &other{cmd: cmd, lines: bufio.NewScanner(out)}
}

func (o *other) line(t *testing.T) string {
	t.Helper()
	if !o.lines.Scan() {
		t.Fatalf("the other process said nothing more: %v", o.lines.Err())
	}
	text := o.lines.Text()
	if strings.HasPrefix(text, "error") {
		t.Fatal(text)
	}
	return text
}

// kill ends the process as a crash does and returns what it had still said.
func (o *other) kill(t *testing.T) (rest []string) {
	t.Helper()
	if err := o.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for o.lines.Scan() {
		rest = append(rest, o.lines.Text())
	}
	_ = o.cmd.Wait() // says that it was killed
	return rest
}

func TestLockOfAnotherProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "peil.db")
	o := startOther(t, "hold", path)
	o.line(t)
	_, err := Open(t.Context(), path, Options{})
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), path+".lock") ||
		!strings.Contains(err.Error(), "process "+strconv.Itoa(o.cmd.Process.Pid)) {
		t.Errorf("beside the other process: %v", err)
	}
	r, err := OpenReadOnly(t.Context(), path, Options{})
	if err != nil {
		t.Errorf("a reader beside the other process: %v", err)
	} else if err := r.Close(); err != nil {
		t.Error(err)
	}
	o.kill(t)
	openAt(t, path)
}

// TestCrash kills a writer again and again: what it acknowledged is there,
// nothing is there in part, and both a reader and a writer can open what is
// left.
func TestCrash(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "peil.db")
	f := openAt(t, path)
	mustExec(t, f, "CREATE TABLE t (batch, i, filler)")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	kills := 8
	if testing.Short() {
		kills = 3
	}
	acknowledged := 0
	for kill := range kills {
		o := startOther(t, "write", path)
		said := []string{}
		for range 1 + 5*kill {
			said = append(said, o.line(t))
		}
		said = append(said, o.kill(t)...)
		if _, err := fmt.Sscanf(said[len(said)-1], "ack %d", &acknowledged); err != nil {
			t.Fatalf("%q: %v", said[len(said)-1], err)
		}
		open := Open
		if kill%2 == 0 {
			open = OpenReadOnly // recovers the log too
		}
		f, err := open(t.Context(), path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		last := count(t, f, "SELECT coalesce(max(batch), 0) FROM t")
		rows := count(t, f, "SELECT count(*) FROM t")
		bad := count(t, f, fmt.Sprintf(`SELECT count(*) FROM
			(SELECT batch FROM t GROUP BY batch HAVING count(*) <> %d)`, rowsPerBatch))
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if last < acknowledged || last > acknowledged+1 || bad != 0 || rows != last*rowsPerBatch {
			t.Fatalf("kill %d: acknowledged %d, stored %d batches, %d rows, %d partial batches",
				kill, acknowledged, last, rows, bad)
		}
	}
}
