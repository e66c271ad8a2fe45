//go:build unix

package bench

import (
	"syscall"
	"time"
)

// cpuTime is the time that this process has spent on processors.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0 // it does not fail for oneself
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
