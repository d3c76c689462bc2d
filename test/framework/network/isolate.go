package network

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// isolated is whether Isolate has seen that the namespace of this process is its own.
var isolated bool

// Isolate runs the tests of a package in a fresh network namespace, where they cannot reach the rules, sets and connections of the machine. It
// is for TestMain, and does not return. The namespace ends with the process. Without root the tests run where they are: see NeedIsolation. An error of what
// had to be fetched before, over the machine's network, ends the process.
func Isolate(m *testing.M, before ...error) {
	err := errors.Join(before...)
	if err == nil && os.Geteuid() != 0 {
		os.Exit(m.Run())
	}
	lock := filepath.Join(os.TempDir(), fmt.Sprintf("isolated-%d.xtables.lock", os.Getpid()))
	if err == nil {
		err = enter(lock)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "preparing tests in a network namespace of their own:", err)
		os.Exit(1)
	}
	isolated = true
	code := m.Run()
	_ = os.Remove(lock)
	os.Exit(code)
}

// Enter returns in a process that has a fresh network namespace: it executes the program of this one once more. What comes before it happens twice. It needs root.
func Enter() error { return enter("") }

// enter returns in a process that has a network namespace of its own. A thread can leave its namespace, a process with threads cannot: it becomes another program.
func enter(lock string) error {
	if fresh, err := isFresh(); fresh || err != nil {
		return err
	}
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("making a network namespace: %w", err)
	}
	if fresh, err := isFresh(); !fresh || err != nil {
		return errors.Join(errors.New("an interface of the new namespace is up"), err) // otherwise this would go on for ever
	}
	env := os.Environ()
	if lock != "" {
		env = append(env, "XTABLES_LOCKFILE="+lock)
	}
	return unix.Exec("/proc/self/exe", os.Args, env)
}

// isFresh reports whether nobody uses the namespace yet: in a new one all interfaces are down, loopback too. A variable in the environment would
// say what somebody has set it to.
func isFresh() (bool, error) {
	interfaces, err := net.Interfaces()
	for _, i := range interfaces {
		if i.Flags&net.FlagUp != 0 {
			return false, nil
		}
	}
	return err == nil, err
}

// NeedIsolation skips the test without root, and ends it in a package that does not call Isolate.
func NeedIsolation(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	if !isolated {
		t.Fatal("TestMain does not call network.Isolate: the rules here may be the machine's own")
	}
}
