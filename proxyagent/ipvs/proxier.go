//go:build linux

package ipvs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/cloudflare/ipvs"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/backend"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Options make a [Proxier].
type Options struct {
	Family model.Family
	// Rules is the backend that does all but to choose endpoints. It has to know Balanced.
	Rules backend.Backend
	// Scheduler is that of Services that ask for none; empty: rr.
	Scheduler model.Scheduler
	// Exclude are networks in which virtual servers are not taken away.
	Exclude []netip.Prefix
	// Drain is how long an endpoint that goes may keep its connections; zero: 15 minutes.
	Drain time.Duration
	// FullCheck is how often everything is compared; zero: five minutes.
	FullCheck time.Duration
	// Timeouts are those of connections, zero for what the kernel has.
	Timeouts Timeouts
	// Translating is true where rules serve that an agent in another mode left: they go on until
	// the virtual IPs are there.
	Translating bool
}

// Timeouts are those of connections in IPVS: of TCP, of TCP after a FIN, and of UDP.
type Timeouts struct{ TCP, TCPFin, UDP time.Duration }

// Proxier keeps IPVS for one family as a Plan wants it, and hands the Plan on to Rules. Its
// methods may be called concurrently; while one reads the kernel to compare, the rest go on.
type Proxier struct {
	Options
	mu       sync.Mutex
	table    *Table
	kernel   *kernel
	known    bool                                   // the table knows what the kernel has
	compared bool                                   // since a step failed as if it did not
	withheld model.Withheld                         // what the kernel refuses of ports
	draining map[front]map[netip.AddrPort]time.Time // when endpoints that go got the weight 0
	drainAt  time.Time                              // when they were last looked at
	ownAt    time.Time                              // when the addresses of the node were last read
	pace     model.Pace                             // of comparisons
	writes   int                                    // how often IPVS was written: a comparison beside a write says nothing
	changes  int                                    // messages of the last Sync
}

// New returns a Proxier that has not looked at the kernel's virtual servers yet.
func New(o Options) (*Proxier, error) {
	o.Drain, o.FullCheck = cmp.Or(o.Drain, 15*time.Minute), cmp.Or(o.FullCheck, 5*time.Minute)
	k, err := open(o.Family)
	if err != nil {
		return nil, err
	}
	if err := setTimeouts(k, o.Timeouts); err != nil {
		return nil, err
	}
	table := NewTable(o.Family, o.Scheduler)
	table.retryUnavailable(unloaded())
	return &Proxier{Options: o, table: table, kernel: k, draining: map[front]map[netip.AddrPort]time.Time{}}, nil
}

// setTimeouts sets those that are chosen. Zero has the kernel leave one as it is.
func setTimeouts(k *kernel, t Timeouts) error {
	if t == (Timeouts{}) {
		return nil
	}
	seconds := func(d time.Duration) uint32 { return uint32((d + time.Second - 1) / time.Second) }
	if err := k.SetConfig(ipvs.Config{TCPTimeout: seconds(t.TCP), TCPFinTimeout: seconds(t.TCPFin), UDPTimeout: seconds(t.UDP)}); err != nil {
		return fmt.Errorf("setting the time-outs of IPVS: %w", err)
	}
	return nil
}

// Sync brings the kernel to the Plan as it is after the Deltas, in their order, without what the
// kernel refuses of ports. After a failure the next one compares everything.
//
// IPVS serves what comes before the rules let clients through; a virtual IP becomes the node's
// after the rules keep clients from the node's sockets. What goes leaves in the opposite order.
// Rules that give clients the node's address come before the endpoints that need it: see
// masquerading.
func (p *Proxier) Sync(ctx context.Context, deltas ...model.Delta) (full bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changes, full = 0, !p.known
	var problem error
	if full { // the addresses of the node are part of what the rules need
		for _, d := range deltas {
			if d.Globals != nil {
				p.table.globals = *d.Globals // its ranges tell what is ours
			}
		}
		problem = p.compare(ctx)
	}
	deltas = slices.Clone(deltas)
	was := map[model.PortName]*model.ServicePort{}
	for i, d := range deltas {
		d = p.withheld.Apply(d)
		for name := range d.Ports {
			if _, seen := was[name]; !seen {
				was[name] = p.table.ports[name]
			}
		}
		p.table.Apply(d)
		deltas[i] = p.handOn(d)
	}
	if first := masquerading(was, deltas); len(first.Ports) > 0 && !full { // after a restart all ports would come
		if _, err := p.Rules.Sync(ctx, first); err != nil { // what it has not taken up comes with the rest
			problem = err
		}
	}
	if full && p.table.globals.Family != 0 {
		deltas = append(deltas, model.Delta{Globals: p.globals()})
	}
	if p.Translating && problem == nil && p.table.globals.Family != 0 {
		p.Translating, problem = false, p.takeOver(ctx, deltas)
	}
	return full, errors.Join(problem, p.program(ctx, deltas...))
}

