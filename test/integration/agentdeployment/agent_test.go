package agentdeployment_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/manifests"
)

const (
	node = "node-1"
	// program is how the agent names itself to the API server.
	program = "clusterip-operator-proxyagent/"
)

// asDeployed starts a process like the agent's container: its user, its capabilities, and no more.
func asDeployed(m manifests.Manifests) []string {
	GinkgoHelper()
	Expect(agentOf(m).SecurityContext.Capabilities.Drop).To(ConsistOf(corev1.Capability("ALL")))
	bounds := "--bounding-set=-all"
	for _, capability := range agentOf(m).SecurityContext.Capabilities.Add {
		bounds += ",+" + strings.ToLower(string(capability))
	}
	return []string{"setpriv", bounds, "--inh-caps=-all", "--no-new-privs"}
}

// arguments are those of the container, with the paths of this machine. The last ones win.
func arguments(m manifests.Manifests, kubeconfig, mode string) []string {
	GinkgoHelper()
	file := filepath.Join(GinkgoT().TempDir(), "config.yaml")
	Expect(os.WriteFile(file, []byte(configMap(m, "clusterip-operator-proxyagent-config")["config.yaml"]), 0o600)).To(Succeed())
	var args []string
	for _, arg := range agentOf(m).Args {
		switch name, _, _ := strings.Cut(arg, "="); name {
		case "--config":
			Expect(arg).To(Equal("--config=" + agentOf(m).VolumeMounts[0].MountPath + "/config.yaml"))
			args = append(args, "--config="+file)
		case "--sysctl-root": // nothing of the machine is to be set
			args = append(args, "--sysctl-root="+GinkgoT().TempDir())
		default:
			args = append(args, arg)
		}
	}
	return append(args, "--kubeconfig="+kubeconfig, "--iptables-mode="+mode)
}

// inside writes a kubeconfig by which a namespace's programs reach the API server as the agent.
func inside(ctx context.Context, n *network.Namespace) string {
	GinkgoHelper()
	as := suite.Must(c.ConfigForServiceAccount(ctx, namespace, account))
	address := suite.Must(n.Forward(strings.TrimPrefix(as.Host, "https://")))
	as.Host = "https://" + address
	return cluster.KubeconfigOf(as)
}

// start runs a kustomization's agent until the spec or container ends, and waits until it is ready.
func start(ctx context.Context, n *network.Namespace, m manifests.Manifests, mode string) (stop func()) {
	GinkgoHelper()
	return launch(ctx, n, m, slices.Concat(asDeployed(m), []string{built()}, arguments(m, inside(ctx, n), mode)))
}

// launch is start with a command of its own.
func launch(ctx context.Context, n *network.Namespace, m manifests.Manifests, command []string) (stop func()) {
	GinkgoHelper()
	process := n.Command(context.WithoutCancel(ctx), command[0], command[1:]...) // it outlives the context of the spec
	var log bytes.Buffer
	process.Env = append(os.Environ(), "NODE_NAME="+node, "XTABLES_LOCKFILE="+n.LockFile())
	process.Stdout, process.Stderr = &log, &log
	Expect(process.Start()).To(Succeed())
	ended := make(chan error, 1)
	go func() { ended <- process.Wait() }()
	stop = sync.OnceFunc(func() {
		_ = process.Process.Signal(syscall.SIGTERM)
		Eventually(ended).WithTimeout(30 * time.Second).Should(Receive(BeNil()))
		AddReportEntry("log of the agent", log.String(), ReportEntryVisibilityFailureOrVerbose)
		Expect(strings.ToLower(log.String())).NotTo(ContainSubstring("forbidden"))
	})
	DeferCleanup(stop)
	Eventually(ask).WithArguments(n, agentOf(m).ReadinessProbe.HTTPGet).Should(Equal(http.StatusOK))
	return stop
}

// ask makes the request of a probe.
func ask(n *network.Namespace, probe *corev1.HTTPGetAction) (int, error) {
	response, err := n.HTTPClient().Get(fmt.Sprintf("http://%s:%d%s", probe.Host, probe.Port.IntValue(), probe.Path))
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

// serve makes a Service with one endpoint, pod1 of a topology, and returns where to reach it.
func serve(ctx context.Context, topology *network.Topology, name string, change func(*corev1.Service)) netip.AddrPort {
	GinkgoHelper()
	port := network.Ports[0]
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}}
	service.Spec.Ports = []corev1.ServicePort{{Port: int32(port)}}
	change(service)
	service = suite.Must(c.Client().CoreV1().Services(cluster.Namespace).Create(ctx, service, metav1.CreateOptions{}))
	family := model.IPv4
	if service.Spec.IPFamilies[0] == corev1.IPv6Protocol {
		family = model.IPv6
	}
	suite.Must(c.Client().DiscoveryV1().EndpointSlices(cluster.Namespace).Create(ctx, &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressType(service.Spec.IPFamilies[0]),
		Ports:       []discoveryv1.EndpointPort{{Name: new(""), Protocol: new(corev1.ProtocolTCP), Port: new(int32(port))}},
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{topology.Pod1.Addr(family).String()}, NodeName: new(node)}},
	}, metav1.CreateOptions{}))
	return netip.AddrPortFrom(netip.MustParseAddr(service.Spec.ClusterIP), port)
}

