//go:build linux

package flows_test

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/flowtest"
)

var lifecycleScenarios = []scenario{
	{number: "124", name: "ports are added, changed and removed", run: func(t *T) {
		pod := t.on(t.Pod2, 0)
		s := t.create(flowtest.Service{Ports: []flowtest.Port{{Name: "a", Port: 80}}, Endpoints: []flowtest.Endpoint{pod}})
		t.expect("one port", flow(t.Pod1, s.clusterIP(), 80), reaches(pod))
		s.Ports = append(s.Ports, flowtest.Port{Name: "b", Port: 81, TargetPort: 8081})
		s = s.update(func(o *corev1.Service) {
			o.Spec.Ports = append(o.Spec.Ports, corev1.ServicePort{Name: "b", Port: 81})
		})
		s.setEndpoints(pod)
		t.expect("a second one", flow(t.Pod1, s.clusterIP(), 81), flowtest.Reaches(at(pod, 8081)))
		s = s.update(func(o *corev1.Service) { o.Spec.Ports[1].Port = 82 })
		t.expect("its new number", flow(t.Pod1, s.clusterIP(), 82), flowtest.Reaches(at(pod, 8081)))
		t.expect("not its old number", flow(t.Pod1, s.clusterIP(), 81), flowtest.Refused(), kubeProxyIPTables(flowtest.Dropped(), noRejects))
		s = s.update(func(o *corev1.Service) { o.Spec.Ports = o.Spec.Ports[:1] })
		t.expect("removed", flow(t.Pod1, s.clusterIP(), 82), flowtest.Refused(), kubeProxyIPTables(flowtest.Dropped(), noRejects))
		t.expect("the first one", flow(t.Pod1, s.clusterIP(), 80), reaches(pod))
	}},
	{number: "125", name: "a Service is deleted and made again with another address, and with the same", run: func(t *T) {
		pod := t.on(t.Pod2, 0)
		// An address of the band from which nothing is allocated unasked, and not of the ServiceCIDR that another scenario adds for a while.
		old := netip.MustParseAddr(map[model.Family]string{model.IPv4: "10.96.0.125", model.IPv6: "fd00:10:96::7d"}[t.F])
		atOld := func(o *corev1.Service) { o.Spec.ClusterIP = old.String() }
		s := t.create(flowtest.Service{Endpoints: []flowtest.Endpoint{pod}, Change: atOld})
		t.expect("at first", flow(t.Pod1, old, 80), reaches(pod))
		t.must(t.Delete(t.ctx, s.Name))
		t.expect("deleted", flow(t.Pod1, old, 80), flowtest.Dropped())
		t.create(flowtest.Service{Name: t.slug + "-holder", Change: atOld})
		again := t.create(flowtest.Service{Name: s.Name})
		t.expect("with another address", flow(t.Pod1, again.clusterIP(), 80), reaches(pod))
		t.expect("the old address is of a Service without endpoints", flow(t.Pod1, old, 80), flowtest.Refused())
		t.must(t.Delete(t.ctx, t.slug+"-holder"))
		t.must(t.Delete(t.ctx, s.Name))
		t.create(flowtest.Service{Name: s.Name, Change: atOld})
		t.expect("with the first address", flow(t.Pod1, old, 80), reaches(pod))
	}},
	{number: "125b", name: "EndpointSlices are there before their Service", run: func(t *T) {
		pod := t.on(t.Pod2, 0)
		s := flowtest.Service{Name: t.slug + "-late", Family: t.F}
		t.must(t.CreateSlice(t.ctx, s, s.Name+"-1", pod))
		made := t.create(s)
		t.expect("the Service", flow(t.Pod1, made.clusterIP(), 80), reaches(pod))
	}},
	{number: "126", name: "a Service changes its type", run: func(t *T) {
		pod := t.on(t.Pod2, 0)
		s := t.create(flowtest.Service{Endpoints: []flowtest.Endpoint{pod}})
		first := s.clusterIP()
		t.expect("ClusterIP", flow(t.Pod1, first, 80), reaches(pod))
		s = s.update(func(o *corev1.Service) { o.Spec.Type = corev1.ServiceTypeNodePort })
		port := s.nodePort(0)
		t.expect("NodePort", flow(t.Client, t.Node.Addr(t.F), port), reaches(pod))
		s = s.update(func(o *corev1.Service) { o.Spec.Type, o.Spec.Ports[0].NodePort = corev1.ServiceTypeClusterIP, 0 })
		t.expect("ClusterIP again", flow(t.Client, t.Node.Addr(t.F), port), flowtest.Refused())
		t.expect("the ClusterIP stays", flow(t.Pod1, first, 80), reaches(pod))
		s = s.update(func(o *corev1.Service) {
			o.Spec.Type, o.Spec.ExternalName = corev1.ServiceTypeExternalName, "example.org"
			o.Spec.ClusterIP, o.Spec.ClusterIPs, o.Spec.IPFamilies, o.Spec.IPFamilyPolicy = "", nil, nil, nil
		})
		t.expect("ExternalName", flow(t.Pod1, first, 80), flowtest.Dropped())
		s = s.update(func(o *corev1.Service) {
			o.Spec.Type, o.Spec.ExternalName = corev1.ServiceTypeClusterIP, ""
			o.Spec.IPFamilies = []corev1.IPFamily{corev1.IPFamily(t.F.String())}
		})
		t.expect("ClusterIP at last", flow(t.Pod1, s.clusterIP(), 80), reaches(pod))
	}},
	{number: "127", name: "a Service is given to another proxy, and comes back", run: func(t *T) {
		pod := t.on(t.Pod2, 0)
		s := t.create(flowtest.Service{NodePort: true, Endpoints: []flowtest.Endpoint{pod}})
		t.expect("ours", flow(t.Pod1, s.clusterIP(), 80), reaches(pod))
		s.update(func(o *corev1.Service) {
			o.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": "other"}
		})
		t.expect("of another", flow(t.Client, t.Node.Addr(t.F), s.nodePort(0)), flowtest.Refused())
		t.expect("of another", flow(t.Pod1, s.clusterIP(), 80), flowtest.Dropped())
		s.update(func(o *corev1.Service) { o.Labels = nil })
		t.expect("ours again", flow(t.Pod1, s.clusterIP(), 80), reaches(pod))
		other := t.create(flowtest.Service{Endpoints: []flowtest.Endpoint{pod},
			Labels: map[string]string{"service.kubernetes.io/service-proxy-name": "other"}})
		t.expect("of another from the beginning", flow(t.Pod1, other.clusterIP(), 80), flowtest.Dropped())
	}},
	{number: "128", name: "EndpointSlices of headless Services are not looked at", run: func(t *T) {
		a, b := t.on(t.Pod2, 1), t.on(t.Pod2, 2)
		s := t.create(flowtest.Service{Endpoints: []flowtest.Endpoint{a}})
		slice := t.Slice(s.Service, s.Name+"-2", b)
		slice.Labels[corev1.IsHeadlessService] = ""
		t.must(t.CreateObject(t.ctx, slice))
		t.expect("one labelled headless", flow(t.Pod1, s.clusterIP(), 80), reaches(a))
		delete(slice.Labels, corev1.IsHeadlessService)
		t.must(t.ChangeSlice(t.ctx, slice))
		t.expect("without the label", flow(t.Pod1, s.clusterIP(), 80), reaches(a, b))
		slice.Labels[corev1.IsHeadlessService] = ""
		t.must(t.ChangeSlice(t.ctx, slice))
		t.expect("with it again", flow(t.Pod1, s.clusterIP(), 80), reaches(a))
	}},
	{number: "129", name: "one node port number with two protocols", run: func(t *T) {
		pod := t.on(t.Pod2, 1)
		s := t.create(flowtest.Service{NodePort: true, Endpoints: []flowtest.Endpoint{pod},
			Ports: []flowtest.Port{{Name: "t"}, {Name: "u", Protocol: model.UDP, TargetPort: 8081}}})
		s = s.update(func(o *corev1.Service) { o.Spec.Ports[1].NodePort = o.Spec.Ports[0].NodePort })
		tcp := flow(t.Client, t.Node.Addr(t.F), s.nodePort(0))
		udp := over(model.UDP, tcp)
		t.expect("TCP", tcp, reaches(pod))
		t.expect("UDP", udp, flowtest.Reaches(at(pod, 8081)))
		s.update(func(o *corev1.Service) { o.Spec.Ports = o.Spec.Ports[:1] })
		t.expect("UDP is removed", udp, flowtest.Refused())
		t.expect("TCP stays", tcp, reaches(pod))
	}},
	{number: "130", name: "a node port that is given back is the node's own again", run: func(t *T) {
		pod := t.on(t.Pod2, 0)
		s := t.create(flowtest.Service{NodePort: true, Endpoints: []flowtest.Endpoint{pod}})
		port := s.nodePort(0)
		server, err := t.Node.Serve(model.TCP, port)
		t.must(err)
		defer func() { _ = server.Close() }()
		t.expect("the Service", flow(t.Client, t.Node.Addr(t.F), port), reaches(pod))
		t.must(t.Delete(t.ctx, s.Name))
		t.expect("the program", flow(t.Client, t.Node.Addr(t.F), port), flowtest.Reaches(netip.AddrPortFrom(t.Node.Addr(t.F), port)))
	}},
}

