//go:build linux

package nftables

import (
	"maps"
	"math/rand/v2"
	"net/netip"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

func TestMain(m *testing.M) { network.Isolate(m) }

func plan(f model.Family) model.Delta {
	a := func(v4, v6 string) netip.Addr {
		if f == model.IPv6 {
			return netip.MustParseAddr(v6)
		}
		return netip.MustParseAddr(v4)
	}
	ranges, source := netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("198.51.100.0/24")
	if f == model.IPv6 {
		ranges, source = netip.MustParsePrefix("fd00:96::/112"), netip.MustParsePrefix("2001:db8::/64")
	}
	all := []netip.AddrPort{netip.AddrPortFrom(a("10.244.1.3", "fd00:244::3"), 8080), netip.AddrPortFrom(a("10.244.2.3", "fd00:244::4"), 8080)}
	d := model.Delta{
		Globals:   &model.Globals{Family: f, MasqueradeBit: 14, LocalSource: model.LocalSource{InterfacePrefix: "veth"}, NodePortAny: true, LocalhostNodePorts: true, Ranges: []netip.Prefix{ranges}},
		Ports:     map[model.PortName]*model.ServicePort{},
		Allocated: map[netip.Addr]bool{},
	}
	for i, change := range []func(*model.ServicePort){
		func(p *model.ServicePort) {},
		func(p *model.ServicePort) { p.AffinitySeconds = 60 },
		func(p *model.ServicePort) { p.ExternalLocal, p.AffinitySeconds = true, 90 },
		func(p *model.ServicePort) { p.ExternalLocal, p.Local = true, nil },
		func(p *model.ServicePort) { p.InternalLocal = true },
		func(p *model.ServicePort) { p.Cluster, p.Local, p.HasEndpoints = nil, nil, false },
		func(p *model.ServicePort) {
			p.SourceRanges, p.HealthCheckNodePort = []netip.Prefix{source, netip.PrefixFrom(source.Addr().Next(), source.Bits()+4).Masked()}, 32000
		},
	} {
		vip := a("10.96.0.1", "fd00:96::1")
		for range i {
			vip = vip.Next()
		}
		name := model.PortName{Service: model.ServiceName{Namespace: "default", Name: string(rune('a' + i))}, Protocol: model.Protocols[i%3]}
		p := &model.ServicePort{
			Name: name, ClusterIPs: []netip.Addr{vip}, Port: 80, NodePort: uint16(30000 + i), HasEndpoints: true, Cluster: all, Local: all[:1], Hairpin: all[:1],
			LoadBalancerIPs: []netip.Addr{vip.Next().Next().Next().Next().Next().Next().Next().Next()},
		}
		change(p)
		d.Ports[name], d.Allocated[vip] = p, true
	}
	return d
}

// each runs a test for both families in a kernel without rules.
func each(t *testing.T, run func(t *testing.T, p *Proxier, d model.Delta)) {
	network.NeedIsolation(t)
	for _, f := range []model.Family{model.IPv4, model.IPv6} {
		t.Run(f.String(), func(t *testing.T) {
			t.Cleanup(func() { ruleset(t, "flush", "ruleset") })
			p, err := New(f, 0)
			if err != nil {
				t.Fatal(err)
			}
			run(t, p, plan(f))
		})
	}
}

var minutes int

// later is a minute after the last time: a comparison is due, if anything hints at a change.
func later() time.Time {
	minutes++
	return time.Now().Add(time.Duration(minutes) * time.Minute)
}

func ruleset(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("nft", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("nft %v: %v: %s", args, err, out)
	}
	return string(out)
}

func syncOne(t *testing.T, p *Proxier, d ...model.Delta) {
	t.Helper()
	if _, err := p.Sync(t.Context(), d...); err != nil {
		t.Fatal(err)
	}
	agree(t, p)
}

func agree(t *testing.T, p *Proxier) {
	t.Helper()
	have, err := p.kernel.read()
	if err != nil {
		t.Fatal(err)
	}
	if total, _ := p.Counts(); total["nat"] != len(have.elements) {
		t.Errorf("%v elements are counted, there are %d", total, len(have.elements))
	}
	if diff := cmp.Diff(p.tables.all(), have.elements, cmp.AllowUnexported(key{})); diff != "" {
		t.Fatalf("the kernel differs (-want +have):\n%s", diff)
	}
	if found, err := p.Check(t.Context(), later()); err != nil || len(found) > 0 {
		t.Fatalf("without drift it repaired %q, %v", found, err)
	}
}

func TestTheKernelHasWhatThePlanWants(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier, d model.Delta) {
		syncOne(t, p, d)
		ruleset(t, "list", "ruleset") // the program can read it
		for name := range d.Ports {
			syncOne(t, p, model.Delta{Ports: map[model.PortName]*model.ServicePort{name: nil}})
		}
		if len(p.tables.routes)+len(p.tables.sticky)+len(p.tables.fronts) > 0 || len(p.tables.all()) != len(d.Allocated) {
			t.Errorf("left: %v", p.tables)
		}
	})
}

