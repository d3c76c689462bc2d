package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/clusterip-operator/clusterip-operator/test/bench/report"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// output is where the reports of a slice are while it runs.
const output = "bin/soak"

// codeOf prints a digest of all committed files but documents.
const codeOf = `git ls-tree -r HEAD | awk -F'\t' '$2 !~ /^docs\// && $2 !~ /\.md$/' | git hash-object --stdin`

// run runs one slice. Its error says that the tree could not be looked at.
func run(ctx context.Context, s slice) (result, error) {
	err := s.build(ctx)
	if err != nil {
		return result{}, err
	}
	r := result{Slice: s.name, Began: time.Now().UTC().Truncate(time.Second), Machine: report.Machine()}
	if r.Seed, err = seed(r.Began); err != nil {
		return r, err
	}
	if r.Commit, r.Code, err = tree(ctx); err != nil {
		return r, err
	}
	reports := filepath.Join(output, s.name+".json")
	if err := os.Remove(reports); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return r, fmt.Errorf("removing the last report: %w", err)
	}
	fmt.Printf("== slice %s, SEED=%d: %s\n", s.name, r.Seed, s.proves)
	ran := s.start(ctx, r.Seed, reports)
	r.Seconds = int(time.Since(r.Began).Seconds())
	suites, err := suite.Reports(reports)
	if err != nil && s.reports {
		ran = errors.Join(ran, err)
	}
	if _, code, err := tree(ctx); err != nil || code != r.Code {
		r.Code += "-changed"
		ran = errors.Join(ran, err, errors.New("the code has changed meanwhile"))
	}
	r.count(suites)
	r.judge(s, ran)
	return r, nil
}

// build builds what would take minutes of the slice's time: kube-apiservers of other releases.
func (s slice) build(ctx context.Context) error {
	for _, minor := range s.kubernetes {
		cmd := exec.CommandContext(ctx, "hack/tools/build.sh", "kubernetes-"+minor+":kube-apiserver")
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("building the kube-apiserver of Kubernetes %s: %w", minor, err)
		}
	}
	return nil
}

// seed is what SEED says, or the time.
func seed(now time.Time) (int64, error) {
	text := os.Getenv("SEED")
	if text == "" {
		return now.Unix(), nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("SEED is to be a number: %w", err)
	}
	return n, nil
}

// tree says which commit is here, and the digest of its code. Results and the page do not make it
// dirty, since a run of several slices writes them.
func tree(ctx context.Context) (commit, code string, err error) {
	commit, err = shell(ctx, "git rev-parse --short=12 HEAD")
	if err != nil {
		return "", "", err
	}
	changed, err := shell(ctx, "git status --porcelain -- . ':!docs' ':!*.md'")
	if err != nil {
		return "", "", err
	}
	if code, err = shell(ctx, codeOf); err != nil {
		return "", "", err
	}
	code = code[:12]
	if changed != "" {
		code += "-changed"
	}
	return commit, code, nil
}

func shell(ctx context.Context, command string) (string, error) {
	out, err := exec.CommandContext(ctx, "bash", "-c", command).Output()
	if err != nil {
		return "", fmt.Errorf("running %s: %w", command, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// start runs the slice's command and ends it, with all that it started, when it takes too long.
func (s slice) start(ctx context.Context, seed int64, reports string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it took longer than %s and is to be divided", limit))
	defer cancel()
	cmd := exec.CommandContext(ctx, s.command[0], s.command[1:]...)
	cmd.Env = append(append(inherited(), s.env...), "SEED="+strconv.FormatInt(seed, 10), "REPORT="+reports)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	err := cmd.Run()
	if cmd.Process != nil {
		wait(cmd.Process.Pid)
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return fmt.Errorf("%s: %w", strings.Join(s.command, " "), err)
	}
	return nil
}

// inherited is the environment less what narrows slices: a slice shows what it says, or nothing.
func inherited() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains([]string{"FOCUS", "SKIP", "FILTER", "FLAGS", "TIMEOUT", "SUITES", "PARALLEL", "CLUSTERIP_SOCKETLB", "CLUSTERIP_KUBERNETES"}, name)
	})
}

// wait waits until no process of a group is left: suites go on for a while to remove what they made
// on this machine when the script above them has ended. After a minute it ends them.
func wait(group int) {
	for range 60 {
		if syscall.Kill(-group, 0) != nil {
			return
		}
		time.Sleep(time.Second)
	}
	_ = syscall.Kill(-group, syscall.SIGKILL) // if they have ended meanwhile, so much the better
}
