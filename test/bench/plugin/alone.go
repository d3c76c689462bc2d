package plugin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Name is the first argument by which the benchmark starts itself to measure one process. Linux
// counts into ru_maxrss of a child what the process had that started it: this one is small.
const Name = "process"

// process is what was measured of one.
type process struct {
	Took time.Duration
	// Peak is the most memory that it occupied, in bytes: ru_maxrss.
	Peak int64
	Code int
	// Told is the end of what it printed, if its code was not 0.
	Told string
}

// Main runs a program to its end, and prints what was measured as JSON.
func Main(args []string) int {
	cmd := exec.Command(args[0], args[1:]...)
	var told bytes.Buffer
	cmd.Stdout, cmd.Stderr = discard{}, &told
	start := time.Now()
	err := cmd.Run()
	out := process{Took: time.Since(start)}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	out.Code = cmd.ProcessState.ExitCode()
	if u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		out.Peak = u.Maxrss << 10
	}
	if out.Code != 0 {
		out.Told = told.String()[:min(told.Len(), 500)]
	}
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		return 1
	}
	return 0
}

// discard has a process write into a pipe, as users do, and not into /dev/null.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// measureProcess runs a program by a process of its own.
func measureProcess(ctx context.Context, env []string, program string, args ...string) (p process, err error) {
	self, err := os.Executable()
	if err != nil {
		return p, err
	}
	cmd := exec.CommandContext(ctx, self, append([]string{Name, program}, args...)...)
	cmd.Env, cmd.Stderr = append(os.Environ(), env...), os.Stderr
	text, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	return p, err
}
