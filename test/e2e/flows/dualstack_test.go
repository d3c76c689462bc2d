package flows_test

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// dual makes a Service of both families, that of the scenario first, with an endpoint.
func (t *T) dual(s spec, pod endpoint) service {
	s.change = func(o *corev1.Service) {
		o.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyRequireDualStack)
		o.Spec.IPFamilies = append(o.Spec.IPFamilies, corev1.IPFamily(otherFamily(t.F).String()))
	}
	return t.create(s, pod)
}

const noRanges = "its iptables and ipvs modes do not know ServiceCIDRs"

var dualStackScenarios = []scenario{
	{number: "137", name: "a dual-stack Service is served in both families, each with its own endpoints", run: func(t *T) {
		s := t.dual(spec{nodePort: true}, t.local)
		second := netip.MustParseAddr(s.Spec.ClusterIPs[1])
		t.expect("the first family", flow(t.Pod1, s.clusterIP(), 80), reaches(t.local))
		t.expect("the second one", flow(t.Pod1, second, 80), reaches(t.local))
		t.expect("the node port", flow(t.Client, t.Node.Addr(t.F), s.nodePort(0)), reaches(t.local))
		t.expect("the node port in the second one", flow(t.Client, t.Node.Addr(otherFamily(t.F)), s.nodePort(0)), reaches(t.local))
		t.Slice(t.ctx, t.NewSlice(s.Service, otherFamily(t.F)))
		t.expect("the second one without endpoints", flow(t.Pod1, second, 80), refused)
		t.expect("the first family stays", flow(t.Pod1, s.clusterIP(), 80), reaches(t.local))
	}},
	{number: "138", name: "a Service becomes dual-stack and single-stack again", run: func(t *T) {
		s := t.create(spec{}, t.local)
		t.Slice(t.ctx, t.NewSlice(s.Service, otherFamily(t.F), t.local))
		t.expect("single", flow(t.Pod1, s.clusterIP(), 80), reaches(t.local))
		s = s.update(func(o *corev1.Service) { o.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyRequireDualStack) })
		ip := netip.MustParseAddr(s.Spec.ClusterIPs[1])
		t.expect("dual", flow(t.Pod1, ip, 80), reaches(t.local))
		s = s.update(func(o *corev1.Service) {
			o.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicySingleStack)
			o.Spec.ClusterIPs, o.Spec.IPFamilies = o.Spec.ClusterIPs[:1], o.Spec.IPFamilies[:1]
		})
		t.expect("single again", flow(t.Pod1, ip, 80), dropped)
		t.expect("the first family stays", flow(t.Pod1, s.clusterIP(), 80), reaches(t.local))
	}},
	{number: "139", name: "external IPs, load balancer IPs and source ranges of both families", run: func(t *T) {
		pod, f2 := on(t.Pod2, 0), otherFamily(t.F)
		lb2, external2 := virtualAddr(f2), virtualAddr(f2)
		s := t.dual(spec{lb: append(t.virtual(), lb2.String()), externalIPs: append(t.virtual(), external2.String()),
			sourceRanges: []string{clientRange(t), netip.PrefixFrom(t.Pod1.Addr(f2), f2.Bits()).String()}}, pod)
		t.expect("external IP", flow(t.Client, s.externalIP(), 80), reaches(pod))
		t.expect("external IP in the second family", flow(t.Client, external2, 80), reaches(pod))
		t.expect("inside of the range", fromRange(t, flow(t.Client, s.lb(), 80)), reaches(pod))
		t.expect("outside of the range", flow(t.Client, s.lb(), 80), dropped)
		t.expect("inside in the second family", flow(t.Pod1, lb2, 80), reaches(pod))
		t.expect("outside in the second family", flow(t.Client, lb2, 80), dropped)
	}},
	{number: "140", name: "an unallocated address of a ServiceCIDR is dropped, one of a new ServiceCIDR served", run: func(t *T) {
		s := t.create(spec{}, t.local)
		t.expect("an allocated one", flow(t.Pod1, s.clusterIP(), 80), reaches(t.local))
		// The client has an address that is never allocated unasked, and would answer packets there.
		free := map[model.Family]string{model.IPv4: "10.96.0.200", model.IPv6: "fd00:10:96::c8"}[t.F]
		t.expect("an unallocated one", t.answerOutside(netip.MustParseAddr(free)), dropped,
			kubeProxyIPTables(itself, noRanges), kubeProxyIPVS(itself, noRanges))

		next := map[model.Family]string{model.IPv4: "10.97.0.0/24", model.IPv6: "fd00:10:97::/112"}[t.F]
		in := netip.MustParsePrefix(next).Addr().Next().Next().Next()
		unallocated := t.answerOutside(in.Next().Next())
		t.expect("an address of a range that is no ServiceCIDR", unallocated, itself)
		ranges := t.Cluster.Networking().ServiceCIDRs()
		_, err := ranges.Create(t.ctx, framework.NewServiceCIDR(t.slug+"-"+t.Name, next), metav1.CreateOptions{})
		t.must(err)
		object := spec{name: t.slug + "-new", change: func(o *corev1.Service) { o.Spec.ClusterIP = in.String() }}.object(t.Name, t.F)
		t.eventually("a Service in the new range", func() error { // which the API server has to learn of first
			_, err := t.Services().Create(t.ctx, object, metav1.CreateOptions{})
			return err
		})
		t.Endpoints(t.ctx, object, t.local)
		t.expect("a Service in the new range", flow(t.Pod1, in, 80), reaches(t.local))
		t.settle()
		unaware := noRanges + ", its nftables mode writes them only in a full sync, for which a new one is no reason"
		t.expect("an unallocated address of the new range", unallocated, dropped, kubeProxy(itself, unaware), kubeProxyIPVS(itself, noRanges))
		t.Delete(t.ctx, object.Name) // after the ServiceCIDR its address would not be released
		t.must(ranges.Delete(t.ctx, t.slug+"-"+t.Name, metav1.DeleteOptions{}))
		t.expect("when the ServiceCIDR is gone", unallocated, itself)
	}},
	// As NodeLocal DNS has it, on an interface of its own.
	{number: "140b", kinds: everyOurs, name: "an unallocated address of a ServiceCIDR that the node itself has is left alone", run: func(t *T) {
		own := map[model.Family]string{model.IPv4: "10.96.0.201", model.IPv6: "fd00:10:96::c9"}[t.F]
		at := netip.MustParseAddr(own)
		for _, from := range []*network.Namespace{t.Pod1, t.Client, t.Node} {
			t.expect("before, from "+from.Host(), flow(from, at, 8080), dropped)
		}
		_, err := t.Node.Run(t.ctx, "ip", "addr", "add", netip.PrefixFrom(at, t.F.Bits()).String(), "dev", "lo")
		t.must(err)
		for _, from := range []*network.Namespace{t.Pod1, t.Client, t.Node} {
			t.expect("from "+from.Host(), flow(from, at, 8080), itself)
		}
		t.expect("a port at which nothing listens", flow(t.Pod1, at, 81), refused)
	}},
}

// answerOutside gives the client an address, and returns the flow there from a pod.
func (t *T) answerOutside(a netip.Addr) Flow {
	_, err := t.Client.Run(t.ctx, "ip", "addr", "replace", netip.PrefixFrom(a, t.F.Bits()).String(), "dev", "lo")
	t.must(err)
	_, _ = t.Client.Serve(model.TCP, outsidePort(t.F, a)) // it ends with the network
	return flow(t.Pod1, a, outsidePort(t.F, a))
}

// outsidePort is another one for each address, so that servers do not collide.
func outsidePort(f model.Family, a netip.Addr) uint16 {
	b := a.AsSlice()
	return 2000 + uint16(f)*1000 + uint16(b[len(b)-1])
}
