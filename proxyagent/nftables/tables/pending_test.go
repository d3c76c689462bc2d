//go:build linux

package tables

import (
	"net/netip"
	"testing"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// TestAnEndpointThatGoesMayStillMeetItself is about a packet that was translated before a change
// and leaves after it: an endpoint gets what it has sent to itself only with another source.
func TestAnEndpointThatGoesMayStillMeetItself(t *testing.T) {
	for _, f := range []model.Family{model.IPv4, model.IPv6} {
		vip := f.Unspecified().Next()
		endpoints := []netip.AddrPort{netip.AddrPortFrom(vip.Next(), 8080)}
		port := model.ServicePort{
			Name: model.PortName{Service: model.ServiceName{Namespace: "default", Name: "a"}, Protocol: model.TCP},
			Port: 80, ClusterIPs: []netip.Addr{vip}, HasEndpoints: true, Cluster: endpoints, Hairpin: endpoints,
		}
		table, now := NewTable(f), time.Now()
		apply := func(p *model.ServicePort) {
			table.Apply(model.Delta{Globals: &model.Globals{Family: f}, Ports: map[model.PortName]*model.ServicePort{port.Name: p}})
		}
		apply(&port)
		table.Written(table.Transaction(now))
		apply(nil)
		at := addr(endpoints[0].Addr())
		itself := Key{Set: hairpin, Of: at + at + service(model.TCP, 8080)}
		first := table.Transaction(now)
		table.Written(first)
		if _, changes := first.Change[itself]; changes || len(first.Change) == 0 {
			t.Errorf("%s: the packet under way keeps its source, with the changes %v", f, first.Change)
		}
		if _, changes := first.Write["nat-postrouting"]; changes {
			t.Errorf("%s: the packet under way meets other rules on its way out", f)
		}
		if later := table.Transaction(now.Add(underWay)); !later.Change[itself].There || later.Change[itself].Wanted {
			t.Errorf("%s: what no packet looks for any more is to stay: %v", f, later.Change)
		}
	}
}
