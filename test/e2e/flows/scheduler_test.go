package flows_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// asks is a Service with an annotation for a scheduler, and one for weights unless it is empty.
func asks(scheduler model.Scheduler, weights string) spec {
	return spec{change: func(s *corev1.Service) {
		s.Annotations = map[string]string{v1alpha1.AnnotationScheduler: string(scheduler), v1alpha1.AnnotationEndpointWeights: weights}
		maps.DeleteFunc(s.Annotations, func(_, value string) bool { return value == "" })
	}}
}

// counted is where n connections led, by endpoint. It fails when one of them leads nowhere.
func counted(n int, f Flow) (map[netip.Addr]int, error) {
	reached := map[netip.Addr]int{}
	f.Timeout = patient
	for i := range n {
		if f.vary != nil {
			f.vary(i, &f.Probe)
		}
		got := f.dial()
		if got.Outcome != network.Connected {
			return nil, fmt.Errorf("connection %d: got %s", i, got)
		}
		reached[got.Endpoint.Addr()]++
	}
	return reached, nil
}

// patient is the timeout of connections that are not repeated.
const patient = 20 * time.Second

// shares returns an error unless connections spread over endpoints as listed, each within limit.
func (t *T) shares(f Flow, all []endpoint, limit int, want ...int) error {
	reached, err := counted(sumOf(want), f)
	for i, e := range all {
		if got := reached[e.Addr(t.F)]; err == nil && (got < want[i]-limit || got > want[i]+limit) {
			err = fmt.Errorf("endpoint %d got %d of %v, want %v, give or take %d", i, got, reached, want, limit)
		}
	}
	return err
}

// exactly wants connections spread as listed, at once: chance would bring any result in the end.
func (t *T) exactly(f Flow, all []endpoint, want ...int) {
	var some []endpoint
	for i, e := range all {
		if want[i] > 0 {
			some = append(some, e)
		}
	}
	t.expect("all that weigh something", f, reaches(some...))
	t.must(t.shares(f, all, 0, want...))
}

func sumOf(all []int) (n int) {
	for _, x := range all {
		n += x
	}
	return n
}

// inZones creates a Service whose endpoints are in the zones a, b, c and so on.
func (t *T) inZones(s spec, all ...endpoint) service {
	made := t.create(s)
	slice := t.NewSlice(made.Service, t.F, all...)
	for i := range slice.Endpoints {
		slice.Endpoints[i].Zone = new(string(rune('a' + i)))
	}
	t.Slice(t.ctx, slice)
	return made
}

const zone = corev1.LabelTopologyZone

// told wants an event of a Service for each reason.
func (t *T) told(s service, reasons ...model.DegradationReason) {
	t.eventually(fmt.Sprint("events with ", reasons), func() error {
		events, err := t.Cluster.Client().EventsV1().Events(t.Name).List(t.ctx, metav1.ListOptions{})
		t.must(err)
		for _, reason := range reasons {
			if !slices.ContainsFunc(events.Items, func(e eventsv1.Event) bool {
				return e.Regarding.Name == s.Name && e.Reason == string(reason) && e.Type == corev1.EventTypeWarning
			}) {
				return fmt.Errorf("no event of %s with reason %s", s.Name, reason)
			}
		}
		return nil
	})
}

// endpointsOf is where clients of the first so many further addresses get to.
func (t *T) endpointsOf(clients int, f Flow) (all []netip.Addr) {
	for i := range clients {
		f.Timeout = patient
		got := bound(t.Client.Extra(t.F, 3000+i), 0, f).dial()
		if got.Outcome != network.Connected {
			t.fail("client %d: got %s", i, got)
		}
		all = append(all, got.Endpoint.Addr())
	}
	return all
}

// Kinds of proxies by what they have.
var (
	hashesByTable = []kind{oursNative}
	turns         = []kind{oursNative, oursIPVS} // and hashes
	atRandom      = []kind{oursNFT, oursLegacy, oursNative}
	ours          = append(slices.Clone(atRandom), oursIPVS)
)

