package compile

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Explanation describes what is served of one Service in one family, and why the rest is not. It is made for people; its words
// may become others at any time. The zero value explains nothing.
type Explanation struct {
	Service model.ServiceName
	Family  model.Family
	// Known is false when there is no such Service; nothing else is set then.
	Known bool
	// Traits are what holds for all ports: policies, affinity.
	Traits []string
	Ports  []PortExplanation
	// Strays are endpoints for ports that the Service does not have.
	Strays []EndpointExplanation
	// OtherFamily counts the endpoints that are of the other family and so not explained.
	OtherFamily int
}

// PortExplanation is about one port of a Service.
type PortExplanation struct {
	Name      model.PortName
	Port      uint16
	Frontends []FrontendExplanation
	Endpoints []EndpointExplanation
	// Notes say what happens to traffic for which there is no endpoint, who may use load balancer IPs, and which endpoints are kept to.
	Notes []string
}

// FrontendExplanation is about one address, or node port, that a port asks for.
type FrontendExplanation struct {
	// What is an address with its kind, or a node port.
	What   string
	Served bool
	// Why is the reason when it is not served.
	Why string
}

// EndpointExplanation is about one endpoint of a port.
type EndpointExplanation struct {
	Addr netip.AddrPort
	// Node is where it is, empty when not known.
	Node string
	// Cluster and Local: it is in that set.
	Cluster, Local bool
	// Why says why it is not in a set that the policies of the Service ask for.
	Why string
}

// Explain returns what is served of a Service and why the rest is not. It costs one Service.
func (c *Compiler) Explain(n model.ServiceName) Explanation {
	r := c.records[n]
	e := Explanation{Service: n, Family: c.set.Family}
	if r == nil {
		return e
	}
	e.Known, e.Traits = true, traits(r.service)
	all, leftOut := endpointsOf(r.service, c.set.Family), c.leftOut(r.service, &e)
	for i := range r.ports {
		e.Ports = append(e.Ports, c.explainPort(r, &r.ports[i], all, leftOut))
	}
	e.Strays = strays(r, all, leftOut)
	return e
}

// traits returns what holds for all ports of a Service.
func traits(s *model.Service) []string {
	where := map[bool]string{false: "any endpoint", true: "endpoints on this node"}
	out := []string{
		"traffic to ClusterIPs goes to " + where[s.InternalLocal],
		"traffic from outside goes to " + where[s.ExternalLocal],
	}
	if s.AffinitySeconds > 0 {
		out = append(out, fmt.Sprintf("a client keeps its endpoint for %d s after its last new connection", s.AffinitySeconds))
	}
	return out
}

// leftOut returns the endpoints whose addresses are of no use, and counts those of the other family.
func (c *Compiler) leftOut(s *model.Service, e *Explanation) []stray {
	var out []stray
	for i := range s.Endpoints {
		x := &s.Endpoints[i]
		switch why := whyNoEndpoint(x.Addr, c.set.Family); why {
		case "":
		case otherFamily:
			e.OtherFamily++
		default:
			out = append(out, stray{x, why})
		}
	}
	return out
}

// stray is an endpoint that is in no set whatever the policies are.
type stray struct {
	*model.Endpoint
	why string
}

func (s stray) explain() EndpointExplanation {
	return EndpointExplanation{Addr: s.Addr, Node: s.Node, Why: s.why}
}

// strays explains endpoints that meet no port of the Service by name and protocol.
func strays(r *record, all endpoints, leftOut []stray) []EndpointExplanation {
	unmatched := func(e *model.Endpoint) bool {
		return !slices.ContainsFunc(r.ports, func(p port) bool { return p.Name == e.Port && p.Protocol == e.Protocol })
	}
	var out []EndpointExplanation
	for _, e := range all {
		if unmatched(e) {
			out = append(out, stray{e, fmt.Sprintf("the Service has no port %q with %s", e.Port, e.Protocol)}.explain())
		}
	}
	for _, s := range leftOut {
		if unmatched(s.Endpoint) {
			out = append(out, s.explain())
		}
	}
	return out
}

