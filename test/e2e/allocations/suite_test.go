// Package allocations_test proves how the node agent uses IPAddress objects: which Service is
// served at an address that several of them claim, at additional addresses, and at addresses of no
// Service, and what --allocations=prefer, enforce and ignore change in that.
//
// Everything runs in both variants of iptables and over both families.
//
// Start with dispute_test.go.
package allocations_test

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

func TestAllocations(t *testing.T) {
	environment.Prepare(t)
	RunSpecs(t, "allocations of the node agent")
}

// operator is the label value of addresses that our operator keeps for a Service beside its
// ClusterIPs. It is written out, so that a name which changes by mistake is noticed.
const operator = "clusterip-operator.io"

// fixture is an Environment whose agent runs with one value of --allocations, and its servers.
type fixture struct {
	*environment.Environment
	pod1, pod2, remote environment.Endpoint
}

// each runs specs in all modes, each in its own Environment.
func each(what, allocations string, specs func(env *fixture)) bool {
	return eachOn(func(context.Context) *framework.ControlPlane { return environment.Cluster }, what, allocations, specs)
}

// eachAlone is each for specs that take ClusterIPs their IPAddress, or give one to two Services. An
// API server repairs that three minutes after its start: they have their own, and end before that.
func eachAlone(what, allocations string, specs func(env *fixture)) bool {
	return eachOn(ownPlane, what, allocations, specs)
}

func ownPlane(ctx context.Context) *framework.ControlPlane {
	return suite.ControlPlane(ctx, framework.Options{FeatureGates: framework.WithoutDualWrite})
}

// translated is eachAlone with connections of the node and its pods translated at connect().
func translated(what, allocations string, specs func(env *fixture)) bool {
	return Describe(what+", "+environment.Native+", translated at connect()", Label("all"), Ordered, ContinueOnFailure, func() {
		env := new(fixture)
		BeforeAll(func(ctx SpecContext) {
			env.open(ctx, ownPlane(ctx), environment.Native)
			env.Options.SocketLB = "all"
			if env.Options.CgroupRoot == "" {
				env.Options.CgroupRoot = suite.Must(env.UseCgroups())
			}
			env.StartAgent(ctx, "--allocations="+allocations)
		})
		specs(env)
	})
}

func eachOn(plane func(context.Context) *framework.ControlPlane, what, allocations string, specs func(env *fixture)) bool {
	for _, mode := range environment.Modes {
		labels := environment.LabelsOf(environment.Modes, mode, what)
		if allocations == "ignore" { // the least of it is the agent's: it does less
			labels = append(labels, "all")
		}
		Describe(what+", "+mode, labels, Ordered, ContinueOnFailure, func() {
			env := new(fixture)
			BeforeAll(func(ctx SpecContext) {
				env.open(ctx, plane(ctx), mode)
				env.StartAgent(ctx, "--allocations="+allocations)
			})
			specs(env)
		})
	}
	return true
}

// open opens the Environment, without an agent.
func (env *fixture) open(ctx context.Context, plane *framework.ControlPlane, mode string) {
	GinkgoHelper()
	env.Environment = environment.Open(ctx, plane, mode)
	env.pod1, env.pod2, env.remote = environment.Endpoint{Of: env.Pod1}, environment.Endpoint{Of: env.Pod2}, environment.Endpoint{Of: env.RemotePod}
}

// serve creates a Service with one endpoint.
func (env *fixture) serve(ctx context.Context, name string, e environment.Endpoint, options ...framework.ServiceOption) *corev1.Service {
	GinkgoHelper()
	return env.Serve(ctx, name, []environment.Endpoint{e}, options...)
}

// forget deletes the IPAddresses of a Service's ClusterIPs. The API server gives them back when the
// Service changes, and when it looks at all of them: see eachAlone.
func (env *fixture) forget(ctx context.Context, s *corev1.Service) {
	GinkgoHelper()
	for _, address := range s.Spec.ClusterIPs {
		env.withdraw(ctx, address)
	}
}

// give lets a Service be the one that the IPAddresses name, as one might by hand.
func (env *fixture) give(ctx context.Context, s *corev1.Service, options ...framework.IPAddressOption) {
	GinkgoHelper()
	for _, address := range s.Spec.ClusterIPs {
		env.address(ctx, address, s, options...)
	}
}

// address creates an IPAddress that names a Service.
func (env *fixture) address(ctx context.Context, address string, s *corev1.Service, options ...framework.IPAddressOption) {
	GinkgoHelper()
	ip := framework.NewIPAddress(address, s.Namespace, s.Name, options...)
	suite.Must(env.Cluster.Networking().IPAddresses().Create(ctx, ip, metav1.CreateOptions{}))
	if ip.Labels[networkingv1.LabelManagedBy] != framework.ManagedByUpstream {
		DeferCleanup(func(ctx SpecContext) { env.withdraw(ctx, address) })
	}
}

// withdraw takes an IPAddress away, if it is there.
func (env *fixture) withdraw(ctx context.Context, address string) {
	GinkgoHelper()
	err := env.Cluster.Networking().IPAddresses().Delete(ctx, address, metav1.DeleteOptions{})
	Expect(err).To(Or(Not(HaveOccurred()), Satisfy(apierrors.IsNotFound)))
}

