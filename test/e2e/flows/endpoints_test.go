//go:build linux

package flows_test

import (
	"fmt"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/flowtest"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

var noEndpointsScenarios = []scenario{
	{number: "41", name: "a ClusterIP without endpoints refuses pods", run: func(t *T) {
		s := t.create(flowtest.Service{})
		t.expect("from a pod", flow(t.Pod1, s.clusterIP(), 80), flowtest.Refused())
	}},
	{number: "42", name: "a ClusterIP without endpoints refuses the node and clients, with every protocol", run: func(t *T) {
		s := t.create(flowtest.Service{Ports: []flowtest.Port{
			{Name: "t", Protocol: model.TCP}, {Name: "u", Protocol: model.UDP}, {Name: "s", Protocol: model.SCTP}}})
		for _, p := range model.Protocols {
			t.expect(p.String()+" from the node", over(p, flow(t.Node, s.clusterIP(), 80)), flowtest.Refused())
			t.expect(p.String()+" from a client", over(p, flow(t.Client, s.clusterIP(), 80)), flowtest.Refused())
			t.expect(p.String()+" from a pod", over(p, flow(t.Pod2, s.clusterIP(), 80)), flowtest.Refused())
		}
	}},
	{number: "42b", name: "TCP is refused at once", run: func(t *T) {
		s := t.create(flowtest.Service{NodePort: true})
		t.expect("the ClusterIP", flow(t.Pod1, s.clusterIP(), 80), flowtest.Refused())
		want := network.Refused
		if t.F == model.IPv6 && !t.Kind.Ours() {
			want = network.Dropped // it refuses by ICMPv6, which Linux hears at the second attempt, after a second
		}
		f := flow(t.Pod1, s.clusterIP(), 80)
		f.Timeout = network.DropTimeout
		t.eventually("within "+f.Timeout.String(), func() error {
			if got := t.Pod1.Dial(f.Probe); got.Outcome != want {
				return fmt.Errorf("got %s, want %s", got, want)
			}
			return nil
		})
	}},
	{number: "43", name: "an external IP without endpoints refuses", run: func(t *T) {
		s := t.create(flowtest.Service{ExternalIPs: t.virtual()})
		t.expect("from a client", flow(t.Client, s.externalIP(), 80), flowtest.Refused())
		t.expect("from a pod", flow(t.Pod1, s.externalIP(), 80), flowtest.Refused())
	}},
	{number: "44", name: "a node port without endpoints refuses", run: func(t *T) {
		s := t.create(flowtest.Service{NodePort: true, Ports: []flowtest.Port{{Protocol: model.UDP}}})
		t.expect("the ClusterIP", over(model.UDP, flow(t.Pod1, s.clusterIP(), 80)), flowtest.Refused())
		t.expect("from a client", over(model.UDP, flow(t.Client, t.Node.Addr(t.F), s.nodePort(0))), flowtest.Refused())
		// Nothing listens, so without a rule it would be refused as well. A server on the node shows the difference.
		server, err := t.Node.Serve(model.UDP, s.nodePort(0))
		t.must(err)
		defer func() { _ = server.Close() }()
		t.expect("although a program on the node has the port", over(model.UDP, flow(t.Client, t.Node.Addr(t.F), s.nodePort(0))), flowtest.Refused())
	}},
	{number: "45", name: "a load balancer IP without endpoints refuses", run: func(t *T) {
		s := t.create(flowtest.Service{LoadBalancerIPs: t.virtual()})
		t.expect("from a client", flow(t.Client, s.lb(), 80), flowtest.Refused())
		t.expect("from a pod", flow(t.Pod1, s.lb(), 80), flowtest.Refused())
	}},
	{number: "46", name: "when the last endpoint goes, refusals begin, and end when one comes back", run: func(t *T) {
		pod := t.on(t.Pod2, 0)
		s := t.create(flowtest.Service{LoadBalancerIPs: t.virtual(), Endpoints: []flowtest.Endpoint{pod}})
		for range 2 {
			t.expect("with an endpoint", flow(t.Client, s.lb(), 80), reaches(pod))
			t.expect("with an endpoint", flow(t.Pod1, s.clusterIP(), 80), reaches(pod))
			s.setEndpoints()
			t.expect("without", flow(t.Client, s.lb(), 80), flowtest.Refused())
			t.expect("without", flow(t.Pod1, s.clusterIP(), 80), flowtest.Refused())
			s.setEndpoints(unready(pod))
			t.expect("with one that is not ready", flow(t.Pod1, s.clusterIP(), 80), flowtest.Refused())
			s.setEndpoints(pod)
		}
	}},
}

// terminatingScenarios are four states of the endpoints under four policies.
func terminatingScenarios() (all []scenario) {
	type state struct {
		name string
		// of returns the endpoints and which of them traffic may use: anywhere, and on this node alone. nil means none.
		of func(t *T) (all, cluster, local []flowtest.Endpoint)
		// elsewhere is what a policy of Local gets when local is nil.
		elsewhere flowtest.Want
	}
	type list = []flowtest.Endpoint
	states := []state{
		{name: "ready ones are preferred to terminating ones", of: func(t *T) (list, list, list) {
			l, r := t.on(t.Pod2, 1), t.on(t.RemotePod, 1)
			return list{l, r, terminating(t.on(t.Pod2, 2)), terminating(t.on(t.RemotePod, 2))}, list{l, r}, list{l}
		}},
		{name: "terminating ones are used when there are no others", of: func(t *T) (list, list, list) {
			l, r := terminating(t.on(t.Pod2, 1)), terminating(t.on(t.RemotePod, 1))
			return list{l, r, terminated(t.on(t.Pod2, 2)), unready(t.on(t.Pod2, 3))}, list{l, r}, list{l}
		}},
		{name: "only a remote one, terminating", elsewhere: flowtest.Dropped(), of: func(t *T) (list, list, list) {
			r := terminating(t.on(t.RemotePod, 1))
			return list{r, terminated(t.on(t.Pod2, 2))}, list{r}, nil
		}},
		{name: "none that still serves", elsewhere: flowtest.Refused(), of: func(t *T) (list, list, list) {
			return list{terminated(t.on(t.Pod2, 2)), terminated(t.on(t.RemotePod, 1))}, nil, nil
		}},
		{name: "a local one that terminates, a remote one that is ready", of: func(t *T) (list, list, list) {
			l, r := terminating(t.on(t.Pod2, 1)), t.on(t.RemotePod, 1)
			return list{l, r}, list{r}, list{l}
		}},
	}
	number := 77
	for i, st := range states {
		for _, local := range []bool{false, true} {
			for _, to := range []string{"ClusterIP", "LB"} {
				name := fmt.Sprint(number)
				if number++; i == len(states)-1 {
					name = fmt.Sprintf("92%c", 'b'+number-94)
				}
				all = append(all, scenario{
					number: name,
					name:   fmt.Sprintf("terminating endpoints, %s, traffic policy %s: %s", to, policyOf(local), st.name),
					run: func(t *T) {
						all, anywhere, here := st.of(t)
						want := choose(local, anywhere, here, st.elsewhere)
						s := t.create(flowtest.Service{LoadBalancerIPs: t.virtual(), InternalLocal: local && to == "ClusterIP",
							ExternalLocal: local && to == "LB", Endpoints: append(all, flowtest.Endpoint{Addr: t.Pod1.Extra(t.F, 9), NotReady: true})})
						if to == "ClusterIP" {
							t.awaitProgrammed(s, anywhere)
							t.expect("from a pod", flow(t.Pod1, s.clusterIP(), 80), want)
							return
						}
						t.expect("the ClusterIP", flow(t.Pod1, s.clusterIP(), 80), choose(false, anywhere, here, st.elsewhere))
						t.expect("from a client", flow(t.Client, s.lb(), 80), want)
					},
				})
			}
		}
	}
	return all
}

func policyOf(local bool) string {
	if local {
		return "Local"
	}
	return "Cluster"
}

// awaitProgrammed waits until a Service is programmed, by its load balancer IP.
func (t *T) awaitProgrammed(s service, anywhere []flowtest.Endpoint) {
	want := flowtest.Refused()
	if len(anywhere) > 0 {
		want = reachesSome(anywhere...)
	}
	t.expect("the load balancer IP", flow(t.Client, s.lb(), 80), want)
}

func choose(local bool, anywhere, here []flowtest.Endpoint, elsewhere flowtest.Want) flowtest.Want {
	switch {
	case local && here != nil:
		return reaches(here...)
	case local:
		return elsewhere
	case anywhere == nil:
		return flowtest.Refused()
	default:
		return reaches(anywhere...)
	}
}

var topologyScenarios = []scenario{
	{number: "93", name: "zone hints: only endpoints for this zone", run: func(t *T) {
		here, there := inZone(t.on(t.Pod2, 1), flowtest.Zone), inZone(t.on(t.RemotePod, 1), "zone-b")
		also := inZone(t.on(t.RemotePod, 2), "zone-c", flowtest.Zone)
		s := t.create(flowtest.Service{NodePort: true, Endpoints: []flowtest.Endpoint{here, there, also}})
		t.expect("the ClusterIP", flow(t.Pod1, s.clusterIP(), 80), reaches(here, also))
		t.expect("the node port", flow(t.Client, t.Node.Addr(t.F), s.nodePort(0)), reaches(here, also))
	}},
	{number: "94", name: "zone hints: ignored when a ready endpoint has none", run: func(t *T) {
		here, there, without := inZone(t.on(t.Pod2, 1), flowtest.Zone), inZone(t.on(t.RemotePod, 1), "zone-b"), t.on(t.RemotePod, 2)
		s := t.create(flowtest.Service{Endpoints: []flowtest.Endpoint{here, there, without}})
		t.expect("the ClusterIP", flow(t.Pod1, s.clusterIP(), 80), reaches(here, there, without))
	}},
	{number: "95", name: "zone hints: ignored when no endpoint is for this zone", run: func(t *T) {
		b, c := inZone(t.on(t.Pod2, 1), "zone-b"), inZone(t.on(t.RemotePod, 1), "zone-c")
		s := t.create(flowtest.Service{Endpoints: []flowtest.Endpoint{b, c}})
		t.expect("the ClusterIP", flow(t.Pod1, s.clusterIP(), 80), reaches(b, c))
	}},
	{number: "96", name: "node hints: only endpoints for this node", run: func(t *T) {
		here, there := hintedTo(t.on(t.Pod2, 1), t.NodeName), hintedTo(t.on(t.RemotePod, 1), t.RemoteName)
		here.Zones, there.Zones = []string{flowtest.Zone}, []string{flowtest.Zone}
		s := t.create(flowtest.Service{Endpoints: []flowtest.Endpoint{here, there}})
		t.expect("the ClusterIP", flow(t.Pod1, s.clusterIP(), 80), reaches(here))
	}},
	{number: "97", name: "node hints: ignored when a ready endpoint has none, then zone hints count", run: func(t *T) {
		here := inZone(hintedTo(t.on(t.Pod2, 1), t.NodeName), flowtest.Zone)
		zone, there := inZone(t.on(t.RemotePod, 1), flowtest.Zone), inZone(t.on(t.RemotePod, 2), "zone-b")
		s := t.create(flowtest.Service{Endpoints: []flowtest.Endpoint{here, zone, there}})
		t.expect("the ClusterIP", flow(t.Pod1, s.clusterIP(), 80), reaches(here, zone))
	}},
	{number: "98", name: "node hints: none for this node, then zone hints count", run: func(t *T) {
		zone := inZone(hintedTo(t.on(t.RemotePod, 1), t.RemoteName), flowtest.Zone)
		there := inZone(hintedTo(t.on(t.RemotePod, 2), "node-elsewhere"), "zone-b")
		s := t.create(flowtest.Service{Endpoints: []flowtest.Endpoint{zone, there}})
		t.expect("the ClusterIP", flow(t.Pod1, s.clusterIP(), 80), reaches(zone))
	}},
	{number: "99", name: "hints: an endpoint that is not ready neither spoils nor helps", run: func(t *T) {
		here, there := inZone(t.on(t.Pod2, 1), flowtest.Zone), inZone(t.on(t.RemotePod, 1), "zone-b")
		s := t.create(flowtest.Service{Endpoints: []flowtest.Endpoint{here, there, unready(t.on(t.RemotePod, 2))}})
		t.expect("one without hints", flow(t.Pod1, s.clusterIP(), 80), reaches(here))
		s = t.create(flowtest.Service{Endpoints: []flowtest.Endpoint{unready(here), there}})
		t.expect("the only one for this zone", flow(t.Pod1, s.clusterIP(), 80), reaches(there))
	}},
	{number: "100", name: "hints: the fallback to terminating endpoints ignores them", run: func(t *T) {
		here, there := inZone(t.on(t.Pod2, 1), flowtest.Zone), inZone(t.on(t.RemotePod, 1), "zone-b")
		s := t.create(flowtest.Service{Endpoints: []flowtest.Endpoint{terminating(here), terminating(there)}})
		t.expect("all terminating", flow(t.Pod1, s.clusterIP(), 80), reaches(here, there))
		s = t.create(flowtest.Service{Endpoints: []flowtest.Endpoint{terminating(here), there}})
		t.expect("those for this zone terminating", flow(t.Pod1, s.clusterIP(), 80), reaches(there))
	}},
	{number: "101", name: "hints: internal traffic policy Local ignores them", run: func(t *T) {
		a, b := inZone(t.on(t.Pod2, 1), flowtest.Zone), inZone(t.on(t.Pod2, 2), "zone-b")
		there := inZone(t.on(t.RemotePod, 1), flowtest.Zone)
		s := t.create(flowtest.Service{NodePort: true, InternalLocal: true, Endpoints: []flowtest.Endpoint{a, b, there}})
		t.expect("the ClusterIP", flow(t.Pod1, s.clusterIP(), 80), reaches(a, b))
		t.expect("the node port", flow(t.Client, t.Node.Addr(t.F), s.nodePort(0)), reaches(a, there))
	}},
	{number: "102", name: "hints: external traffic policy Local ignores them", run: func(t *T) {
		a, b := inZone(t.on(t.Pod2, 1), flowtest.Zone), inZone(t.on(t.Pod2, 2), "zone-b")
		there := inZone(t.on(t.RemotePod, 1), flowtest.Zone)
		s := t.create(flowtest.Service{NodePort: true, ExternalLocal: true, Endpoints: []flowtest.Endpoint{a, b, there}})
		t.expect("the ClusterIP", flow(t.Pod1, s.clusterIP(), 80), reaches(a, there))
		t.expect("the node port", flow(t.Client, t.Node.Addr(t.F), s.nodePort(0)), reaches(a, b))
	}},
}
