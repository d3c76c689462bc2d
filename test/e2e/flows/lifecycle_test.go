package flows_test

import (
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

var lifecycleScenarios = []scenario{
	{number: "124", name: "ports are added, changed and removed", run: func(t *T) {
		s := t.create(spec{ports: []port{{name: "a", port: 80}}}, t.local)
		t.expect("one port", flow(t.Pod1, s.clusterIP(), 80), reaches(t.local))
		s = s.update(func(o *corev1.Service) {
			o.Spec.Ports = append(o.Spec.Ports, corev1.ServicePort{Name: "b", Port: 81, TargetPort: intstr.FromInt32(8081)})
		})
		s.setEndpoints(t.local)
		t.expect("a second one", flow(t.Pod1, s.clusterIP(), 81), reachesAt(at(t.local, 8081)))
		s = s.update(func(o *corev1.Service) { o.Spec.Ports[1].Port = 82 })
		t.expect("its new number", flow(t.Pod1, s.clusterIP(), 82), reachesAt(at(t.local, 8081)))
		t.expect("not its old number", flow(t.Pod1, s.clusterIP(), 81), refused, kubeProxyIPTables(dropped, noRejects))
		s = s.update(func(o *corev1.Service) { o.Spec.Ports = o.Spec.Ports[:1] })
		t.expect("removed", flow(t.Pod1, s.clusterIP(), 82), refused, kubeProxyIPTables(dropped, noRejects))
		t.expect("the first one", flow(t.Pod1, s.clusterIP(), 80), reaches(t.local))
	}},
	{number: "125", name: "a Service is deleted and made again with another address, and with the same", run: func(t *T) {
		// An address that is never allocated unasked, and not of the ServiceCIDR of another scenario.
		old := netip.MustParseAddr(map[model.Family]string{model.IPv4: "10.96.0.125", model.IPv6: "fd00:10:96::7d"}[t.F])
		atOld := func(o *corev1.Service) { o.Spec.ClusterIP = old.String() }
		s := t.create(spec{change: atOld}, t.local)
		t.expect("at first", flow(t.Pod1, old, 80), reaches(t.local))
		t.Delete(t.ctx, s.Name)
		t.expect("deleted", flow(t.Pod1, old, 80), dropped)
		t.create(spec{name: t.slug + "-holder", change: atOld})
		again := t.create(spec{name: s.Name}, t.local)
		t.expect("with another address", flow(t.Pod1, again.clusterIP(), 80), reaches(t.local))
		t.expect("the old address is of a Service without endpoints", flow(t.Pod1, old, 80), refused)
		t.Delete(t.ctx, t.slug+"-holder")
		t.Delete(t.ctx, s.Name)
		t.create(spec{name: s.Name, change: atOld}, t.local)
		t.expect("with the first address", flow(t.Pod1, old, 80), reaches(t.local))
	}},
	{number: "125b", name: "EndpointSlices are there before their Service", run: func(t *T) {
		late := spec{name: t.slug + "-late"}
		t.Endpoints(t.ctx, late.object(t.Name, t.F), t.local)
		t.expect("the Service", flow(t.Pod1, t.create(late).clusterIP(), 80), reaches(t.local))
	}},
	{number: "126", name: "a Service changes its type", run: func(t *T) {
		s := t.create(spec{}, t.local)
		first := s.clusterIP()
		t.expect("ClusterIP", flow(t.Pod1, first, 80), reaches(t.local))
		s = s.update(func(o *corev1.Service) { o.Spec.Type = corev1.ServiceTypeNodePort })
		port := s.nodePort(0)
		t.expect("NodePort", flow(t.Client, t.Node.Addr(t.F), port), reaches(t.local))
		s = s.update(func(o *corev1.Service) { o.Spec.Type, o.Spec.Ports[0].NodePort = corev1.ServiceTypeClusterIP, 0 })
		t.expect("ClusterIP again", flow(t.Client, t.Node.Addr(t.F), port), refused)
		t.expect("the ClusterIP stays", flow(t.Pod1, first, 80), reaches(t.local))
		s = s.update(func(o *corev1.Service) {
			o.Spec.Type, o.Spec.ExternalName = corev1.ServiceTypeExternalName, "example.org"
			o.Spec.ClusterIP, o.Spec.ClusterIPs, o.Spec.IPFamilies, o.Spec.IPFamilyPolicy = "", nil, nil, nil
		})
		t.expect("ExternalName", flow(t.Pod1, first, 80), dropped)
		s = s.update(func(o *corev1.Service) {
			o.Spec.Type, o.Spec.ExternalName = corev1.ServiceTypeClusterIP, ""
			o.Spec.IPFamilies = []corev1.IPFamily{corev1.IPFamily(t.F.String())}
		})
		t.expect("ClusterIP at last", flow(t.Pod1, s.clusterIP(), 80), reaches(t.local))
	}},
	{number: "127", name: "a Service is given to another proxy, and comes back", run: func(t *T) {
		s := t.create(spec{nodePort: true}, t.local)
		t.expect("ours", flow(t.Pod1, s.clusterIP(), 80), reaches(t.local))
		s.update(func(o *corev1.Service) {
			o.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": "other"}
		})
		t.expect("of another", flow(t.Client, t.Node.Addr(t.F), s.nodePort(0)), refused)
		t.expect("of another", flow(t.Pod1, s.clusterIP(), 80), dropped)
		s.update(func(o *corev1.Service) { o.Labels = nil })
		t.expect("ours again", flow(t.Pod1, s.clusterIP(), 80), reaches(t.local))
		other := t.create(spec{labels: map[string]string{"service.kubernetes.io/service-proxy-name": "other"}}, t.local)
		t.expect("of another from the beginning", flow(t.Pod1, other.clusterIP(), 80), dropped)
	}},
	{number: "128", name: "EndpointSlices of headless Services are not looked at", run: func(t *T) {
		a, b := on(t.Pod2, 1), on(t.Pod2, 2)
		s := t.create(spec{}, a)
		slice := s.slice("2", b)
		slice.Labels[corev1.IsHeadlessService] = ""
		t.Slice(t.ctx, slice)
		t.expect("one labelled headless", flow(t.Pod1, s.clusterIP(), 80), reaches(a))
		delete(slice.Labels, corev1.IsHeadlessService)
		t.Slice(t.ctx, slice)
		t.expect("without the label", flow(t.Pod1, s.clusterIP(), 80), reaches(a, b))
		slice.Labels[corev1.IsHeadlessService] = ""
		t.Slice(t.ctx, slice)
		t.expect("with it again", flow(t.Pod1, s.clusterIP(), 80), reaches(a))
	}},
	{number: "129", name: "one node port number with two protocols", run: func(t *T) {
		pod := on(t.Pod2, 1)
		s := t.create(spec{nodePort: true, ports: []port{{name: "t"}, {name: "u", protocol: model.UDP, target: 8081}}}, pod)
		s = s.update(func(o *corev1.Service) { o.Spec.Ports[1].NodePort = o.Spec.Ports[0].NodePort })
		tcp := flow(t.Client, t.Node.Addr(t.F), s.nodePort(0))
		udp := over(model.UDP, tcp)
		t.expect("TCP", tcp, reaches(pod))
		t.expect("UDP", udp, reachesAt(at(pod, 8081)))
		s.update(func(o *corev1.Service) { o.Spec.Ports = o.Spec.Ports[:1] })
		t.expect("UDP is removed", udp, refused)
		t.expect("TCP stays", tcp, reaches(pod))
	}},
	{number: "130", name: "a node port that is given back is the node's own again", run: func(t *T) {
		s := t.create(spec{nodePort: true}, t.local)
		port := s.nodePort(0)
		defer t.nodeServes(model.TCP, port)()
		t.expect("the Service", flow(t.Client, t.Node.Addr(t.F), port), reaches(t.local))
		t.Delete(t.ctx, s.Name)
		t.expect("the program", flow(t.Client, t.Node.Addr(t.F), port), itself)
	}},
}

var sliceScenarios = []scenario{
	{number: "141", name: "a Service has several EndpointSlices, which come and go", run: func(t *T) {
		a, b, c := on(t.Pod2, 1), on(t.Pod2, 2), on(t.RemotePod, 1)
		s := t.create(spec{}, a)
		s.addSlice("2", b)
		s.addSlice("3", c)
		t.expect("three", flow(t.Pod1, s.clusterIP(), 80), reaches(a, b, c))
		s.deleteSlice(strings.ToLower(t.F.String()))
		t.expect("two", flow(t.Pod1, s.clusterIP(), 80), reaches(b, c))
	}},
	{number: "141b", name: "conditions that are not set mean ready, and only the first address of an endpoint counts", run: func(t *T) {
		a, b, c := on(t.Pod2, 1), on(t.Pod2, 2), on(t.RemotePod, 1)
		s := t.create(spec{})
		slice := s.slice("1", a, b)
		slice.Endpoints[0].Conditions = discoveryv1.EndpointConditions{}
		slice.Endpoints[1].Conditions = discoveryv1.EndpointConditions{}
		slice.Endpoints[1].Addresses = append(slice.Endpoints[1].Addresses, c.Addr(t.F).String())
		t.Slice(t.ctx, slice)
		t.expect("two", flow(t.Pod1, s.clusterIP(), 80), reaches(a, b))
	}},
	{number: "141c", name: "ports of EndpointSlices without a number, or with names that the Service does not have, are ignored",
		run: func(t *T) {
			a, b, c := on(t.Pod2, 1), on(t.Pod2, 2), on(t.RemotePod, 1)
			s := t.create(spec{ports: []port{{name: "one"}}}, a)
			numberless, misnamed := s.slice("2", b), s.slice("3", c)
			numberless.Ports[0].Port, misnamed.Ports[0].Name = nil, new("two")
			t.Slice(t.ctx, numberless)
			t.Slice(t.ctx, misnamed)
			t.expect("the one that fits", flow(t.Pod1, s.clusterIP(), 80), reaches(a))
		}},
	{number: "141d", kinds: everyOurs, name: "1,500 endpoints in 15 EndpointSlices are all used, and then those of one", run: func(t *T) {
		const slices, each = 15, 100
		_, _ = t.Client.Serve(model.TCP, 8080) // it has so many addresses; the server ends with the network
		s, all := t.create(spec{}), make([][]endpoint, slices)
		for i := range all {
			for n := range each {
				all[i] = append(all[i], on(t.Client, 20000+i*each+n))
			}
			s.addSlice(fmt.Sprint(i), all[i]...)
		}
		seen := map[int]bool{}
		t.eventually("an endpoint of each slice", func() error {
			var got network.Result
			for range each { // IPVS takes one endpoint after the other
				got = flow(t.Pod1, s.clusterIP(), 80).dial()
				for i := range all {
					if first, last := all[i][0].Addr(t.F), all[i][each-1].Addr(t.F); got.Outcome == network.Connected &&
						first.Compare(got.Endpoint.Addr()) <= 0 && got.Endpoint.Addr().Compare(last) <= 0 {
						seen[i] = true
					}
				}
			}
			if len(seen) < slices {
				return fmt.Errorf("%d slices were reached, and now %s", len(seen), got)
			}
			return nil
		})
		for i := range slices - 1 {
			s.deleteSlice(fmt.Sprint(i))
		}
		t.expect("one slice", flow(t.Pod1, s.clusterIP(), 80), reachesSome(all[slices-1]...))
	}},
	{number: "142", name: "ports are spread over EndpointSlices, with different target ports", run: func(t *T) {
		a, b := on(t.Pod2, 1), on(t.RemotePod, 1)
		s := t.create(spec{ports: []port{{name: "one", port: 80}, {name: "two", port: 81}}})
		first, second, third := s.slice("1", a, b), s.slice("2", a), s.slice("3", b)
		first.Ports, second.Ports, third.Ports = first.Ports[:1], second.Ports[1:], third.Ports[1:]
		second.Ports[0].Port, third.Ports[0].Port = new(int32(8081)), new(int32(8082))
		for _, slice := range []*discoveryv1.EndpointSlice{first, second, third} {
			t.Slice(t.ctx, slice)
		}
		t.expect("port one", flow(t.Pod1, s.clusterIP(), 80), reachesAt(at(a, 8080), at(b, 8080)))
		t.expect("port two", flow(t.Pod1, s.clusterIP(), 81), reachesAt(at(a, 8081), at(b, 8082)))
	}},
	{number: "143", name: "an endpoint is in two EndpointSlices: the ready one counts", run: func(t *T) {
		a, b := on(t.Pod2, 1), on(t.Pod2, 2)
		s := t.create(spec{lb: t.virtual(), eTPLocal: true}, terminating(a), terminated(b))
		s.addSlice("2", a, b)
		t.expect("both", flow(t.Pod1, s.clusterIP(), 80), reaches(a, b))
		t.expect("both", flow(t.Client, s.lb(), 80), reaches(a, b))
		s.deleteSlice("2")
		t.expect("as they are in the other one", flow(t.Pod1, s.clusterIP(), 80), reaches(a))
	}},
	{number: "143b", kinds: everyOurs, name: "an endpoint is twice in an EndpointSlice: the ready one counts, once", run: func(t *T) {
		a, b := on(t.Pod2, 1), on(t.Pod2, 2)
		s := t.create(spec{nodePort: true, eTPLocal: true}, unready(a), a, terminating(b), b, b)
		t.expect("both", flow(t.Pod1, s.clusterIP(), 80), reaches(a, b))
		t.expect("both, on this node", flow(t.Client, t.Node.Addr(t.F), s.nodePort(0)), reaches(a, b))
		s.setEndpoints(unready(a), a, terminating(b), unready(b))
		t.expect("one", flow(t.Pod1, s.clusterIP(), 80), reaches(a))
	}},
	{number: "144", name: "EndpointSlices of type FQDN and of the other family are ignored", run: func(t *T) {
		a := on(t.Pod2, 1)
		s := t.create(spec{}, a)
		names := s.slice("2", a)
		names.AddressType, names.Endpoints[0].Addresses = "FQDN", []string{"pod.example.org"}
		t.Slice(t.ctx, names)
		t.Slice(t.ctx, t.NewSlice(s.Service, otherFamily(t.F), a))
		t.expect("the one that counts", flow(t.Pod1, s.clusterIP(), 80), reaches(a))
		s.deleteSlice(strings.ToLower(t.F.String()))
		t.expect("none that counts", flow(t.Pod1, s.clusterIP(), 80), refused)
	}},
	{number: "145", name: "EndpointSlices without a Service's name are ignored", run: func(t *T) {
		a, b := on(t.Pod2, 1), on(t.Pod2, 2)
		s := t.create(spec{}, a)
		slice := s.slice("2", b)
		slice.Labels = nil
		t.Slice(t.ctx, slice)
		t.expect("the one with the name", flow(t.Pod1, s.clusterIP(), 80), reaches(a))
		slice.Labels = map[string]string{"kubernetes.io/service-name": s.Name}
		t.Slice(t.ctx, slice)
		t.expect("named", flow(t.Pod1, s.clusterIP(), 80), reaches(a, b))
		slice.Labels = nil
		t.Slice(t.ctx, slice)
		t.settle()
		const deaf = "it ignores the change"
		t.expect("not named any more", flow(t.Pod1, s.clusterIP(), 80), reaches(a), kubeProxy(reaches(a, b), deaf), kubeProxyIPVS(reaches(a, b), deaf))
	}},
}

func otherFamily(f model.Family) model.Family {
	if f == model.IPv4 {
		return model.IPv6
	}
	return model.IPv4
}
