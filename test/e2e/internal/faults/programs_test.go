//go:build linux

package faults

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// record puts stand-ins before a program that records what it got.
func record(t *testing.T) (p *Programs, restore func() error, got func() string) {
	t.Helper()
	real, record := t.TempDir(), filepath.Join(t.TempDir(), "record")
	for _, name := range restores {
		if err := os.WriteFile(filepath.Join(real, name), []byte("#!/bin/sh\necho \"$1\" >>"+record+"; cat >>"+record+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", real+":"+os.Getenv("PATH"))
	p, err := NewPrograms(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return p, func() error {
			cmd := exec.Command(filepath.Join(p.dir, restores[0]), "--noflush")
			cmd.Stdin = strings.NewReader("input\n")
			return cmd.Run()
		}, func() string {
			content, _ := os.ReadFile(record)
			return string(content)
		}
}

// waitFor waits until something is so that takes a moment.
func waitFor(t *testing.T, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !so(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it did not come so far")
		}
	}
}

func TestProgramsWorkUntilToldOtherwise(t *testing.T) {
	p, restore, got := record(t)
	if err := restore(); err != nil || got() != "--noflush\ninput\n" {
		t.Fatalf("got %q, %v", got(), err)
	}
	if p.Started() != 1 || p.Left() != 0 {
		t.Errorf("started %d, left %d", p.Started(), p.Left())
	}
}

func TestFailuresComeAsOftenAsOrdered(t *testing.T) {
	p, restore, got := record(t)
	if err := p.Refuse(2); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := restore(); err == nil {
			t.Error("was not refused")
		}
	}
	if got() != "" {
		t.Errorf("a refused restore did something: %q", got())
	}
	if err := p.Forget(1); err != nil {
		t.Fatal(err)
	}
	if err := restore(); err == nil || got() == "" {
		t.Errorf("got %q, %v", got(), err)
	}
	if err := restore(); err != nil || p.Left() != 0 {
		t.Errorf("still fails: %v, %d left", err, p.Left())
	}
}

func TestTheGateHolds(t *testing.T) {
	p, restore, got := record(t)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- restore() }()
	waitFor(t, func() bool { return p.Started() == 1 })
	select {
	case err := <-done:
		t.Fatal("it passed a closed gate", err)
	case <-time.After(200 * time.Millisecond):
	}
	if got() != "" {
		t.Errorf("got %q", got())
	}
	if err := p.Open(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestOneIsHeldAndOthersPass(t *testing.T) {
	p, restore, _ := record(t)
	if err := p.Hold(3); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- restore() }()
	waitFor(t, func() bool { return p.Held() == 1 })
	if err := p.HoldNoMore(); err != nil {
		t.Fatal(err)
	}
	if err := restore(); err != nil {
		t.Errorf("the second one did not pass: %v", err)
	}
	if err := p.Release(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("the first one did not end: %v", err)
	}
}

func TestTheLockIsHeldAgainstOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	lock, err := Hold(path)
	if err != nil {
		t.Fatal(err)
	}
	taken := make(chan error)
	go func() {
		second, err := Hold(path)
		if err == nil {
			err = second.Release()
		}
		taken <- err
	}()
	select {
	case err := <-taken:
		t.Error("two hold it", err)
	case <-time.After(100 * time.Millisecond):
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	if err := <-taken; err != nil {
		t.Error(err)
	}
}
