// Package environment is what all suites of test/e2e work with: a network of namespaces with one
// node, a Node object, a namespace for Services, and a Service proxy on the node, mostly our agent,
// in any of its modes. An [Environment] creates Services and endpoints ([Environment.Serve]), asks
// whether they are served ([Environment.Served]), keeps traffic going ([Environment.Traffic]) and
// reads the firewall ([Environment.Rules]). Methods that are refused fail the spec, and so does a
// data race or a panic of the agent; nothing is left behind. Start with [Open].
package environment

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/ruleset"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// Soon is the timeout of everything without a stricter one: long, for machines are shared, and
// client-go's pauses after an API server was away grow to a minute.
var Soon = 75 * time.Second * framework.Slowness

const (
	// Zone is the zone of every Node.
	Zone = "zone-a"
	// Elsewhere is the name of the other node, which has no Node object.
	Elsewhere = "elsewhere"
)

// Families tell the programs of iptables apart by the family, and those of nothing else.
var Families = []string{"", "6"}

// Variants are those of iptables, Modes all ways of the agent to serve.
var (
	Variants = []string{"nft", "legacy"}
	Modes    = append(slices.Clone(Variants), Native)
)

// Native is the mode of the agent without iptables.
const Native = "nftables"

// Balanced is the agent's mode with IPVS: hack/ipvs.sh runs its specs in a machine that has IPVS.
const Balanced = "ipvs"

// LabelsOf are those of a spec in one of its modes, as what holds in one should hold in all: `make
// test` runs the mode that the seed picks for it, `make soak` all modes.
func LabelsOf(modes []string, mode, spec string) Labels {
	h := fnv.New32a()
	_, _ = io.WriteString(h, os.Getenv("SEED")+spec)
	if picked := modes[h.Sum32()%uint32(len(modes))]; mode != picked {
		return Label("soak")
	}
	return Label("picked")
}

// EachMode are the entries of a table that runs once in each mode.
func EachMode(spec string) (entries []TableEntry) {
	for _, mode := range Modes {
		entries = append(entries, Entry(mode, LabelsOf(Modes, mode, spec), mode))
	}
	return entries
}

// FirstNodePort is that of a suite: 128 node ports from there on API servers draw last, the static
// band. Node ports end before the ports from which clients ask.
const FirstNodePort = 28672

// Cluster is the control plane of a suite that said [Prepare].
var Cluster *framework.ControlPlane

// Prepare skips a suite that cannot run, for it needs root, and gives it a control plane.
func Prepare(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	RegisterFailHandler(Fail)
	BeforeSuite(func(ctx SpecContext) {
		// Without it an API server of 1.33 drops node hints of EndpointSlices; later ones keep them.
		Cluster = suite.ControlPlane(ctx, framework.Options{
			FeatureGates: map[string]bool{"PreferSameTrafficDistribution": true},
			Args:         []string{fmt.Sprintf("--service-node-port-range=%d-32767", FirstNodePort)},
		})
	})
}

// environments counts them, for names that no two of them share.
var environments atomic.Int32

// Environment is one node of a cluster. Its methods are for one goroutine.
type Environment struct {
	*network.Topology
	// Gomega is how methods fail.
	Gomega
	// Cluster is the control plane.
	Cluster *framework.ControlPlane
	// Mode is one of Modes, empty to let the agent choose a variant of iptables.
	Mode string
	// Name is the name of the Node, and of the namespace in which Services are.
	Name string
	// Agent is ours, nil before it is started.
	Agent *framework.ProxyAgent
	// Options are those of the next agent, for specs that change them before they start it.
	Options framework.ProxyAgentOptions
}

// Open makes an Environment without an agent. It and its Services end with the calling Ginkgo node.
func Open(ctx context.Context, cp *framework.ControlPlane, mode string) *Environment {
	GinkgoHelper()
	topology := suite.Must(network.New(ctx))
	DeferCleanup(func() { Expect(topology.Close()).To(Succeed()) })
	s := &Environment{Gomega: NewGomega(Fail), Cluster: cp, Topology: topology, Mode: mode, Name: fmt.Sprintf("env-%d", environments.Add(1))}
	s.Options = framework.ProxyAgentOptions{Namespace: topology.Node, Node: s.Name, Mode: mode, Race: mode != Balanced} // in the emulated machine that would take too long
	if s.Options.SocketLB = os.Getenv("CLUSTERIP_SOCKETLB"); s.Options.SocketLB != "" {
		s.Options.CgroupRoot = suite.Must(topology.UseCgroups())
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Name}}
	suite.Must(cp.Client().CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}))
	s.createNode(ctx)
	DeferCleanup(s.clear)
	return s
}

