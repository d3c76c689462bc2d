//go:build linux

package tables

import (
	"net/netip"
	"testing"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// TestWhatPacketsMeetLateStays is about a packet that meets one rule before a change and another
// one after it: an endpoint gets what it has sent to itself only with another source, and a packet
// that was to be refused or dropped does not leave the node untranslated.
func TestWhatPacketsMeetLateStays(t *testing.T) {
	for _, f := range []model.Family{model.IPv4, model.IPv6} {
		vip := f.Unspecified().Next()
		endpoints := []netip.AddrPort{netip.AddrPortFrom(vip.Next(), 8080)}
		full := model.ServicePort{
			Name: model.PortName{Service: model.ServiceName{Namespace: "default", Name: "a"}, Protocol: model.TCP},
			Port: 80, NodePort: 30000, LoadBalancerIPs: []netip.Addr{vip}, SourceRanges: []netip.Prefix{model.Single(vip)},
			HasEndpoints: true, Cluster: endpoints, Hairpin: endpoints,
		}
		bare, without := full, full.Unserved()
		bare.SourceRanges = nil
		at, front := addr(endpoints[0].Addr()), addr(vip)+service(model.TCP, 80)
		for name, c := range map[string]struct {
			before, after *model.ServicePort
			late          []Key
		}{
			"the endpoint goes":        {&full, without, []Key{{hairpin, at + at + service(model.TCP, 8080)}}},
			"the port goes":            {&full, nil, []Key{{hairpin, at + at + service(model.TCP, 8080)}}},
			"the first endpoint comes": {without, &bare, []Key{{unserved, front}, {nodeUnserved, service(model.TCP, 30000)}}},
		} {
			table, now := NewTable(f), time.Now()
			apply := func(p *model.ServicePort) {
				table.Apply(model.Delta{Globals: &model.Globals{Family: f}, Ports: map[model.PortName]*model.ServicePort{full.Name: p}})
			}
			apply(c.before)
			table.Written(table.Transaction(now), now)
			apply(c.after)
			first := table.Transaction(now)
			_, gone := first.Change[Key{firewalled, front}]
			table.Written(first, now.Add(underWay)) // it took the kernel a second
			between := table.Transaction(now.Add(underWay))
			table.Written(between, now.Add(underWay))
			last := table.Transaction(now.Add(2 * underWay))
			if _, changes := first.Write["nat-postrouting"]; changes {
				t.Errorf("%s, %s: packets under way meet other rules on their way out", f, name)
			}
			if c.before == &full && !gone {
				t.Errorf("%s, %s: source ranges keep clients from the next Service at the address", f, name)
			}
			for _, k := range c.late {
				if _, goes := first.Change[k]; goes {
					t.Errorf("%s, %s: packets under way do not meet %v", f, name, k)
				}
				if _, goes := between.Change[k]; goes {
					t.Errorf("%s, %s: %v goes before a second has passed since the kernel was done", f, name, k)
				}
				if c := last.Change[k]; !c.There || c.Wanted {
					t.Errorf("%s, %s: %v is to stay", f, name, k)
				}
			}
		}
	}
}
