//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// lockFolder has the lock. In pods it is the host's, so that all agents of a node see each other.
	lockFolder = "/run/clusterip-proxyagent"
	// handoverTimeout is how long the previous agent may take to end.
	handoverTimeout = 15 * time.Second
)

var errRunning = errors.New("another proxyagent runs in this network namespace: stop it first, two would take away each other's rules")

// lock is held until it is closed, at the latest by the kernel when the process ends.
type lock struct{ *os.File }

// lockNamespace waits until no other agent runs in this network namespace, and keeps other agents
// waiting until the lock is closed. Two agents would remove each other's rules for ever.
func lockNamespace(ctx context.Context, folder string) (io.Closer, error) {
	ctx, cancel := context.WithTimeout(ctx, handoverTimeout)
	defer cancel()
	l, err := openLock(folder)
	if err != nil {
		return nil, fmt.Errorf("making sure that no other agent runs here: %w", err)
	}
	for {
		err := l.try()
		if err == nil {
			return l, nil
		}
		if !errors.Is(err, errRunning) || ctx.Err() != nil {
			return nil, errors.Join(err, l.Close())
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// openLock makes the file. Its mode counts: a process that reads it can keep agents from locking.
func openLock(folder string) (lock, error) {
	err := os.MkdirAll(folder, 0o755)
	var file *os.File
	if err == nil {
		file, err = os.OpenFile(filepath.Join(folder, "lock"), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	}
	if err != nil {
		err = fmt.Errorf("%w (the agent needs to be root, in a pod with the host's folder %s mounted)", err, folder)
	}
	return lock{file}, err
}

// try takes the lock, or returns errRunning. One file serves all network namespaces of a machine:
// each locks the byte whose number is that of its inode.
func (l lock) try() error {
	var namespace unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &namespace); err != nil {
		return fmt.Errorf("reading which network namespace this is: %w", err)
	}
	// A lock of the open file: closing another descriptor of the same file does not release it.
	err := unix.FcntlFlock(l.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Start: int64(namespace.Ino), Len: 1})
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) {
		return errRunning
	}
	if err != nil {
		return fmt.Errorf("locking %s: %w", l.Name(), err)
	}
	return nil
}
