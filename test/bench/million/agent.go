package million

import (
	"context"
	"encoding/binary"
	"net/netip"
	"runtime"
	"time"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/compile"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/iptables/rules"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/nftables/tables"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/socketlb/fronts"
)

// endpoints is how many a Service has.
const endpoints = 3

// endpoint is the k-th of all addresses of pods.
func endpoint(f allocator.Family, k int) netip.AddrPort {
	base := netip.MustParseAddr("11.0.0.0")
	if f == allocator.IPv6 {
		base = netip.MustParseAddr("fd00:182::")
	}
	a := base.AsSlice()
	low := a[len(a)-4:]
	binary.BigEndian.PutUint32(low, binary.BigEndian.Uint32(low)+uint32(k)+1)
	out, _ := netip.AddrFromSlice(a)
	return netip.AddrPortFrom(out, 8080)
}

// service is the i-th, as the agent knows it, with as many endpoints.
func service(f allocator.Family, i, n int) *model.Service {
	of := name(i)
	s := &model.Service{
		Name: model.ServiceName{Namespace: of.Namespace, Name: of.Name}, Created: time.Unix(1_700_000_000, 0),
		ClusterIPs: []netip.Addr{address(f, i)}, Ports: []model.Port{{Name: "http", Protocol: model.TCP, Port: 80}},
	}
	for k := range n {
		s.Endpoints = append(s.Endpoints, model.Endpoint{Port: "http", Protocol: model.TCP, Addr: endpoint(f, i*(endpoints+1)+k), Node: "node", Ready: true, Serving: true})
	}
	return s
}

// changes are all Services with their IPAddresses.
func (m *measuring) changes(f allocator.Family) model.Changes {
	c := model.Changes{Services: map[model.ServiceName]*model.Service{}, Allocations: map[netip.Addr]*model.Allocation{}, Node: &model.Node{Name: "node"}}
	all := ranges[f]
	c.Ranges = &all
	for i := range m.size.Services {
		s := service(f, i, endpoints)
		c.Services[s.Name] = s
		c.Allocations[s.ClusterIPs[0]] = &model.Allocation{Addr: s.ClusterIPs[0], Service: s.Name}
	}
	return c
}

// agent measures the node's part in one family.
func (m *measuring) agent(ctx context.Context, f allocator.Family) error {
	family := model.Family(f)
	var all model.Changes
	part := func(name string) Part { return Part{name, f} }
	err := m.fill(part("agent: what the API server said, as values"), func() error {
		all = m.changes(f)
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	compiler := compile.New(model.Settings{Family: family, Allocations: model.Prefer, MasqueradeBit: 14})
	var first model.Delta
	_ = m.fill(part("agent: compile"), func() error {
		first = compiler.Apply(all)
		return nil
	})
	all = model.Changes{}
	table := tables.NewTable(family)
	_ = m.fill(part("agent: nftables, elements"), func() error {
		table.Apply(first)
		table.Written(table.Transaction(time.Now()), time.Now())
		return nil
	})
	m.change(f, "nftables", compiler, func(d model.Delta) {
		table.Apply(d)
		table.Written(table.Transaction(time.Now()), time.Now())
	})
	runtime.KeepAlive(table)
	table = nil
	m.iptables(f, first, compiler)
	return m.sockets(ctx, f, first, compiler)
}

// mostRules is up to how many Services rules of iptables are measured: of more the text alone
// takes minutes here.
const mostRules = 10_000

// iptables measures rules, sets and the text for iptables-restore.
func (m *measuring) iptables(f allocator.Family, first model.Delta, compiler *compile.Compiler) {
	if m.size.Services > mostRules {
		m.leaveOut(Part{ofRules, f}, changeOf("iptables", f))
		return
	}
	ruleset := rules.NewRuleset(model.Family(f))
	written := func(d model.Delta) {
		ruleset.Apply(d)
		ruleset.SetsMade(nil)
		ruleset.Members(false)
		ruleset.MembersWritten(false, nil)
		ruleset.Transaction().Text()
		ruleset.Written()
	}
	_ = m.fill(Part{ofRules, f}, func() error {
		written(first)
		return nil
	})
	m.change(f, "iptables", compiler, written)
	runtime.KeepAlive(ruleset)
}

const ofRules = "agent: iptables, rules and their text"

// sockets measures what is decided for translations at connect().
func (m *measuring) sockets(ctx context.Context, f allocator.Family, first model.Delta, compiler *compile.Compiler) error {
	const enough = 1 << 24
	table, kernel := fronts.NewTable(fronts.Limits{Fronts: enough, Places: enough}, true), &nothing{}
	now := time.Now()
	apply := func(d model.Delta) error {
		table.Apply(d)
		now = now.Add(2 * time.Second)
		if err := table.Reduce(kernel, now); err != nil {
			return err
		}
		return table.Extend(kernel, now)
	}
	err := m.fill(Part{"agent: socketlb, fronts", f}, func() error { return apply(first) })
	if err == nil {
		m.change(f, "socketlb", compiler, func(d model.Delta) { err = apply(d) })
	}
	runtime.KeepAlive(table)
	if err == nil {
		err = ctx.Err()
	}
	return err
}

// change measures that the endpoints of one Service change, from the compiler to what is written.
func (m *measuring) change(f allocator.Family, mode string, compiler *compile.Compiler, apply func(model.Delta)) {
	m.each(changeOf(mode, f), func(i int) {
		s := service(f, i*7%m.size.Services, endpoints+1-i%2*2)
		apply(compiler.Apply(model.Changes{Services: map[model.ServiceName]*model.Service{s.Name: s}}))
	})
}

func changeOf(mode string, f allocator.Family) string {
	return "the endpoints of a Service change: compile and " + mode + ", " + f.String()
}

// nothing is a kernel's memory that keeps nothing.
type nothing struct{}

func (*nothing) Grow(int, int) error                          { return nil }
func (*nothing) Write(uint32, netip.AddrPort, netip.AddrPort) {}
func (*nothing) Lead(uint32, uint32, int, bool)               {}
func (*nothing) Add([]fronts.Entry) ([]fronts.Entry, error)   { return nil, nil }
func (*nothing) Remove(netip.AddrPort) error                  { return nil }
func (*nothing) Taken(uint32) uint64                          { return 0 }
