//go:build linux

package main

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// binds is the variable by which this program, started again, binds the abstract socket.
const binds = "CLUSTERIP_TEST_BINDS"

func TestMain(m *testing.M) {
	if os.Getenv(binds) == "" {
		os.Exit(m.Run())
	}
	if _, err := net.Listen("unix", earlierLock); err != nil {
		panic(err)
	}
	_, _ = os.Stdout.WriteString("bound\n")
	time.Sleep(time.Hour) // until it is killed: select {} is a deadlock where no goroutine waits for the kernel, and ends a program without cgo
}

// inNamespace moves the rest of the test into a network namespace of its own.
func inNamespace(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("network namespaces take root")
	}
	runtime.LockOSThread() // never unlocked: the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
}

// holdSocket has a user's process in the namespace of the test hold the abstract socket.
func holdSocket(t *testing.T, user uint32) {
	t.Helper()
	self, err := os.Open("/proc/self/exe") // whose folder the user may not enter
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = self.Close() }()
	cmd := exec.Command("/proc/self/fd/3")
	cmd.Env, cmd.ExtraFiles = []string{binds + "=yes"}, []*os.File{self}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	if _, err := out.Read(make([]byte, 16)); err != nil {
		t.Fatal("the process has not bound the socket:", err)
	}
}

// shortly is for an agent that has to wait in vain.
func shortly(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

func TestOneAgentInANetworkNamespace(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "run")
	inNamespace(t)
	first, err := lockNamespace(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockNamespace(shortly(t), folder); !errors.Is(err, errRunning) {
		t.Errorf("a second agent beside the first: %v", err)
	}
	inNamespace(t) // another one, whose agent shares the file
	elsewhere, err := lockNamespace(t.Context(), folder)
	if err != nil {
		t.Fatal("an agent in another namespace:", err)
	}
	for _, l := range []interface{ Close() error }{elsewhere, first} {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	next, err := lockNamespace(t.Context(), folder)
	if err != nil {
		t.Fatal("after the first has ended:", err)
	}
	_ = next.Close()
}

// TestOnlyRootKeepsAnAgentWaiting has processes of users hold what they can hold of the lock.
func TestOnlyRootKeepsAnAgentWaiting(t *testing.T) {
	t.Run("a file that only root may open", func(t *testing.T) {
		folder := filepath.Join(t.TempDir(), "run")
		l, err := openLock(folder)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		for path, want := range map[string]fs.FileMode{folder: 0o755, l.Name(): 0o600} {
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
				t.Errorf("%s: %v, %v, want the mode %o", path, info, err, want)
			}
		}
	})
	t.Run("the abstract socket in the hand of an unprivileged process", func(t *testing.T) {
		inNamespace(t)
		holdSocket(t, 65534)
		l, err := lockNamespace(shortly(t), t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
	})
	t.Run("and of an agent of the version before", func(t *testing.T) {
		inNamespace(t)
		holdSocket(t, 0)
		if _, err := lockNamespace(shortly(t), t.TempDir()); !errors.Is(err, errRunning) {
			t.Errorf("got %v", err)
		}
	})
}

func TestWithoutAFolderTheLockSaysWhatToMount(t *testing.T) {
	_, err := lockNamespace(t.Context(), filepath.Join(os.DevNull, "run"))
	if err == nil || !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("got %v", err)
	}
}
