package iptables

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// harmless is what a rule may consist of.
var harmless = regexp.MustCompile(`^[A-Za-z0-9 .,:/!+\[\]-]+$`)

// FuzzRender makes ports of random numbers and of names that no API server would let through, renders them one after the other, and looks
// that every rule is harmless, every target and set exists, and that in the end nothing stays.
func FuzzRender(f *testing.F) {
	f.Add(uint64(1), uint8(4), "default", "web", "http")
	f.Add(uint64(2), uint8(6), "a\n-A CIPA-SERVICES -j ACCEPT", "\"x\" -j DROP", "COMMIT\n*nat")
	f.Add(uint64(3), uint8(4), "", "", "")
	f.Add(uint64(4), uint8(6), "\x00", "../../etc", "$(reboot)")
	f.Fuzz(func(t *testing.T, seed uint64, bits uint8, namespace, name, port string) {
		family := model.IPv4
		if bits&2 != 0 {
			family = model.IPv6
		}
		j := junk{plans: newPlans(seed, family), words: []string{namespace, name, port}}
		r := NewRuleset(family)
		r.Apply(whole(j.plan))
		for range 3 {
			r.Apply(j.delta())
			checkHarmless(t, r)
			checkTargets(t, r)
		}
		r.Apply(j.nothing())
		for c := range r.chains {
			if c.name != chainVIPs && regexp.MustCompile(`^CIPA-([SLXET]-|N-)`).MatchString(c.name) {
				t.Fatalf("without ports there is the chain %s", c.name)
			}
		}
		if len(r.affinity) > 0 {
			t.Fatalf("without ports there are the sets %v", r.affinity)
		}
		for set, members := range r.members {
			if set != setAllocated && len(members) > 0 {
				t.Fatalf("without ports %s has the members %v", set, members)
			}
		}
	})
}

// junk makes ports that a compiler could, but for their names.
type junk struct {
	*plans
	words []string
}

// delta changes a few ports. Each address belongs to the number of its port, so that no two share one, as a compiler promises.
func (j junk) delta() model.Delta {
	d := model.Delta{Ports: map[model.PortName]*model.ServicePort{}}
	for range 1 + j.IntN(6) {
		index := j.IntN(40)
		name := model.PortName{
			Service: model.ServiceName{Namespace: j.words[0], Name: fmt.Sprint(j.words[1], index)}, Port: j.words[2],
			Protocol: model.Protocols[index%3],
		}
		if j.IntN(4) == 0 {
			d.Ports[name] = nil
			delete(j.plan.Ports, name)
			continue
		}
		port := j.servicePort(name, index)
		d.Ports[name], j.plan.Ports[name] = &port, port
	}
	return d
}

func (j junk) servicePort(name model.PortName, index int) model.ServicePort {
	f := j.plan.Globals.Family
	p := model.ServicePort{
		Name: name, Port: uint16(1 + j.IntN(65535)), InternalLocal: j.IntN(2) == 0, ExternalLocal: j.IntN(2) == 0,
		AffinitySeconds: max(0, j.IntN(86400)-43200), HasEndpoints: j.IntN(4) > 0,
	}
	p.ClusterIPs, p.ExternalIPs, p.LoadBalancerIPs = j.someOf(f, 0, index), j.someOf(f, 3, index), j.someOf(f, 4, index)
	if j.IntN(2) == 0 {
		p.NodePort = uint16(1 + index + j.IntN(1000)*64)
	}
	p.HealthCheckNodePort = uint16(j.IntN(2) * j.IntN(65536))
	for range j.IntN(3) {
		p.SourceRanges = append(p.SourceRanges, netip.PrefixFrom(j.addr(f, byte(j.IntN(100)), j.IntN(65536)), 1+j.IntN(f.Bits())).Masked())
	}
	if p.HasEndpoints {
		p.Cluster, p.Local, p.Hairpin = j.endpointsOf(f), j.endpointsOf(f), j.endpointsOf(f)
		if p.InternalLocal && !p.HasExternal() {
			p.Cluster = nil
		}
	}
	return p
}

// someOf are up to two addresses of a port.
func (j junk) someOf(f model.Family, network byte, index int) []netip.Addr {
	var all []netip.Addr
	for i := range j.IntN(3) {
		all = append(all, j.addr(f, network, index+i*1000))
	}
	return all
}

func (j junk) endpointsOf(f model.Family) []netip.AddrPort {
	var all []netip.AddrPort
	for range j.IntN(2) * j.IntN([]int{3, 20, 300}[j.IntN(3)]+1) {
		all = append(all, netip.AddrPortFrom(j.addr(f, byte(j.IntN(100)), j.IntN(65536)), uint16(1+j.IntN(65535))))
	}
	return union(all, nil)
}

// nothing takes all ports away.
func (j junk) nothing() model.Delta {
	d := model.Delta{Ports: map[model.PortName]*model.ServicePort{}}
	for name := range j.plan.Ports {
		d.Ports[name] = nil
	}
	return d
}

func checkHarmless(t *testing.T, r *Ruleset) {
	t.Helper()
	for c, rules := range r.chains {
		if !harmless.MatchString(c.name) {
			t.Fatalf("the name of the chain %q", c.name)
		}
		if i := slices.IndexFunc(rules, func(rule string) bool { return !harmless.MatchString(rule) }); i >= 0 {
			t.Fatalf("the rule %q of %s", rules[i], c.name)
		}
	}
	for set := range r.affinity {
		if !harmless.MatchString(set) || len(set) > 31 {
			t.Fatalf("the name of the set %q", set)
		}
	}
}