// TestARestartChangesNothing has an agent that starts beside what another one has left, with clients that are remembered.
func TestARestartChangesNothing(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier, d model.Delta) {
		syncOne(t, p, d)
		before := ruleset(t, "--stateless", "list", "ruleset")
		next, err := New(p.tables.globals.Family, 0)
		if err != nil {
			t.Fatal(err)
		}
		syncOne(t, next, d)
		if diff := cmp.Diff(before, ruleset(t, "--stateless", "list", "ruleset")); diff != "" {
			t.Errorf("a restart changes (-before +after):\n%s", diff)
		}
	})
}

// TestGrownIsAsFromTheBeginning changes ports at random; what is left of that is what would have been written at once.
func TestGrownIsAsFromTheBeginning(t *testing.T) {
	for _, f := range []model.Family{model.IPv4, model.IPv6} {
		all := plan(f)
		grown, r := NewTables(f), rand.New(rand.NewPCG(1, 2))
		for range 2000 {
			d := model.Delta{Ports: map[model.PortName]*model.ServicePort{}, Globals: all.Globals, Allocated: all.Allocated}
			if grown.ports != nil && len(grown.wanted) > 0 {
				d.Allocated = nil
			}
			for name, p := range all.Ports {
				if r.IntN(4) == 0 {
					changed := *p
					changed.Cluster = changed.Cluster[:min(r.IntN(3), len(changed.Cluster))]
					changed.AffinitySeconds = []int{0, 60}[r.IntN(2)]
					d.Ports[name] = []*model.ServicePort{nil, &changed, p}[r.IntN(3)]
				}
			}
			grown.Apply(d)
			fresh := NewTables(f)
			ports := map[model.PortName]*model.ServicePort{}
			maps.Copy(ports, grown.ports)
			fresh.Apply(model.Delta{Globals: all.Globals, Ports: ports, Allocated: all.Allocated})
			if diff := cmp.Diff(fresh.all(), grown.all(), cmp.AllowUnexported(key{})); diff != "" {
				t.Fatalf("elements (-at once +grown):\n%s", diff)
			}
			if !reflect.DeepEqual(fresh.chains(), grown.chains()) {
				t.Fatal("chains differ")
			}
		}
	}
}

func TestDriftIsRepaired(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier, d model.Delta) {
		syncOne(t, p, d)
		h := map[model.Family]string{model.IPv4: "ip", model.IPv6: "ip6"}[p.tables.globals.Family]
		first := map[model.Family]string{model.IPv4: "10.96.0.1", model.IPv6: "fd00:96::1"}[p.tables.globals.Family]
		for name, damage := range map[string][]string{
			"a chain flushed":   {"flush", "chain", h, table, chainServices},
			"a table flushed":   {"flush", "table", h, table},
			"everything gone":   {"flush", "ruleset"},
			"a map flushed":     {"flush", "map", h, table, string(fronts)},
			"a rule added":      {"insert", "rule", h, table, chainServices, "drop"},
			"a chain added":     {"add", "chain", h, table, "foreign"},
			"an element gone":   {"delete", "element", h, table, string(vips), "{", first, "}"},
			"an element added":  {"add", "element", h, table, string(allocated), "{", strings.Replace(first, "96", "99", 1), "}"},
			"an element turned": {"add", "element", h, table, string(active), "{", strings.Replace(first, "96", "99", 1), "}"},
		} {
			ruleset(t, damage...)
			if found, err := p.Check(t.Context(), later()); err != nil || len(found) == 0 {
				t.Errorf("%s: found %q, %v", name, found, err)
			}
			agree(t, p)
		}
		ruleset(t, "add", "table", "inet", "others")
		if found, err := p.Check(t.Context(), later()); err != nil || len(found) > 0 {
			t.Errorf("a table of others: found %q, %v", found, err)
		}
	})
}

func TestDescribe(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier, d model.Delta) {
		syncOne(t, p, d)
		name := model.PortName{Service: model.ServiceName{Namespace: "default", Name: "a"}, Protocol: model.TCP}
		got := strings.Join(p.Describe(name), "\n")
		for _, want := range map[model.Family][]string{
			model.IPv4: {"  fronts: 10.96.0.1 . tcp . 80 : pick-2", "  endpoints: 10.96.0.1 . tcp . 80 . 1 : 10.244.2.3 . 8080", "  node-fronts: tcp . 30000 : pick-node-outside-2", "  vips: 10.96.0.1"},
			model.IPv6: {"  fronts: fd00:96::1 . tcp . 80 : pick-2", "  hairpin: fd00:244::3 . fd00:244::3 . tcp . 8080"},
		}[p.tables.globals.Family] {
			if !strings.Contains(got+"\n", want+"\n") {
				t.Errorf("%q is missing in\n%s", want, got)
			}
		}
	})
}

func TestCleanupTakesOursAlone(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier, d model.Delta) {
		f := p.tables.globals.Family
		if err := Usable(f); err != nil {
			t.Fatal(err)
		}
		syncOne(t, p, d)
		ruleset(t, "add", "table", "ip", "others")
		for i, dry := range []bool{true, false, false} {
			if did, err := Cleanup(f, dry); err != nil || len(did) != []int{1, 1, 0}[i] {
				t.Errorf("cleanup %d: %q, %v", i, did, err)
			}
		}
		if left := ruleset(t, "list", "tables"); left != "table ip others\n" {
			t.Errorf("left: %s", left)
		}
	})
}
