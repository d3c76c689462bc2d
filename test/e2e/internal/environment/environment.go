//go:build linux

package environment

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/ruleset"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

const (
	// Soon is the timeout of everything without a stricter one. It is generous, for machines are shared, and longer than the pauses of
	// an agent whose API server was away: those of client-go grow to a minute.
	Soon = 75 * time.Second
	// Repair is how long the agent may take to repair its rules after others changed them.
	Repair = 5 * time.Second
)

// Modes are the variants of iptables, each of which a suite has to run in.
var Modes = []string{"nft", "legacy"}

// LabelsOf are those of specs in a variant: what holds in one is expected of the other, and seen by `make soak`.
func LabelsOf(mode string) Labels {
	if mode == "legacy" {
		return Label("soak")
	}
	return nil
}

// environments counts them, for names that no two of them share.
var environments atomic.Int32

// Environment is one node of a cluster. Its methods are for the goroutine of a spec.
type Environment struct {
	// Cluster is the control plane of the suite.
	Cluster *framework.ControlPlane
	*network.Topology
	// Mode is the variant of iptables, empty to let the agent choose.
	Mode string
	// Name is the name of the Node, and of the namespace in which Service puts what it makes.
	Name string
	// Agent is ours, nil before it is started.
	Agent *framework.ProxyAgent
	// Options are those of the next agent, for specs that change them before they start it.
	Options framework.ProxyAgentOptions
}

// Open makes an Environment without an agent. It is removed with its Services when the calling Ginkgo node ends.
func Open(ctx context.Context, cp *framework.ControlPlane, mode string) *Environment {
	GinkgoHelper()
	topology, err := network.New(ctx)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(topology.Close()).To(Succeed()) })
	s := &Environment{Cluster: cp, Topology: topology, Mode: mode, Name: fmt.Sprintf("env-%d", environments.Add(1))}
	s.Options = framework.ProxyAgentOptions{Namespace: topology.Node, Node: s.Name, Mode: mode, Race: true}
	s.createNamespace(ctx)
	s.createNode(ctx)
	DeferCleanup(s.clear)
	return s
}

func (s *Environment) createNamespace(ctx context.Context) {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Name}}
	_, err := s.Cluster.Client().CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

func (s *Environment) createNode(ctx context.Context) {
	GinkgoHelper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.Name}}
	node, err := s.Cluster.Client().CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	for _, f := range network.Families {
		node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: s.Node.Addr(f).String()})
	}
	_, err = s.Cluster.Client().CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// clear deletes what later Environments on the same control plane would have to program.
func (s *Environment) clear(ctx SpecContext) {
	services, err := s.Cluster.Client().CoreV1().Services(s.Name).List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	for _, service := range services.Items {
		Expect(s.Cluster.Client().CoreV1().Services(s.Name).Delete(ctx, service.Name, metav1.DeleteOptions{})).To(Succeed())
	}
	Expect(s.Cluster.Client().DiscoveryV1().EndpointSlices(s.Name).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})).To(Succeed())
	Expect(s.Cluster.Client().CoreV1().Nodes().Delete(ctx, s.Name, metav1.DeleteOptions{})).To(Succeed())
}

// StartAgent starts our agent with s.Options and further flags, and waits until it is healthy: then all objects of the API server are
// programmed. It ends with the calling Ginkgo node.
func (s *Environment) StartAgent(ctx context.Context, args ...string) {
	GinkgoHelper()
	options := s.Options
	options.Args = append(append([]string(nil), options.Args...), args...)
	agent, err := s.Cluster.StartProxyAgent(ctx, options)
	Expect(err).NotTo(HaveOccurred())
	s.Agent = agent
	DeferCleanup(func() { expectSound(agent.LogFile()) })
	DeferCleanup(func() {
		if CurrentSpecReport().Failed() {
			AddReportEntry("the end of "+agent.LogFile(), agent.LogTail(60))
			AddReportEntry("the rules", s.rulesOrError().String())
		}
		Expect(agent.Stop()).To(Succeed())
	})
}

func (s *Environment) rulesOrError() ruleset.Snapshot {
	rules, err := ruleset.Take(context.Background(), s.Node.Name())
	if err != nil {
		return ruleset.Snapshot{"error": err.Error()}
	}
	return rules
}

// expectSound expects no panic and no data race in the log of an agent that has ended.
func expectSound(log string) {
	GinkgoHelper()
	content, err := os.ReadFile(log)
	Expect(err).NotTo(HaveOccurred())
	for line := range strings.Lines(string(content)) {
		Expect(line).NotTo(Or(HavePrefix("panic:"), ContainSubstring("Observed a panic"), ContainSubstring("DATA RACE")))
	}
}

// Rules reads the whole firewall of the node.
func (s *Environment) Rules(ctx context.Context) ruleset.Snapshot {
	GinkgoHelper()
	rules, err := ruleset.Take(ctx, s.Node.Name())
	Expect(err).NotTo(HaveOccurred())
	return rules
}

// Run runs a program on the node, fails the spec if the program fails, and returns what it printed. iptables shares the lock of
// the agent.
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
	Expect(err).NotTo(HaveOccurred(), "%s %s: %s", program, strings.Join(args, " "), out)
	return string(out)
}

// Metric returns the sum of the agent's series of this name (after the prefix clusterip_proxyagent_), 0 if there is none.
func (s *Environment) Metric(ctx context.Context, name string, labels ...string) float64 {
	GinkgoHelper()
	metrics, err := s.Agent.Metrics(ctx)
	Expect(err).NotTo(HaveOccurred())
	value, _ := metrics.Value("clusterip_proxyagent_"+name, labels...)
	return value
}
