package framework

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// standInManager returns a manager that the test program plays.
func standInManager(t *testing.T, options ManagerOptions) *Manager {
	t.Helper()
	options.Env = append(options.Env, standIn+"=manager")
	m := newManager(os.Args[0], filepath.Join(t.TempDir(), "manager.log"), options)
	t.Cleanup(func() { _ = m.Kill() })
	return m
}

func TestManagerIsRunAndScraped(t *testing.T) {
	m := standInManager(t, ManagerOptions{Kubeconfig: "mine"})
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := m.Healthy(t.Context(), "/readyz"); err != nil {
		t.Errorf("Start returned before the manager was ready: %v", err)
	}
	if got := m.LogTail(1); got != "kubeconfig mine" {
		t.Errorf("its log: %q", got)
	}
	metrics, err := m.MetricsAs(t.Context(), "secret")
	if err != nil {
		t.Fatal(err)
	}
	if value, found := metrics.Value("asked", "by", "Bearer secret"); value != 1 || !found {
		t.Errorf("the token was not sent:\n%s", metrics.Text(""))
	}
	if metrics, err = m.Metrics(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, found := metrics.Value("asked", "by", ""); !found {
		t.Errorf("a token was sent:\n%s", metrics.Text(""))
	}
	if err := m.Stop(); err != nil {
		t.Fatal(err)
	}
	if m.ExitCode() != 7 {
		t.Errorf("exit code %d, want the 7 of its signal handler", m.ExitCode())
	}
	_, err = m.Metrics(t.Context())
	wantErrorWith(t, err, "scraping the manager")
}

func TestManagerIsNotAwaitedOnRequest(t *testing.T) {
	m := standInManager(t, ManagerOptions{NoWait: true})
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if m.Healthy(t.Context(), "/readyz") == nil {
		t.Error("it was ready at once, so that this test shows nothing")
	}
	if err := m.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(m.Healthy(t.Context(), "/readyz"), m.Healthy(t.Context(), "/healthz")); err != nil {
		t.Error(err)
	}
}

func TestManagerFlags(t *testing.T) {
	m := standInManager(t, ManagerOptions{Args: []string{"--no-such-flag"}})
	wantErrorWith(t, m.Start(t.Context()), "starting manager", "exit code 2", "not defined: -no-such-flag")
}

func TestManagerMetricsURL(t *testing.T) {
	open, secure := standInManager(t, ManagerOptions{}), standInManager(t, ManagerOptions{SecureMetrics: true})
	open.metricsPort, secure.metricsPort = 1, 2
	if open.MetricsURL() != "http://127.0.0.1:1/metrics" || secure.MetricsURL() != "https://127.0.0.1:2/metrics" {
		t.Errorf("they are at %s and %s", open.MetricsURL(), secure.MetricsURL())
	}
}

func TestRunToEnd(t *testing.T) {
	output, code, err := runToEnd(t.Context(), "sh", []string{"WHO=me"}, []string{"-c", "echo $WHO; echo complaint >&2; exit 5"})
	if output != "me\ncomplaint\n" || code != 5 || err != nil {
		t.Errorf("got %q, %d, %v", output, code, err)
	}
	_, _, err = runToEnd(t.Context(), "/nonexistent", nil, nil)
	wantErrorWith(t, err, "running /nonexistent")

	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, _, err = runToEnd(ctx, "sleep", nil, []string{"600"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("out of time: %v", err)
	}
}
