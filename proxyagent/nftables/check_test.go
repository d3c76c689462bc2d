//go:build linux

package nftables

import (
	"net/netip"
	"slices"
	"strconv"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/nftables/tables"
	"github.com/clusterip-operator/clusterip-operator/test/framework/plans"
)

// TestAComparisonLetsChangesPass has ports come, change and go all the time while everything is
// compared: what another program did is found all the same, and nothing else.
func TestAComparisonLetsChangesPass(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier, d model.Delta) {
		vip := d.Ports[stickyPort(d).Name].ClusterIPs[0]
		for range 100 { // beyond those of the plan
			vip = vip.Next()
		}
		first := vip
		add := func(i int, d model.Delta) *model.ServicePort {
			vip = vip.Next()
			name := model.PortName{Service: model.ServiceName{Namespace: "many", Name: strconv.Itoa(i)}, Protocol: model.TCP}
			d.Ports[name] = &model.ServicePort{Name: name, ClusterIPs: []netip.Addr{vip}, Port: 80, HasEndpoints: true, Cluster: plans.Endpoints(d.Globals.Family, 5)}
			return d.Ports[name]
		}
		for i := range 1000 {
			add(i, d)
		}
		syncOne(t, p, d)
		// A bucket in which the agent writes meanwhile is left to the next comparison.
		h, foreign, used := "ip", netip.MustParseAddr("10.99.0.1"), map[tables.Bucket]bool{}
		if d.Globals.Family == model.IPv6 {
			h, foreign = "ip6", netip.MustParseAddr("fd00:99::1")
		}
		for a, i := first, 0; i < 1300; a, i = a.Next(), i+1 { // those of a thousand ports, and of 300 changes
			used[tables.Key{Set: "active", Of: string(a.AsSlice())}.Bucket()] = true
		}
		for used[tables.Key{Set: "active", Of: string(foreign.AsSlice())}.Bucket()] {
			foreign = foreign.Next()
		}
		ruleset(t, "add", "element", h, table, "active", "{", foreign.String(), "}")
		ruleset(t, "insert", "rule", h, table, chainRefuse, "drop")
		type result struct {
			found []string
			err   error
		}
		checked := make(chan result)
		check := func() {
			found, err := p.Check(t.Context(), later())
			checked <- result{found, err}
		}
		for _, want := range [][]string{{"chain " + chainRefuse, "set active"}, nil} {
			if want == nil {
				ruleset(t, "add", "table", "inet", "others") // hints at a change
			}
			p.pace = model.Pace{}
			go check()
			for changes := 0; ; changes++ {
				one := model.Delta{Globals: d.Globals, Ports: map[model.PortName]*model.ServicePort{}}
				port := add(changes%10, one)
				port.Cluster = plans.Endpoints(d.Globals.Family, changes%7)
				port.AffinitySeconds = changes % 2 * 60
				if changes%10 == 9 {
					one.Ports[port.Name] = nil
				}
				one.Globals = nil
				full, err := p.Sync(t.Context(), one)
				if err != nil || full {
					t.Errorf("compared everything: %t, %v", full, err)
				}
				select {
				case got := <-checked:
					slices.Sort(got.found)
					if !slices.Equal(got.found, want) || got.err != nil || changes == 0 {
						t.Errorf("beside %d changes it repaired %q, want %q, %v", changes, got.found, want, got.err)
					}
				default:
					continue
				}
				break
			}
		}
		agree(t, p)
	})
}
