package framework

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// NoKubeconfig as PluginOptions.Kubeconfig runs the plugin where no API server is configured.
const NoKubeconfig = "none"

// PluginOptions say how to run our kubectl plugin; the zero ones, as the control plane's admin.
type PluginOptions struct {
	// Args are what follows the program's name: "migrate", "check".
	Args []string
	// Env is added to the environment, "NAME=value", and wins.
	Env []string
	// Stdin is what the plugin reads. Only RunPlugin gives it.
	Stdin string
	// Race runs a plugin with the race detector, where CLUSTERIP_RACE is set: code 66 says that it
	// saw a race.
	Race bool
	// Kubeconfig defaults to the administrator's. The plugin is told of it by KUBECONFIG, as by a
	// shell, so a --kubeconfig of Args is stronger. See also NoKubeconfig.
	Kubeconfig string
}

// PluginResult is what a plugin left that ran to its end.
type PluginResult struct {
	Stdout, Stderr string
	ExitCode       int
}

// String is the whole of it, for the report of a failure.
func (r PluginResult) String() string {
	return fmt.Sprintf("exit code %d\nstdout:\n%s\nstderr:\n%s", r.ExitCode, r.Stdout, r.Stderr)
}

// Plugin is a process of our own kubectl plugin, cmd/kubectl-clusterip, that no test waited for.
// Its log holds stdout and stderr.
type Plugin struct{ Process }

// PluginProgram builds the plugin, once per process, and returns its path.
func PluginProgram() (string, error) { return plugin(false) }

// RunPlugin builds the plugin, once per process, and runs it to its end. err speaks of failures to
// run it, and of ctx; the result has how it ended, also then as far as it is known.
func (c *ControlPlane) RunPlugin(ctx context.Context, options PluginOptions) (PluginResult, error) {
	path, err := plugin(options.Race)
	if err != nil {
		return PluginResult{ExitCode: -1}, err
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, path, options.Args...)
	cmd.Env = append(os.Environ(), c.pluginEnv(options)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(options.Stdin), &stdout, &stderr
	code, err := runToEnd(ctx, cmd)
	return PluginResult{Stdout: stdout.String(), Stderr: stderr.String(), ExitCode: code}, err
}

// StartPlugin builds the plugin, once per process, and starts it without waiting for anything.
func (c *ControlPlane) StartPlugin(ctx context.Context, options PluginOptions) (*Plugin, error) {
	path, err := plugin(options.Race)
	if err != nil {
		return nil, err
	}
	p := &Plugin{}
	p.name, p.program, p.log, p.env = "kubectl-clusterip", path, c.logFor("plugin"), c.pluginEnv(options)
	p.args = func() []string { return options.Args }
	return p, c.run(ctx, p)
}

// EtcdArgs are the flags that lead the plugin to the control plane's etcd.
func (c *ControlPlane) EtcdArgs() []string { return []string{"--etcd-servers=" + c.Etcd.URL()} }

// pluginEnv keeps what the plugin may cache within the control plane: ours share ports over time.
func (c *ControlPlane) pluginEnv(options PluginOptions) []string {
	kubeconfig := cmp.Or(options.Kubeconfig, c.Kubeconfig())
	if kubeconfig == NoKubeconfig {
		kubeconfig = os.DevNull
	}
	return append([]string{
		"KUBECONFIG=" + kubeconfig,
		"KUBECACHEDIR=" + filepath.Join(c.Dir(), "kubectl-cache"),
		"KUBERNETES_SERVICE_HOST=", // tests may run in a pod themselves
	}, options.Env...)
}

// Wait waits for the end of the plugin and returns its exit code, -1 if a signal ended it.
func (p *Plugin) Wait(ctx context.Context) (exitCode int, err error) {
	select {
	case <-p.Done():
		return p.ExitCode(), nil
	case <-ctx.Done():
		return -1, fmt.Errorf("waiting for the end of the plugin: %w; the end of %s:\n%s", context.Cause(ctx), p.log, p.LogTail(tailLines))
	}
}

// WaitPrinted waits until the plugin has printed a text. It fails when the plugin ends before.
func (p *Plugin) WaitPrinted(ctx context.Context, text string) error {
	for {
		running := p.Running() // asked first, so that the last words of a plugin are read
		if printed, err := os.ReadFile(p.log); err == nil && bytes.Contains(printed, []byte(text)) {
			return nil
		}
		cause := context.Cause(ctx)
		if !running {
			cause = fmt.Errorf("it ended with exit code %d", p.ExitCode())
		}
		if cause != nil {
			return fmt.Errorf("waiting for the plugin to print %q: %w; the end of %s:\n%s", text, cause, p.log, p.LogTail(tailLines))
		}
		select {
		case <-ctx.Done():
		case <-time.After(pollInterval):
		}
	}
}
