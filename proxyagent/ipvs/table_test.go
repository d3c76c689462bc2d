//go:build linux

package ipvs

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

var (
	nodeAddr  = netip.MustParseAddr("192.0.2.10")
	otherAddr = netip.MustParseAddr("198.51.100.10")
)

func servicePort(i int, change func(*model.ServicePort)) *model.ServicePort {
	p := &model.ServicePort{
		Name: model.PortName{Service: model.ServiceName{Namespace: "default", Name: fmt.Sprint(i)}, Protocol: model.TCP}, Port: 80,
		ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)})}, HasEndpoints: true, Cluster: []netip.AddrPort{one, two}, Local: []netip.AddrPort{one},
	}
	if change != nil {
		change(p)
	}
	return p
}

func delta(ports ...*model.ServicePort) model.Delta {
	d := model.Delta{Ports: map[model.PortName]*model.ServicePort{}}
	for _, p := range ports {
		d.Ports[p.Name] = p
	}
	return d
}

// program takes all steps, and returns how many there were.
func program(t *Table) (messages int) {
	build, _ := t.steps()
	for _, s := range build {
		t.done(s)
	}
	_, clear := t.steps()
	for _, s := range clear {
		t.done(s)
	}
	come, gone := t.addresses()
	for _, a := range come {
		t.bound[a] = true
	}
	for _, a := range gone {
		delete(t.bound, a)
	}
	t.settled()
	return len(build) + len(clear) + len(come) + len(gone)
}

func newTable(ports ...*model.ServicePort) *Table {
	t := NewTable(model.IPv4, "")
	t.SetOwn([]netip.Addr{nodeAddr, otherAddr})
	d := delta(ports...)
	d.Globals = &model.Globals{Family: model.IPv4, NodePortAny: true}
	t.Apply(d)
	program(t)
	return t
}

func TestMessagesForOneChangeDoNotGrow(t *testing.T) {
	for _, n := range []int{10, 1000, 10_000} {
		var ports []*model.ServicePort
		for i := range n {
			ports = append(ports, servicePort(i, nil))
		}
		table := newTable(ports...)
		if got := program(table); got != 0 || len(table.have)+len(table.bound) != 2*n {
			t.Fatalf("%d Services, programmed: %d messages more, want 0; knows %d of %d", n, got, len(table.have)+len(table.bound), 2*n)
		}
		table.Apply(delta(servicePort(5, func(p *model.ServicePort) { p.Cluster = []netip.AddrPort{one} })))
		if got := program(table); got != 1 {
			t.Errorf("%d Services: %d messages for an endpoint that goes, want 1", n, got)
		}
		table.Apply(delta(servicePort(5, nil)))
		if got := program(table); got != 1 {
			t.Errorf("%d Services: %d messages for an endpoint that comes back, want 1", n, got)
		}
	}
}

func TestFrontsOfAPort(t *testing.T) {
	external, balancer := netip.MustParseAddr("203.0.113.1"), netip.MustParseAddr("203.0.113.2")
	table := newTable(servicePort(1, func(p *model.ServicePort) {
		p.ExternalIPs, p.LoadBalancerIPs, p.NodePort, p.ExternalLocal = []netip.Addr{external, nodeAddr}, []netip.Addr{balancer}, 30000, true
	}))
	local, all := map[netip.AddrPort]int{one: 1}, map[netip.AddrPort]int{one: 1, two: 1}
	want := map[front]map[netip.AddrPort]int{}
	for text, weights := range map[string]map[netip.AddrPort]int{
		"10.96.0.1:80": all, "203.0.113.1:80": local, "203.0.113.2:80": local, "192.0.2.10:30000": local, "198.51.100.10:30000": local, "0.0.0.0:30000": {},
		"192.0.2.10:80": local, "0.0.0.0:80": {}, // an external IP that is an address of the node
	} {
		want[front{model.TCP, netip.MustParseAddrPort(text)}] = weights
	}
	have := map[front]map[netip.AddrPort]int{}
	for f, s := range table.have {
		have[f] = s.weights
	}
	if !reflect.DeepEqual(have, want) {
		t.Errorf("got %v, want %v", have, want)
	}
	if bound := map[netip.Addr]bool{external: true, balancer: true, netip.MustParseAddr("10.96.0.1"): true}; !maps.Equal(table.bound, bound) {
		t.Errorf("our interface has %v, want %v", table.bound, bound)
	}
	build, _ := NewTable(model.IPv4, "").steps()
	if len(build) != 0 {
		t.Errorf("an empty table wants %v", build)
	}
}

func TestMarksComeFirstAndGoLast(t *testing.T) {
	p := servicePort(1, func(p *model.ServicePort) { p.NodePort = 30000 })
	table := NewTable(model.IPv4, "")
	table.SetOwn([]netip.Addr{nodeAddr})
	d := delta(p)
	d.Globals = &model.Globals{Family: model.IPv4, NodePortAny: true}
	table.Apply(d)
	if build, _ := table.steps(); !build[0].isMark() {
		t.Errorf("first %v", build[0])
	}
	program(table)
	table.Apply(model.Delta{Ports: map[model.PortName]*model.ServicePort{p.Name: nil}})
	if _, clear := table.steps(); !clear[len(clear)-1].isMark() {
		t.Errorf("last %v", clear[len(clear)-1])
	}
	program(table)
	if len(table.have)+len(table.bound) != 0 {
		t.Errorf("left over: %v, %v", table.have, table.bound)
	}
}

