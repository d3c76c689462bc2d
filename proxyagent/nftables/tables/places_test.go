//go:build linux

package tables

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework/plans"
)

func TestInPlace(t *testing.T) {
	for name, tc := range map[string]struct{ before, now, want string }{
		"nothing changes": {"abcd", "abcd", "abcd"}, "one goes": {"abcd", "acd", "adc"}, "the last one goes": {"abcd", "abc", "abc"},
		"one comes": {"bcd", "abcd", "bcda"}, "one is replaced": {"abcd", "acde", "aecd"}, "all but one go": {"abcd", "d", "d"},
		"all are others": {"abc", "def", "def"}, "in another order than names": {"dcb", "abcd", "dcba"},
		"none before": {"", "ab", "ab"}, "none after": {"ab", "", ""},
	} {
		for _, f := range []model.Family{model.IPv4, model.IPv6} {
			all := plans.Endpoints(f, 5)
			list := func(of string) (some []netip.AddrPort) {
				for _, c := range of {
					some = append(some, append(all, netip.AddrPortFrom(all[0].Addr().Prev(), 1))[c-'a'])
				}
				return some
			}
			before := &model.ServicePort{Cluster: list(tc.before), Local: list(tc.before)}
			got := inPlace(before, &model.ServicePort{Cluster: list(tc.now), Local: list(tc.now)})
			if !slices.Equal(got.Cluster, list(tc.want)) || !slices.Equal(got.Local, list(tc.want)) {
				t.Errorf("%s: %v, want %v", name, got.Cluster, list(tc.want))
			}
			for _, s := range []model.Scheduler{model.SourceHashing, model.MaglevHashing} {
				p := &model.ServicePort{Cluster: list(tc.now), Scheduler: s}
				if inPlace(before, p) != p {
					t.Errorf("%s: %s does not lead to the same endpoint on all nodes", name, s)
				}
			}
		}
	}
}

// TestOneOfManyEndpoints counts the elements that change when any one of 10,000 goes, and when it
// comes back.
func TestOneOfManyEndpoints(t *testing.T) {
	table, all := NewTable(model.IPv6), plans.Endpoints(model.IPv6, 10000)
	apply := func(endpoints []netip.AddrPort) int {
		p := &model.ServicePort{Name: model.PortName{Protocol: model.TCP}, Port: 80, NodePort: 30000, ClusterIPs: virtualIPs(1), ExternalIPs: virtualIPs(2)[1:], HasEndpoints: true, Cluster: endpoints}
		table.Apply(model.Delta{Ports: map[model.PortName]*model.ServicePort{p.Name: p}})
		n := len(table.changed)
		settle(table)
		return n
	}
	apply(all)
	for range 3 {
		i := rand.IntN(len(all))
		// For each of three fronts: the hole, the last index, the front that leads to another
		// route, and as no other port has so many endpoints, this route and the former one.
		if n := apply(slices.Delete(slices.Clone(all), i, i+1)); n > 15 {
			t.Errorf("one that goes changes %d elements", n)
		}
		if n := apply(all); n > 15 {
			t.Errorf("one that comes changes %d elements", n)
		}
	}
}
