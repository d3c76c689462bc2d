package nodes_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// translating is the component that has connections of pods translated at connect(), and patches.
const translating = `apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [../../proxyagent]
components: [../../components/proxyagent-socketlb]
%s`

// withAll is a patch for another scope than the component's.
const withAll = `patches:
- target: {kind: DaemonSet}
  patch: |
    - {op: add, path: /spec/template/spec/containers/0/args/-, value: --socket-lb-scope=all}
`

var _ = Describe("A cluster whose agents translate connections at connect()", Ordered, func() {
	const repeats = 5
	var (
		c         testCluster
		addresses []string
	)
	// apply applies, and waits for the pods of a DaemonSet.
	apply := func(ctx context.Context, daemonSet, how, what string) {
		GinkgoHelper()
		c.kubectl(ctx, "apply", "--server-side", how, what)
		c.kubectl(ctx, "--namespace="+filepath.Dir(daemonSet), "rollout", "status", "daemonset/"+filepath.Base(daemonSet), fmt.Sprint("--timeout=", 3*time.Minute*deadlineFactor))
	}
	// deploy has the agents translate, and returns what each says of it.
	deploy := func(ctx context.Context, patches string) (overviews []string) {
		GinkgoHelper()
		folder := filepath.Join(c.config, "overlays", "socketlb")
		Expect(os.MkdirAll(folder, 0o755)).To(Succeed())
		Expect(os.WriteFile(filepath.Join(folder, "kustomization.yaml"), fmt.Appendf(nil, translating, patches), 0o600)).To(Succeed())
		apply(ctx, "kube-system/clusterip-operator-proxyagent", "-k", folder)
		for _, pod := range c.podsOf(ctx, "kube-system", "proxyagent") {
			overviews = append(overviews, c.kubectl(ctx, "--namespace=kube-system", "exec", pod, "--", "/proxyagent", "dump"))
		}
		Expect(overviews).To(HaveLen(len(c.Nodes)))
		return overviews
	}
	// ask makes connections from each pod to each address, one after the other.
	ask := func(ctx context.Context) {
		GinkgoHelper()
		for pod := range strings.FieldsSeq(c.kubectl(ctx, "get", "pods", "-l", "app=demo", "-o", "name")) {
			for _, address := range addresses {
				for range repeats {
					Expect(c.kubectl(ctx, "exec", pod, "--", "/demo", "http://"+net.JoinHostPort(address, "80"))).To(ContainSubstring(" answers "))
				}
			}
		}
	}
	// connect makes as many from a process in the cgroup of each node.
	connect := func(ctx context.Context) {
		GinkgoHelper()
		group := "/sys/fs/cgroup/unified"
		if c.unified(ctx) {
			group = "/sys/fs/cgroup/node"
		}
		for _, n := range c.Nodes {
			for _, address := range addresses {
				suite.Must(n.Run(ctx, "timeout", fmt.Sprint(5*repeats*int(deadlineFactor)), "bash", "-ec",
					fmt.Sprintf("echo 0 >%s/cgroup.procs; for _ in {1..%d}; do : </dev/tcp/%s/80; done", group, repeats, address)))
			}
		}
	}
	all := func() float64 { return float64(len(c.Nodes) * len(addresses) * repeats) }

	BeforeAll(func(ctx SpecContext) {
		c = start(ctx, cluster.Options{Images: []string{"proxyagent", "demo"}})
	}, NodeTimeout(12*time.Minute*deadlineFactor))

	It("has a Service of both families", func(ctx SpecContext) {
		deploy(ctx, "")
		file := filepath.Join(c.Dir(), "demo.yaml")
		Expect(os.WriteFile(file, fmt.Appendf(nil, everywhere, "demo", ""), 0o600)).To(Succeed())
		apply(ctx, metav1.NamespaceDefault+"/demo", "-f", file)
		addresses = c.web(ctx)
		Expect(addresses).To(HaveLen(2))
		Eventually(func() error { return InterceptGomegaFailure(func() { connect(ctx); ask(ctx) }) }, soon*deadlineFactor).Should(Succeed())
	}, SpecTimeout(12*time.Minute*deadlineFactor))

	It("counts each connection of a pod, and none of a process of the node", func(ctx SpecContext) {
		group := "/host/sys/fs/cgroup/unified/kubepods" // beside cgroup v1
		if c.unified(ctx) {
			group = "/host/sys/fs/cgroup/kubepods"
		}
		Expect(deploy(ctx, "")).To(HaveEach(ContainSubstring("\nTCP connections to ClusterIPs are translated at connect(), scope pods: attached to " + group + ".\n")))
		before := c.translated(ctx)
		ask(ctx)
		Expect(c.translated(ctx)).To(Equal(before + all()))
		connect(ctx)
		Expect(c.translated(ctx)).To(Equal(before + all()))
	}, SpecTimeout(12*time.Minute*deadlineFactor))

	It("counts those of both with the scope all", func(ctx SpecContext) {
		Expect(deploy(ctx, withAll)).To(HaveEach(ContainSubstring("\nTCP connections to ClusterIPs are translated at connect(), scope all: ")))
		before := c.translated(ctx)
		ask(ctx)
		Expect(c.translated(ctx)).To(Equal(before + all()))
		connect(ctx)
		Expect(c.translated(ctx)).To(Equal(before + 2*all()))
	}, SpecTimeout(12*time.Minute*deadlineFactor))

	It("has one capability more in its agents, which see cgroups and cannot write them", func(ctx SpecContext) {
		for _, n := range c.Nodes {
			is := inspect(ctx, n, "proxyagent")
			Expect(is.status).To(And(HaveKeyWithValue("CapEff", "0000008000003000"), HaveKeyWithValue("CapBnd", "0000008000003000"), HaveKeyWithValue("Seccomp", "2")))
			Expect(is.options).To(HaveKey("/host/sys/fs/cgroup"))
			for path, options := range is.options {
				if strings.HasPrefix(path, "/host/sys/fs/cgroup") {
					Expect(options).To(HavePrefix("ro,"), path)
				}
			}
		}
	}, SpecTimeout(3*time.Minute*deadlineFactor))
})

// unified reports whether nodes have cgroups of version 2 alone.
func (c testCluster) unified(ctx context.Context) bool {
	GinkgoHelper()
	return strings.TrimSpace(suite.Must(c.Nodes[0].Run(ctx, "stat", "--file-system", "--format=%T", "/sys/fs/cgroup"))) == "cgroup2fs"
}

// translated is how many connections to the Service web the agents that run now have translated.
func (c testCluster) translated(ctx context.Context) (sum float64) {
	GinkgoHelper()
	for _, n := range c.Nodes {
		text := suite.Must(n.Run(ctx, "curl", "--silent", "--fail", "http://127.0.0.1:10249/metrics"))
		found, _ := suite.Must(framework.ParseMetrics(text)).Value("clusterip_proxyagent_socketlb_connections_total", "service", "web")
		sum += found
	}
	return sum
}
