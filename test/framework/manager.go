package framework

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"
)

// metricsTimeout is how long a manager may be ready and not serve metrics.
const metricsTimeout = 5 * time.Second

// ManagerOptions say how to run our manager. The zero options run it as administrator of the
// control plane, without leader election and with open metrics.
type ManagerOptions struct {
	// Program is the path of a manager from elsewhere, say another commit; empty builds this tree's.
	Program string
	// Kubeconfig defaults to the administrator's.
	Kubeconfig string
	// Args are further flags. They come last and win.
	Args []string
	// Env is added to the environment, "NAME=value".
	Env []string
	// Race runs a manager with the race detector, where CLUSTERIP_RACE is set.
	Race bool
	// SecureMetrics leaves metrics behind TLS and authentication, as in production.
	SecureMetrics bool
	// Webhooks serves webhooks on a loopback port, under the name localhost. See WebhookAddress.
	Webhooks bool
	// NoWait makes Start return before the manager is ready. WaitReady waits later.
	NoWait bool
}

// Manager is a process of our own manager, cmd/manager.
type Manager struct {
	Process

	options     ManagerOptions
	metricsPort int
	healthPort  int
	webhookPort int
}

// StartManager builds the manager, once per process, and starts it on free ports.
func (c *ControlPlane) StartManager(ctx context.Context, options ManagerOptions) (*Manager, error) {
	path, err := built(options.Program, manager, options.Race)
	if err != nil {
		return nil, err
	}
	options.Kubeconfig = cmp.Or(options.Kubeconfig, c.Kubeconfig())
	m := &Manager{options: options}
	m.name, m.program, m.log = "manager", path, c.logFor("manager")
	// A killed one leaves temporary files behind; they go with the folder of the control plane.
	m.env = append([]string{"TMPDIR=" + c.Dir()}, options.Env...)
	m.Process.args, m.ports, m.ready, m.noWait = m.args, m.pickPorts, m.readyz, options.NoWait
	return m, c.run(ctx, m)
}

// RunManager runs the manager to its end, for subcommands ("cleanup", "--dry-run") and for flags
// that it refuses. Of the options it reads Kubeconfig (as KUBECONFIG), Args, Env and Race. It
// returns stdout and stderr and the exit code; err speaks of failures to run it, and of ctx.
func (c *ControlPlane) RunManager(ctx context.Context, options ManagerOptions) (output string, exitCode int, err error) {
	path, err := manager(options.Race)
	if err != nil {
		return "", -1, err
	}
	kubeconfig := cmp.Or(options.Kubeconfig, c.Kubeconfig())
	return combined(ctx, append(slices.Clone(options.Env), "KUBECONFIG="+kubeconfig), path, options.Args...)
}

func (m *Manager) pickPorts() error {
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	m.metricsPort, m.healthPort, m.webhookPort = ports[0], ports[1], ports[2]
	return nil
}

func (m *Manager) args() []string {
	return slices.Concat([]string{
		"--kubeconfig=" + m.options.Kubeconfig,
		"--leader-elect=false",
		fmt.Sprintf("--metrics-bind-address=%s:%d", loopback, m.metricsPort),
		fmt.Sprintf("--metrics-secure=%t", m.options.SecureMetrics),
		fmt.Sprintf("--health-probe-bind-address=%s:%d", loopback, m.healthPort),
	}, m.webhookArgs(), m.options.Args)
}

func (m *Manager) webhookArgs() []string {
	if !m.options.Webhooks {
		return nil
	}
	return []string{"--webhook-bind-address=" + m.WebhookAddress(), "--webhook-dns-names=localhost"}
}

// WebhookPort returns the port of WebhookAddress.
func (m *Manager) WebhookPort() int { return m.webhookPort }

// WebhookAddress returns where it serves webhooks, "127.0.0.1:port", with ManagerOptions.Webhooks.
func (m *Manager) WebhookAddress() string { return fmt.Sprintf("%s:%d", loopback, m.webhookPort) }

func (m *Manager) readyz(ctx context.Context) error { return m.Healthy(ctx, "/readyz") }

// Healthy returns nil if "/healthz" or "/readyz", the path, answers 200, else what it says.
func (m *Manager) Healthy(ctx context.Context, path string) error {
	return askOK(ctx, plainClient(), fmt.Sprintf("http://%s:%d%s", loopback, m.healthPort, path))
}

// MetricsURL returns where the metrics are.
func (m *Manager) MetricsURL() string {
	scheme := "http"
	if m.options.SecureMetrics {
		scheme = "https"
	}
	return fmt.Sprintf("%s://%s:%d/metrics", scheme, loopback, m.metricsPort)
}

// Metrics scrapes the open metrics.
func (m *Manager) Metrics(ctx context.Context) (Metrics, error) { return m.MetricsAs(ctx, "") }

// MetricsAs scrapes the metrics with a bearer token. It waits for a manager that does not listen
// yet, since metrics open at about the time of readiness, not before.
func (m *Manager) MetricsAs(ctx context.Context, token string) (metrics Metrics, err error) {
	for deadline := time.Now().Add(metricsTimeout); ; time.Sleep(pollInterval) {
		metrics, err = Scrape(ctx, m.MetricsURL(), token)
		if !errors.Is(err, syscall.ECONNREFUSED) || !m.Running() || time.Now().After(deadline) {
			return metrics, err
		}
	}
}
