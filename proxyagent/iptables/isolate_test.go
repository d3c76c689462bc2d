//go:build linux

package iptables

import (
	"context"
	"errors"
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

// untranslatable is a port with an endpoint of the other family, refused in a rule of the tree;
// overlong has a refused rule in its own chain. Their virtual IPs are not in random Plans.
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

// expectRefused demands that these ports are rejected, and that all else is in the kernel.
func expectRefused(t *testing.T, p *Proxier, ports ...model.ServicePort) {
	t.Helper()
	agree(t, p)
	var want []model.Degradation
	for _, port := range ports {
		want = append(want, model.Degradation{Port: port.Name, Reason: model.RulesRefused})
		if text := strings.Join(p.Describe(port.Name), "\n"); strings.Contains(text, "DNAT") {
			t.Errorf("described as\n%s", text)
		}
		refused, err := p.options.Sets.Entries(context.Background(), rules.SetPrefix(p.options.Family)+"NOEP")
		if _, there := refused[ipset.Entry{Addr: port.ClusterIPs[0], Protocol: port.Name.Protocol, Port: port.Port}]; !there || err != nil {
			t.Errorf("clients of %s are not rejected (%v)", port.Name, err)
		}
	}
	expectDegraded(t, p, want...)
}

// expectDegraded demands these Degradations, each with a detail.
func expectDegraded(t *testing.T, p *Proxier, want ...model.Degradation) {
	t.Helper()
	got := p.Degraded()
	for i, d := range got {
		got[i].Detail = ""
		if d.Detail == "" {
			t.Errorf("%s is %s, without a word why", d.Port, d.Reason)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("degraded: %v, want %v", got, want)
	}
}

// checkAt has changes by other programs looked for, and what is refused tried again.
func checkAt(t *testing.T, p *Proxier, now time.Time) {
	t.Helper()
	if _, err := p.Check(t.Context(), now); err != nil {
		t.Error(err)
	}
}

// TestRefusedRulesAreAlone has two ports among many whose rules are refused, one that is translated
// in a tree and one in a chain of its own: no Sync fails, and what changes with them is in the
// kernel at once.
func TestRefusedRulesAreAlone(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier) {
		f, random := p.options.Family, plans.New(7, p.options.Family)
		first, second := untranslatable(f), overlong(f)
		syncOne(t, p, plans.Whole(random.Plan))
		d := random.Step(40)
		d.Ports[first.Name], d.Ports[second.Name] = &first, &second
		syncOne(t, p, d)
		expectRefused(t, p, first, second)

		p = newProxier(t, p.options.Mode, f)
		all := plans.Whole(random.Plan)
		all.Ports[first.Name], all.Ports[second.Name] = &first, &second
		syncOne(t, p, all)
		expectRefused(t, p, first, second)

		syncOne(t, p, change(mended(f, 1), overlong(f))) // whatever they are now
		expectRefused(t, p, mended(f, 1), second)
		checkAt(t, p, time.Now())
		expectRefused(t, p, second)
	})
}

// TestRefusedRulesAreTriedAgain when the kernel may take them by now.
func TestRefusedRulesAreTriedAgain(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier) {
		f := p.options.Family
		good, late := mended(f, 1), overlong(f)
		syncOne(t, p, plans.Whole(plans.New(7, f).Plan))
		restore, refuse := script(t, p, p.run.restore, "cat >/dev/null; exit 1")
		p.run.restore = restore
		syncOne(t, p, change(good, late))
		expectRefused(t, p, late)
		p.withheld.Wanted()[late.Name].AffinitySeconds = 60 // as if the kernel had got a module
		refuse(1)                                           // would be used up by a try
		if _, err := p.Check(context.Background(), time.Now()); err != nil || len(p.Degraded()) != 1 {
			t.Errorf("too early: %v, %v", p.Degraded(), err)
		}
		refuse(0)
		checkAt(t, p, time.Now().Add(p.options.FullCheck))
		expectRefused(t, p)
	})
}

