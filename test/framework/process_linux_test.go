package framework

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// stateOf returns the state letter of a process, "" if there is none.
func stateOf(pid string) string {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return ""
	}
	return strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))[0]
}

func eventually(t *testing.T, what string, question func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !question(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within ten seconds: %s", what)
		}
	}
}

func TestPauseFreezes(t *testing.T) {
	p := shell(t, "echo ready $$; exec sleep 600")
	mustStart(t, p)
	if err := p.Pause(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the process is stopped", func() bool { return stateOf(fmt.Sprint(p.Pid())) == "T" })
	if err := p.Resume(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the process goes on", func() bool { return stateOf(fmt.Sprint(p.Pid())) == "S" })
}

func TestMeasurements(t *testing.T) {
	p := shell(t, "echo ready $$; while true; do :; done")
	mustStart(t, p)
	start := time.Now()
	eventually(t, "a busy process has used 50 ms", func() bool {
		used, err := p.CPUTime()
		if err != nil {
			t.Fatal(err)
		}
		if lived := time.Since(start) + time.Second; used > lived {
			t.Fatalf("one thread has used %s within %s", used, lived)
		}
		return used >= 50*time.Millisecond
	})
	now, err := p.RSS()
	if err != nil {
		t.Fatal(err)
	}
	peak, err := p.PeakRSS()
	if err != nil {
		t.Fatal(err)
	}
	if now < 100<<10 || now > 100<<20 || peak < now {
		t.Errorf("a shell occupies %d bytes, %d at its peak", now, peak)
	}
}

func TestMeasuringWhatHasEnded(t *testing.T) {
	p := shell(t, "echo ready $$; exec sleep 600")
	mustStart(t, p)
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	_, err := p.RSS()
	wantErrorWith(t, err, "memory of script")
	_, err = p.CPUTime()
	wantErrorWith(t, err, "CPU time of script")
}

func TestChildrenDieWithTheirParent(t *testing.T) {
	pid := strings.TrimSpace(play(t, "parent", "DIR="+t.TempDir()))
	eventually(t, "child "+pid+" of the dead parent is gone", func() bool {
		state := stateOf(pid)
		return state == "" || state == "Z"
	})
}
