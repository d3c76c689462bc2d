package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/bench/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/bench/proxy/population"
	"github.com/clusterip-operator/clusterip-operator/test/bench/proxy/probe"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// testNode is a Topology with a client in one pod, all endpoints in the other, and maybe a proxy.
type testNode struct {
	*Figures
	who Contender

	net    *network.Topology
	client *probe.Client
	server *probe.Server
	cgroup network.Cgroup // as the machine's, with the client in that of pods; zero without need of one
	proxy  proxyProcess   // nil for none
	ends   []func() error // of what was started, in that order
}

// proxyProcess is a proxy that runs.
type proxyProcess interface {
	Pid() int
	Pause() error
	Resume() error
	Kill() error
	RSS() (int64, error)
	PeakRSS() (int64, error)
	LogTail(lines int) string
	Get(ctx context.Context, path string) (string, error)
	Metrics(ctx context.Context) (framework.Metrics, error)
}

// newNode makes everything but the proxy.
func (b *bench) newNode(ctx context.Context, who Contender, f *Figures) (*testNode, error) {
	s := &testNode{Figures: f, who: who}
	if err := s.build(ctx, b.family); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *testNode) build(ctx context.Context, f model.Family) (err error) {
	if s.net, err = network.New(ctx); err != nil {
		return err
	}
	s.ends = append(s.ends, s.net.Close)
	if err := s.routeEndpoints(ctx, f); err != nil {
		return err
	}
	if err := s.net.Node.Sysctl(shortTimeouts); err != nil {
		return err
	}
	if s.server, err = probe.Serve(s.net.Pod1, everywhere(f)); err != nil {
		return err
	}
	s.ends = append(s.ends, func() error { return s.server.Close() })
	if s.client, err = probe.NewClient(s.net.Pod2); err != nil {
		return err
	}
	s.ends = append(s.ends, s.client.Close)
	if s.who.Socket {
		return s.enclose()
	}
	return nil
}

// everywhere is where servers listen: at all endpoints.
func everywhere(f model.Family) netip.AddrPort {
	if f == model.IPv6 {
		return netip.AddrPortFrom(netip.IPv6Unspecified(), population.OpenPort)
	}
	return netip.AddrPortFrom(netip.IPv4Unspecified(), population.OpenPort)
}

// shortTimeouts keep the table of connections small.
var shortTimeouts = map[string]string{
	"net/netfilter/nf_conntrack_tcp_timeout_close":     "1",
	"net/netfilter/nf_conntrack_tcp_timeout_time_wait": "1",
	"net/netfilter/nf_conntrack_tcp_timeout_syn_sent":  "2",
}

// routeEndpoints gives all endpoints to the server's namespace.
func (s *testNode) routeEndpoints(ctx context.Context, f model.Family) error {
	all, server := population.Range(f).String(), s.net.Pod1.Addr(f).String()
	if _, err := s.net.Node.Run(ctx, "ip", "route", "add", all, "via", server, "dev", "pod1", "onlink"); err != nil {
		return err
	}
	_, err := s.net.Pod1.Run(ctx, "ip", "route", "add", "local", all, "dev", "lo")
	return err
}

// startProxy starts the process. It is not ready yet.
func (b *bench) startProxy(ctx context.Context, s *testNode) error {
	pacing := map[string]any{"minSyncPeriod": minSyncPeriod.String()}
	config := map[string]any{"iptables": pacing, "nftables": pacing, "enableProfiling": true}
	if s.who.Ours {
		agent, err := b.plane.StartProxyAgent(ctx, framework.ProxyAgentOptions{
			Namespace: s.net.Node, Node: node, Mode: cmp.Or(s.who.Variant, s.who.Mode), Config: config, Args: s.socketFlags(), NoWait: true,
		})
		if err == nil {
			s.proxy, s.ends = agent, append(s.ends, agent.Kill)
		}
		return err
	}
	if s.who.Off != "" {
		config["featureGates"] = map[string]any{s.who.Off: false}
	}
	theirs, err := b.plane.StartKubeProxy(ctx, framework.KubeProxyOptions{
		Namespace: s.net.Node, Node: node, Mode: s.who.Mode, Variant: s.who.Variant, Config: config,
	})
	if err == nil {
		s.proxy, s.ends = theirs, append(s.ends, theirs.Kill)
	}
	return err
}

// killAll ends the proxy with what it has started, which writes many rules for minutes and would go
// on. It waits for minutes itself: a program does not die before the kernel has taken the rules.
func (s *testNode) killAll() error {
	err := unix.Kill(-s.proxy.Pid(), unix.SIGKILL)
	if errors.Is(err, unix.ESRCH) {
		err = nil
	}
	for i := 0; err == nil || i < killAttempts && errors.Is(err, context.DeadlineExceeded); i++ {
		if err = s.proxy.Kill(); err == nil {
			return nil
		}
	}
	return fmt.Errorf("ending %s: %w", s.who.Name, err)
}

// killAttempts is how often half a minute is waited for the end of a proxy.
const killAttempts = 20

// minSyncPeriod is so short that a measured change never waits for it.
const minSyncPeriod = 10 * time.Millisecond

// close ends and removes everything.
func (s *testNode) close() error {
	var errs []error
	for _, end := range slices.Backward(s.ends) {
		errs = append(errs, end())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("clearing away %s: %w", s.who.Name, err)
	}
	return nil
}

// value reads a metric of one family.
func (b *bench) value(ctx context.Context, s *testNode, name string) (float64, error) {
	metrics, err := s.proxy.Metrics(ctx)
	if err != nil {
		return 0, err
	}
	value, _ := metrics.Value(s.who.metric(name), "ip_family", b.family.String())
	return value, nil
}

// tool is iptables or ip6tables of a variant.
func (b *bench) tool(variant string) string {
	if b.family == model.IPv6 {
		return "ip6tables-" + variant
	}
	return "iptables-" + variant
}

// newBare makes a testNode without a proxy but with one rule for all Services; no variant, no rule.
func (b *bench) newBare(ctx context.Context, variant string) (*testNode, error) {
	s, err := b.newNode(ctx, Contender{Name: "bare " + variant, Variant: variant}, &Figures{})
	if err != nil || variant == "" {
		return s, err
	}
	to := netip.AddrPortFrom(population.Endpoint(b.family, 0), population.OpenPort)
	command := s.net.Node.Command(ctx, b.tool(variant), "-t", "nat", "-A", "PREROUTING", "-d", serviceRange(b.family).String(),
		"-p", "tcp", "--dport", "80", "-j", "DNAT", "--to-destination", to.String())
	command.Env = append(command.Environ(), "XTABLES_LOCKFILE="+s.net.Node.LockFile())
	return s, command.Run()
}

// versions names the programs that take part.
func versions(ctx context.Context, plane *cluster.Cluster) (string, error) {
	text, err := plane.Versions(ctx)
	if err != nil {
		return "", err
	}
	theirs, err := framework.KubeProxyVersion(ctx)
	if err != nil {
		return "", err
	}
	text += ", kube-proxy " + theirs
	for _, tool := range []string{"iptables", "nft"} {
		said, err := exec.CommandContext(ctx, tool, "--version").Output()
		if err != nil {
			return "", fmt.Errorf("asking %s for its version: %w", tool, err)
		}
		if words := strings.Fields(string(said)); len(words) > 1 {
			text += ", " + tool + " " + words[1]
		}
	}
	return text, nil
}