var sliceScenarios = []scenario{
	{number: "141", name: "a Service has several EndpointSlices, which come and go", run: func(t *T) {
		a, b, c := t.on(t.Pod2, 1), t.on(t.Pod2, 2), t.on(t.RemotePod, 1)
		s := t.create(flowtest.Service{Endpoints: []flowtest.Endpoint{a}})
		t.must(t.CreateSlice(t.ctx, s.Service, s.Name+"-2", b))
		t.must(t.CreateSlice(t.ctx, s.Service, s.Name+"-3", c))
		t.expect("three", flow(t.Pod1, s.clusterIP(), 80), reaches(a, b, c))
		t.must(t.DeleteSlice(t.ctx, s.Name+"-1"))
		t.expect("two", flow(t.Pod1, s.clusterIP(), 80), reaches(b, c))
	}},
	{number: "141b", name: "conditions that are not set mean ready, and only the first address of an endpoint counts", run: func(t *T) {
		a, b, c := t.on(t.Pod2, 1), t.on(t.Pod2, 2), t.on(t.RemotePod, 1)
		s := t.create(flowtest.Service{})
		slice := t.Slice(s.Service, s.Name+"-1", a, b)
		slice.Endpoints[0].Conditions = discoveryv1.EndpointConditions{}
		slice.Endpoints[1].Conditions = discoveryv1.EndpointConditions{}
		slice.Endpoints[1].Addresses = append(slice.Endpoints[1].Addresses, c.Addr.String())
		t.must(t.CreateObject(t.ctx, slice))
		t.expect("two", flow(t.Pod1, s.clusterIP(), 80), reaches(a, b))
	}},
	{number: "141c", name: "ports of EndpointSlices without a number, or with names that the Service does not have, are ignored",
		run: func(t *T) {
			a, b, c := t.on(t.Pod2, 1), t.on(t.Pod2, 2), t.on(t.RemotePod, 1)
			s := t.create(flowtest.Service{Ports: []flowtest.Port{{Name: "one"}}, Endpoints: []flowtest.Endpoint{a}})
			numberless, misnamed := t.Slice(s.Service, s.Name+"-2", b), t.Slice(s.Service, s.Name+"-3", c)
			numberless.Ports[0].Port, misnamed.Ports[0].Name = nil, new("two")
			t.must(t.CreateObject(t.ctx, numberless))
			t.must(t.CreateObject(t.ctx, misnamed))
			t.expect("the one that fits", flow(t.Pod1, s.clusterIP(), 80), reaches(a))
		}},
	{number: "142", name: "ports are spread over EndpointSlices, with different target ports", run: func(t *T) {
		a, b := t.on(t.Pod2, 1), t.on(t.RemotePod, 1)
		s := t.create(flowtest.Service{Ports: []flowtest.Port{{Name: "one", Port: 80}, {Name: "two", Port: 81}}})
		first, second, third := s.Service, s.Service, s.Service
		first.Ports = []flowtest.Port{{Name: "one", TargetPort: 8080}}
		second.Ports = []flowtest.Port{{Name: "two", TargetPort: 8081}}
		third.Ports = []flowtest.Port{{Name: "two", TargetPort: 8082}}
		t.must(t.CreateSlice(t.ctx, first, s.Name+"-1", a, b))
		t.must(t.CreateSlice(t.ctx, second, s.Name+"-2", a))
		t.must(t.CreateSlice(t.ctx, third, s.Name+"-3", b))
		t.expect("port one", flow(t.Pod1, s.clusterIP(), 80), flowtest.Reaches(at(a, 8080), at(b, 8080)))
		t.expect("port two", flow(t.Pod1, s.clusterIP(), 81), flowtest.Reaches(at(a, 8081), at(b, 8082)))
	}},
	{number: "143", name: "an endpoint is in two EndpointSlices: the ready one counts", run: func(t *T) {
		a, b := t.on(t.Pod2, 1), t.on(t.Pod2, 2)
		s := t.create(flowtest.Service{LoadBalancerIPs: t.virtual(), ExternalLocal: true,
			Endpoints: []flowtest.Endpoint{terminating(a), terminated(b)}})
		t.must(t.CreateSlice(t.ctx, s.Service, s.Name+"-2", a, b))
		t.expect("both", flow(t.Pod1, s.clusterIP(), 80), reaches(a, b))
		t.expect("both", flow(t.Client, s.lb(), 80), reaches(a, b))
		t.must(t.DeleteSlice(t.ctx, s.Name+"-2"))
		t.expect("as they are in the other one", flow(t.Pod1, s.clusterIP(), 80), reaches(a))
	}},
	{number: "144", name: "EndpointSlices of type FQDN and of the other family are ignored", run: func(t *T) {
		a := t.on(t.Pod2, 1)
		s := t.create(flowtest.Service{Endpoints: []flowtest.Endpoint{a}})
		names := t.Slice(s.Service, s.Name+"-2", a)
		names.AddressType, names.Endpoints[0].Addresses = "FQDN", []string{"pod.example.org"}
		t.must(t.CreateObject(t.ctx, names))
		other := flowtest.Service{Name: s.Name, Family: otherFamily(t.F)}
		t.must(t.CreateSlice(t.ctx, other, s.Name+"-3", flowtest.Endpoint{Addr: t.Pod2.Addr(otherFamily(t.F))}))
		t.expect("the one that counts", flow(t.Pod1, s.clusterIP(), 80), reaches(a))
		t.must(t.DeleteSlice(t.ctx, s.Name+"-1"))
		t.expect("none that counts", flow(t.Pod1, s.clusterIP(), 80), flowtest.Refused())
	}},
	{number: "145", name: "EndpointSlices without a Service's name are ignored", run: func(t *T) {
		a, b := t.on(t.Pod2, 1), t.on(t.Pod2, 2)
		s := t.create(flowtest.Service{Endpoints: []flowtest.Endpoint{a}})
		slice := t.Slice(s.Service, s.Name+"-2", b)
		slice.Labels = nil
		t.must(t.CreateObject(t.ctx, slice))
		t.expect("the one with the name", flow(t.Pod1, s.clusterIP(), 80), reaches(a))
		slice.Labels = map[string]string{"kubernetes.io/service-name": s.Name}
		t.must(t.ChangeSlice(t.ctx, slice))
		t.expect("named", flow(t.Pod1, s.clusterIP(), 80), reaches(a, b))
		slice.Labels = nil
		t.must(t.ChangeSlice(t.ctx, slice))
		t.expect("not named any more", flow(t.Pod1, s.clusterIP(), 80), reaches(a))
	}},
}

func otherFamily(f model.Family) model.Family {
	if f == model.IPv4 {
		return model.IPv6
	}
	return model.IPv4
}
