// Package cleanup_test proves that `proxyagent cleanup` removes all that the node agent wrote and
// nothing else, and that a node goes from kube-proxy to the agent and back, or from one variant of
// iptables to the other, without a lost connection and without a trace.
//
// Each spec compares the node's firewall: both variants, both families, ipsets, native nftables.
//
// Start with cleanup_test.go.
package cleanup_test

import (
	"context"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/ruleset"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

func TestCleanup(t *testing.T) {
	environment.Prepare(t)
	RunSpecs(t, "cleanup of the node agent")
}

// fixture is an Environment with Services that need every kind of rule.
type fixture struct {
	*environment.Environment
	// web is a NodePort Service with TCP and UDP.
	web *corev1.Service
	// before is the firewall before any Service proxy started.
	before ruleset.Snapshot
}

// othersRules are those of a network plugin, an admin, the kubelet, and a program with like names.
const othersRules = `*mangle
:KUBE-IPTABLES-HINT - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
COMMIT
*nat
:CNI-HOSTPORT - [0:0]
:XCIPA-1 - [0:0]
:XKUBE-SERVICES - [0:0]
-A PREROUTING -m comment --comment "see -j CIPA-SERVICES" -j CNI-HOSTPORT
-A PREROUTING -p tcp -m tcp --dport 9 -m comment --comment "counts what goes -j KUBE-SERVICES"
-A OUTPUT -p tcp -m tcp --dport 9 -m comment --comment "counts what goes -j CIPA-SERVICES"
-A OUTPUT -p tcp -m tcp --dport 9 -m comment --comment "KUBE-SERVICES" -j XKUBE-SERVICES
-A CNI-HOSTPORT -p tcp -m tcp --dport 9 -j XCIPA-1
COMMIT
*filter
:PARTY - [0:0]
-A INPUT -p tcp -m tcp --dport 9 -m comment --comment "CIPA-INPUT" -j PARTY
-A FORWARD -p tcp -m tcp --dport 9 -m comment --comment "KUBE-FORWARD" -j DROP
COMMIT
`

// open makes one without a proxy, among rules of other programs in its own variant.
func open(ctx context.Context, mode string) *fixture {
	GinkgoHelper()
	env := &fixture{Environment: environment.Open(ctx, environment.Cluster, mode)}
	for _, family := range environment.Families {
		env.Restore(ctx, family, strings.TrimSuffix(mode, "ables"), othersRules)
	}
	env.Run(ctx, "ipset", "create", "XCIPA-1", "hash:ip")
	env.Feed(ctx, "add table inet mine\nadd chain inet mine input { type filter hook input priority 5; }\n", "nft", "-f", "-")
	env.before = env.Rules(ctx)
	env.web = env.Serve(ctx, "web", env.Servers(), environment.BothProtocols, framework.WithType(corev1.ServiceTypeNodePort))
	env.Serve(ctx, "empty", nil, framework.WithType(corev1.ServiceTypeNodePort))
	env.Serve(ctx, "sticky", env.Servers(), func(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP })
	env.Serve(ctx, "here", env.Servers()[2:], framework.WithType(corev1.ServiceTypeLoadBalancer), balanced)
	return env
}

// balanced makes a Service for clients from outside that are served here or not at all.
func balanced(s *corev1.Service) {
	s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	s.Spec.LoadBalancerSourceRanges = []string{"192.0.2.0/24", "2001:db8:2::/64"}
	for i, f := range network.Families {
		s.Spec.ExternalIPs = append(s.Spec.ExternalIPs, network.VirtualAddr(f, 30+i).String())
		s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, environment.Ingress(network.VirtualAddr(f, 20).String())...)
	}
}

// clean expects the firewall to be as it was before.
func (env *fixture) clean(ctx context.Context) {
	GinkgoHelper()
	Expect(env.before.Diff(env.Rules(ctx))).To(BeEmpty())
}

// kubes are the rules of kube-proxy.
func (env *fixture) kubes(ctx context.Context) ruleset.Snapshot { return env.Rules(ctx).Of(kubeProxy) }

// kubeProxy owns kube-proxy's chains, without those that are also the kubelet's and stay with it.
func kubeProxy(name string) bool { return ruleset.KubeProxy(name) && !kubelet(name) }

func kubelet(name string) bool {
	return name == "KUBE-FIREWALL" || name == "KUBE-IPTABLES-HINT" || name == "KUBE-KUBELET-CANARY"
}

// serves expects that rules of an owner speak of an address before long, or no more.
func (env *fixture) serves(ctx context.Context, rules func(context.Context) ruleset.Snapshot, service *corev1.Service, want bool) {
	GinkgoHelper()
	for _, address := range service.Spec.ClusterIPs {
		Eventually(func() bool { return strings.Contains(rules(ctx).String(), " "+address) }).
			WithTimeout(environment.Soon).Should(Equal(want), address)
	}
}