// built is the program, which the framework builds once.
func built() string {
	GinkgoHelper()
	return suite.Must(framework.ProxyAgentProgram())
}

var _ = Describe("The agent as it is deployed", Ordered, func() {
	var topology *network.Topology

	BeforeAll(func(ctx SpecContext) {
		if os.Geteuid() != 0 {
			Skip("network namespaces need root")
		}
		topology = suite.Must(network.New(ctx))
		DeferCleanup(topology.Close)
	})

	reached := func(to netip.AddrPort) func() string {
		return func() string { return topology.Pod2.Dial(network.Probe{To: to}).Server }
	}

	for _, mode := range []string{"nft", "legacy"} {
		It("serves with the capabilities and the permissions of its pod, iptables-"+mode, func(ctx SpecContext) {
			stop := start(ctx, topology.Node, manifests.Render(ctx, base), mode)
			to := serve(ctx, topology, "plain-"+mode, func(*corev1.Service) {})
			Eventually(reached(to)).Should(Equal("pod1"))
			stop()
			Expect(reached(to)()).To(Equal("pod1"), "the rules stay")
			Expect(cleanUp(ctx, topology.Node)).To(ContainSubstring("removed"))
			Expect(cleanUp(ctx, topology.Node)).To(Equal("nothing to remove\n"))
		})
	}

	// A load balancer claims another Service's ClusterIP twice. The second event updates the first.
	It("leaves the Services of kube-proxy alone beside it, and reports what it does not serve", func(ctx SpecContext) {
		theirs := serve(ctx, topology, "theirs", func(*corev1.Service) {})
		ours := serve(ctx, topology, "ours", labelled)
		serve(ctx, topology, "greedy", func(s *corev1.Service) {
			labelled(s)
			s.Spec.Type = corev1.ServiceTypeLoadBalancer
		})
		claim(ctx, corev1.LoadBalancerIngress{IP: ours.Addr().String()})
		start(ctx, topology.Node, manifests.Render(ctx, beside), "nft")
		Expect(reached(ours)()).To(Equal("pod1"))
		Expect(topology.Pod2.Dial(network.Probe{To: theirs, Timeout: network.DropTimeout}).Server).To(BeEmpty())

		reports := func() cluster.Events { return c.Events(ctx).OnService("greedy").For("ClusterIPOfOtherService") }
		Eventually(reports).Should(ConsistOf(HaveField("Series", BeNil())))
		claim(ctx)
		Eventually(disputes).WithArguments(topology.Node).Should(BeZero())
		claim(ctx, corev1.LoadBalancerIngress{IP: ours.Addr().String()})
		Eventually(reports).Should(ConsistOf(HaveField("Series", Not(BeNil()))))
		Expect(disputes(topology.Node)).To(BeEquivalentTo(1))
	})

	It("has used what it may do, and may do no more", func(ctx SpecContext) {
		Expect(witness.Refused(account)).To(BeEmpty())
		Expect(witness.Used(account, program)).To(Equal(manifests.Granted(manifests.Render(ctx, base), namespace, account)))
	})
})

// cleanUp runs `proxyagent cleanup` as the pods of the kustomization for it do.
func cleanUp(ctx context.Context, n *network.Namespace) string {
	GinkgoHelper()
	m := manifests.Render(ctx, uninstall)
	cleanup := podOf(m).Spec.InitContainers[0]
	Expect(cleanup.SecurityContext).To(Equal(agentOf(manifests.Render(ctx, base)).SecurityContext))
	command := slices.Concat(asDeployed(manifests.Render(ctx, base)), []string{built()}, cleanup.Args)
	process := n.Command(ctx, command[0], command[1:]...)
	process.Env = append(os.Environ(), "XTABLES_LOCKFILE="+n.LockFile())
	output, err := process.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(output))
	return string(output)
}

// claim writes the addresses of the load balancer greedy, as a cloud does.
func claim(ctx context.Context, addresses ...corev1.LoadBalancerIngress) {
	GinkgoHelper()
	services := c.Client().CoreV1().Services(cluster.Namespace)
	service := suite.Must(services.Get(ctx, "greedy", metav1.GetOptions{}))
	service.Status.LoadBalancer.Ingress = addresses
	suite.Must(services.UpdateStatus(ctx, service, metav1.UpdateOptions{}))
}

// disputes counts the claimed addresses that the agent beside kube-proxy does not serve.
func disputes(n *network.Namespace) (float64, error) {
	metrics, err := measured(n, 10349)
	value, _ := metrics.Value("clusterip_proxyagent_disputed_addresses")
	return value, err
}

// measured are the metrics that an agent serves in a network.
func measured(n *network.Namespace, port int) (framework.Metrics, error) {
	response, err := n.HTTPClient().Get(fmt.Sprintf("http://127.0.0.1:%d/metrics", port))
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	var text bytes.Buffer
	if _, err := text.ReadFrom(response.Body); err != nil {
		return nil, err
	}
	return framework.ParseMetrics(text.String())
}

// labelled hands a Service to the agent.
func labelled(s *corev1.Service) {
	s.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": "clusterip-operator"}
}
