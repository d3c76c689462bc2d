//go:build linux

package faults

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Lock is the xtables lock in the hands of another process.
type Lock struct{ file *os.File }

// Hold takes the lock file, as iptables-legacy does for the time that it works, and waits for it if need be.
func Hold(path string) (*Lock, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // a path of the test's own
	if err != nil {
		return nil, fmt.Errorf("opening the xtables lock: %w", err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("taking the xtables lock: %w", err)
	}
	return &Lock{file: file}, nil
}

// Release gives it back.
func (l *Lock) Release() error { return l.file.Close() }
