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

// Isolate runs a package's tests in a fresh network namespace, away from the machine's rules, sets
// and connections. It is for TestMain, and does not return. Without root the tests run where they
// are: see NeedIsolation. An error of before, which fetches from outside, ends the process.
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

// Enter executes this program again in a fresh namespace, as root. What precedes it runs twice.
func Enter() error { return enter("") }

// enter executes this program again in its own network namespace: a thread can leave one, a process
// with threads cannot.
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

// isFresh reports whether the namespace is unused: in a new one all interfaces are down, loopback
// too. An environment variable would say only what some program has set it to.
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
