package network

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Netns is a network namespace that this process has open. It has no name on the machine and ends,
// with its interfaces, when it is closed, also by SIGKILL of this process, and no program is in it.
// The zero Netns is the namespace of this process. Its methods may be called concurrently.
type Netns struct {
	name string
	file *os.File
}

// NewNetns makes a network namespace, as root, on a thread that ends with it. Errors have the name.
func NewNetns(name string) (Netns, error) {
	n := Netns{name: name}
	made := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			n.file, err = os.Open("/proc/thread-self/ns/net")
		}
		made <- err
	}()
	if err := <-made; err != nil {
		return Netns{}, fmt.Errorf("making the network namespace %s: %w", name, err)
	}
	return n, nil
}

// IsZero reports whether it is the namespace of this process.
func (n Netns) IsZero() bool { return n.file == nil }

// Path is the file by which other processes open it, until it is closed; empty for the zero Netns.
func (n Netns) Path() string {
	if n.IsZero() {
		return ""
	}
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), n.file.Fd())
}

// Close closes the namespace. Sockets and programs in it keep it alive.
func (n Netns) Close() error {
	if n.IsZero() {
		return nil
	}
	return n.file.Close()
}

// Do calls f on a thread in the namespace: sockets that f makes stay there for ever. f must start
// no goroutine that makes sockets itself.
func (n Netns) Do(f func() error) error {
	if n.IsZero() {
		return f()
	}
	result := make(chan error, 1)
	go func() { result <- n.do(f) }()
	return <-result
}

// do leaves the thread locked, so that it ends with the goroutine, if it cannot go back.
func (n Netns) do(f func() error) error {
	back, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return fmt.Errorf("opening the network namespace of the process: %w", err)
	}
	defer func() { _ = back.Close() }()
	runtime.LockOSThread()
	if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("entering the network namespace %s: %w", n.name, err)
	}
	err = f()
	if unix.Setns(int(back.Fd()), unix.CLONE_NEWNET) == nil {
		runtime.UnlockOSThread()
	}
	return err
}

// Command returns a program to run in the namespace, with its own id and signals, until ctx ends.
func (n Netns) Command(ctx context.Context, program string, args ...string) *exec.Cmd {
	line := n.CommandLine(program, args...)
	return exec.CommandContext(ctx, line[0], line[1:]...)
}

// CommandLine is how to run a program in the namespace, until it is closed.
func (n Netns) CommandLine(program string, args ...string) []string {
	line := append([]string{program}, args...)
	if n.IsZero() {
		return line
	}
	return append([]string{"nsenter", "--net=" + n.Path(), "--"}, line...)
}

// Run runs a program in the namespace and returns its stdout. The error holds its stderr.
func (n Netns) Run(ctx context.Context, program string, args ...string) (string, error) {
	return n.run(n.Command(ctx, program, args...))
}

func (n Netns) run(cmd *exec.Cmd) (string, error) {
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("running %s in %s: %w: %s", strings.Join(cmd.Args, " "), n.name, err, strings.TrimSpace(complaint.String()))
	}
	return string(out), nil
}

// IP runs lines of "ip -batch" in the namespace.
func (n Netns) IP(ctx context.Context, lines ...string) error {
	cmd := n.Command(ctx, "ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	_, err := n.run(cmd)
	return err
}

// Sysctl sets sysctls of the namespace, by paths below /proc/sys, except those the kernel lacks.
func (n Netns) Sysctl(values map[string]string) error {
	return n.Do(func() error {
		for path, value := range values {
			err := os.WriteFile(filepath.Join("/proc/sys", path), []byte(value), 0o644)
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("setting the sysctl %s of %s: %w", path, n.name, err)
			}
		}
		return nil
	})
}
