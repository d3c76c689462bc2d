package guides_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/guide"
	"github.com/clusterip-operator/clusterip-operator/test/framework/storage"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/migrate"
)

// notHere has what guides say is not executed here, and what is done in its place, nil for nothing.
var notHere = map[string]map[string]func(context.Context, *environment){
	"docs/guides/quick-start.md": {
		"test/tour walks it in `make test`":                           nil,
		"a build takes minutes; the suite has built the same program": nil,
	},
	"docs/guides/install.md": {
		"test/integration/release runs it, with a release":                  nil,
		"needs a registry; test/e2e/nodes runs pods from the same archives": nil,
		"needs containerd; test/e2e/nodes imports the same archives":        nil,
		"test/e2e/nodes runs it, for it waits for a Job":                    nil,
		"test/integration/chart runs it, with Helm":                         nil,
	},
	"docs/guides/kube-proxy.md":            {"needs pods; test/e2e/nodes runs it": nil},
	"docs/guides/socket-load-balancing.md": {"needs nodes": nil},
	"docs/guides/renumber.md": {
		"needs a node of kubeadm":                            nil,
		"the suite starts kube-apiserver with the new range": changeDefaultRange,
		"needs nodes": nil, "needs pods": nil,
	},
	"docs/guides/troubleshooting.md": {"needs pods; test/e2e/nodes runs it": nil},
	"docs/plugin.md":                 {"it serves until it is ended; test/integration/console opens it in a browser": nil},
	"docs/guides/dual-stack.md": {"the suite restarts its kube-apiserver with this flag": func(ctx context.Context, e *environment) {
		Expect(e.Restart(ctx, framework.Options{ServiceClusterIPRange: framework.DefaultServiceClusterIPRange})).To(Succeed())
	}},
	"docs/migration.md": {
		"the paths of a kubeadm node; the suite has an etcd of its own":                  nil,
		"needs pods; test/e2e/nodes runs the Jobs":                                       nil,
		"test/integration/upgrade runs it under churn, for it goes on until the upgrade": nil,
		"the suite starts kube-apiserver 1.37 on the same data":                          startAPIServer(framework.V137),
		"the suite stops its kube-apiserver":                                             func(_ context.Context, e *environment) { Expect(e.API.Stop()).To(Succeed()) },
		"the suite starts kube-apiserver 1.32 on the same data":                          startAPIServer(framework.V132),
	},
}

// The quick start installs the operator; the other guides go on from there.
var _ = Describe("The guides", Ordered, ContinueOnFailure, func() {
	var e *environment

	follow := func(ctx context.Context, name string) {
		GinkgoHelper()
		before := e.objects(ctx)
		e.follow(ctx, name)
		Expect(e.objects(ctx)).To(ConsistOf(before), "what %s leaves", name)
	}

	BeforeAll(func(ctx SpecContext) {
		e = newEnvironment(ctx, cluster.Options{})
		follow(ctx, "docs/guides/quick-start.md")
	})

	DescribeTable("do what they say", func(ctx SpecContext, name string) { follow(ctx, name) },
		Entry("a full range", Label("long"), "docs/guides/full-range.md"),
		Entry("a team's own range", "docs/guides/team-range.md"),
		Entry("a restore", "docs/guides/restore.md"),
		Entry("taking a range out of use", "docs/guides/cordon.md"),
		Entry("replacing kube-proxy", "docs/guides/kube-proxy.md"),
		Entry("translation at connect()", "docs/guides/socket-load-balancing.md"),
		Entry("installation", "docs/guides/install.md"),
		Entry("the plugin", Label("long"), "docs/plugin.md"),
		Entry("troubleshooting", "docs/guides/troubleshooting.md"),
		Entry("security", "docs/guides/security.md"),
		Entry("how it works", "docs/guides/how-it-works.md"),
	)
})

// Guides go on from the quick start, which has installed the operator: a preview is of use before.
var _ = It("previews an installation on a cluster without the operator", Label("all"), func(ctx SpecContext) {
	e := newEnvironment(ctx, cluster.Options{})
	previews := 0
	e.shell.Name = "docs/guides/install.md"
	for _, block := range suite.Must(guide.Read(filepath.Join(cluster.Repository, e.shell.Name))) {
		if block.NotHere == "" && (strings.Contains(block.Commands, "--dry-run=server") || strings.Contains(block.Commands, "kubectl diff") || strings.Contains(block.Commands, "my-cluster/kustomization.yaml")) {
			Expect(e.shell.Run(ctx, block)).To(Succeed())
			previews++
		}
	}
	Expect(previews).To(Equal(3), "blocks")
	Expect(suite.Must(e.Client().AppsV1().Deployments("").List(ctx, metav1.ListOptions{})).Items).To(BeEmpty(), "a preview installs nothing")
})

