//go:build linux

// Package allocations_test holds the node agent to what IPAddress objects mean for it: who is served at an address that several Services
// claim, at addresses beside the ClusterIPs, at addresses that nobody has, and what --allocations=prefer, enforce and ignore change in
// that.
//
// Everything runs in both variants of iptables and over both families.
//
// Start with dispute_test.go.
package allocations_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/stage"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

func TestAllocations(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	RegisterFailHandler(Fail)
	RunSpecs(t, "allocations of the node agent")
}

var cp *framework.ControlPlane

var _ = BeforeSuite(func(ctx SpecContext) { cp = suite.ControlPlane(ctx, framework.Options{}) })

// operator is the label value of the addresses that our operator keeps for a Service beside its ClusterIPs. It is written out, so that a
// name which changes by mistake is noticed.
const operator = "clusterip-operator.io"

// world is a Stage whose agent minds IPAddresses in one way.
type world struct{ *stage.Stage }

// each runs specs in both variants, each on a world of its own that they share.
func each(what, allocations string, specs func(w func() *world)) bool {
	return eachOn(func(context.Context) *framework.ControlPlane { return cp }, what, allocations, specs)
}

// eachAlone is each for specs that take ClusterIPs their IPAddress: every three minutes from its start on an API server gives it back. So
// their worlds have control planes of their own, and end before that.
func eachAlone(what, allocations string, specs func(w func() *world)) bool {
	own := func(ctx context.Context) *framework.ControlPlane { return suite.ControlPlane(ctx, framework.Options{}) }
	return eachOn(own, what, allocations, specs)
}

func eachOn(plane func(context.Context) *framework.ControlPlane, what, allocations string, specs func(w func() *world)) bool {
	for _, mode := range stage.Modes {
		Describe(what+", "+mode, stage.LabelsOf(mode), Ordered, ContinueOnFailure, func() {
			var w *world
			BeforeAll(func(ctx SpecContext) {
				w = &world{Stage: stage.Open(ctx, plane(ctx), mode)}
				if allocations != "" {
					w.Options.Args = append(w.Options.Args, "--allocations="+allocations)
				}
				w.StartAgent(ctx)
			})
			specs(func() *world { return w })
		})
	}
	return true
}

// forget takes away the IPAddresses of a Service's ClusterIPs. The API server gives them back when the Service changes, and when it looks at
// all of them: see eachAlone.
func (w *world) forget(ctx context.Context, s *corev1.Service) {
	GinkgoHelper()
	for _, address := range s.Spec.ClusterIPs {
		w.withdraw(ctx, address)
	}
}

// give lets a Service be the one that the IPAddresses name, as one might by hand.
func (w *world) give(ctx context.Context, s *corev1.Service, options ...framework.IPAddressOption) {
	GinkgoHelper()
	for _, address := range s.Spec.ClusterIPs {
		w.address(ctx, address, s, options...)
	}
}