// takeOver gives virtual IPs to the node while the rules still translate what goes to them, and
// already keep clients from the node's own sockets. Otherwise new connections would be refused
// between their change and that of the last address.
func (p *Proxier) takeOver(ctx context.Context, deltas []model.Delta) error {
	come, _ := p.table.addresses()
	if len(come) == 0 { // an agent in this mode was before
		return nil
	}
	coming := model.SetOf(come)
	deltas = slices.Clone(deltas)
	for i, d := range deltas {
		deltas[i].Ports = maps.Clone(d.Ports)
		for name, port := range d.Ports {
			if port != nil && slices.ContainsFunc(p.table.fronts(port), func(f front) bool { return coming[f.at.Addr()] }) {
				translated := *port
				translated.Balanced = false
				deltas[i].Ports[name] = &translated
			}
		}
	}
	if _, err := p.Rules.Sync(ctx, deltas...); err != nil {
		return err
	}
	var o outcome
	p.move(&o, come, true) // what is refused will be so again
	return o.err
}

// Served is what Rules say: flows of IPVS end with their virtual server.
func (p *Proxier) Served() []model.ServicePort { return p.Rules.Served() }

// program brings IPVS to what the table wants, and Rules to the Deltas at the right moment. What
// the kernel refuses of ports is withheld, before the rules let clients through to it.
func (p *Proxier) program(ctx context.Context, deltas ...model.Delta) error {
	p.writes++
	p.compared = false
	for {
		var o outcome
		come, gone := p.table.addresses()
		build, _ := p.table.steps()
		p.move(&o, gone, false)
		p.write(&o, build)
		if !o.again() {
			if _, err := p.Rules.Sync(ctx, deltas...); err != nil { // the node's own sockets might be reached at the addresses
				p.known = p.known && o.err == nil
				return errors.Join(o.err, err)
			}
			deltas = nil
			p.move(&o, come, true)
			_, remove := p.table.steps() // anew, for a scheduler may have turned out to be missing
			p.write(&o, remove)
		}
		if !o.again() {
			p.known = p.known && o.err == nil
			if p.known {
				p.table.settled()
			}
			return o.err
		}
		more, err := p.adapt(ctx, o)
		deltas = append(deltas, more)
		if err != nil {
			p.known = false
			_, problem := p.Rules.Sync(ctx, deltas...)
			return errors.Join(err, problem)
		}
	}
}

// adapt looks at the kernel again, or withholds what it refuses. The Delta is for Rules.
func (p *Proxier) adapt(ctx context.Context, o outcome) (model.Delta, error) {
	if o.stale {
		p.compared = true
		err := p.compare(ctx)
		return model.Delta{Globals: p.globals()}, err
	}
	d := p.withheld.Withhold(time.Now(), p.table.ports, o.refused...)
	if len(d.Ports) == 0 {
		return d, fmt.Errorf("without it, as with it: %w", o.refused[0].Why)
	}
	p.table.Apply(d)
	return p.handOn(d), nil
}

func (p *Proxier) drain(s step) {
	want := p.table.wanted(s.front)
	switch {
	case s.action == removeServer:
		delete(p.draining, s.front)
	case s.action == setWeight && s.weight == 0 && (want == nil || !want.has(s.endpoint)):
		if p.draining[s.front] == nil {
			p.draining[s.front] = map[netip.AddrPort]time.Time{}
		}
		p.draining[s.front][s.endpoint] = time.Now()
	default:
		delete(p.draining[s.front], s.endpoint)
		if len(p.draining[s.front]) == 0 {
			delete(p.draining, s.front)
		}
	}
}

