//go:build linux

package socketlb

import (
	"net/netip"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// each runs a test for both families.
func each(t *testing.T, run func(t *testing.T, f model.Family)) {
	for _, f := range network.Families {
		t.Run(f.String(), func(t *testing.T) { run(t, f) })
	}
}

func TestAConnectionIsLedToAnEndpoint(t *testing.T) {
	each(t, func(t *testing.T, f model.Family) {
		h := newHost(t, Pods)
		s := h.serve(f, 1)
		front := netip.AddrPortFrom(vip(f, 1), 80)
		h.sync(set(port("web", front.Addr(), s.at)))
		h.reaches(front, s)
		t.Log(h.backends[f].Describe(port("web", front.Addr()).Name))
	})
}