func (c *Compiler) explainPort(r *record, p *port, all endpoints, leftOut []stray) PortExplanation {
	name := model.PortName{Service: r.name, Port: p.Name, Protocol: p.Protocol}
	out := PortExplanation{Name: name, Port: p.Port.Port, Frontends: c.explainFrontends(r, p)}
	i := slices.IndexFunc(r.served, func(x *model.ServicePort) bool { return x.Name == name })
	if i < 0 {
		out.Notes = []string{"nothing of it is served in this family"}
		return out
	}
	mine := all.of(p.Name, p.Protocol)
	chosen := choose(mine, c.location(), r.served[i])
	for _, e := range mine {
		out.Endpoints = append(out.Endpoints, chosen.explain(e))
	}
	for _, s := range leftOut {
		if s.Port == p.Name && s.Protocol == p.Protocol {
			out.Endpoints = append(out.Endpoints, s.explain())
		}
	}
	out.Notes = notes(r.served[i], chosen)
	return out
}

// explainFrontends explains every address and node port that a port asks for, in the order of ownership.go.
func (c *Compiler) explainFrontends(r *record, p *port) []FrontendExplanation {
	var out []FrontendExplanation
	for _, a := range c.addresses(r) {
		kind := "additional address"
		if r.hasCluster(a) {
			kind = "ClusterIP"
		}
		out = append(out, c.explainFrontend(a, kind, p, c.decideCluster(r, a)))
	}
	for a, k := range r.outside() {
		kind := "load balancer IP"
		if k == bySpec {
			kind = "external IP"
		}
		out = append(out, c.explainFrontend(a, kind, p, c.decideOutside(r, p.front(a))))
	}
	out = append(out, c.explainUnclaimed(r)...)
	if p.NodePort != 0 {
		out = append(out, c.explainNodePort(r, p))
	}
	return out
}

func (c *Compiler) explainFrontend(a netip.Addr, kind string, p *port, v decision) FrontendExplanation {
	f := FrontendExplanation{What: fmt.Sprintf("%s %s", kind, netip.AddrPortFrom(a, p.Port.Port))}
	switch {
	case !p.firstPort:
		f.Why = "an earlier port of the Service has the same number and protocol"
	case v.already:
		f.Why = "as it is a ClusterIP or additional address of the Service already"
	default:
		f.Why = wordsOf(v)
	}
	f.Served = f.Why == ""
	return f
}

// wordsOf returns why an address is not served, or nothing when it is.
func wordsOf(v decision) string {
	winner := "nobody"
	if v.winner != nil {
		winner = plain(v.winner.name.String())
	}
	switch v.reason {
	case "":
		return ""
	case model.AllocatedToOther:
		return "its IPAddress names " + winner
	case model.NotAllocated:
		return "no IPAddress names this Service, and that is enforced"
	case model.ClusterIPOfOther:
		return "it is a ClusterIP or additional address of another Service; served for " + winner
	default:
		return "the Service " + winner + " has it, by better or older rights"
	}
}

// explainUnclaimed explains the addresses that the Service names and that are not even looked at, but those of the other family.
func (c *Compiler) explainUnclaimed(r *record) []FrontendExplanation {
	outside, external := "", ""
	if len(r.cluster) == 0 {
		outside = "the Service has no ClusterIP of this family"
	}
	if external = outside; c.set.NoExternalIPs {
		external = "external IPs are switched off"
	}
	return slices.Concat(c.unclaimed("ClusterIP", r.service.ClusterIPs, ""),
		c.unclaimed("load balancer IP", r.service.LoadBalancerIPs, outside), c.unclaimed("external IP", r.service.ExternalIPs, external))
}