// TestASetOfAnotherKindConcernsItsPort has another program take the name of the set of a port's
// clients.
func TestASetOfAnotherKindConcernsItsPort(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier) {
		ctx, f := context.Background(), p.options.Family
		port, g, set := affine(f)
		syncOne(t, p, model.Delta{Globals: &g})
		run(t, "ipset", "create", set.Name, "bitmap:port", "range", "0-65535")
		other := mended(f, 3)
		syncOne(t, p, change(port, other))
		expectRefused(t, p, port)
		if text := strings.Join(p.Describe(other.Name), "\n"); !strings.Contains(text, "DNAT") {
			t.Errorf("another port is described as\n%s", text)
		}
		syncOne(t, p, change(mended(f, 4)))
		if _, err := p.options.Sets.Entries(ctx, set.Name); err != nil {
			t.Errorf("the set of another program is gone: %v", err)
		}
		must(t, p.options.Sets.Destroy(ctx, set.Name))
		checkAt(t, p, time.Now().Add(p.options.FullCheck))
		expectRefused(t, p)
	})
}

// TestASetInUseConcernsNoPort has a rule of another program refer to a set that nothing of ours
// needs any more.
func TestASetInUseConcernsNoPort(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier) {
		f := p.options.Family
		port, g, set := affine(f)
		syncOne(t, p, model.Delta{Globals: &g})
		syncOne(t, p, change(port))
		match := []string{"-m", "set", "--match-set", set.Name, "src", "-j", "RETURN"}
		iptables(t, p, append([]string{"-t", "mangle", "-A", "OUTPUT"}, match...)...)
		syncOne(t, p, model.Delta{Ports: map[model.PortName]*model.ServicePort{port.Name: nil}})
		syncOne(t, p, change(mended(f, 3)))
		expectDegraded(t, p)
		iptables(t, p, append([]string{"-t", "mangle", "-D", "OUTPUT"}, match...)...)
		for i := range 2 { // the first one may look at rules alone, because they changed
			checkAt(t, p, time.Now().Add(time.Duration(i+1)*time.Hour))
		}
		syncOne(t, p, change(mended(f, 4)))
		noUnwantedSets(t, p)
	})
}

// refusing are sets of the real kernel that do not take members with an address.
type refusing struct {
	Sets
	addr netip.Addr
}

func (s refusing) Apply(ctx context.Context, changes []ipset.Change) error {
	for i, c := range changes {
		if !c.Delete && c.Entry.Addr == s.addr {
			return errors.Join(s.Sets.Apply(ctx, changes[:i]), fmt.Errorf("%w: full", model.ErrRefused))
		}
	}
	return s.Sets.Apply(ctx, changes)
}

// TestARefusedMemberConcernsItsPort has a member refused of a port that is served, and of one whose
// clients are to be rejected, of which nothing is left then.
func TestARefusedMemberConcernsItsPort(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier) {
		f, kernel := p.options.Family, p.options.Sets
		syncOne(t, p, plans.Whole(plans.New(7, f).Plan))
		refused, other := mended(f, 1), mended(f, 2)
		refused.Hairpin = refused.Cluster[:1]
		p.options.Sets = refusing{kernel, refused.Hairpin[0].Addr()}
		syncOne(t, p, change(refused, other))
		expectRefused(t, p, refused)
		refused.ClusterIPs = []netip.Addr{plans.Address(f, 7, 9)} // another slice: the rules share the former one
		p.options.Sets = refusing{kernel, refused.ClusterIPs[0]}
		syncOne(t, p, change(refused))
		agree(t, p)
		expectDegraded(t, p, model.Degradation{Port: refused.Name, Reason: model.RulesRefused})
		if lines := p.Describe(refused.Name); lines != nil {
			t.Errorf("something is left of it: %q", lines)
		}
		p.options.Sets = kernel
		checkAt(t, p, time.Now())
		expectRefused(t, p)
	})
}
