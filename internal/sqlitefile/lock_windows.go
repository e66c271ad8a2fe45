package sqlitefile

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// lockOffsetHigh puts the locked byte far behind the content, because a lock of
// this system also shuts out readers of the locked range, and the pid must stay
// readable.
const lockOffsetHigh = 0x7fffffff

// tryLock takes an exclusive lock that belongs to the open file.
func tryLock(l *os.File) (bool, error) {
	o := windows.Overlapped{OffsetHigh: lockOffsetHigh}
	err := windows.LockFileEx(windows.Handle(l.Fd()),
		windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &o)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, windows.ERROR_LOCK_VIOLATION), errors.Is(err, windows.ERROR_IO_PENDING):
		return false, nil
	default:
		return false, err
	}
}

// syncFolder does nothing: the system has no sync of folders.
func syncFolder(string) error { return nil }
