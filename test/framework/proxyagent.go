//go:build linux

package framework

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// proxyAgentGrace is how long our agent may take to end after SIGTERM; it promises five seconds.
const proxyAgentGrace = 10 * time.Second

var proxyAgent = builder("proxyagent")

// ProxyAgentOptions say how to run our node agent. Namespace and Node must be set.
type ProxyAgentOptions struct {
	// Namespace is that of the node.
	Namespace *network.Namespace
	// Node is the name of the Node.
	Node string
	// Mode is the kind of iptables, "nft" or "legacy"; empty lets the agent choose.
	Mode string
	// Config replaces and completes fields of the KubeProxyConfiguration that the agent reads by default.
	Config map[string]any
	// ConfigFile is a configuration file of the caller, instead.
	ConfigFile string
	// Kubeconfig is a file of the caller; its server must be reachable from the namespace. Empty means one that is, written by Start.
	Kubeconfig string
	// As is who connects with that; nil means the administrator.
	As *rest.Config
	// Args are further flags. They come last and win.
	Args []string
	// Env is added to the environment, "NAME=value".
	Env []string
	// Race runs an agent that was built with the race detector.
	Race bool
	// NoWait makes Start return before the agent is ready. WaitReady waits later.
	NoWait bool
}

// ProxyAgent is a process of our own node agent, cmd/proxyagent.
type ProxyAgent struct{ nodeProxy }

// StartProxyAgent builds the agent, once per process, starts it and waits for /healthz: all that the API server had at the start
// is programmed then. It runs until Stop, at the latest that of the control plane.
func (c *ControlPlane) StartProxyAgent(ctx context.Context, options ProxyAgentOptions) (*ProxyAgent, error) {
	path, err := proxyAgent(options.Race)
	if err != nil {
		return nil, err
	}
	p, err := c.newProxyAgent(path, options)
	if err != nil {
		return nil, err
	}
	if err := p.Start(ctx); err != nil {
		return nil, err
	}
	c.add(p)
	return p, nil
}

func (c *ControlPlane) newProxyAgent(path string, options ProxyAgentOptions) (*ProxyAgent, error) {
	p := &ProxyAgent{}
	p.name, p.log, p.grace, p.env = "proxyagent", c.logFor("proxyagent"), proxyAgentGrace, options.Env
	if !options.NoWait {
		p.ready = p.healthz
	}
	args, err := c.proxyAgentArgs(options, strings.TrimSuffix(p.log, ".log"))
	if err != nil {
		return nil, err
	}
	p.inNamespace(options.Namespace, path, args)
	return p, nil
}

// proxyAgentArgs writes the files that the options leave to the framework, and names all in flags.
func (c *ControlPlane) proxyAgentArgs(options ProxyAgentOptions, base string) ([]string, error) {
	if options.Kubeconfig == "" {
		options.Kubeconfig = base + ".kubeconfig"
		if err := c.kubeconfigInside(options.Namespace, options.As, options.Kubeconfig); err != nil {
			return nil, err
		}
	}
	if options.ConfigFile == "" {
		options.ConfigFile = base + ".yaml"
		config := proxyConfiguration(options.Node, options.Kubeconfig, "iptables", options.Config)
		if err := writeYAML(options.ConfigFile, config); err != nil {
			return nil, err
		}
	}
	args := []string{"--config=" + options.ConfigFile, "--kubeconfig=" + options.Kubeconfig, "--node-name=" + options.Node}
	if options.Mode != "" {
		args = append(args, "--iptables-mode="+options.Mode)
	}
	return append(args, options.Args...), nil
}

// RunProxyAgent runs the agent to its end, for subcommands ("cleanup", "trace") and for flags that it refuses. Of the options it
// reads Args, which are the whole command line, Env, Race, and Namespace, which may be nil where none is needed. It returns what the
// agent printed to stdout and stderr and its exit code; err speaks of failures to run it, and of ctx.
func RunProxyAgent(ctx context.Context, options ProxyAgentOptions) (output string, exitCode int, err error) {
	path, err := proxyAgent(options.Race)
	if err != nil {
		return "", -1, err
	}
	if options.Namespace == nil {
		return runToEnd(ctx, path, options.Env, options.Args)
	}
	env := append([]string{"XTABLES_LOCKFILE=" + options.Namespace.LockFile()}, options.Env...)
	return runToEnd(ctx, "ip", env, append([]string{"netns", "exec", options.Namespace.Name(), path}, options.Args...))
}

// WaitReady waits until /healthz answers 200, for a minute if ctx has no deadline.
func (p *ProxyAgent) WaitReady(ctx context.Context) error {
	ctx, cancel := withDefaultTimeout(ctx, startTimeout)
	defer cancel()
	if err := p.waitUntil(ctx, p.healthz); err != nil {
		return fmt.Errorf("waiting for the proxyagent: %w; the end of %s:\n%s", err, p.log, p.LogTail(tailLines))
	}
	return nil
}

// ProxyAgentProgram returns the path of our node agent, built once per process, for tests that start it in a way of their own.
func ProxyAgentProgram() (string, error) { return proxyAgent(false) }
