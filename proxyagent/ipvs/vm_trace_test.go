//go:build linux && ipvs

package ipvs

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/cmd/proxyagent-trace/trace"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// TestTrace has a packet followed through IPVS, which reports nothing: the trace goes on behind it.
func TestTrace(t *testing.T) {
	each(t, func(w *fixture) {
		p := w.service("web", func(p *model.ServicePort) { p.NodePort, p.Cluster = 30080, p.Cluster[1:] })
		none := w.service("none", func(p *model.ServicePort) {
			p.ClusterIPs, p.Cluster, p.Local, p.Hairpin, p.HasEndpoints = []netip.Addr{w.clusterIP(2)}, nil, nil, nil, false
		})
		w.sync(w.plan(p, none))
		w.follows(w.Client.Addr(w.family), netip.AddrPortFrom(w.Node.Addr(w.family), 30080), "masquerade", "Verdict: goes to "+p.Cluster[0].String()+", with the source ")
		w.follows(w.Pod1.Addr(w.family), netip.AddrPortFrom(w.clusterIP(2), 80), "Verdict: ended by ", "refuse: reject with tcp reset")
	})
}

func (w *fixture) follows(from netip.Addr, to netip.AddrPort, wants ...string) {
	w.Helper()
	var text strings.Builder
	w.onNode(func() error { return trace.Run(w.Context(), &text, trace.Options{Src: from, Dst: to}) })
	for _, want := range wants {
		if !strings.Contains(text.String(), want) {
			w.Errorf("the trace lacks %q:\n%s", want, text.String())
		}
	}
}
