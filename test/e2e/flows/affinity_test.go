package flows_test

import (
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// six endpoints: 8 independent choices agree by chance once in 280,000 times.
func (t *T) six() (all []endpoint) {
	for i := 1; i <= 3; i++ {
		all = append(all, on(t.Pod2, i), on(t.RemotePod, i))
	}
	return all
}

// sticks wants 8 connections, over any of the flows in turn, to lead to one endpoint.
func (t *T) sticks(what string, flows ...Flow) {
	t.eventually(what, func() error {
		var first netip.AddrPort
		for i := range 8 * len(flows) {
			got := flows[i%len(flows)].dial()
			if got.Outcome != network.Connected {
				return fmt.Errorf("got %s", got)
			}
			if i == 0 {
				first = got.Endpoint
			}
			if got.Endpoint != first {
				return fmt.Errorf("got %s first, and %s in attempt %d", first, got, i+1)
			}
		}
		return nil
	})
}

const remembered = "IPVS remembers a client as long as it remembers one of its connections"

var affinityScenarios = []scenario{
	{number: "105", name: "affinity: a client sticks to an endpoint of a ClusterIP", run: func(t *T) {
		s := t.create(spec{affinitySeconds: 100}, t.six()...)
		t.sticks("a pod", flow(t.Pod1, s.clusterIP(), 80))
		t.sticks("the node", flow(t.Node, s.clusterIP(), 80))
		t.expect("while different clients reach them all", t.everyone(flow(t.Client, s.clusterIP(), 80)), reaches(t.six()...))
	}},
	{number: "106", name: "affinity: to one of a node port, over all addresses of the Service alike", run: func(t *T) {
		s := t.create(spec{affinitySeconds: 100, lb: t.virtual(), externalIPs: t.virtual()}, t.six()...)
		t.sticks("a client", flow(t.Client, t.Node.Addr(t.F), s.nodePort(0)))
		all := []Flow{flow(t.Client, s.clusterIP(), 80), flow(t.Client, s.lb(), 80), flow(t.Client, s.externalIP(), 80),
			flow(t.Client, t.Node.Addr(t.F), s.nodePort(0))}
		if t.kind != withIPVS {
			t.sticks("over all addresses", all...)
			return
		}
		for _, f := range all { // its virtual servers begin with any of the endpoints
			t.sticks("to one at "+f.To.String(), f)
		}
	}},
	{number: "107", name: "affinity: to one of a load balancer IP, with eTP Local and source ranges", run: func(t *T) {
		s := t.create(spec{affinitySeconds: 100, lb: t.virtual(), eTPLocal: true, sourceRanges: []string{clientRange(t)}}, t.six()...)
		t.sticks("a client", fromRange(t, flow(t.Client, s.lb(), 80)))
		t.expect("another one", flow(t.Client, s.lb(), 80), dropped)
	}},
	{number: "107b", kinds: []kind{oursNFT, oursLegacy, oursNative}, name: "affinity: to one of a node port, at an address of the node that is another Service's external IP", run: func(t *T) {
		alt := network.AltNodeAddr(t.F)
		other := t.create(spec{externalIPs: []string{alt.String()}, ports: []port{{port: 7010 + int32(t.F)}}}, t.local)
		s := t.create(spec{affinitySeconds: 100, nodePort: true}, t.six()...)
		t.expect("the other Service", flow(t.Client, alt, uint16(other.Spec.Ports[0].Port)), reaches(t.local))
		client := t.Client.Addr(t.F) // on the way to either address
		t.sticks("a client", bound(client, 0, flow(t.Client, alt, s.nodePort(0))), bound(client, 0, flow(t.Client, t.Node.Addr(t.F), s.nodePort(0))))
	}},
	{number: "108", name: "affinity: TCP and UDP ports each have their own", run: func(t *T) {
		s := t.create(spec{affinitySeconds: 100, ports: everyProtocol}, t.six()...)
		for _, p := range model.Protocols {
			t.sticks(p.String(), over(p, flow(t.Pod1, s.clusterIP(), 80)))
		}
	}},
	{number: "109", name: "affinity ends after its time-out, which each new connection extends",
		differs: map[kind]string{oursIPVS: remembered, withIPVS: remembered}, run: func(t *T) {
			s := t.create(spec{affinitySeconds: 5}, t.six()...)
			f := flow(t.Pod1, s.clusterIP(), 80)
			t.sticks("at first", f)
			t.settle()
			f.Timeout = patient
			var first netip.AddrPort
			var before time.Time
			for kept, asks := 0, 0; kept <= 7; kept++ { // longer than the time-out
				if asks++; asks > 60 {
					t.fail("the machine stalls again and again")
					return
				}
				asked := time.Now()
				got := t.Pod1.Dial(f.Probe)
				if got.Outcome == network.Connected && time.Since(before) > 4*time.Second {
					first, kept = got.Endpoint, 0 // it begins, also anew when the machine has stalled until the time-out may be over
				} else if got.Endpoint != first {
					t.fail("after a second: got %s, want %s", got, first)
				}
				before = asked
				time.Sleep(time.Second) // the clock is what is under test
			}
			for range 8 {
				time.Sleep(6100 * time.Millisecond)
				if got := t.Pod1.Dial(f.Probe); got.Outcome == network.Connected && got.Endpoint != first {
					return
				}
			}
			t.fail("after six seconds without a connection, eight times: always %s", first)
		}},
	{number: "110", name: "affinity is switched on and off", run: func(t *T) {
		s := t.create(spec{}, t.six()...)
		f := flow(t.Pod1, s.clusterIP(), 80)
		t.expect("off", f, reaches(t.six()...))
		s = s.update(func(o *corev1.Service) { o.Spec.SessionAffinity = corev1.ServiceAffinityClientIP })
		t.sticks("on", f)
		s.update(func(o *corev1.Service) {
			o.Spec.SessionAffinity, o.Spec.SessionAffinityConfig = corev1.ServiceAffinityNone, nil
		})
		t.expect("off again", f, reaches(t.six()...))
	}},
	{number: "111", name: "affinity to an endpoint that goes or is not ready ends, another one sticks", run: func(t *T) {
		all := t.six()
		s := t.create(spec{affinitySeconds: 100}, all...)
		f := flow(t.Pod1, s.clusterIP(), 80)
		t.sticks("at first", f)
		for _, change := range []func(endpoint) []endpoint{
			func(endpoint) []endpoint { return nil },
			func(e endpoint) []endpoint { return []endpoint{unready(e)} },
		} {
			bad := t.Pod1.Dial(f.Probe).Endpoint.Addr()
			var rest, now []endpoint
			for _, e := range all {
				if e.Addr(t.F) == bad {
					now = append(now, change(e)...)
					continue
				}
				rest, now = append(rest, e), append(now, e)
			}
			s.setEndpoints(now...)
			t.expect("another one", f, reachesSome(rest...))
			t.sticks("and that sticks", f)
		}
	}},
	{number: "112", name: "affinity holds for 2,000 clients of two endpoints",
		differs: map[kind]string{withIPTables: "xt_recent remembers 100 clients per endpoint"},
		run: func(t *T) {
			s := t.create(spec{affinitySeconds: int32(1000 * network.Slowness)}, t.six()[:2]...)
			t.expect("the Service", flow(t.Pod1, s.clusterIP(), 80), reachesSome(t.six()[:2]...))
			t.settle()
			const clients = 2000
			first, lost := map[int]netip.AddrPort{}, 0
			for round := range 2 {
				for i := range clients {
					f := bound(t.Client.Extra(t.F, 1000+i), 0, flow(t.Client, s.clusterIP(), 80))
					f.Timeout = patient
					got := f.dial()
					if got.Outcome != network.Connected {
						t.fail("client %d: got %s", i, got)
						return
					}
					if round == 0 {
						first[i] = got.Endpoint
					} else if first[i] != got.Endpoint {
						lost++
					}
				}
			}
			if lost > 0 {
				t.fail("%d of %d clients lost their endpoint", lost, clients)
			}
		}},
}

// settle waits until kube-proxy is done with all that was changed before. A Service that is served
// says that its rules are written; flows are looked at after that, which the next one proves.
// Without that, an expectation that all stays as it was holds before kube-proxy has looked.
func (t *T) settle() {
	if t.kind.ours() {
		return
	}
	for range 2 {
		later := t.create(spec{}, t.local)
		t.expect("a later Service", flow(t.Pod1, later.clusterIP(), 80), reachesSome(t.local))
	}
}

// everyone is a flow from another address of the client each time.
func (t *T) everyone(f Flow) Flow {
	f.vary = func(i int, p *network.Probe) { p.Source = netip.AddrPortFrom(t.Client.Extra(t.F, 100+i), 0) }
	return f
}
