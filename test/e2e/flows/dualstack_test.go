//go:build linux

package flows_test

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/flowtest"
)

// dual makes a Service of both families, whose primary one is that of the scenario, with an endpoint of each.
func (t *T) dual(s flowtest.Service) (made service, mine, other flowtest.Endpoint) {
	policy, s2 := corev1.IPFamilyPolicyRequireDualStack, otherFamily(t.F)
	s.Change = func(o *corev1.Service) {
		o.Spec.IPFamilyPolicy = &policy
		o.Spec.IPFamilies = append(o.Spec.IPFamilies, corev1.IPFamily(s2.String()))
	}
	mine, other = t.on(t.Pod2, 0), flowtest.Endpoint{Addr: t.Pod2.Addr(s2), Node: t.NodeName}
	s.Endpoints = []flowtest.Endpoint{mine}
	made = t.create(s)
	second := made.Service
	second.Family = s2
	t.must(t.CreateSlice(t.ctx, second, made.Name+"-2", other))
	return made, mine, other
}

var dualStackScenarios = []scenario{
	{number: "137", name: "a dual-stack Service is served in both families, each with its own endpoints", run: func(t *T) {
		s, mine, other := t.dual(flowtest.Service{NodePort: true})
		second := netip.MustParseAddr(s.object.Spec.ClusterIPs[1])
		t.expect("the first family", flow(t.Pod1, s.clusterIP(), 80), reaches(mine))
		t.expect("the second one", flow(t.Pod1, second, 80), reaches(other))
		t.expect("the node port", flow(t.Client, t.Node.Addr(t.F), s.nodePort(0)), reaches(mine))
		t.expect("the node port in the second one", flow(t.Client, t.Node.Addr(otherFamily(t.F)), s.nodePort(0)), reaches(other))
		t.must(t.DeleteSlice(t.ctx, s.Name+"-2"))
		t.expect("the second one without endpoints", flow(t.Pod1, second, 80), flowtest.Refused())
		t.expect("the first family stays", flow(t.Pod1, s.clusterIP(), 80), reaches(mine))
	}},
	{number: "138", name: "a Service becomes dual-stack and single-stack again", run: func(t *T) {
		other := flowtest.Endpoint{Addr: t.Pod2.Addr(otherFamily(t.F)), Node: t.NodeName}
		s := t.create(flowtest.Service{Endpoints: []flowtest.Endpoint{t.on(t.Pod2, 0)}})
		second := s.Service
		second.Family = otherFamily(t.F)
		t.must(t.CreateSlice(t.ctx, second, s.Name+"-2", other))
		t.expect("single", flow(t.Pod1, s.clusterIP(), 80), reaches(t.on(t.Pod2, 0)))
		s = s.update(func(o *corev1.Service) { o.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyRequireDualStack) })
		ip := netip.MustParseAddr(s.object.Spec.ClusterIPs[1])
		t.expect("dual", flow(t.Pod1, ip, 80), reaches(other))
		s = s.update(func(o *corev1.Service) {
			o.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicySingleStack)
			o.Spec.ClusterIPs, o.Spec.IPFamilies = o.Spec.ClusterIPs[:1], o.Spec.IPFamilies[:1]
		})
		t.expect("single again", flow(t.Pod1, ip, 80), flowtest.Dropped())
		t.expect("the first family stays", flow(t.Pod1, s.clusterIP(), 80), reaches(t.on(t.Pod2, 0)))
	}},
	{number: "139", name: "external IPs, load balancer IPs and source ranges of both families", run: func(t *T) {
		f2 := otherFamily(t.F)
		lb2, external2 := t.Cluster.VirtualAddr(f2), t.Cluster.VirtualAddr(f2)
		s, mine, other := t.dual(flowtest.Service{
			LoadBalancerIPs: append(t.virtual(), lb2.String()), ExternalIPs: append(t.virtual(), external2.String()),
			SourceRanges: []string{clientRange(t), netip.PrefixFrom(t.Pod1.Addr(f2), f2.Bits()).String()}})
		t.expect("external IP", flow(t.Client, s.externalIP(), 80), reaches(mine))
		t.expect("external IP in the second family", flow(t.Client, external2, 80), reaches(other))
		t.expect("inside of the range", fromRange(t, flow(t.Client, s.lb(), 80)), reaches(mine))
		t.expect("outside of the range", flow(t.Client, s.lb(), 80), flowtest.Dropped())
		t.expect("inside in the second family", flow(t.Pod1, lb2, 80), reaches(other))
		t.expect("outside in the second family", flow(t.Client, lb2, 80), flowtest.Dropped())
	}},
	{number: "140", name: "an unallocated address of a ServiceCIDR is dropped, one of a new ServiceCIDR served", run: func(t *T) {
		pod := t.on(t.Pod2, 0)
		s := t.create(flowtest.Service{Endpoints: []flowtest.Endpoint{pod}})
		t.expect("an allocated one", flow(t.Pod1, s.clusterIP(), 80), reaches(pod))
		// The client has an address of the band from which nothing is allocated unasked, and would answer, if packets came there.
		free := map[model.Family]string{model.IPv4: "10.96.0.200", model.IPv6: "fd00:10:96::c8"}[t.F]
		strange := t.answerOutside(netip.MustParseAddr(free))
		t.expect("an unallocated one", strange, flowtest.Dropped(),
			kubeProxyIPTables(flowtest.Reaches(strange.To), "its iptables mode does not know ServiceCIDRs"))

		next := map[model.Family]string{model.IPv4: "10.97.0.0/24", model.IPv6: "fd00:10:97::/112"}[t.F]
		t.must(t.addServiceCIDR(next))
		defer t.removeServiceCIDR()
		in := netip.MustParsePrefix(next).Addr().Next().Next().Next()
		t.eventually("a Service in the new range", func() error {
			if err := t.Delete(t.ctx, t.slug+"-new"); err != nil && !apierrors.IsNotFound(err) {
				return err
			}
			_, err := t.Create(t.ctx, flowtest.Service{Name: t.slug + "-new", Family: t.F,
				Change: func(o *corev1.Service) { o.Spec.ClusterIP = in.String() }})
			return err
		})
		t.must(t.CreateSlice(t.ctx, flowtest.Service{Name: t.slug + "-new", Family: t.F}, t.slug+"-new-1", pod))
		t.expect("a Service in the new range", flow(t.Pod1, in, 80), reaches(pod))
		strange = t.answerOutside(in.Next().Next())
		t.expect("an unallocated address of the new range", strange, flowtest.Dropped(), kubeProxy(flowtest.Reaches(strange.To),
			"its iptables mode does not know ServiceCIDRs, its nftables mode writes them only in a full sync, for which a new one is no reason"))
		foreign := t.answerOutside(t.Cluster.VirtualAddr(t.F))
		t.expect("an address that is of no ServiceCIDR", foreign, flowtest.Reaches(foreign.To))
	}},
}

