package framework

import (
	"context"
	"time"

	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// proxyAgentGrace is how long our agent may take to end after SIGTERM. It promises five seconds,
// and a machine may stall for seconds.
const proxyAgentGrace = 30 * time.Second

var proxyAgent = builder("proxyagent")

// ProxyAgentOptions say how to run our node agent. Namespace and Node must be set.
type ProxyAgentOptions struct {
	// Namespace is that of the node.
	Namespace *network.Namespace
	// Node is the name of the Node.
	Node string
	// Mode is "nftables", "ipvs", or iptables' "nft" or "legacy", of which the agent chooses if empty.
	Mode string
	// Config replaces and completes fields of the KubeProxyConfiguration that the agent reads.
	Config map[string]any
	// Program is the path of an agent from elsewhere, say another commit; empty builds this tree's.
	Program string
	// Args are further flags. They come last and win.
	Args []string
	// Env is added to the environment, "NAME=value".
	Env []string
	// Race runs an agent with the race detector, where CLUSTERIP_RACE is set.
	Race bool
	// CgroupRoot is where the cgroups of the node and its pods are, and SocketLB whose connections are
	// translated at connect(): off, or in mode ipvs, if either is empty.
	CgroupRoot, SocketLB string
	// NoWait makes Start return before the agent is ready. WaitReady waits later.
	NoWait bool
}

// ProxyAgent is a process of our own node agent, cmd/proxyagent.
type ProxyAgent struct{ nodeProxy }

// StartProxyAgent builds the agent, once per process, starts it and waits for /healthz: what the
// API server had at the start is programmed then. It runs until Stop, or the control plane's.
func (c *ControlPlane) StartProxyAgent(ctx context.Context, options ProxyAgentOptions) (*ProxyAgent, error) {
	path, err := built(options.Program, proxyAgent, options.Race)
	if err != nil {
		return nil, err
	}
	p := &ProxyAgent{}
	p.name, p.log, p.grace, p.env = "proxyagent", c.logFor("proxyagent"), proxyAgentGrace, options.Env
	p.ready, p.noWait = p.healthz, options.NoWait
	files, err := c.proxyFiles(p.log, options.Namespace, options.Node, "iptables", options.Config)
	if err != nil {
		return nil, err
	}
	args := append(files, "--node-name="+options.Node)
	switch options.Mode {
	case "":
	case "nftables", "ipvs":
		args = append(args, "--mode="+options.Mode)
	default:
		args = append(args, "--iptables-mode="+options.Mode)
	}
	if options.SocketLB != "" && options.CgroupRoot != "" && options.Mode != "ipvs" {
		args = append(args, "--socket-lb-scope="+options.SocketLB, "--cgroup-root="+options.CgroupRoot)
	}
	p.inNamespace(options.Namespace, path, append(args, options.Args...))
	return p, c.run(ctx, p)
}

// RunProxyAgent runs the agent to its end, for subcommands ("cleanup", "dump") and for flags that
// it refuses. Of the options it reads Args, which are the whole command line, Env, Race, and
// Namespace, which may be nil where none is needed. It returns what the agent printed to stdout and
// stderr and its exit code; err speaks of failures to run it, and of ctx.
func RunProxyAgent(ctx context.Context, options ProxyAgentOptions) (output string, exitCode int, err error) {
	path, err := proxyAgent(options.Race)
	if err != nil {
		return "", -1, err
	}
	if options.Namespace == nil {
		return combined(ctx, options.Env, path, options.Args...)
	}
	env := append([]string{"XTABLES_LOCKFILE=" + options.Namespace.LockFile()}, options.Env...)
	line := options.Namespace.CommandLine(path, options.Args...)
	return combined(ctx, env, line[0], line[1:]...)
}

// ProxyAgentProgram returns our node agent's path, built once per process, for tests to start it.
func ProxyAgentProgram() (string, error) { return proxyAgent(false) }