var schedulerScenarios = []scenario{
	{number: "151", kinds: turns, name: "rr: each endpoint gets its turn, of ClusterIPs and of node ports", run: func(t *T) {
		all := t.six()[:3]
		s := asks(model.RoundRobin, "")
		s.nodePort = true
		made := t.create(s, all...)
		t.exactly(flow(t.Pod1, made.clusterIP(), 80), all, 10, 10, 10)
		t.exactly(flow(t.Client, t.Node.Addr(t.F), made.nodePort(0)), all, 10, 10, 10)
	}},
	{number: "152", kinds: turns, name: "wrr: each endpoint gets as many as the zone of its slice weighs", run: func(t *T) {
		all := t.six()[:4]
		s := t.inZones(asks(model.WeightedRoundRobin, zone+"=a:6,"+zone+"=b:2, "+zone+"=c:0,"+zone+"=d:4"), all...)
		t.exactly(flow(t.Pod1, s.clusterIP(), 80), all, 15, 5, 0, 10)
	}},
	{number: "153", kinds: atRandom, name: "random: each endpoint gets about as many as a label of its node weighs", run: func(t *T) {
		all := []endpoint{t.local, t.remote}
		t.patchNode(t.ctx, `{"metadata":{"labels":{"example.com/disk":"ssd"}}}`)
		s := t.create(asks(model.Random, "example.com/disk=ssd:3"), all...)
		// 35 is 4.7 deviations: no number of attempts would get so far from half without the weights.
		t.eventually("three quarters for the node's", func() error { return t.shares(flow(t.Pod1, s.clusterIP(), 80), all, 35, 225, 75) })
	}},
	{number: "154", kinds: turns, name: "sh: a client keeps its endpoint over all addresses of the Service, and others have others", run: func(t *T) {
		s := asks(model.SourceHashing, "")
		s.lb = t.virtual()
		made := t.create(s, t.six()...)
		t.sticks("a pod", flow(t.Pod1, made.clusterIP(), 80), flow(t.Pod1, made.lb(), 80))
		t.sticks("the node", flow(t.Node, made.clusterIP(), 80))
		t.expect("clients", t.everyone(flow(t.Client, made.clusterIP(), 80)), reaches(t.six()...))
	}},
	{number: "155", kinds: hashesByTable, name: "mh: clients keep their endpoints, but those of one that goes, who are at most 2/n", run: func(t *T) {
		all, clients := t.six(), 120
		s := t.create(asks(model.MaglevHashing, ""), all...)
		f := flow(t.Client, s.clusterIP(), 80)
		t.expect("clients", t.everyone(f), reaches(all...))
		before, again := t.endpointsOf(clients, f), t.endpointsOf(clients, f)
		if !slices.Equal(before, again) {
			t.fail("clients do not keep their endpoints: %v, then %v", before, again)
		}
		gone := all[2].Addr(t.F)
		s.setEndpoints(slices.Delete(slices.Clone(all), 2, 3)...)
		t.expect("the rest", t.everyone(f), reaches(slices.Delete(slices.Clone(all), 2, 3)...))
		moved := 0
		for i, now := range t.endpointsOf(clients, f) {
			if now == before[i] {
				continue
			}
			moved++
			if before[i] != gone {
				t.fail("client %d of %s moves to %s, although %s goes", i, before[i], now, gone)
			}
		}
		if moved == 0 || moved > 2*clients/len(all) {
			t.fail("%d of %d clients move", moved, clients)
		}
	}},
	{number: "156", kinds: turns, name: "affinity comes first, and rr chooses for new clients", run: func(t *T) {
		all := t.six()[:3]
		s := asks(model.RoundRobin, "")
		s.affinitySeconds = 100
		made := t.create(s, all...)
		t.sticks("a pod", flow(t.Pod1, made.clusterIP(), 80))
		f := flow(t.Client, made.clusterIP(), 80)
		f.vary = func(i int, p *network.Probe) { p.Source = netip.AddrPortFrom(t.Client.Extra(t.F, 5000+i), 0) }
		t.must(t.shares(f, all, 0, 10, 10, 10))
	}},
	{number: "157", kinds: ours, name: "annotations that cannot be read get events, and have no effect", run: func(t *T) {
		s := t.create(asks("rr; flush ruleset", "a=b:1000"), t.six()[:3]...)
		t.told(s, model.SchedulerInvalid, model.WeightsInvalid)
		t.expect("a pod", flow(t.Pod1, s.clusterIP(), 80), reaches(t.six()[:3]...))
	}},
	{number: "158", kinds: atRandom, name: "a scheduler that the mode does not have gets an event, and any endpoint is used", run: func(t *T) {
		s := t.create(asks(model.LeastConnection, ""), t.six()[:3]...)
		t.told(s, model.SchedulerUnavailable)
		t.expect("a pod", flow(t.Pod1, s.clusterIP(), 80), reaches(t.six()[:3]...))
	}},
}
