// Package renumber_test moves 200 used Services by `kubectl clusterip renumber` and counts losses:
// none where the agent serves old addresses, in iptables and nftables mode, also if the agent or
// API server is killed meanwhile. With kube-proxy and external IPs it reports them; with second
// Services there are none with either.
//
// Start with agent_test.go; population_test.go has the Services, traffic_test.go who uses them.
package renumber_test

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	networkingv1client "k8s.io/client-go/kubernetes/typed/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

func TestRenumber(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(environment.Soon)
	RunSpecs(t, "renumbering with real packets", Label("all"))
}

var cluster *framework.ControlPlane

// The old ranges, which are those of the API server, and the new ones.
var (
	from = []string{"10.96.0.0/24", "fd00:10:96::/120"}
	to   = []string{"10.200.0.0/22", "fd00:10:200::/118"}
)

var _ = BeforeSuite(func(ctx SpecContext) {
	cluster = suite.ControlPlane(ctx, framework.Options{ServiceClusterIPRange: strings.Join(from, ",")})
	suite.ControllerManager(ctx, cluster, framework.ServiceCIDRController, endpointSliceController) // the first calls ServiceCIDRs ready
})

// fixture is an Environment with Services, and the plan by which they are moved.
type fixture struct {
	*environment.Environment
	plan string
	// before are the Services as they were created.
	before []*corev1.Service
}

// open makes an Environment with Services in the old ranges, and then the new ones.
func open(ctx context.Context, mode string) *fixture {
	GinkgoHelper()
	DeferCleanup(withdraw) // comes last, when the Services are gone
	env := &fixture{Environment: environment.Open(ctx, cluster, mode)}
	Expect(env.Node.Sysctl(shortFlows)).To(Succeed())
	env.populate(ctx)
	offerNew(ctx)
	return env
}

// offerNew creates the new ranges.
func offerNew(ctx context.Context) {
	GinkgoHelper()
	suite.Must(cidrs().Create(ctx, framework.NewServiceCIDR("new", to...), metav1.CreateOptions{}))
	Eventually(func() []metav1.Condition {
		o := suite.Must(cidrs().Get(ctx, "new", metav1.GetOptions{}))
		return o.Status.Conditions
	}).Should(ContainElement(And(HaveField("Type", networkingv1.ServiceCIDRConditionReady), HaveField("Status", metav1.ConditionTrue))))
}

// shortFlows makes the kernel forget ended UDP flows and failed connections soon: else they count.
// One of UDP outlasts a machine that stalls for seconds: its next datagram may go to another pod.
var shortFlows = map[string]string{
	"net/netfilter/nf_conntrack_udp_timeout": "15", "net/netfilter/nf_conntrack_udp_timeout_stream": "15", "net/netfilter/nf_conntrack_tcp_timeout_syn_sent": "2",
}

func cidrs() networkingv1client.ServiceCIDRInterface { return cluster.Networking().ServiceCIDRs() }

// withdraw removes the new ranges by force: the grace of a deletion is ten seconds.
func withdraw(ctx SpecContext) {
	Expect(cidrs().Delete(ctx, "new", metav1.DeleteOptions{})).To(Succeed())
	_, err := cidrs().Patch(ctx, "new", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	Expect(client.IgnoreNotFound(err)).NotTo(HaveOccurred())
}

// renumber runs the command to its end.
func (env *fixture) renumber(ctx context.Context, args ...string) framework.PluginResult {
	GinkgoHelper()
	return suite.Must(cluster.RunPlugin(ctx, framework.PluginOptions{Args: append([]string{"renumber"}, args...)}))
}

// makePlan has all Services moved to the new range.
func (env *fixture) makePlan(ctx context.Context, keep string) {
	GinkgoHelper()
	env.plan = filepath.Join(GinkgoT().TempDir(), "plan.yaml")
	suite.Exits(0, env.renumber(ctx, "plan", "-n", env.Name, "--range=kubernetes", "--to=new", "--include-load-balancers", "--keep="+keep, "-o", env.plan))
}

// start starts `run` or `rollback`, slowly enough to interfere, and keeps old addresses at the end.
func (env *fixture) start(ctx context.Context, verb string) *framework.Plugin {
	GinkgoHelper()
	By(verb)
	command := suite.Must(cluster.StartPlugin(ctx, framework.PluginOptions{Args: []string{"renumber", verb, "--from", env.plan, "--wait=false", "--qps=50", "--workers=8"}}))
	DeferCleanup(func() error { return command.Kill() })
	return command
}

// complete waits until a started command has moved all Services, and kept their old addresses.
func (env *fixture) complete(ctx context.Context, command *framework.Plugin) {
	GinkgoHelper()
	code, err := command.Wait(ctx)
	By("it has ended")
	Expect(err).NotTo(HaveOccurred())
	Expect(code).To(Equal(1), command.LogTail(20)) // 1 says that addresses are kept
	Expect(command.LogTail(20)).To(ContainSubstring("200 of 200 Services have the addresses of the plan, 0 were left as they are"))
}

// drain starts a command again that gives up old addresses as soon as no client uses them.
func (env *fixture) drain(ctx context.Context, verb string, args ...string) *framework.Plugin {
	GinkgoHelper()
	command := suite.Must(cluster.StartPlugin(ctx, framework.PluginOptions{Args: append([]string{"renumber", verb, "--from", env.plan, "--dns-ttl=0s", "--quiet=1ms", "--qps=0"}, args...)}))
	DeferCleanup(func() error { return command.Kill() })
	return command
}

// drained waits until old addresses were given up, and those of the sample are not served any more.
func (env *fixture) drained(ctx context.Context, command *framework.Plugin, old []string) {
	GinkgoHelper()
	Expect(command.Wait(ctx)).To(BeZero(), command.LogTail(20))
	Expect(env.held(ctx)).To(BeEmpty())
	Eventually(func() int { return env.served(old) }).Should(BeZero())
}

// halfway waits until a command has moved that many Services to a range.
func (env *fixture) halfway(ctx context.Context, command *framework.Plugin, prefixes ...string) {
	GinkgoHelper()
	Eventually(func() int {
		if !command.Running() {
			StopTrying("it has ended:\n" + command.LogTail(20)).Now()
		}
		return env.countIn(ctx, prefixes...)
	}).WithPolling(50 * time.Millisecond).Should(BeNumerically(">=", services/2))
}

// countIn counts the Services with an address in a range.
func (env *fixture) countIn(ctx context.Context, prefixes ...string) (n int) {
	GinkgoHelper()
	all := suite.Must(env.Services().List(ctx, metav1.ListOptions{}))
	for _, s := range all.Items {
		for _, p := range prefixes {
			if len(s.Spec.ClusterIPs) > 0 && netip.MustParsePrefix(p).Contains(netip.MustParseAddr(s.Spec.ClusterIPs[0])) {
				n++
			}
		}
	}
	return n
}

// held are the addresses that are kept for Services.
func (env *fixture) held(ctx context.Context) (all []string) {
	GinkgoHelper()
	list := suite.Must(cluster.Networking().IPAddresses().List(ctx, metav1.ListOptions{}))
	for _, ip := range list.Items {
		if len(ip.Finalizers) > 0 && ip.Spec.ParentRef.Namespace == env.Name {
			Expect(ip.Finalizers).To(ConsistOf(v1alpha1.FinalizerFormer))
			all = append(all, ip.Name)
		}
	}
	return all
}
