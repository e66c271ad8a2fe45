package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/peil-stream/peil/internal/sqlitefile"
	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/internal/stream/sqlite"
	"github.com/peil-stream/peil/internal/stream/streamtest"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(crashVariable); path != "" {
		fmt.Println("error", publishForEver(context.Background(), path))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// features of the embedded log: all of them.
func features() streamtest.Features {
	return streamtest.Features{
		BroughtTimestamps: true, Trim: true, Delete: true, Gaps: true, LostAnswers: true,
	}
}

// harness is an embedded log in a folder of the test.
type harness struct {
	streamtest.Harness

	path string
	file *sqlitefile.File
	log  *sqlite.Log
	// lose is the fault of the next commit, if there is one.
	lose func(commit func() error) error
}

var errAnswerLost = errors.New("answer lost")

func openHarness(t *testing.T) *harness {
	t.Helper()
	h := &harness{path: filepath.Join(t.TempDir(), "peil.db")}
	if _, err := h.reopen(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.close(); err != nil {
			t.Error(err)
		}
	})
	h.Reopen = h.reopen
	h.Trim = func(ctx context.Context, p stream.Partition, before int64) error { return h.log.Trim(ctx, p, before) }
	h.Delete = func(ctx context.Context, topic string) error { return h.log.Delete(ctx, topic) }
	h.Gap = h.gap
	h.LoseAnswer = func(afterEffect bool) {
		h.lose = func(commit func() error) error {
			if !afterEffect {
				return errAnswerLost
			}
			return errors.Join(commit(), errAnswerLost)
		}
	}
	return h
}

func (h *harness) close() error {
	if h.log == nil {
		return nil
	}
	return errors.Join(h.log.Close(), h.log.Close(), h.file.Close())
}

func (h *harness) reopen(ctx context.Context) (_ stream.Log, err error) {
	if err := h.close(); err != nil {
		return nil, err
	}
	h.file, err = sqlitefile.Open(ctx, h.path, sqlitefile.Options{Commit: func(commit func() error) error {
		if lose := h.lose; lose != nil {
			h.lose = nil
			return lose(commit)
		}
		return commit()
	}})
	if err != nil {
		return nil, err
	}
	if h.log, err = sqlite.New(ctx, h.file, sqlite.Options{}); err != nil {
		return nil, errors.Join(err, h.file.Close())
	}
	h.Log = h.log
	return h.log, nil
}

// gap moves the end as an aborted transaction of a broker does.
func (h *harness) gap(ctx context.Context, p stream.Partition) error {
	return h.file.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE log_partitions SET log_end = log_end + 3
			WHERE partition = ? AND topic_id = (SELECT id FROM log_topics WHERE name = ?)`, p.Index, p.Topic)
		return err
	})
}

func TestConformance(t *testing.T) {
	t.Parallel()
	streamtest.Run(t, features(), func(t *testing.T) *streamtest.Harness {
		t.Helper()
		return &openHarness(t).Harness
	})
}

// TestConformanceUnderFakeTime runs every check in a bubble: what waited in real
// time, or for a moment to pass, would run into the check's timeout.
func TestConformanceUnderFakeTime(t *testing.T) {
	t.Parallel()
	for _, c := range streamtest.Checks(features()) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				began := time.Now()
				if err := c.Run(ctx, &openHarness(t).Harness); err != nil {
					t.Fatal(err)
				}
				if spent := time.Since(began); spent > 0 {
					t.Errorf("the check waited for %v to pass", spent)
				}
			})
		})
	}
}
