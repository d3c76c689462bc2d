//go:build linux

package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

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

// A process that may open the file can lock it, and keep agents waiting for ever.
func TestOnlyRootMayOpenTheLock(t *testing.T) {
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
}

func TestWithoutAFolderTheLockSaysWhatToMount(t *testing.T) {
	_, err := lockNamespace(t.Context(), filepath.Join(os.DevNull, "run"))
	if err == nil || !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("got %v", err)
	}
}
