package flows_test

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// With CLUSTERIP_SOCKETLB=pods or all, agents of ours translate connections at connect(): the specs
// are the same, but that an endpoint sees the client's own address where rules give it the node's:
// an endpoint that meets itself, or a pod that is not told as local. Each notes which of its
// connections were translated.

// enough is how many connections to a ClusterIP make it sure that some came after the maps: those
// between the rules and the maps are served by rules.
const enough = 24

// translated fails where the agent says that it translates connections to a ClusterIP, and rules
// have served them.
func (t *T) translated() (text string) {
	if !t.translates() {
		return ""
	}
	metrics, err := t.proxy.Metrics(t.ctx)
	if err != nil {
		return "; no agent is left to say what was translated at connect()"
	}
	if started, _ := metrics.Value("process_start_time_seconds"); started > float64(t.began.Unix()) {
		return "; the agent has been started meanwhile, and counts what was translated at connect() since"
	}
	for _, s := range t.services {
		told, err := t.proxy.Get(t.ctx, "/debug/dump?"+url.Values{"of": {s.Namespace + "/" + s.Name}}.Encode())
		t.must(err)
		taken, _ := metrics.Value("clusterip_proxyagent_socketlb_connections_total", "namespace", s.Namespace, "service", s.Name)
		made := t.made(s)
		text += fmt.Sprintf("; to %s %.0f of %d connections were translated at connect()", s.Name, taken, made)
		for line := range strings.SplitSeq(told, "\n") {
			if _, why, left := strings.Cut(line, ": left to rules: "); left {
				text += ", none: " + why
			}
		}
		if made >= enough && taken == 0 && strings.Contains(told, ": translated, ") {
			t.fail("rules have served %d connections to %s, which were to be translated:\n%s", made, s.Name, told)
		}
	}
	return text
}

// translates reports whether the proxy was asked to translate connections at connect().
func (t *T) translates() bool {
	return t.Options.SocketLB != "" && t.kind.ours() && t.kind != oursIPVS
}

// mayBeTranslated reports whether connect() may lead a flow to an endpoint, which then sees the
// client's own address.
func (t *T) mayBeTranslated(f Flow) bool {
	tcp := f.Protocol == 0 || f.Protocol == model.TCP
	return t.translates() && tcp && f.from.InCgroup() && slices.ContainsFunc(t.services, func(s service) bool {
		return slices.Contains(s.Spec.ClusterIPs, f.To.Addr().String())
	})
}

// made are the connections to its ClusterIP of clients that are in the scope.
func (t *T) made(s service) (all int) {
	clients := []*network.Namespace{t.Pod1, t.Pod2}
	if t.Options.SocketLB == "all" {
		clients = append(clients, t.Node)
	}
	for _, p := range s.Spec.Ports {
		for _, n := range clients {
			if p.Protocol == corev1.ProtocolTCP {
				all += n.Reached(netip.AddrPortFrom(s.clusterIP(), uint16(p.Port)))
			}
		}
	}
	return all
}
