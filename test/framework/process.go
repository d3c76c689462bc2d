package framework

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// Slowness is that of package network.
var Slowness = network.Slowness

// startTimeout is for a Start whose ctx has no deadline.
var startTimeout = time.Minute * Slowness

const (
	stopTimeout  = 30 * time.Second
	pollInterval = 25 * time.Millisecond
	portAttempts = 5
	tailLines    = 25 // lines of log in an error
)

// errPortTaken says that another program listens where the process wanted to.
var errPortTaken = errors.New("the port is taken")

// Process is one child process with its log: the common part of [Etcd], [APIServer],
// [ControllerManager] and [Manager]. Use it through them; the zero Process cannot be started. Its
// methods may be called concurrently, but not two Starts.
type Process struct {
	name string
	log  string

	// How to run it. The functions are asked anew for each start.
	program string
	args    func() []string
	env     []string
	ports   func() error                // picks free ports; asked until the process has stood once
	ready   func(context.Context) error // nil once the process serves
	noWait  bool                        // Start does not wait for that
	grace   time.Duration               // how long it may take to end; 0 means stopTimeout

	mu    sync.Mutex
	life  *life // the current or last one, nil before the first
	stood bool  // it was ready once: its ports are known to clients and must not change
}

// life is one run of a process.
type life struct {
	cmd  *exec.Cmd
	done chan struct{} // closed at the end; cmd.ProcessState is valid afterwards
}

// Start starts a process that does not run and waits until it is ready. A process that was ready
// before keeps its ports. ctx bounds the start, not the life. A process that does not become ready
// is killed, and the error holds the end of its log.
func (p *Process) Start(ctx context.Context) error {
	if p.Running() {
		return fmt.Errorf("starting %s: it runs already as process %d", p.name, p.Pid())
	}
	ctx, cancel := withDefaultTimeout(ctx, startTimeout)
	defer cancel()
	for attempt := 1; ; attempt++ {
		err := p.startOnce(ctx)
		if !errors.Is(err, errPortTaken) || attempt == portAttempts {
			return err
		}
	}
}

func (p *Process) startOnce(ctx context.Context) error {
	if p.ports != nil && !p.hasStood() {
		if err := p.ports(); err != nil {
			return fmt.Errorf("starting %s: %w", p.name, err)
		}
	}
	before := fileSize(p.log)
	if err := p.launch(); err != nil {
		return fmt.Errorf("starting %s: %w", p.name, err)
	}
	if p.ready != nil && !p.noWait {
		if err := p.waitUntil(ctx, p.ready); err != nil {
			return p.failedStart(err, before)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stood = true
	return nil
}

// launch runs the program. The thread that forks must outlive the child: Linux sends the child its
// death signal when that thread ends and not only when the whole parent does. So one goroutine
// holds one thread for the whole life.
func (p *Process) launch() error {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("opening the log: %w", err)
	}
	defer func() { _ = log.Close() }()

	cmd := exec.Command(p.program, p.args()...)
	cmd.Env = append(os.Environ(), p.env...)
	cmd.Stdout, cmd.Stderr = log, log
	// Its own process group: Ctrl-C reaches the parent alone, which ends its children in order. It is
	// killed should the parent die before.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}

	run := &life{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // the exit code is kept in cmd.ProcessState
			close(run.done)
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.life = run
	return nil
}

// WaitReady waits for a process whose Start did not, for a minute if ctx has no deadline.
func (p *Process) WaitReady(ctx context.Context) error {
	ctx, cancel := withDefaultTimeout(ctx, startTimeout)
	defer cancel()
	if err := p.waitUntil(ctx, p.ready); err != nil {
		return fmt.Errorf("waiting for %s: %w; the end of %s:\n%s", p.name, err, p.log, p.LogTail(tailLines))
	}
	return nil
}

// waitUntil asks until the answer is nil, or the process has ended, or ctx has.
func (p *Process) waitUntil(ctx context.Context, question func(context.Context) error) error {
	ended := p.Done()
	for {
		answer := question(ctx)
		if answer == nil && p.Running() {
			return nil // and it is no other program that answered on the same port
		}
		select {
		case <-ended:
			return fmt.Errorf("it ended with exit code %d before it was ready", p.ExitCode())
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("it was not ready in time: %w", context.Cause(ctx)), answer)
		case <-time.After(pollInterval):
		}
	}
}

// failedStart ends the process and explains why, from what it logged since the start.
func (p *Process) failedStart(cause error, before int64) error {
	killed := p.Kill()
	tail := tailOf(p.log, before, tailLines)
	if strings.Contains(tail, "address already in use") {
		cause = errors.Join(errPortTaken, cause)
	}
	return errors.Join(fmt.Errorf("starting %s: %w; the end of %s:\n%s", p.name, cause, p.log, tail), killed)
}

// Stop asks the process to end (SIGTERM) and waits for it. One that has not ended after half a
// minute is killed, and that is an error. Stopping a process that does not run is none.
func (p *Process) Stop() error {
	grace := cmp.Or(p.grace, stopTimeout)
	err := p.end(syscall.SIGTERM, grace)
	if errors.Is(err, context.DeadlineExceeded) {
		err = errors.Join(fmt.Errorf("it ignored SIGTERM for %s and was killed; the end of its log:\n%s",
			grace, p.LogTail(tailLines)), p.Kill())
	}
	if err != nil {
		return fmt.Errorf("stopping %s: %w", p.name, err)
	}
	return nil
}

// Kill ends the process at once (SIGKILL) and waits. Killing one that does not run is no error.
func (p *Process) Kill() error {
	if err := p.end(syscall.SIGKILL, stopTimeout); err != nil {
		return fmt.Errorf("killing %s: %w", p.name, err)
	}
	return nil
}

// end sends a signal and waits for the end of the process. A timeout is context.DeadlineExceeded.
func (p *Process) end(signal syscall.Signal, timeout time.Duration) error {
	life := p.current()
	if life == nil || life.over() {
		return nil
	}
	// A stopped process gets no SIGTERM before it continues.
	_ = life.cmd.Process.Signal(syscall.SIGCONT)
	if err := life.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-life.done:
		return nil
	case <-time.After(timeout):
		return context.DeadlineExceeded
	}
}

