package framework

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// shell returns a process that runs a script and is ready once it has logged "ready" and its id.
func shell(t *testing.T, script string) *Process {
	t.Helper()
	p := &Process{
		name: "script", log: filepath.Join(t.TempDir(), "script.log"),
		program: "sh", args: func() []string { return []string{"-c", script} },
	}
	p.ready = func(context.Context) error {
		if p.LogTail(1) != fmt.Sprintf("ready %d", p.Pid()) {
			return errors.New("not yet")
		}
		return nil
	}
	t.Cleanup(func() { _ = p.Kill() })
	return p
}

func mustStart(t *testing.T, p *Process) {
	t.Helper()
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func wantErrorWith(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one that speaks of %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not speak of %q: %v", part, err)
		}
	}
}

func TestProcessLives(t *testing.T) {
	p := shell(t, "echo ready $$; exec sleep 600")
	if p.Running() || p.Pid() != 0 || p.Done() != nil || p.ExitCode() != -1 {
		t.Errorf("before its start: running %t, pid %d, exit code %d", p.Running(), p.Pid(), p.ExitCode())
	}
	mustStart(t, p)
	if !p.Running() || p.Pid() == 0 || p.ExitCode() != -1 {
		t.Errorf("after its start: running %t, pid %d, exit code %d", p.Running(), p.Pid(), p.ExitCode())
	}
	wantErrorWith(t, p.Start(t.Context()), "runs already")

	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	if p.Running() {
		t.Error("it runs after Stop")
	}
	if err := errors.Join(p.Stop(), p.Kill()); err != nil {
		t.Errorf("ending what has ended: %v", err)
	}
	wantErrorWith(t, p.Pause(), "does not run")
}

func TestProcessStartsAgainWithTheSameLog(t *testing.T) {
	p := shell(t, "echo ready $$; exec sleep 600")
	mustStart(t, p)
	first := p.Pid()
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	mustStart(t, p)
	if want := fmt.Sprintf("ready %d\nready %d", first, p.Pid()); p.LogTail(5) != want {
		t.Errorf("log:\n%s\nwant:\n%s", p.LogTail(5), want)
	}
}

func TestProcessThatEndsBeforeItIsReadyTellsWhy(t *testing.T) {
	p := shell(t, "echo 'unknown flag: --colour' >&2; exit 4")
	wantErrorWith(t, p.Start(t.Context()), "starting script", "exit code 4", p.LogFile(), "unknown flag: --colour")
	if p.ExitCode() != 4 {
		t.Errorf("exit code %d, want 4", p.ExitCode())
	}
}

func TestProcessThatIsNotReadyInTimeIsKilled(t *testing.T) {
	t.Parallel()
	p := shell(t, "echo waiting for etcd; exec sleep 600")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // until then it has spoken
	defer cancel()
	err := p.Start(ctx)
	wantErrorWith(t, err, "not ready in time", "not yet", "waiting for etcd")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v is no DeadlineExceeded", err)
	}
	if p.Running() {
		t.Error("it still runs")
	}
}

// Somebody else may answer on the port that the process did not get.
func TestProcessThatHasEndedIsNotReady(t *testing.T) {
	p := shell(t, "exit 4")
	p.ready = func(context.Context) error {
		<-p.Done()
		return nil
	}
	wantErrorWith(t, p.Start(t.Context()), "exit code 4")
}

func TestProcessThatCannotBeRun(t *testing.T) {
	p := shell(t, "")
	p.program = "/nonexistent"
	wantErrorWith(t, p.Start(t.Context()), "starting script", "no such file")
}

func TestStopKillsWhoIgnoresIt(t *testing.T) {
	p := shell(t, "trap '' TERM; echo ready $$; while true; do sleep 0.05; done")
	p.grace = 200 * time.Millisecond
	mustStart(t, p)
	wantErrorWith(t, p.Stop(), "stopping script", "ignored SIGTERM for 200ms")
	if p.Running() {
		t.Error("it still runs")
	}
}

func TestStopReachesAPausedProcess(t *testing.T) {
	p := shell(t, "trap 'exit 6' TERM; echo ready $$; while true; do sleep 0.05; done")
	mustStart(t, p)
	if err := p.Pause(); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	if p.ExitCode() != 6 {
		t.Errorf("exit code %d, want 6: it could not handle SIGTERM", p.ExitCode())
	}
}

// A process that finds its port taken must try another one, until it has been ready once: from then on clients
// know its port.
func TestProcessWithPorts(t *testing.T) {
	taken, err := net.Listen("tcp4", loopback+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()

	picks, port := 0, 0
	p := shell(t, "")
	p.args = func() []string {
		if picks < 3 {
			return []string{"-c", fmt.Sprintf("echo listen %s: bind: address already in use; exit 1", taken.Addr())}
		}
		return []string{"-c", "echo ready $$; exec sleep 600"}
	}
	p.ports = func() (err error) {
		picks++
		port, err = FreePort()
		return err
	}
	mustStart(t, p)
	if picks != 3 {
		t.Errorf("it picked ports %d times, want 3", picks)
	}
	first := port
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	mustStart(t, p)
	if port != first {
		t.Errorf("port %d after the second start, want %d as before", port, first)
	}
}

func TestProcessGivesUpWhenEveryPortIsTaken(t *testing.T) {
	p := shell(t, "echo bind: address already in use; exit 1")
	picks := 0
	p.ports = func() error { picks++; return nil }
	wantErrorWith(t, p.Start(t.Context()), "address already in use")
	if picks != portAttempts {
		t.Errorf("it tried %d times, want %d", picks, portAttempts)
	}
}

func TestFreePortsCanBeListenedOn(t *testing.T) {
	port, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp4", fmt.Sprintf("%s:%d", loopback, port))
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
}

func TestTailOf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("one\ntwo\nthree\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		offset int64
		n      int
		want   string
	}{
		"the last two lines":              {n: 2, want: "two\nthree"},
		"more lines than there are":       {n: 9, want: "one\ntwo\nthree"},
		"what an earlier run left is cut": {offset: 4, n: 9, want: "two\nthree"},
		"a log that has been truncated":   {offset: 99, n: 1, want: "three"},
		"nothing new":                     {offset: 14, n: 9, want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tailOf(path, tc.offset, tc.n); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
	if got := tailOf(path+"missing", 0, 1); !strings.Contains(got, "no log") {
		t.Errorf("of a missing log: %q", got)
	}
}

func TestFreePortsDiffer(t *testing.T) {
	ports, err := freePorts(200)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(ports)
	if n := len(slices.Compact(ports)); n != 200 {
		t.Errorf("200 ports are %d different ones", n)
	}
}
