package agentdeployment_test

import (
	"context"
	"net/netip"
	"os"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/manifests"
)

// socketLB is the component that has connections of pods translated at connect().
const socketLB = "proxyagent-socketlb"

var _ = Describe("The component for connections that are translated at connect()", Ordered, func() {
	DescribeTable("adds to the pod what the scope pods takes, and nothing else", func(ctx SpecContext, path string) {
		pod := podOf(manifests.Render(ctx, with(socketLB, path)))
		agent := &pod.Spec.Containers[0]
		add := &agent.SecurityContext.Capabilities.Add
		Expect(taken(add)).To(Equal(corev1.Capability("BPF")))
		Expect(taken(&agent.Args)).To(Equal("--cgroup-root=/host/sys/fs/cgroup"))
		Expect(taken(&agent.Args)).To(Equal("--socket-lb-scope=pods"))
		Expect(taken(&agent.VolumeMounts)).To(Equal(corev1.VolumeMount{
			Name: "cgroup", MountPath: "/host/sys/fs/cgroup", ReadOnly: true, RecursiveReadOnly: new(corev1.RecursiveReadOnlyIfPossible),
		}))
		Expect(taken(&pod.Spec.Volumes)).To(Equal(corev1.Volume{Name: "cgroup", VolumeSource: corev1.VolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: "/sys/fs/cgroup", Type: new(corev1.HostPathDirectory)},
		}}))
		Expect(pod).To(Equal(podOf(manifests.Render(ctx, path))))
		Expect(manifests.Admit(ctx, c.Client(), namespace, podOf(manifests.Render(ctx, with(socketLB, path))))).To(Succeed())
	},
		Entry("alone", base),
		Entry("beside kube-proxy", beside),
		Entry("in the place of kube-proxy", replace),
	)

	Describe("with packets", Ordered, func() {
		var (
			topology *network.Topology
			root     string // the node's cgroups
			to       map[string]netip.AddrPort
			m        manifests.Manifests
		)
		BeforeAll(func(ctx SpecContext) {
			if os.Geteuid() != 0 {
				Skip("network namespaces need root")
			}
			topology = suite.Must(network.New(ctx))
			DeferCleanup(topology.Close)
			root = suite.Must(topology.UseCgroups())
			m = manifests.Render(ctx, with(socketLB, base))
			to = map[string]netip.AddrPort{}
			for _, family := range []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol} {
				name := "translated-" + strings.ToLower(string(family))
				to[name] = serve(ctx, topology, name, func(s *corev1.Service) { s.Spec.IPFamilies = []corev1.IPFamily{family} })
			}
		})

		// begin starts the component's agent, in a container with the capabilities of other manifests.
		begin := func(ctx context.Context, capabilities manifests.Manifests) (stop func()) {
			GinkgoHelper()
			return launch(ctx, topology.Node, m, slices.Concat(cannotWrite(root), asDeployed(capabilities),
				[]string{built()}, arguments(m, inside(ctx, topology.Node), "nft"), []string{"--cgroup-root=" + root}))
		}
		// connect makes a connection to each Service, and returns how many the agent has translated.
		connect := func(from *network.Namespace) (n float64) {
			GinkgoHelper()
			for _, address := range to {
				Eventually(func() string { return from.Dial(network.Probe{To: address}).Server }).Should(Equal("pod1"))
			}
			metrics, err := measured(topology.Node, 10249)
			Expect(err).NotTo(HaveOccurred())
			for name := range to {
				found, _ := metrics.Value("clusterip_proxyagent_socketlb_connections_total", "service", name)
				n += found
			}
			return n
		}
		state := func(reason string) func() float64 {
			return func() float64 {
				metrics, _ := measured(topology.Node, 10249)
				value, _ := metrics.Value("clusterip_proxyagent_socketlb_state", "scope", "pods", "reason", reason)
				return value
			}
		}

		It("is enough for the agent to translate those of pods, and no others", func(ctx SpecContext) {
			begin(ctx, m)
			Eventually(state("Attached")).Should(BeEquivalentTo(1))
			Eventually(connect).WithArguments(topology.Pod2).Should(BeNumerically(">", 0), "the rules are there before the maps")
			before := connect(topology.Pod2)
			Expect(connect(topology.Pod2)).To(BeEquivalentTo(before + 2))
			Expect(connect(topology.Node)).To(BeEquivalentTo(before+2), "of a process of the node")
		})

		It("takes the capability: without it the agent starts, says so, and serves by rules", func(ctx SpecContext) {
			begin(ctx, manifests.Render(ctx, base))
			Expect(state("NotPermitted")()).To(BeEquivalentTo(1))
			Expect(connect(topology.Pod2)).To(BeZero())
		})
	})
})

// taken takes the last one of a list away.
func taken[T any](list *[]T) T {
	GinkgoHelper()
	Expect(*list).NotTo(BeEmpty())
	last := (*list)[len(*list)-1]
	*list = (*list)[:len(*list)-1]
	return last
}

// cannotWrite starts a program that has a folder mounted read-only.
func cannotWrite(folder string) []string {
	return []string{"unshare", "--mount", "bash", "-c", `mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && ! mkdir "$0/new" 2>/dev/null && exec "$@"`, folder}
}
