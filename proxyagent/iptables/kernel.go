package iptables

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/iptables/rules"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Mode is a variant of iptables. Each has its own part of the kernel and does not see the other's.
type Mode string

// The variants.
const (
	NFT    Mode = "nft"
	Legacy Mode = "legacy"
)

func (m Mode) other() Mode {
	if m == NFT {
		return Legacy
	}
	return NFT
}

// lockTimeout is how many seconds a restore waits for the lock of iptables-legacy. Programs hold it
// to rewrite large tables; both families must stay below the minute that makes the agent unhealthy.
const lockTimeout = 20

// programTimeout is how long a program may take for each MiB that it reads. iptables-nft starts
// over when another program changes rules meanwhile, and may do so for ever. A first restore of
// 30,000 Services takes seconds, one with all sets of clients that may be most of a minute.
const programTimeout = time.Minute

// exitLocked is iptables' exit code for a resource problem: the lock was not to be had.
const exitLocked = 4

// Exit codes of iptables that answer whether there is a rule.
const (
	exitNoRule   = 1
	exitNoTarget = 2 // nor a chain to which it could lead
)

// ErrLocked means another program held the xtables lock too long. Tables may be written; try again.
var ErrLocked = errors.New("another program holds the xtables lock")

// runner runs the programs of a variant and family. Our text goes into no shell and no argument.
type runner struct {
	save, restore string // paths
}

// newRunner finds the programs in PATH.
func newRunner(m Mode, f model.Family) (runner, error) {
	name := "iptables"
	if f == model.IPv6 {
		name = "ip6tables"
	}
	name += "-" + string(m)
	var paths [2]string
	for i, program := range []string{name + "-save", name + "-restore"} {
		path, err := exec.LookPath(program)
		if err != nil {
			return runner{}, fmt.Errorf("%s is needed, install the package iptables (1.8 or later): %w", program, err)
		}
		paths[i] = path
	}
	return runner{save: paths[0], restore: paths[1]}, nil
}

// Save reads a table with its counters, or all of them with an empty name.
func (r runner) Save(ctx context.Context, t rules.Table) ([]byte, error) {
	args := []string{"-c"}
	if t != "" {
		args = append(args, "-t", string(t))
	}
	text, err := r.run(ctx, nil, r.save, args...)
	if err == nil && t != "" && !bytes.Contains(text, []byte("*"+string(t)+"\n")) {
		text = rules.Unshown(t)
	}
	return text, err
}

// ask has what was read know the jumps in tables that cannot be shown, and returns tables with any.
func (r runner) ask(ctx context.Context, s rules.Saved) ([]rules.Table, error) {
	return s.Ask(func(t rules.Table, chain, body string) (bool, error) {
		args := []string{"-w", strconv.Itoa(lockTimeout), "-t", string(t), "-C", chain}
		_, err := r.run(ctx, nil, strings.TrimSuffix(r.save, "-save"), append(args, strings.Fields(body)...)...)
		if exit, ended := errors.AsType[*exec.ExitError](err); ended && (exit.ExitCode() == exitNoRule || exit.ExitCode() == exitNoTarget) {
			return false, nil
		}
		return err == nil, err
	})
}

// Save returns all tables of a variant and family without counters, as iptables-save prints them.
func Save(ctx context.Context, m Mode, f model.Family) ([]byte, error) {
	r, err := newRunner(m, f)
	if err != nil {
		return nil, err
	}
	return r.run(ctx, nil, r.save)
}

// Restore applies a transaction. A table changes as a whole or not at all: a rule that is refused
// is [model.ErrRefused].
func (r runner) Restore(ctx context.Context, text []byte) error {
	_, err := r.run(ctx, text, r.restore, "--noflush", "-w", strconv.Itoa(lockTimeout))
	if exit, ended := errors.AsType[*exec.ExitError](err); ended && exit.Exited() {
		err = fmt.Errorf("%w: %w", model.ErrRefused, err)
	}
	return err
}

func (r runner) run(ctx context.Context, input []byte, program string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(1+len(input)>>20)*programTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	// The program may be a script around the real one, as in images that choose a variant: kill both.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	cmd.Stdin = bytes.NewReader(input)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	exit, ended := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return stdout.Bytes(), nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("running %s: %w", program, ctx.Err())
	case ended && exit.ExitCode() == exitLocked && strings.Contains(stderr.String(), "lock"):
		return nil, fmt.Errorf("running %s: %w", program, ErrLocked)
	default:
		return nil, fmt.Errorf("running %s %s: %w: %s", program, strings.Join(args, " "), err, firstLines(stderr.String()))
	}
}

// firstLines shortens the output of a program for an error.
func firstLines(s string) string {
	const most = 600
	s = strings.TrimSpace(s)
	if len(s) > most {
		s = s[:most] + "..."
	}
	return s
}