func TestSchedulers(t *testing.T) {
	random := servicePort(1, func(p *model.ServicePort) { p.Scheduler = model.Random })
	maglev := servicePort(2, func(p *model.ServicePort) { p.Scheduler = model.MaglevHashing })
	table := newTable(random, maglev)
	scheduler := func(p *model.ServicePort) model.Scheduler { return table.have[table.fronts(p)[0]].scheduler }
	if _, ok := table.scheduler(random); ok || scheduler(random) != model.RoundRobin {
		t.Errorf("random: %s", scheduler(random))
	}
	if _, ok := table.scheduler(maglev); !ok || scheduler(maglev) != model.MaglevHashing {
		t.Errorf("mh: %s", scheduler(maglev))
	}
	table.refuse(model.MaglevHashing)
	program(table)
	if scheduler(maglev) != model.RoundRobin {
		t.Errorf("mh, which the kernel does not have: %s", scheduler(maglev))
	}
	table.retryUnavailable(nil)
	program(table)
	if scheduler(maglev) != model.MaglevHashing {
		t.Errorf("mh, which the kernel has by now: %s", scheduler(maglev))
	}
}

// TestSchedulersThatMayNotBeLoaded are served with the default until their module is there, and
// never asked for before.
func TestSchedulersThatMayNotBeLoaded(t *testing.T) {
	locality := servicePort(1, func(p *model.ServicePort) { p.Scheduler, p.NodePort = model.LocalityLeastConnection, 30001 })
	table := NewTable(model.IPv4, "")
	table.retryUnavailable([]model.Scheduler{model.LocalityLeastConnection})
	table.SetOwn([]netip.Addr{nodeAddr})
	table.Apply(delta(locality))
	schedulers := func() (all []model.Scheduler) {
		build, _ := table.steps()
		for _, s := range build {
			if s.action == addServer || s.action == setServer {
				all = append(all, s.scheduler)
			}
		}
		program(table)
		return slices.Compact(all)
	}
	if got := schedulers(); !slices.Equal(got, []model.Scheduler{model.RoundRobin}) {
		t.Errorf("unloaded: the kernel is asked for %v", got)
	}
	if _, ok := table.scheduler(locality); ok {
		t.Error("unloaded: nothing is told")
	}
	table.retryUnavailable([]model.Scheduler{model.LocalityLeastConnection})
	if len(table.touched) > 0 {
		t.Errorf("still unloaded: %d virtual servers are looked at", len(table.touched))
	}
	table.retryUnavailable(nil)
	if got := schedulers(); !slices.Equal(got, []model.Scheduler{model.LocalityLeastConnection}) {
		t.Errorf("loaded: the kernel is asked for %v", got)
	}
}

// TestHistoryDoesNotMatter compares what random changes lead to with what their result gives.
func TestHistoryDoesNotMatter(t *testing.T) {
	seeds := uint64(200)
	if testing.Short() {
		seeds = 30
	}
	for seed := range seeds {
		random := rand.New(rand.NewPCG(seed, 0))
		table, plan := newTable(), map[model.PortName]*model.ServicePort{}
		own := []netip.Addr{nodeAddr, otherAddr}
		for range 40 {
			p := servicePort(random.IntN(6), func(p *model.ServicePort) { vary(random, p) })
			d := delta(p)
			if random.IntN(4) == 0 {
				d.Ports[p.Name] = nil
			}
			if random.IntN(8) == 0 {
				own = []netip.Addr{nodeAddr, otherAddr}[:1+random.IntN(2)]
				table.SetOwn(own)
			}
			table.Apply(d)
			delete(plan, p.Name)
			if d.Ports[p.Name] != nil {
				plan[p.Name] = d.Ports[p.Name]
			}
			if random.IntN(2) == 0 {
				program(table)
			}
		}
		program(table)
		fresh := NewTable(model.IPv4, "")
		fresh.SetOwn(own)
		fresh.Apply(model.Delta{Globals: &table.globals, Ports: plan})
		program(fresh)
		for f, s := range table.have { // those that drain
			maps.DeleteFunc(s.weights, func(_ netip.AddrPort, w int) bool { return w == 0 })
			if len(s.weights) == 0 && !f.isMark() {
				delete(table.have, f)
			}
		}
		for f, s := range table.have {
			if w := fresh.have[f]; w == nil || !reflect.DeepEqual(s, w) {
				t.Fatalf("seed %d: %s: %v, want %v", seed, f, s, w)
			}
		}
		if len(table.have) != len(fresh.have) || !maps.Equal(table.bound, fresh.bound) {
			t.Fatalf("seed %d: %d virtual servers at %v, want %d at %v", seed, len(table.have), table.bound, len(fresh.have), fresh.bound)
		}
	}
}

func vary(random *rand.Rand, p *model.ServicePort) {
	some := []netip.AddrPort{one, two, netip.MustParseAddrPort("10.244.1.3:8080")}
	p.Cluster, p.Local = some[:random.IntN(4)], some[:random.IntN(2)]
	p.ExternalLocal = random.IntN(2) == 0
	if random.IntN(2) == 0 {
		p.Name.Protocol = model.UDP
	}
	if random.IntN(2) == 0 {
		p.NodePort = 30000 + uint16(p.ClusterIPs[0].As4()[3])
	}
}
