// Package flows_test tests the behaviour of a Service proxy: where does a packet from here to there
// arrive? Real packets between network namespaces tell. Each spec is one numbered behaviour of
// docs/reference/proxy-conformance.md for one family. The specs run against each mode of ours and,
// labelled "soak" and "kube-proxy-ipvs", against each mode of kube-proxy, which proves the specs.
//
// A proxy's scenarios run side by side, since they mostly wait: BeforeAll starts them, each It
// awaits one. Start with clusterip_test.go; scenario_test.go and want_test.go have the helpers.
package flows_test

import (
	"context"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

func TestFlows(t *testing.T) {
	environment.Prepare(t)
	RunSpecs(t, "flows")
}

// kind is a Service proxy under test.
type kind string

// The proxies: ours in both variants of iptables, and kube-proxy 1.37 in all of its modes.
const (
	oursNFT      kind = "proxyagent with iptables-nft"
	oursLegacy   kind = "proxyagent with iptables-legacy"
	oursNative   kind = "proxyagent with nftables"
	oursIPVS     kind = "proxyagent with IPVS"
	withIPTables kind = "kube-proxy in mode iptables"
	withNFTables kind = "kube-proxy in mode nftables"
	withIPVS     kind = "kube-proxy in mode ipvs"
)

// everyOurs are those that are ours.
var everyOurs = []kind{oursNFT, oursLegacy, oursNative, oursIPVS}

func (k kind) ours() bool { return slices.Contains(everyOurs, k) }

// mode is how a kind serves, as the agent and kube-proxy are told.
var mode = map[kind]string{
	oursNFT: "nft", oursLegacy: "legacy", oursNative: "nftables", oursIPVS: "ipvs",
	withIPTables: "iptables", withNFTables: "nftables", withIPVS: "ipvs",
}

// node is an environment with a proxy.
type node struct {
	*environment.Environment
	kind  kind
	proxy proxy
}

// proxy is a process that serves Services.
type proxy interface {
	Start(ctx context.Context) error
	Stop() error
	LogTail(lines int) string
	Healthy(ctx context.Context, path string) error
	Get(ctx context.Context, path string) (string, error)
	Metrics(ctx context.Context) (framework.Metrics, error)
}

// follow starts a proxy of the same kind and configuration for the Node of a name.
func (n *node) follow(ctx context.Context, name string) (proxy, error) {
	if n.kind.ours() {
		options := n.Options
		options.Node = name
		return n.Cluster.StartProxyAgent(ctx, options)
	}
	return n.Cluster.StartKubeProxy(ctx, framework.KubeProxyOptions{Namespace: n.Node, Node: name, Mode: mode[n.kind], Config: n.Options.Config})
}

// setup is a configuration of the proxy with the scenarios that run under it.
type setup struct {
	name      string
	config    map[string]any
	noZone    bool
	scenarios []scenario
}

// Each proxy goes through two rounds: most scenarios in one environment, then the configurations.
var rounds = []struct {
	name   string
	setups []setup
}{
	{"by default", []setup{{name: "base", scenarios: slices.Concat(
		clusterIPScenarios, matrixScenarios(false, false), noEndpointsScenarios, loadBalancerScenarios, nodePortScenarios,
		externalPolicyScenarios, internalPolicyScenarios, terminatingScenarios(),
		topologyScenarios, affinityScenarios, schedulerScenarios, conntrackScenarios, beganScenarios, packetScenarios, lifecycleScenarios,
		dualStackScenarios, sliceScenarios)}}},
	{"as configured", configurations},
}

var (
	_ = Describe(string(oursNFT), func() { specs(oursNFT) })
	_ = Describe(string(oursLegacy), Label("long"), func() { specs(oursLegacy) })
	_ = Describe(string(oursNative), func() { specs(oursNative) })
	_ = Describe(string(oursIPVS), Label("ipvs"), func() { specs(oursIPVS) })
	_ = Describe(string(withIPTables), Label("soak"), func() { specs(withIPTables) })
	_ = Describe(string(withNFTables), Label("soak"), func() { specs(withNFTables) })
	_ = Describe(string(withIPVS), Label("kube-proxy-ipvs"), func() { specs(withIPVS) })
)

func specs(k kind) {
	for _, r := range rounds {
		for together := range slices.Chunk(r.setups, k.together(len(r.setups))) {
			Context(r.name, Ordered, ContinueOnFailure, func() { specsOf(k, string(k)+" "+r.name, together) })
		}
	}
}

// together is how many environments of a kind of proxy run at a time. A sync of kube-proxy in mode
// ipvs runs a hundred programs, one by one to add addresses: emulated, it has time for one.
func (k kind) together(all int) int {
	if k == withIPVS {
		return 1
	}
	return all
}

// sideBySide is how many scenarios run at a time: fewer with an emulated API server, which must
// answer in time. kube-proxy in mode ipvs takes nearly as long for one change as for some.
func (k kind) sideBySide() int {
	if k == withIPVS {
		return 16
	}
	return max(32/int(framework.Slowness), 1)
}

// task is a scenario on a node, and its result.
type task struct {
	scenario
	setup  int
	family model.Family
	node   *node
	done   chan struct{}
	err    error
	took   time.Duration
	// translated are the connections for which that was done at connect().
	translated string
}

func specsOf(k kind, above string, setups []setup) {
	var tasks []*task
	for i, s := range setups {
		for _, sc := range s.scenarios {
			if sc.kinds != nil && !slices.Contains(sc.kinds, k) {
				continue
			}
			for _, f := range sc.families() {
				tasks = append(tasks, &task{scenario: sc, setup: i, family: f, done: make(chan struct{})})
			}
		}
	}
	BeforeAll(func(ctx context.Context) {
		nodes := make([]*node, len(setups))
		for i, s := range setups {
			nodes[i] = s.start(ctx, k)
		}
		for _, t := range tasks {
			t.node = nodes[t.setup]
		}
		life, end := context.WithCancel(context.Background())
		running := k.run(life, slices.DeleteFunc(slices.Clone(tasks), func(t *task) bool { return !focused(above + " " + t.title(t.family)) }))
		DeferCleanup(func() {
			end()
			running.Wait()
		})
	})
	for _, t := range tasks {
		It(t.title(t.family), t.verify)
	}
}

// focused is false for scenarios that -ginkgo.focus leaves out; otherwise all would run for one.
func focused(text string) bool {
	suite, _ := GinkgoConfiguration()
	return len(suite.FocusStrings) == 0 ||
		slices.ContainsFunc(suite.FocusStrings, func(e string) bool { return regexp.MustCompile(e).MatchString(text) })
}

// start starts a proxy in an environment of its own, which end with the calling Ginkgo node.
func (s setup) start(ctx context.Context, k kind) *node {
	GinkgoHelper()
	variant := ""
	if k.ours() {
		variant = mode[k]
	}
	n := &node{Environment: environment.Open(ctx, environment.Cluster, variant), kind: k}
	n.Options.Config, n.Options.Race, n.Options.Args = s.config, false, []string{"--follow-nodes"}
	if s.noZone {
		n.patchNode(ctx, `{"metadata":{"labels":null}}`)
	}
	if k.ours() {
		n.StartAgent(ctx)
		n.proxy = n.Agent
		return n
	}
	kubeProxy, err := n.follow(ctx, n.Name)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(kubeProxy.Stop)
	n.proxy = kubeProxy
	return n
}

// run performs tasks side by side.
func (k kind) run(ctx context.Context, tasks []*task) *sync.WaitGroup {
	var running sync.WaitGroup
	slots := make(chan struct{}, k.sideBySide())
	for _, t := range tasks {
		running.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			started := time.Now()
			t.translated, t.err = t.perform(ctx, t.node, t.family)
			t.took = time.Since(started)
			close(t.done)
		})
	}
	return &running
}

// verify awaits the end of a scenario and compares it with what is expected of this proxy.
func (t *task) verify(ctx SpecContext) {
	select {
	case <-t.done:
	case <-ctx.Done():
		Fail("it did not end in time")
	}
	note("it took %s", t.took)
	if t.translated != "" {
		AddReportEntry("connections translated at connect()", t.translated, ReportEntryVisibilityFailureOrVerbose)
	}
	reason, differs := t.differs[t.node.kind]
	switch {
	case differs && t.err == nil:
		Fail("it passes, but should not: " + reason)
	case differs:
		note("it fails, as it should (%s): %v", reason, t.err)
	case t.err != nil:
		Fail(t.err.Error() + "\nthe proxy's last words:\n" + t.node.proxy.LogTail(8))
	}
}
