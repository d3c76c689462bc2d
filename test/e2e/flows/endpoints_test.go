package flows_test

import (
	"fmt"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

var noEndpointsScenarios = []scenario{
	{number: "41", name: "a ClusterIP without endpoints refuses pods", run: func(t *T) {
		s := t.create(spec{})
		t.expect("from a pod", flow(t.Pod1, s.clusterIP(), 80), refused)
	}},
	{number: "42", name: "a ClusterIP without endpoints refuses the node and clients, with every protocol", run: func(t *T) {
		s := t.create(spec{ports: everyProtocol})
		for _, p := range model.Protocols {
			t.expect(p.String()+" from the node", over(p, flow(t.Node, s.clusterIP(), 80)), refused)
			t.expect(p.String()+" from a client", over(p, flow(t.Client, s.clusterIP(), 80)), refused)
			t.expect(p.String()+" from a pod", over(p, flow(t.Pod2, s.clusterIP(), 80)), refused)
		}
	}},
	{number: "42b", name: "TCP is refused at once", run: func(t *T) {
		s := t.create(spec{nodePort: true})
		t.expect("the ClusterIP", flow(t.Pod1, s.clusterIP(), 80), refused)
		f, want := flow(t.Pod1, s.clusterIP(), 80), network.Refused
		f.Timeout = network.DropTimeout
		if t.F == model.IPv6 && !t.kind.ours() {
			// It refuses by ICMPv6, which Linux hears at the second attempt, after a second.
			want, f.Timeout = network.Dropped, min(f.Timeout, 800*time.Millisecond)
		}
		t.eventually("within "+f.Timeout.String(), func() error {
			if got := t.Pod1.Dial(f.Probe); got.Outcome != want {
				return fmt.Errorf("got %s, want %s", got, want)
			}
			return nil
		})
	}},
	{number: "43", name: "an external IP without endpoints refuses", run: func(t *T) {
		s := t.create(spec{externalIPs: t.virtual()})
		t.expect("from a client", flow(t.Client, s.externalIP(), 80), refused)
		t.expect("from a pod", flow(t.Pod1, s.externalIP(), 80), refused)
	}},
	{number: "44", name: "a node port without endpoints refuses", run: func(t *T) {
		s := t.create(spec{nodePort: true, ports: []port{{protocol: model.UDP}}})
		t.expect("the ClusterIP", over(model.UDP, flow(t.Pod1, s.clusterIP(), 80)), refused)
		t.expect("from a client", over(model.UDP, flow(t.Client, t.Node.Addr(t.F), s.nodePort(0))), refused)
		// Without a listener, a missing rule would refuse it as well: a server shows the difference.
		defer t.nodeServes(model.UDP, s.nodePort(0))()
		t.expect("although a program on the node has the port", over(model.UDP, flow(t.Client, t.Node.Addr(t.F), s.nodePort(0))), refused)
	}},
	{number: "45", name: "a load balancer IP without endpoints refuses", run: func(t *T) {
		s := t.create(spec{lb: t.virtual()})
		t.expect("from a client", flow(t.Client, s.lb(), 80), refused)
		t.expect("from a pod", flow(t.Pod1, s.lb(), 80), refused)
	}},
	{number: "46", name: "when the last endpoint goes, refusals begin, and end when one comes back", run: func(t *T) {
		s := t.create(spec{lb: t.virtual()}, t.local)
		for range 2 {
			t.expect("with an endpoint", flow(t.Client, s.lb(), 80), reaches(t.local))
			t.expect("with an endpoint", flow(t.Pod1, s.clusterIP(), 80), reaches(t.local))
			s.setEndpoints()
			t.expect("without", flow(t.Client, s.lb(), 80), refused)
			t.expect("without", flow(t.Pod1, s.clusterIP(), 80), refused)
			s.setEndpoints(unready(t.local))
			t.expect("with one that is not ready", flow(t.Pod1, s.clusterIP(), 80), refused)
			s.setEndpoints(t.local)
		}
	}},
}

const elsewhereInstead = "its ipvs mode uses endpoints elsewhere when there is none on the node"

// terminatingScenarios are five states of the endpoints under four policies.
func terminatingScenarios() (all []scenario) {
	type list = []endpoint
	states := []struct {
		name string
		// of returns endpoints, and what traffic finds that may go anywhere or must stay on this node.
		of func(t *T) (all list, anywhere, here want)
	}{
		{"ready ones are preferred to terminating ones", func(t *T) (list, want, want) {
			l, r := on(t.Pod2, 1), on(t.RemotePod, 1)
			return list{l, r, terminating(on(t.Pod2, 2)), terminating(on(t.RemotePod, 2))}, reaches(l, r), reaches(l)
		}},
		{"terminating ones are used when there are no others", func(t *T) (list, want, want) {
			l, r := terminating(on(t.Pod2, 1)), terminating(on(t.RemotePod, 1))
			return list{l, r, terminated(on(t.Pod2, 2)), unready(on(t.Pod2, 3))}, reaches(l, r), reaches(l)
		}},
		{"only a remote one, terminating", func(t *T) (list, want, want) {
			r := terminating(on(t.RemotePod, 1))
			return list{r, terminated(on(t.Pod2, 2))}, reaches(r), dropped
		}},
		{"none that still serves", func(t *T) (list, want, want) {
			return list{terminated(on(t.Pod2, 2)), terminated(on(t.RemotePod, 1))}, refused, refused
		}},
		{"a local one that terminates, a remote one that is ready", func(t *T) (list, want, want) {
			l, r := terminating(on(t.Pod2, 1)), on(t.RemotePod, 1)
			return list{l, r}, reaches(r), reaches(l)
		}},
	}
	number := 77
	for i, st := range states {
		for _, policy := range []string{"Cluster", "Local"} {
			for _, to := range []string{"ClusterIP", "LB"} {
				name := fmt.Sprint(number)
				number++
				if i == len(states)-1 {
					name = fmt.Sprintf("92%c", 'b'+number-94)
				}
				title := fmt.Sprintf("terminating endpoints, %s, traffic policy %s: %s", to, policy, st.name)
				all = append(all, scenario{number: name, name: title, run: func(t *T) {
					endpoints, anywhere, w := st.of(t)
					s := t.create(spec{lb: t.virtual(), iTPLocal: policy == "Local" && to == "ClusterIP", eTPLocal: policy == "Local" && to == "LB"},
						append(endpoints, unready(on(t.Pod1, 9)))...)
					if policy == "Cluster" {
						w = anywhere
					}
					var others []otherwise
					if w.outcome == network.Dropped {
						others = append(others, kubeProxyIPVS(anywhere, elsewhereInstead))
					}
					clusterIP, lb := flow(t.Pod1, s.clusterIP(), 80), flow(t.Client, s.lb(), 80)
					if to == "ClusterIP" {
						t.expect("the other one, which tells that the Service is programmed", lb, anywhere)
						t.expect("the ClusterIP", clusterIP, w, others...)
					} else {
						t.expect("the other one, which tells that the Service is programmed", clusterIP, anywhere)
						t.expect("the load balancer IP", lb, w, others...)
					}
				}})
			}
		}
	}
	return all
}

// chooses wants some of a Service's endpoints to be used by its ClusterIP.
func (t *T) chooses(what string, endpoints []endpoint, chosen ...endpoint) {
	s := t.create(spec{}, endpoints...)
	t.expect(what, flow(t.Pod1, s.clusterIP(), 80), reaches(chosen...))
}

var topologyScenarios = []scenario{
	{number: "93", name: "zone hints: only endpoints for this zone", run: func(t *T) {
		here, there := inZone(on(t.Pod2, 1), environment.Zone), inZone(on(t.RemotePod, 1), "zone-b")
		also := inZone(on(t.RemotePod, 2), "zone-c", environment.Zone)
		s := t.create(spec{nodePort: true}, here, there, also)
		t.expect("the ClusterIP", flow(t.Pod1, s.clusterIP(), 80), reaches(here, also))
		t.expect("the node port", flow(t.Client, t.Node.Addr(t.F), s.nodePort(0)), reaches(here, also))
	}},
	{number: "94", name: "zone hints: ignored when a ready endpoint has none", run: func(t *T) {
		here, there, without := inZone(on(t.Pod2, 1), environment.Zone), inZone(on(t.RemotePod, 1), "zone-b"), on(t.RemotePod, 2)
		t.chooses("the ClusterIP", []endpoint{here, there, without}, here, there, without)
	}},
	{number: "95", name: "zone hints: ignored when no endpoint is for this zone", run: func(t *T) {
		b, c := inZone(on(t.Pod2, 1), "zone-b"), inZone(on(t.RemotePod, 1), "zone-c")
		t.chooses("the ClusterIP", []endpoint{b, c}, b, c)
	}},
	{number: "96", name: "node hints: only endpoints for this node", run: func(t *T) {
		here, there := hintedTo(on(t.Pod2, 1), t.Name), hintedTo(on(t.RemotePod, 1), environment.Elsewhere)
		here.Zones, there.Zones = []string{environment.Zone}, []string{environment.Zone}
		t.chooses("the ClusterIP", []endpoint{here, there}, here)
	}},
	{number: "97", name: "node hints: ignored when a ready endpoint has none, then zone hints count", run: func(t *T) {
		here := inZone(hintedTo(on(t.Pod2, 1), t.Name), environment.Zone)
		zone, there := inZone(on(t.RemotePod, 1), environment.Zone), inZone(on(t.RemotePod, 2), "zone-b")
		t.chooses("the ClusterIP", []endpoint{here, zone, there}, here, zone)
	}},
	{number: "98", name: "node hints: none for this node, then zone hints count", run: func(t *T) {
		zone := inZone(hintedTo(on(t.RemotePod, 1), environment.Elsewhere), environment.Zone)
		there := inZone(hintedTo(on(t.RemotePod, 2), "node-elsewhere"), "zone-b")
		t.chooses("the ClusterIP", []endpoint{zone, there}, zone)
	}},
	{number: "99", name: "hints: an endpoint that is not ready neither spoils nor helps", run: func(t *T) {
		here, there := inZone(on(t.Pod2, 1), environment.Zone), inZone(on(t.RemotePod, 1), "zone-b")
		t.chooses("one without hints", []endpoint{here, there, unready(on(t.RemotePod, 2))}, here)
		t.chooses("the only one for this zone", []endpoint{unready(here), there}, there)
	}},
	{number: "100", name: "hints: the fallback to terminating endpoints ignores them", run: func(t *T) {
		here, there := inZone(on(t.Pod2, 1), environment.Zone), inZone(on(t.RemotePod, 1), "zone-b")
		t.chooses("all terminating", []endpoint{terminating(here), terminating(there)}, here, there)
		t.chooses("those for this zone terminating", []endpoint{terminating(here), there}, there)
	}},
	{number: "101", name: "hints: internal traffic policy Local ignores them", run: ignoresHints(spec{nodePort: true, iTPLocal: true})},
	{number: "102", name: "hints: external traffic policy Local ignores them", run: ignoresHints(spec{nodePort: true, eTPLocal: true})},
}

// ignoresHints has what a policy keeps on the node lead to both endpoints there, and all else to
// those of the zone.
func ignoresHints(policy spec) func(*T) {
	return func(t *T) {
		a, b := inZone(on(t.Pod2, 1), environment.Zone), inZone(on(t.Pod2, 2), "zone-b")
		there := inZone(on(t.RemotePod, 1), environment.Zone)
		inside, outside := reaches(a, b), reaches(a, there)
		if policy.eTPLocal {
			inside, outside = outside, inside
		}
		s := t.create(policy, a, b, there)
		t.expect("the ClusterIP", flow(t.Pod1, s.clusterIP(), 80), inside)
		t.expect("the node port", flow(t.Client, t.Node.Addr(t.F), s.nodePort(0)), outside)
	}
}