func (s *Environment) createNode(ctx context.Context) {
	GinkgoHelper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.Name, Labels: map[string]string{corev1.LabelTopologyZone: Zone}}}
	for _, f := range network.Families {
		node.Spec.PodCIDRs = append(node.Spec.PodCIDRs, network.PodCIDR(f).String())
	}
	node.Spec.PodCIDR = node.Spec.PodCIDRs[0]
	node = suite.Must(s.Cluster.Client().CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}))
	for _, f := range network.Families {
		node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: s.Node.Addr(f).String()})
	}
	suite.Must(s.Cluster.Client().CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{}))
}

// clear deletes what later Environments on the same control plane would have to program.
func (s *Environment) clear(ctx SpecContext) {
	services, err := s.Services().List(ctx, metav1.ListOptions{})
	s.Expect(err).NotTo(HaveOccurred())
	for _, service := range services.Items {
		s.Expect(s.Services().Delete(ctx, service.Name, metav1.DeleteOptions{})).To(Succeed())
	}
	s.Expect(s.Slices().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})).To(Succeed())
	s.Expect(s.Cluster.Client().CoreV1().Nodes().Delete(ctx, s.Name, metav1.DeleteOptions{})).To(Succeed())
}

// StartAgent starts our agent with s.Options and further flags, until the end of the calling Ginkgo
// node. It waits until the agent is healthy: all objects of the API server are programmed then.
func (s *Environment) StartAgent(ctx context.Context, args ...string) {
	GinkgoHelper()
	options := s.Options
	options.Args = append(slices.Clone(options.Args), args...)
	agent, err := s.Cluster.StartProxyAgent(ctx, options)
	s.Expect(err).NotTo(HaveOccurred())
	s.Agent = agent
	DeferCleanup(func() {
		if CurrentSpecReport().Failed() {
			AddReportEntry("the end of "+agent.LogFile(), agent.LogTail(60))
			rules, _ := ruleset.Take(context.Background(), s.Node)
			AddReportEntry("the rules", rules.String())
		}
		s.Expect(agent.Stop()).To(Succeed())
		suite.ExpectNoCrash(&agent.Process)
	})
}

// Cleanup runs `proxyagent cleanup`, wants it to succeed, and returns what it said.
func (s *Environment) Cleanup(ctx context.Context, args ...string) string {
	GinkgoHelper()
	options := framework.ProxyAgentOptions{Namespace: s.Node, Args: append([]string{"cleanup"}, args...), Race: s.Options.Race}
	out, code, err := framework.RunProxyAgent(ctx, options)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(code).To(BeZero(), out)
	return out
}

// Rules reads the whole firewall of the node.
func (s *Environment) Rules(ctx context.Context) ruleset.Snapshot {
	GinkgoHelper()
	rules, err := ruleset.Take(ctx, s.Node)
	s.Expect(err).NotTo(HaveOccurred())
	return rules
}

// Ours are the agent's own rules.
func (s *Environment) Ours(ctx context.Context) ruleset.Snapshot {
	GinkgoHelper()
	return s.Rules(ctx).Of(ruleset.Agent)
}

// Run runs a program on the node, fails the spec if it fails, and returns what it printed. iptables
// shares the agent's lock.
func (s *Environment) Run(ctx context.Context, program string, args ...string) string {
	GinkgoHelper()
	return s.Feed(ctx, "", program, args...)
}

// Feed is Run with standard input.
func (s *Environment) Feed(ctx context.Context, stdin, program string, args ...string) string {
	GinkgoHelper()
	cmd := s.Node.Command(ctx, program, args...)
	cmd.Env = append(os.Environ(), "XTABLES_LOCKFILE="+s.Node.LockFile())
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	s.Expect(err).NotTo(HaveOccurred(), "%s %s: %s", program, strings.Join(args, " "), out)
	return string(out)
}

// Restore adds rules to those of one family and variant.
func (s *Environment) Restore(ctx context.Context, family, mode, rules string) {
	GinkgoHelper()
	s.Feed(ctx, rules, "ip"+family+"tables-"+mode+"-restore", "--noflush", "-w", "20")
}

// Metric returns the sum of the agent's series clusterip_proxyagent_NAME, 0 if there is none.
func (s *Environment) Metric(ctx context.Context, name string) float64 {
	GinkgoHelper()
	metrics, err := s.Agent.Metrics(ctx)
	s.Expect(err).NotTo(HaveOccurred())
	value, _ := metrics.Value("clusterip_proxyagent_" + name)
	return value
}