// handOn is a Delta as Rules get it.
func (p *Proxier) handOn(d model.Delta) model.Delta {
	out := model.Delta{Allocated: d.Allocated, Ports: make(map[model.PortName]*model.ServicePort, len(d.Ports)), Before: make(map[model.PortName]model.ServicePort, len(d.Before))}
	for name, port := range d.Ports {
		out.Ports[name] = nil
		if port != nil {
			out.Ports[name] = balanced(*port)
		}
	}
	for name, port := range d.Before {
		out.Before[name] = *balanced(port)
	}
	if d.Globals != nil {
		out.Globals = p.globals()
	}
	return out
}

// balanced is a port for Rules. They translate only for this node's clients, where the policy
// is Local: they may use all endpoints.
func balanced(port model.ServicePort) *model.ServicePort {
	port.Balanced, port.Scheduler = true, ""
	if !port.ExternalLocal || !port.HasExternal() {
		port.AffinitySeconds, port.Weights = 0, nil
	}
	return &port
}

// globals are those for Rules, with node ports at the addresses that have virtual servers.
// LocalhostNodePorts stays: 127.0.0.0/8 may be open to neighbours from an agent in another mode.
func (p *Proxier) globals() *model.Globals {
	g := p.table.globals
	g.Balanced, g.NodeAddrs = true, slices.SortedFunc(maps.Keys(p.table.own), netip.Addr.Compare)
	g.NodePortAny, g.NodePortAddrs = false, p.table.nodes
	return &g
}

// Degraded lists what is refused of ports, those without their scheduler, and what Rules list.
func (p *Proxier) Degraded() []model.Degradation {
	all := p.Rules.Degraded()
	p.mu.Lock()
	defer p.mu.Unlock()
	all = append(all, p.withheld.Degraded()...)
	for name, port := range p.table.ports {
		if _, ok := p.table.scheduler(port); !ok {
			all = append(all, model.Degradation{Port: name, Reason: model.SchedulerUnavailable})
		}
	}
	slices.SortFunc(all, model.Degradation.Compare)
	return all
}

// Counts adds virtual servers and destinations, and the last Sync's messages; nil before any Sync.
func (p *Proxier) Counts() (total, written map[string]int) {
	total, written = p.Rules.Counts()
	p.mu.Lock()
	defer p.mu.Unlock()
	if total == nil || !p.known {
		return nil, nil
	}
	n := len(p.table.have)
	for _, s := range p.table.have {
		n += len(s.weights)
	}
	total[table], written[table] = n, p.changes
	return total, written
}

// table is how metrics call what is in IPVS.
const table = "ipvs"

// Describe lists a port's virtual servers with destinations, for an admin, and what Rules have.
func (p *Proxier) Describe(n model.PortName) []string {
	lines := p.Rules.Describe(n)
	p.mu.Lock()
	defer p.mu.Unlock()
	port := p.table.ports[n]
	if port == nil {
		return lines
	}
	lines = append(lines, fmt.Sprintf("Virtual servers of %s in IPVS:", n))
	if _, ok := p.table.scheduler(port); !ok {
		lines = append(lines, "  "+model.SchedulerUnavailable.String())
	}
	for _, f := range p.table.fronts(port) {
		s := p.table.have[f]
		if s == nil {
			lines = append(lines, fmt.Sprintf("  %s: none, there is no endpoint", f))
			continue
		}
		lines = append(lines, fmt.Sprintf("  %s: %s", f, s.balancing))
		lines = append(lines, p.describe(f)...)
	}
	return lines
}

// describe lists destinations as the kernel has them now.
func (p *Proxier) describe(f front) (lines []string) {
	all, err := p.kernel.destinations(f)
	if err != nil {
		return []string{"    " + err.Error()}
	}
	for _, d := range all {
		at := netip.AddrPortFrom(d.Address, d.Port)
		text := fmt.Sprintf("    -> %s weight %d, %d active and %d inactive connections", at, d.Weight, d.ActiveConnections, d.InactiveConnections)
		if since, drains := p.draining[f][at]; drains {
			text += fmt.Sprintf(", drains since %s", since.Format(time.RFC3339))
		}
		lines = append(lines, text)
	}
	return slices.Sorted(slices.Values(lines))
}

// InvalidDropped is what Rules count.
func (p *Proxier) InvalidDropped() uint64 {
	if counter, ok := p.Rules.(interface{ InvalidDropped() uint64 }); ok {
		return counter.InvalidDropped()
	}
	return 0
}
