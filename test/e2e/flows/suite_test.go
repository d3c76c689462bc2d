//go:build linux

// Package flows_test tests the behaviour of a Service proxy: where does a packet from here to there arrive? The answers come from
// real packets between network namespaces. Each spec is one numbered behaviour of docs/proxy-conformance.md for one family; the same
// specs run against ours in both variants of iptables and, with the label "all", against kube-proxy in both of its modes, which proves
// the specs.
//
// All scenarios of a proxy run side by side, because they wait most of the time: BeforeAll starts them, each It awaits one. Start reading
// with clusterip_test.go; scenario_test.go has the helpers.
package flows_test

import (
	"context"
	"errors"
	"os"
	"regexp"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/flowtest"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

func TestFlows(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("network namespaces need root")
	}
	RegisterFailHandler(Fail)
	RunSpecs(t, "flows")
}

// sideBySide is how many scenarios run at a time.
const sideBySide = 32

var controlPlane *flowtest.Cluster

var _ = BeforeSuite(func(ctx context.Context) {
	var err error
	controlPlane, err = flowtest.StartCluster(ctx, framework.Options{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() error { return controlPlane.Stop() })
})

// setup is a configuration of the proxy with the scenarios that run under it.
type setup struct {
	name      string
	config    map[string]any
	noZone    bool
	scenarios []scenario
}

// Each proxy goes through two rounds: most scenarios in one environment, then the few per special configuration.
var rounds = []struct {
	name   string
	setups []setup
}{
	{"by default", []setup{{name: "base", scenarios: join(
		clusterIPScenarios, matrixScenarios(false, false), noEndpointsScenarios, loadBalancerScenarios, nodePortScenarios,
		externalPolicyScenarios, internalPolicyScenarios, terminatingScenarios(),
		topologyScenarios, affinityScenarios, conntrackScenarios, lifecycleScenarios,
		dualStackScenarios, sliceScenarios)}}},
	{"as configured", configurations},
}

func join(lists ...[]scenario) (all []scenario) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

var _ = Describe("proxyagent with iptables-nft", func() { specs(flowtest.OursNFT) })

var _ = Describe("proxyagent with iptables-legacy", Label("all"), func() { specs(flowtest.OursLegacy) })

var _ = Describe("kube-proxy in mode iptables", Label("all"), func() { specs(flowtest.KubeProxyIPTables) })

var _ = Describe("kube-proxy in mode nftables", Label("all"), func() { specs(flowtest.KubeProxyNFTables) })

func specs(kind flowtest.Kind) {
	for _, r := range rounds {
		Context(r.name, Ordered, ContinueOnFailure, func() { specsOf(kind, string(kind)+" "+r.name, r.setups) })
	}
}

// task is a scenario in an environment, and its result.
type task struct {
	scenario
	setup  setup
	family model.Family
	title  string
	text   string // as Ginkgo knows it: with the containers
	env    *flowtest.Environment
	done   chan struct{}
	err    error
	took   time.Duration
}

func specsOf(kind flowtest.Kind, above string, setups []setup) {
	tasks := tasksOf(above, setups)
	BeforeAll(func(ctx context.Context) {
		life, end := context.WithCancel(context.Background())
		environments := startEnvironments(ctx, kind, setups)
		running := startTasks(life, chosen(tasks), environments)
		DeferCleanup(func() error {
			end()
			running.Wait()
			var errs []error
			for _, w := range environments {
				errs = append(errs, w.Stop())
			}
			return errors.Join(errs...)
		})
	})
	for _, t := range tasks {
		It(t.title, func(ctx context.Context) { t.verify(ctx, kind) })
	}
}

func tasksOf(above string, setups []setup) (tasks []*task) {
	for _, s := range setups {
		for _, sc := range s.scenarios {
			for _, f := range sc.families() {
				title := sc.title(f)
				tasks = append(tasks, &task{scenario: sc, setup: s, family: f, title: title, text: above + " " + title, done: make(chan struct{})})
			}
		}
	}
	return tasks
}

// chosen leaves out the scenarios that -ginkgo.focus leaves out; otherwise all would run for one.
func chosen(tasks []*task) (out []*task) {
	suite, _ := GinkgoConfiguration()
	for _, t := range tasks {
		if len(suite.FocusStrings) == 0 || focused(t.text, suite.FocusStrings) {
			out = append(out, t)
		}
	}
	return out
}

func focused(text string, expressions []string) bool {
	for _, e := range expressions {
		if regexp.MustCompile(e).MatchString(text) {
			return true
		}
	}
	return false
}

func startEnvironments(ctx context.Context, kind flowtest.Kind, setups []setup) map[string]*flowtest.Environment {
	environments := map[string]*flowtest.Environment{}
	for _, s := range setups {
		w, err := controlPlane.Start(ctx, flowtest.Options{Kind: kind, Config: s.config, NoZone: s.noZone})
		Expect(err).NotTo(HaveOccurred())
		environments[s.name] = w
	}
	return environments
}

func startTasks(ctx context.Context, tasks []*task, environments map[string]*flowtest.Environment) *sync.WaitGroup {
	var running sync.WaitGroup
	slots := make(chan struct{}, sideBySide)
	for _, t := range tasks {
		t.env = environments[t.setup.name]
		running.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			started := time.Now()
			t.err = t.perform(ctx, t.env, t.family)
			t.took = time.Since(started)
			close(t.done)
		})
	}
	return &running
}

// verify awaits the end of a scenario and compares it with what is expected of this proxy.
func (t *task) verify(ctx context.Context, kind flowtest.Kind) {
	select {
	case <-t.done:
	case <-ctx.Done():
		Fail("it did not end in time")
	}
	note("it took %s", t.took)
	reason, differs := t.differs[kind]
	switch {
	case differs && t.err == nil:
		Fail("it passes, but should not: " + reason)
	case differs:
		note("it fails, as it should (%s): %v", reason, t.err)
	case !differs && t.err != nil:
		Fail(t.err.Error() + "\nthe proxy's last words:\n" + t.env.Proxy.LogTail(8))
	}
}