// Pause freezes the process (SIGSTOP) until Resume, as if the machine were out of memory or
// suspended. Its connections stay open.
func (p *Process) Pause() error { return p.signal(syscall.SIGSTOP) }

// Resume lets a paused process continue (SIGCONT).
func (p *Process) Resume() error { return p.signal(syscall.SIGCONT) }

func (p *Process) signal(signal syscall.Signal) error {
	life := p.current()
	if life == nil || life.over() {
		return fmt.Errorf("sending %s to %s: it does not run", signal, p.name)
	}
	if err := life.cmd.Process.Signal(signal); err != nil {
		return fmt.Errorf("sending %s to %s: %w", signal, p.name, err)
	}
	return nil
}

// Running reports whether the process has been started and has not ended.
func (p *Process) Running() bool {
	life := p.current()
	return life != nil && !life.over()
}

// Done returns a channel that closes at the end of the current run; nil before the first start.
func (p *Process) Done() <-chan struct{} {
	if life := p.current(); life != nil {
		return life.done
	}
	return nil
}

// Pid returns the id of the running or last process, 0 before the first start.
func (p *Process) Pid() int {
	if life := p.current(); life != nil {
		return life.cmd.Process.Pid
	}
	return 0
}

// ExitCode returns how it ended: -1 if it runs, never ran, or an unhandled signal ended it.
func (p *Process) ExitCode() int {
	life := p.current()
	if life == nil || !life.over() {
		return -1
	}
	return life.cmd.ProcessState.ExitCode()
}

// LogFile returns the path of the file with stdout and stderr. Starting again appends to it.
func (p *Process) LogFile() string { return p.log }

// LogTail returns the last n lines of the log, or what went wrong when reading it.
func (p *Process) LogTail(n int) string { return tailOf(p.log, 0, n) }

func (p *Process) current() *life {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.life
}

func (p *Process) hasStood() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stood
}

func (l *life) over() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// runToEnd runs a command and returns its exit code, or -1. err is a failure to run it, or ctx's.
func runToEnd(ctx context.Context, cmd *exec.Cmd) (exitCode int, err error) {
	var exit *exec.ExitError
	err = cmd.Run()
	switch {
	case ctx.Err() != nil:
		return -1, fmt.Errorf("running %s: %w", strings.Join(cmd.Args, " "), context.Cause(ctx))
	case err != nil && !errors.As(err, &exit):
		return -1, fmt.Errorf("running %s: %w", cmd.Path, err)
	}
	return cmd.ProcessState.ExitCode(), nil
}

// combined is runToEnd for what the command prints to stdout and stderr.
func combined(ctx context.Context, env []string, program string, args ...string) (output string, exitCode int, err error) {
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), env...), &out, &out
	exitCode, err = runToEnd(ctx, cmd)
	return out.String(), exitCode, err
}

func withDefaultTimeout(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, timeout)
}

func fileSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0 // not there yet
	}
	return info.Size()
}

// tailOf returns the last n lines of what a log holds behind offset.
func tailOf(path string, offset int64, n int) string {
	content, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	if offset <= int64(len(content)) {
		content = content[offset:]
	}
	lines := strings.Split(strings.TrimRight(string(content), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
