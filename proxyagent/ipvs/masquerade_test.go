//go:build linux && !ipvs

package ipvs

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/cloudflare/ipvs"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// watched has a look before IPVS gets an endpoint.
type watched struct {
	*fake
	before func(endpoint netip.AddrPort)
}

func (k watched) CreateDestination(s ipvs.Service, d ipvs.Destination) error {
	k.before(netip.AddrPortFrom(d.Address, d.Port))
	return k.fake.CreateDestination(s, d)
}

// TestRulesKnowWhoMeetsItselfBeforeIPVSDoes is about the first connections to an endpoint that
// comes.
func TestRulesKnowWhoMeetsItselfBeforeIPVSDoes(t *testing.T) {
	p, client, rules := faulty(t)
	mustSync(t, p, delta(served("a", "10.96.0.1", "10.0.0.1:80")))
	came := 0
	p.kernel.Client = watched{client, func(e netip.AddrPort) {
		came++
		now := rules.ports[served("a", "10.96.0.1").Name]
		if !slices.Contains(now.Hairpin, e) {
			t.Errorf("IPVS gets %s, and rules know only %v", e, now.Hairpin)
		}
		if slices.Contains(now.Cluster, e) || !now.Balanced {
			t.Errorf("rules let clients through to %s: %+v", e, now)
		}
	}}
	next := served("a", "10.96.0.1", "10.0.0.1:80", "10.0.0.2:80")
	next.Hairpin = next.Cluster[1:]
	mustSync(t, p, delta(next))
	if came != 1 {
		t.Errorf("%d endpoints came", came)
	}
	if now := rules.ports[next.Name]; !slices.Equal(now.Cluster, next.Cluster) {
		t.Errorf("in the end rules have %v", now.Cluster)
	}
}

// TestARestartRefusesNothing: to an agent that starts all ports come, and most are served already.
func TestARestartRefusesNothing(t *testing.T) {
	p, _, rules := faulty(t)
	next := served("a", "10.96.0.1", "10.0.0.1:80")
	next.NodePort, next.Hairpin = 30000, next.Cluster
	p.known = false
	mustSync(t, p, delta(next))
	for _, seen := range rules.seen {
		if len(seen.Cluster) == 0 {
			t.Errorf("rules were told to refuse: %+v", seen)
		}
	}
	if len(rules.seen) == 0 {
		t.Error("rules were told nothing")
	}
}

func TestMasquerading(t *testing.T) {
	local := netip.MustParseAddrPort("10.0.0.1:80")
	port := func(change func(p *model.ServicePort)) *model.ServicePort {
		p := served("a", "10.96.0.1", "10.0.0.1:80", "10.0.0.2:80")
		p.LoadBalancerIPs, p.Local, p.ExternalLocal = []netip.Addr{netip.MustParseAddr("192.0.2.1")}, p.Cluster[:1], true
		change(p)
		return p
	}
	same := func(*model.ServicePort) {}
	meets := func(p *model.ServicePort) { p.Hairpin = []netip.AddrPort{local} }
	elsewhere := func(p *model.ServicePort) { p.ExternalLocal = false }
	for name, c := range map[string]struct {
		was, is *model.ServicePort
		want    func(early *model.ServicePort) bool
	}{
		"nothing":                      {port(same), port(same), nil},
		"a port goes":                  {port(meets), nil, nil},
		"a port comes":                 {nil, port(meets), nil},
		"an endpoint on the node goes": {port(meets), port(same), nil},
		"an endpoint on the node comes": {port(same), port(meets), func(p *model.ServicePort) bool {
			return slices.Equal(p.Hairpin, []netip.AddrPort{local}) && p.ExternalLocal
		}},
		"traffic may go elsewhere":                        {port(same), port(elsewhere), func(p *model.ServicePort) bool { return !p.ExternalLocal }},
		"traffic may go elsewhere, and had nowhere to go": {port(func(p *model.ServicePort) { p.Local = nil }), port(elsewhere), nil},
		"traffic may not go elsewhere any more":           {port(elsewhere), port(same), nil},
		"a node port comes": {nil, port(func(p *model.ServicePort) { meets(p); p.NodePort = 30000 }), func(p *model.ServicePort) bool {
			return len(p.Hairpin) == 1 && len(p.Cluster)+len(p.Local) == 0 && p.NodePort == 30000
		}},
	} {
		t.Run(name, func(t *testing.T) {
			early := before(c.was, c.is)
			if (early == nil) != (c.want == nil) || early != nil && (!early.Balanced || !c.want(early)) {
				t.Errorf("rules get %+v before", early)
			}
		})
	}
}
