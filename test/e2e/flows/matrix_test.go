package flows_test

import (
	"fmt"
	"net/netip"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// Policies of the three Services of the matrix.
const (
	cluster = iota
	externalLocal
	internalLocal
)

var policyNames = []string{"", " with eTP Local", " with iTP Local"}

// cell is one flow of the matrix. localOnly and masqueraded are for a proxy that knows local pods
// and does not masquerade all; the other configurations change what their fields say.
type cell struct {
	from, to               string
	policy                 int
	localOnly, masqueraded bool
	// fromVIP is true for what the node sends from the ClusterIP, if that is an address of the node.
	fromVIP bool
}

// The 31 flows: from where, to what, of which Service. The traffic policies decide the rest.
func cells() (all []cell) {
	for policy := range policyNames {
		for _, from := range []string{"pod", "node", "localhost", "external"} {
			for _, to := range []string{"ClusterIP", "NodePort", "LB"} {
				if from == "localhost" && to != "NodePort" {
					continue
				}
				c := cell{from: from, to: to, policy: policy, masqueraded: true}
				switch {
				case to == "ClusterIP":
					c.localOnly, c.masqueraded = policy == internalLocal, from != "pod"
				case policy == externalLocal:
					c.localOnly, c.masqueraded = from == "external", from == "node" || from == "localhost"
				}
				all = append(all, c)
			}
		}
	}
	return append(all, cell{from: "endpoint", to: "ClusterIP", localOnly: true, masqueraded: true})
}

// configured returns the cell for a proxy that cannot tell local pods, or masquerades all.
func (c cell) configured(blind, masqueradeAll bool) cell {
	if blind && c.to == "ClusterIP" && c.from != "endpoint" {
		c.masqueraded, c.fromVIP = false, c.from == "node"
	}
	if blind && c.to != "ClusterIP" && c.policy == externalLocal && c.from == "pod" {
		c.localOnly = true
	}
	if masqueradeAll && c.to == "ClusterIP" {
		c.masqueraded, c.fromVIP = true, false
	}
	return c
}

// What the names of scenarios say of the configuration.
const (
	noDetector     = ", no way to tell local pods"
	allMasqueraded = ", all masqueraded"
)

// matrixScenarios are the flows for a proxy that cannot tell local pods, or masquerades all.
func matrixScenarios(blind, masqueradeAll bool) (all []scenario) {
	suffix := ""
	if blind {
		suffix += noDetector
	}
	if masqueradeAll {
		suffix += allMasqueraded
	}
	for i, c := range cells() {
		c = c.configured(blind, masqueradeAll)
		name := fmt.Sprintf("%s to %s%s%s", c.from, c.to, policyNames[c.policy], suffix)
		all = append(all, scenario{number: fmt.Sprint(10 + i), name: name, run: c.run})
	}
	return all
}

func (c cell) run(t *T) {
	endpoints := []endpoint{t.local, t.remote}
	if c.from == "endpoint" {
		endpoints = endpoints[:1] // so that it always meets itself
	}
	s := t.create(spec{lb: t.virtual(), eTPLocal: c.policy == externalLocal, iTPLocal: c.policy == internalLocal}, endpoints...)
	f := c.flow(t, s)
	switch {
	case c.from == "localhost" && t.F == model.IPv6:
		t.expect("the Service", flow(t.Pod1, s.clusterIP(), 80), reaches(c.internal(t.local, t.remote)...))
		t.expect("localhost, which proxies leave alone in this family", f, refused)
	case c.from == "localhost":
		t.expect("the flow", f, c.want(t.local, t.remote), kubeProxyNFTables(refused, noLocalhost), ipvs(refused, noLocalhostInIPVS))
	case c.fromVIP:
		w := c.want(t.local, t.remote)
		t.expect("the flow", f, w, ipvs(w.masqueraded(), "the node sends with the ClusterIP as its source, which other nodes could not answer"))
	default:
		t.expect("the flow", f, c.want(t.local, t.remote), c.kubeProxyIPVS(t.local)...)
	}
}

// kubeProxyIPVS is what kube-proxy does with one virtual server for all that come from somewhere.
func (c cell) kubeProxyIPVS(local endpoint) []otherwise {
	if c.policy != externalLocal || c.to == "ClusterIP" || c.from == "external" {
		return nil
	}
	w := reaches(local).preserved()
	if c.from == "node" && c.to == "NodePort" {
		w = w.masqueraded() // its own address in any case
	}
	return []otherwise{kubeProxyIPVS(w, noShortWay)}
}

const noShortWay = "its ipvs mode has one virtual server for clients, pods and the node"

// internal are the endpoints of the ClusterIP.
func (c cell) internal(local, remote endpoint) []endpoint {
	c.localOnly = c.policy == internalLocal
	return c.endpoints(local, remote)
}

const noLocalhostInIPVS = "IPVS takes no packets from loopback addresses"

const noLocalhost = "its nftables mode serves no node ports on localhost"

func (c cell) endpoints(local, remote endpoint) []endpoint {
	if c.localOnly {
		return []endpoint{local}
	}
	return []endpoint{local, remote}
}

func (c cell) want(local, remote endpoint) want {
	want := reaches(c.endpoints(local, remote)...)
	if c.masqueraded {
		return want.masqueraded()
	}
	return want.preserved()
}

// flow sends from a pod that is no endpoint, unless it shall be one.
func (c cell) flow(t *T, s service) Flow {
	to := map[string]netip.AddrPort{
		"ClusterIP": netip.AddrPortFrom(s.clusterIP(), 80),
		"NodePort":  netip.AddrPortFrom(t.Node.Addr(t.F), s.nodePort(0)),
		"LB":        netip.AddrPortFrom(s.lb(), 80),
	}[c.to]
	switch c.from {
	case "pod":
		return flow(t.Pod1, to.Addr(), to.Port())
	case "node":
		return flow(t.Node, to.Addr(), to.Port())
	case "localhost":
		return flow(t.Node, network.Loopback(t.F), to.Port())
	case "endpoint":
		return flow(t.Pod2, to.Addr(), to.Port())
	default:
		return flow(t.Client, to.Addr(), to.Port())
	}
}
