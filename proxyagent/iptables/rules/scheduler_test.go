package rules

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework/plans"
)

// weigh gives endpoints weights, in their order and again from the first.
func weigh(endpoints []netip.AddrPort, weights ...uint8) model.Weights {
	w := model.Weights{}
	for i, e := range endpoints {
		w[e] = weights[i%len(weights)]
	}
	return w
}

// TestProbabilitiesFollowWeights in a chain and in the tree. 0 is no endpoint, unless all have it.
func TestProbabilitiesFollowWeights(t *testing.T) {
	for _, family := range []model.Family{model.IPv4, model.IPv6} {
		for _, affinity := range []int{0, 60} {
			for _, n := range []int{1, 2, 3, 12, 13, 40, 300} {
				for _, weights := range [][]uint8{{1}, {0}, {100}, {2, 0, 5}, {1, 100, 0, 7, 3}} {
					endpoints := plans.Endpoints(family, n)
					start, chains := pick(family, endpoints, affinity, weights...)
					w := newWalker(t, chains)
					w.walk(start, 1)
					proportional(t, w.ends, endpoints, weights)
				}
			}
		}
	}
}

func proportional(t *testing.T, ends map[string]float64, endpoints []netip.AddrPort, weights []uint8) {
	t.Helper()
	total := 0.0
	for i := range endpoints {
		total += float64(weights[i%len(weights)])
	}
	for i, e := range endpoints {
		want := float64(weights[i%len(weights)]) / total
		if total == 0 {
			want = 1 / float64(len(endpoints))
		}
		if math.Abs(ends[e.String()]-want)*float64(len(endpoints)) > 1e-6 {
			t.Errorf("weights %d: of %d endpoints %s gets %v of the clients, want %v", weights, len(endpoints), e, ends[e.String()], want)
		}
	}
}

// asked is a port that asks for a scheduler.
func asked(s model.Scheduler, number uint16, endpoints int) *model.ServicePort {
	p := model.ServicePort{
		Name: named(model.TCP), Port: number, ClusterIPs: addrs("10.96.0.1"), Scheduler: s, HasEndpoints: true, Cluster: plans.Endpoints(model.IPv4, endpoints),
	}
	p.Name.Port = fmt.Sprint(s, number)
	return &p
}

func changeOf(ports ...*model.ServicePort) model.Delta {
	d := model.Delta{Ports: map[model.PortName]*model.ServicePort{}}
	for _, p := range ports {
		d.Ports[p.Name] = p
	}
	return d
}

// TestSchedulersThatAreNotHad are told of, until the port goes or asks for none: endpoints are
// chosen at random then.
func TestSchedulersThatAreNotHad(t *testing.T) {
	r, g := NewRuleset(model.IPv4), complete(model.Globals{})
	var ports []*model.ServicePort
	for i, s := range model.Schedulers {
		ports = append(ports, asked(s, uint16(80+i), 2))
	}
	random, others := ports[0], ports[1:]
	r.Apply(model.Delta{Globals: &g})
	r.Apply(changeOf(ports...))
	slices.SortFunc(others, func(a, b *model.ServicePort) int { return a.Name.Compare(b.Name) })
	expectUnscheduled(t, r, others...)
	for _, p := range others {
		text := strings.Join(r.Describe(p.Name, "title"), "\n")
		if !strings.Contains(text, "nftables has random, rr, wrr, sh, mh") || !strings.Contains(text, "--mode random") {
			t.Errorf("described as\n%s", text)
		}
	}
	if text := strings.Join(r.Describe(random.Name, "title"), "\n"); strings.Contains(text, "without") {
		t.Errorf("described as\n%s", text)
	}
	g.MasqueradeBit++ // renders all ports again
	r.Apply(model.Delta{Globals: &g})
	expectUnscheduled(t, r, others...)
	one := others[0]
	r.Apply(changeOf(one.Unserved()))
	expectUnscheduled(t, r, others[1:]...) // one that is not served does without more than its scheduler
	r.Apply(changeOf(one))
	expectUnscheduled(t, r, others...)
	asks := *one
	asks.Scheduler = ""
	r.Apply(changeOf(&asks))
	expectUnscheduled(t, r, others[1:]...)
	d := changeOf(ports...)
	for name := range d.Ports {
		d.Ports[name] = nil
	}
	r.Apply(d)
	expectUnscheduled(t, r)
	checkTargets(t, r)
}

func expectUnscheduled(t *testing.T, r *Ruleset, ports ...*model.ServicePort) {
	t.Helper()
	var want []model.Degradation
	for _, p := range ports {
		want = append(want, model.Degradation{Port: p.Name, Reason: model.SchedulerUnavailable})
	}
	if got := r.Degraded(); !slices.Equal(got, want) {
		t.Errorf("degraded: %v, want %v", got, want)
	}
}
