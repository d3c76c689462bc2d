package framework

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// shell returns a process that runs a script. It is ready once it has logged "ready".
func shell(dir, script string) *Process {
	p := &Process{
		name: "script", log: filepath.Join(dir, "script.log"), program: "sh", args: func() []string { return []string{"-c", script} },
	}
	p.ready = func(context.Context) error {
		if p.LogTail(1) != "ready" {
			return errors.New("not yet")
		}
		return nil
	}
	return p
}

func TestStopKillsAProcessThatIgnoresSIGTERM(t *testing.T) {
	p := shell(t.TempDir(), "trap '' TERM; echo ready; while true; do sleep 0.05; done")
	p.grace = 200 * time.Millisecond
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(); err == nil || !strings.Contains(err.Error(), "ignored SIGTERM for 200ms") || p.Running() {
		t.Errorf("got %v, running: %t", err, p.Running())
	}
}

// A process that finds its port taken tries another until it has been ready: then clients know it.
func TestProcessPicksAnotherPortWhenItsPortIsTaken(t *testing.T) {
	picks := 0
	p := shell(t.TempDir(), "")
	p.ports = func() error { picks++; return nil }
	p.args = func() []string {
		if picks < 3 {
			return []string{"-c", "echo listen: bind: address already in use; exit 1"}
		}
		return []string{"-c", "echo ready; exec sleep 600"}
	}
	for range 2 {
		if err := p.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	if picks != 3 {
		t.Errorf("it picked ports %d times, want 3", picks)
	}
}

// The test program runs this test again as the parent, which starts a child and is killed.
func TestChildrenDieWithTheirParent(t *testing.T) {
	const variable = "FRAMEWORK_PARENT_DIR"
	if dir := os.Getenv(variable); dir != "" {
		child := shell(dir, "echo ready; exec sleep 600")
		if err := child.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		fmt.Println("child", child.Pid())
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), variable+"="+t.TempDir())
	printed, _ := cmd.Output() // it kills itself
	var pid int
	if _, err := fmt.Sscanf(string(printed), "child %d", &pid); err != nil {
		t.Fatalf("%v: %s", err, printed)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("child %d lives: %s", pid, stat)
		}
	}
}