// unclaimed explains those addresses that are of no use, and, when there is a reason why none of their kind is, all of them.
func (c *Compiler) unclaimed(kind string, addrs []netip.Addr, whyNone string) []FrontendExplanation {
	var out []FrontendExplanation
	for _, a := range addrs {
		why := cmp.Or(whyNoVirtualIP(a, c.set.Family), whyNone)
		if why != "" && why != otherFamily {
			out = append(out, FrontendExplanation{What: kind + " " + plain(a.String()), Why: why})
		}
	}
	return out
}

func (c *Compiler) explainNodePort(r *record, p *port) FrontendExplanation {
	f := FrontendExplanation{What: fmt.Sprintf("node port %d", p.NodePort)}
	switch winner := c.nodePorts.first(p.nodePort()); {
	case len(r.cluster) == 0:
		f.Why = "the Service has no ClusterIP of this family"
	case !p.firstNodePort:
		f.Why = "an earlier port of the Service has the same node port and protocol"
	case winner != r:
		f.Why = "the older Service " + plain(winner.name.String()) + " has it"
	default:
		f.Served = true
	}
	return f
}

// explain says in which sets an endpoint is, and why not in the others that the policies ask for.
func (s selection) explain(e *model.Endpoint) EndpointExplanation {
	out := EndpointExplanation{Addr: e.Addr, Node: e.Node, Cluster: s.inCluster(e), Local: s.inLocal(e)}
	var why []string
	if s.cluster && !out.Cluster {
		why = append(why, s.whyNotCluster(e))
	}
	if s.local && !out.Local {
		why = append(why, s.whyNotLocal(e))
	}
	out.Why = strings.Join(slices.Compact(why), "; ")
	return out
}

func (s selection) whyNotCluster(e *model.Endpoint) string {
	switch {
	case !couldServe(e):
		return notReady(e)
	case !e.Ready:
		return "terminating, and ready ones exist"
	case s.hints == sameNode:
		return "for other nodes: hints name " + plain(strings.Join(e.Nodes, ", "))
	default:
		return "other zone: hints name " + plain(strings.Join(e.Zones, ", "))
	}
}

func (s selection) whyNotLocal(e *model.Endpoint) string {
	switch {
	case !couldServe(e):
		return notReady(e)
	case s.location.has(e):
		return "terminating, and ready ones exist"
	case e.Node == "":
		return "on an unknown node"
	default:
		return "on another node"
	}
}

func notReady(e *model.Endpoint) string {
	if e.Terminating {
		return "terminating, and not serving any more"
	}
	return "not ready"
}

// notes returns what else decides about traffic to a port.
func notes(p *model.ServicePort, s selection) []string {
	var out []string
	note := func(when bool, words string) {
		if when {
			out = append(out, words)
		}
	}
	note(s.cluster && s.hints == sameNode, "every endpoint has node hints, and some name this node: traffic to any endpoint keeps to those")
	note(s.cluster && s.hints == sameZone, "every endpoint has zone hints, and some name this zone: traffic to any endpoint keeps to those")
	note(s.cluster && s.clusterEnding && len(p.Cluster) > 0, "nothing is ready: endpoints that terminate are used as long as they serve")
	note(s.local && s.localEnding && len(p.Local) > 0,
		"nothing is ready on this node: endpoints on it that terminate are used as long as they serve")
	note(len(p.SourceRanges) > 0, fmt.Sprintf("load balancer IPs are for sources in %v, others are dropped", p.SourceRanges))
	if !p.HasEndpoints {
		return append(out, "new connections are rejected: there is no endpoint that could serve")
	}
	note(len(p.ClusterIPs) > 0 && len(p.Internal()) == 0,
		"new connections to ClusterIPs are dropped: the internal policy is Local, and no endpoint on this node can serve")
	noExternal := p.HasExternal() && len(p.External()) == 0
	note(noExternal, "new connections from outside are dropped: the external policy is Local, and no endpoint on this node can serve")
	note(noExternal, "those of the node and its pods go to endpoints elsewhere")
	return out
}