// address creates an IPAddress that names a Service.
func (w *world) address(ctx context.Context, address string, s *corev1.Service, options ...framework.IPAddressOption) {
	GinkgoHelper()
	ip := framework.NewIPAddress(address, s.Namespace, s.Name, options...)
	_, err := w.Cluster.Networking().IPAddresses().Create(ctx, ip, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	if ip.Labels[networkingv1.LabelManagedBy] != framework.ManagedByUpstream {
		DeferCleanup(func(ctx SpecContext) { w.withdraw(ctx, address) })
	}
}

// withdraw takes an IPAddress away, if it is there.
func (w *world) withdraw(ctx context.Context, address string) {
	GinkgoHelper()
	err := w.Cluster.Networking().IPAddresses().Delete(ctx, address, metav1.DeleteOptions{})
	Expect(err).To(Or(Not(HaveOccurred()), Satisfy(apierrors.IsNotFound)))
}

// rival creates a second Service with the ClusterIPs of another one, which becomes the one that the IPAddresses name.
func (w *world) rival(ctx context.Context, of *corev1.Service, name string, endpoints ...stage.Endpoint) *corev1.Service {
	GinkgoHelper()
	wanted := w.NewService(name, framework.WithClusterIPs(of.Spec.ClusterIPs...))
	var rival *corev1.Service
	Eventually(func() (err error) { // the API server may just have looked at the other one, and mended
		w.forget(ctx, of)
		rival, err = w.Cluster.Client().CoreV1().Services(w.Name).Create(ctx, wanted, metav1.CreateOptions{})
		return err
	}).WithTimeout(stage.Soon).Should(Succeed())
	w.Endpoints(ctx, rival, endpoints...)
	for _, address := range rival.Spec.ClusterIPs {
		ip, err := w.Cluster.Networking().IPAddresses().Get(ctx, address, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(ip.Spec.ParentRef).To(HaveValue(Equal(networkingv1.ParentReference{Resource: "services", Namespace: w.Name, Name: name})))
	}
	return rival
}

// answers expects that one pod, and no other, answers before long at the ClusterIPs of a Service.
func (w *world) answers(s *corev1.Service, pod *network.Namespace) {
	GinkgoHelper()
	for _, f := range network.Families {
		w.answersAt(stage.VIP(s, f), pod)
	}
}

func (w *world) answersAt(to netip.AddrPort, pod *network.Namespace) {
	GinkgoHelper()
	for _, from := range []*network.Namespace{w.Pod1, w.Node, w.Client} {
		Eventually(func() string { return from.Dial(network.Probe{To: to}).Server }).
			WithTimeout(stage.Soon).Should(Equal(pod.Host()), "%s from %s", to, from.Host())
		for range 5 {
			Expect(from.Dial(network.Probe{To: to}).Server).To(Equal(pod.Host()))
		}
	}
}

// end expects what becomes, before long, of connections to a port of a Service's ClusterIPs, from everywhere.
func (w *world) end(s *corev1.Service, port uint16, outcome network.Outcome) {
	GinkgoHelper()
	for _, f := range network.Families {
		w.endAt(netip.AddrPortFrom(stage.VIP(s, f).Addr(), port), outcome)
	}
}

func (w *world) endAt(to netip.AddrPort, outcome network.Outcome) {
	GinkgoHelper()
	for _, from := range []*network.Namespace{w.Pod1, w.Node, w.Client} {
		stage.Ends(from, to, outcome)
	}
}

// disputed expects how many addresses are claimed by a Service that does not get them.
func (w *world) disputed(ctx context.Context, n float64) {
	GinkgoHelper()
	Eventually(func() float64 { return w.Metric(ctx, "disputed_addresses") }).WithTimeout(stage.Soon).Should(Equal(n))
}

// told expects a warning on a Service, with a reason, before long, that names something.
func (w *world) told(ctx context.Context, s *corev1.Service, reason, something string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		events, err := w.Cluster.Client().EventsV1().Events(s.Namespace).List(ctx, metav1.ListOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		var notes []string
		for _, e := range events.Items {
			if e.Regarding.Name == s.Name && e.Reason == reason && e.Type == corev1.EventTypeWarning {
				notes = append(notes, e.Note)
			}
		}
		g.Expect(notes).To(ContainElement(ContainSubstring(something)), reason)
	}).WithTimeout(stage.Soon).Should(Succeed())
}

// free returns an address of the ServiceCIDR of a family that nobody has.
func free(f model.Family, i int) netip.Addr {
	if f == model.IPv4 {
		return netip.MustParseAddr(fmt.Sprintf("10.96.250.%d", i))
	}
	return netip.MustParseAddr(fmt.Sprintf("fd00:10:96::fa%02x", i))
}

// aSecond is the unit in which the API server tells the age of things.
func aSecond() { time.Sleep(1100 * time.Millisecond) }

// moveIn gives a pod of the remote node an address of its own, as if another proxy or a network plugin served it there.
func (w *world) moveIn(ctx context.Context, address netip.Addr) {
	GinkgoHelper()
	bits := fmt.Sprintf("/%d", address.BitLen())
	f := model.FamilyOf(address)
	for _, step := range []struct {
		in   *network.Namespace
		args []string
	}{
		{w.RemotePod, []string{"addr", "add", address.String() + bits, "dev", "lo"}},
		{w.Remote, []string{"route", "add", address.String() + bits, "via", w.RemotePod.Addr(f).String()}},
		{w.Node, []string{"route", "add", address.String() + bits, "via", w.Remote.Addr(f).String()}},
	} {
		_, err := step.in.Run(ctx, "ip", step.args...)
		Expect(err).NotTo(HaveOccurred())
	}
}
