//go:build linux

package iptables

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/ipset"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/iptables/rules"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework/plans"
)

// untranslatable is a port with an endpoint of the other family, which iptables refuses in a rule of the tree; overlong has a rule in a chain of its own
// that it refuses. Their virtual IPs are of a network that random Plans do not use.
func untranslatable(f model.Family) model.ServicePort {
	p := mended(f, 1)
	p.Cluster = plans.Endpoints(model.IPv4+model.IPv6-f, 1)
	return p
}

func overlong(f model.Family) model.ServicePort {
	p := mended(f, 2)
	p.AffinitySeconds = 1 << 40
	return p
}

func mended(f model.Family, n int) model.ServicePort {
	name := plans.Name()
	name.Service.Name += fmt.Sprint(n)
	return model.ServicePort{Name: name, Port: 80, ClusterIPs: []netip.Addr{plans.Address(f, 7, n)}, HasEndpoints: true, Cluster: plans.Endpoints(f, 9)}
}

// change is the Delta that makes ports what they are.
func change(ports ...model.ServicePort) model.Delta {
	d := model.Delta{Ports: map[model.PortName]*model.ServicePort{}}
	for _, p := range ports {
		d.Ports[p.Name] = &p
	}
	return d
}

// expectRefused demands that these ports are not served, that clients are rejected, and that all else is in the kernel.
func expectRefused(t *testing.T, p *Proxier, ports ...model.ServicePort) {
	t.Helper()
	agree(t, p)
	var want []model.Degradation
	for _, port := range ports {
		want = append(want, model.Degradation{Port: port.Name, Reason: model.RulesRefused})
		if text := strings.Join(p.Describe(port.Name), "\n"); !strings.Contains(text, "not served") || strings.Contains(text, "DNAT") {
			t.Errorf("described as\n%s", text)
		}
		refused, err := p.options.Sets.Entries(context.Background(), rules.SetPrefix(p.options.Family)+"NOEP")
		if _, there := refused[ipset.Entry{Addr: port.ClusterIPs[0], Protocol: port.Name.Protocol, Port: port.Port}]; !there || err != nil {
			t.Errorf("clients of %s are not rejected (%v)", port.Name, err)
		}
	}
	if got := p.Degraded(); !slices.Equal(got, want) {
		t.Errorf("degraded: %v, want %v", got, want)
	}
}

// TestRefusedRulesAreAlone has two ports among many whose rules are refused, one that is translated in a tree and one in a chain of its own.
func TestRefusedRulesAreAlone(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier) {
		f, random := p.options.Family, plans.New(7, p.options.Family)
		first, second := untranslatable(f), overlong(f)
		syncOne(t, p, plans.Whole(random.Plan))
		d := random.Step(40)
		d.Ports[first.Name], d.Ports[second.Name] = &first, &second
		syncWith(t, p, d, "a rule is refused")
		syncOne(t, p, model.Delta{}) // twice is no accident
		expectRefused(t, p, first, second)

		p = newProxier(t, p.options.Mode, f) // what a restart finds in the kernel is served all the time
		all := plans.Whole(random.Plan)
		all.Ports[first.Name], all.Ports[second.Name] = &first, &second
		syncWith(t, p, all, "a rule is refused")
		if err := p.readKernel(context.Background()); err != nil {
			t.Fatal(err)
		}
		if want := []model.PortName{first.Name, second.Name}; !slices.Equal(p.suspects, want) {
			t.Errorf("suspected: %v, want %v", p.suspects, want)
		}
		syncOne(t, p, model.Delta{})
		expectRefused(t, p, first, second)

		syncOne(t, p, change(mended(f, 1), overlong(f))) // does not fail, whatever they are now
		expectRefused(t, p, mended(f, 1), second)
		if _, err := p.Check(context.Background(), time.Now()); err != nil {
			t.Error(err)
		}
		expectRefused(t, p, second)
	})
}

// TestRefusedRulesAreTriedAgain when the kernel may take them by now.
func TestRefusedRulesAreTriedAgain(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier) {
		f := p.options.Family
		good, late := mended(f, 1), overlong(f)
		syncOne(t, p, plans.Whole(plans.New(7, f).Plan))
		syncWith(t, p, change(good, late), "a rule is refused")
		syncOne(t, p, model.Delta{})
		expectRefused(t, p, late)
		late.AffinitySeconds = 60
		p.rules.Apply(change(late)) // as if the kernel had got a module
		if _, err := p.Check(context.Background(), time.Now()); err != nil || len(p.Degraded()) != 1 {
			t.Errorf("too early: %v, %v", p.Degraded(), err)
		}
		if _, err := p.Check(context.Background(), time.Now().Add(p.options.FullCheck)); err != nil {
			t.Error(err)
		}
		expectRefused(t, p)
	})
}