// answerOutside gives the client an address, and returns the flow there from a pod.
func (t *T) answerOutside(a netip.Addr) flowtest.Flow {
	_, err := t.Client.Run(t.ctx, "ip", "addr", "replace", netip.PrefixFrom(a, t.F.Bits()).String(), "dev", "lo")
	t.must(err)
	server, err := t.Client.Serve(model.TCP, outsidePort(t.F, a))
	if err == nil {
		_ = server // it ends with the network
	}
	return flow(t.Pod1, a, outsidePort(t.F, a))
}

// outsidePort is another one for each address, so that servers do not collide.
func outsidePort(f model.Family, a netip.Addr) uint16 {
	b := a.AsSlice()
	return 2000 + uint16(f)*1000 + uint16(b[len(b)-1])
}

func (t *T) addServiceCIDR(cidr string) error {
	object := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: t.serviceCIDR()},
		Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{cidr}}}
	created, err := t.Cluster.Client().NetworkingV1().ServiceCIDRs().Create(t.ctx, object, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating a ServiceCIDR: %w", err)
	}
	created.Status.Conditions = []metav1.Condition{{Type: networkingv1.ServiceCIDRConditionReady, Status: metav1.ConditionTrue,
		Reason: "Test", LastTransitionTime: metav1.Now()}}
	_, err = t.Cluster.Client().NetworkingV1().ServiceCIDRs().UpdateStatus(t.ctx, created, metav1.UpdateOptions{})
	return err
}

// removeServiceCIDR also deletes the Service in it: later, its address would not be released.
func (t *T) removeServiceCIDR() {
	t.must(t.Delete(context.WithoutCancel(t.ctx), t.slug+"-new"))
	t.must(t.Cluster.Client().NetworkingV1().ServiceCIDRs().Delete(context.WithoutCancel(t.ctx), t.serviceCIDR(), metav1.DeleteOptions{}))
}

func (t *T) serviceCIDR() string { return t.slug + "-" + t.Namespace }