// competitor creates a second Service with the first one's ClusterIPs; the IPAddresses now name it.
func (env *fixture) competitor(ctx context.Context, of *corev1.Service, name string, e environment.Endpoint) *corev1.Service {
	GinkgoHelper()
	wanted := env.NewService(name, framework.WithClusterIPs(of.Spec.ClusterIPs...))
	var competitor *corev1.Service
	Eventually(func() (err error) { // the API server may just have looked at the other one, and mended
		env.forget(ctx, of)
		competitor, err = env.Services().Create(ctx, wanted, metav1.CreateOptions{})
		return err
	}).WithTimeout(environment.Soon).Should(Succeed())
	env.Endpoints(ctx, competitor, e)
	for _, address := range competitor.Spec.ClusterIPs {
		ip, err := env.Cluster.Networking().IPAddresses().Get(ctx, address, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(ip.Spec.ParentRef).To(HaveValue(Equal(networkingv1.ParentReference{Resource: "services", Namespace: env.Name, Name: name})))
	}
	return competitor
}

// answers expects that soon one endpoint, and no other, answers at a Service's ClusterIPs.
func (env *fixture) answers(s *corev1.Service, e environment.Endpoint) {
	GinkgoHelper()
	for _, f := range network.Families {
		env.answersAt(environment.VIP(s, f), e)
	}
}

func (env *fixture) answersAt(to netip.AddrPort, e environment.Endpoint) {
	GinkgoHelper()
	for _, from := range []*network.Namespace{env.Pod1, env.Node, env.Client} {
		environment.Answers(from, to, e)
		for range 5 {
			Expect(from.Dial(network.Probe{To: to}).Server).To(Equal(e.Of.Host()))
		}
	}
}

// end expects how connections to a port of a Service's ClusterIPs soon end, from everywhere.
func (env *fixture) end(s *corev1.Service, port uint16, outcome network.Outcome) {
	GinkgoHelper()
	for _, f := range network.Families {
		env.endAt(netip.AddrPortFrom(environment.VIP(s, f).Addr(), port), outcome)
	}
}

func (env *fixture) endAt(to netip.AddrPort, outcome network.Outcome) {
	GinkgoHelper()
	for _, from := range []*network.Namespace{env.Pod1, env.Node, env.Client} {
		environment.Ends(from, to, outcome)
	}
}

// relabel replaces the labels of a Service.
func (env *fixture) relabel(ctx context.Context, s *corev1.Service, labels map[string]string) {
	GinkgoHelper()
	now := env.Get(ctx, s.Name)
	now.Labels = labels
	suite.Must(env.Services().Update(ctx, now, metav1.UpdateOptions{}))
}

// disputed expects how many addresses are claimed by a Service that does not get them.
func (env *fixture) disputed(ctx context.Context, n float64) {
	GinkgoHelper()
	Eventually(func() float64 { return env.Metric(ctx, "disputed_addresses") }).WithTimeout(environment.Soon).Should(Equal(n))
}

// warned waits for a warning event of a Service with this reason whose message contains a text.
func (env *fixture) warned(ctx context.Context, s *corev1.Service, reason, something string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		events, err := env.Cluster.Client().EventsV1().Events(s.Namespace).List(ctx, metav1.ListOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(events.Items).To(ContainElement(And(HaveField("Regarding.Name", s.Name), HaveField("Reason", reason),
			HaveField("Type", corev1.EventTypeWarning), HaveField("Note", ContainSubstring(something)))))
	}).WithTimeout(environment.Soon).Should(Succeed())
}

// wins expects both addresses of a Service to be its own, and that another one is told why it does
// not get them.
func (env *fixture) wins(ctx context.Context, s *corev1.Service, pod environment.Endpoint, other *corev1.Service, reason string) {
	GinkgoHelper()
	env.warned(ctx, other, reason, "another Service")
	env.answers(s, pod)
	env.disputed(ctx, 2)
}

// free returns an address of the ServiceCIDR of a family that no Service has.
func free(f model.Family, i int) netip.Addr {
	if f == model.IPv4 {
		return netip.MustParseAddr(fmt.Sprintf("10.96.250.%d", i))
	}
	return netip.MustParseAddr(fmt.Sprintf("fd00:10:96::fa%02x", i))
}

// olderThanNext waits until what is created next is younger than a Service: the API server has
// creationTimestamps in seconds.
func olderThanNext(s *corev1.Service) {
	GinkgoHelper()
	Eventually(time.Now).WithTimeout(environment.Soon).Should(BeTemporally(">=", s.CreationTimestamp.Add(time.Second)))
}

// moveIn gives a pod of the remote node an address, as another proxy or a network plugin would.
func (env *fixture) moveIn(ctx context.Context, address netip.Addr) {
	GinkgoHelper()
	to, f := netip.PrefixFrom(address, address.BitLen()).String(), model.FamilyOf(address)
	for in, args := range map[*network.Namespace][]string{
		env.RemotePod: {"addr", "add", to, "dev", "lo"},
		env.Remote:    {"route", "add", to, "via", env.RemotePod.Addr(f).String()},
		env.Node:      {"route", "add", to, "via", env.Remote.Addr(f).String()},
	} {
		suite.Must(in.Run(ctx, "ip", args...))
	}
}