// startAPIServer changes the version of the API server, which finds the data of the one before.
func startAPIServer(version framework.Version) func(context.Context, *environment) {
	return func(ctx context.Context, e *environment) {
		GinkgoHelper()
		Expect(e.Restart(ctx, framework.Options{Version: version})).To(Succeed())
		if version.Name == framework.V137.Name { // which does not publish an address of loopback, by which finalize finds it
			migrate.Publish(ctx, e.Cluster, storage.Open(e.Etcd), e.URL())
		}
	}
}

var _ = It("leads off the bitmap and back", Label("long"), func(ctx SpecContext) {
	e := newEnvironment(ctx, cluster.Options{Options: framework.Options{Version: framework.V132}})
	e.follow(ctx, "docs/migration.md")
})

var _ = It("leads to a second IP family", Label("long"), func(ctx SpecContext) {
	e := newEnvironment(ctx, cluster.Options{Options: framework.Options{ServiceClusterIPRange: "10.96.0.0/16"}})
	e.follow(ctx, "docs/guides/dual-stack.md")
})

const newDefaultRange = "10.200.0.0/22,fd00:10:200::/118"

// changeDefaultRange restarts the API server with the new range. It is killed first: watches would
// make its end take half a minute.
func changeDefaultRange(ctx context.Context, e *environment) {
	GinkgoHelper()
	Expect(e.API.Kill()).To(Succeed())
	Expect(e.Restart(ctx, framework.Options{ServiceClusterIPRange: newDefaultRange})).To(Succeed())
	e.StartReplicas(ctx) // as a kubelet does: one whose lease could not be renewed for ten seconds has ended
}

var _ = It("replaces the default range", Label("long"), func(ctx SpecContext) {
	e := newEnvironment(ctx, cluster.Options{Options: framework.Options{ServiceClusterIPRange: "10.96.0.0/24,fd00:10:96::/120"}, BesideUpstream: true})
	e.follow(ctx, "docs/guides/renumber.md")

	for _, s := range e.Services(ctx) {
		where := `^10\.200\.|^fd00:10:200:`
		if s.Namespace == "shop" {
			where = `^10\.98\.`
		}
		Expect(s.Spec.ClusterIPs).To(HaveEach(MatchRegexp(where)), s.Name)
		Expect(s.Spec.ExternalIPs).To(BeEmpty(), s.Name)
		Expect(s.Annotations).NotTo(HaveKey(HavePrefix("clusterip-operator.io/")), s.Name)
		if s.Namespace == "default" && s.Name == "kubernetes" {
			Expect(s.Spec.ClusterIP).To(Equal("10.200.0.1"))
		}
	}
	var addresses []string
	for _, ip := range e.IPAddresses(ctx) {
		addresses = append(addresses, ip.Name)
	}
	Expect(addresses).To(HaveEach(Not(MatchRegexp(`^10\.9[67]\.|^fd00:10:96:`))), "what leaked")
	Expect(strings.Join(e.ServiceCIDR(ctx, "kubernetes").Spec.CIDRs, ",")).To(Equal(newDefaultRange))
	Eventually(e.Remaining).WithArguments(ctx, "shop-old").Should(BeEmpty())
})

// Its first block installs the operator with the component, whose flag these replicas have.
var _ = It("remembers who had an address", Label("all"), func(ctx SpecContext) {
	e := newEnvironment(ctx, cluster.Options{OperatorArgs: []string{"--history"}})
	e.follow(ctx, "docs/guides/history.md")
})

// A reader of a guide that is not in the table above would be the first to try it.
var _ = It("has no guide that nobody follows", func() {
	files := suite.Must(filepath.Glob(filepath.Join(cluster.Repository, "docs/guides/*.md")))
	source := suite.Must(os.ReadFile("guides_test.go"))
	Expect(slices.DeleteFunc(files, func(file string) bool {
		return strings.Contains(string(source), `"docs/guides/`+filepath.Base(file)+`")`)
	})).To(BeEmpty())
})
