package sqlitefile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// pidBytesMax bounds what is read of a lock file.
const pidBytesMax = 32

// acquireLock takes the lock file and writes the pid of this process into it.
// The lock lives as long as the returned file is open.
func acquireLock(path string) (_ *os.File, err error) {
	l, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock file: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	ok, err := tryLock(l)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if !ok {
		return nil, fmt.Errorf("%w: %s is held by process %s", ErrLocked, path, holder(l))
	}
	if err := l.Truncate(0); err != nil {
		return nil, fmt.Errorf("write lock file: %w", err)
	}
	if _, err := l.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		return nil, fmt.Errorf("write lock file: %w", err)
	}
	return l, nil
}

// holder reads the pid from a lock file; it is for people only.
func holder(l *os.File) string {
	b, err := io.ReadAll(io.NewSectionReader(l, 0, pidBytesMax))
	pid := strings.TrimSpace(string(b))
	if err != nil || pid == "" {
		return "unknown"
	}
	return pid
}

// makeFolder makes a folder and what is missing above it, and makes their
// names durable: SQLite does so for the files, not for the folders they are in.
func makeFolder(dir string) error {
	var missing []string
	for d := dir; ; d = filepath.Dir(d) {
		_, err := os.Stat(d)
		if err == nil || d == filepath.Dir(d) {
			break
		}
		if !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("make folder: %w", err)
		}
		missing = append(missing, d)
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	for _, d := range missing {
		if err := syncFolder(filepath.Dir(d)); err != nil {
			return fmt.Errorf("make folder durable: %w", err)
		}
	}
	return nil
}
