package compile

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Explain returns lines of text: what is served of a Service in this family, and why the rest is
// not. An admin reads it; its words may change at any time. It costs one Service.
func (c *Compiler) Explain(n model.ServiceName) string {
	x := explanation{Compiler: c, record: c.records[n]}
	fmt.Fprintf(&x.text, "Service %s, %s:", plain(n.String()), c.set.Family)
	if x.record == nil {
		return x.text.String() + " there is none, or it is headless or of type ExternalName\n"
	}
	s := x.service
	if s.Foreign {
		return x.text.String() + " another proxy serves it, and its addresses are not served for other Services\n"
	}
	x.text.WriteString("\n")
	x.sayIf(!s.InternalLocal, 1, "traffic to ClusterIPs goes to any endpoint")
	x.sayIf(s.InternalLocal, 1, "traffic to ClusterIPs goes to endpoints on this node")
	x.sayIf(!s.ExternalLocal, 1, "traffic from outside goes to any endpoint")
	x.sayIf(s.ExternalLocal, 1, "traffic from outside goes to endpoints on this node")
	x.sayIf(s.Held, 1, "it is being renumbered: of type ExternalName for the moment, and held as it was before, for a minute at most")
	x.sayIf(s.AffinitySeconds > 0, 1, "a client keeps its endpoint for %d s after its last new connection", s.AffinitySeconds)
	x.balancing()
	x.all = endpointsOf(s, c.set.Family)
	for i := range x.ports {
		x.port(&x.ports[i])
	}
	x.sayIf(len(x.ports) == 0, 1, "it has no ports")
	x.strays()
	return x.text.String()
}

type explanation struct {
	*Compiler
	*record
	all  endpoints
	text strings.Builder
}

func (x *explanation) say(indent int, format string, args ...any) {
	fmt.Fprintf(&x.text, strings.Repeat("  ", indent)+format+"\n", args...)
}

func (x *explanation) sayIf(when bool, indent int, format string, args ...any) {
	if when {
		x.say(indent, format, args...)
	}
}

func (x *explanation) port(p *port) {
	named := ""
	if p.Name != "" {
		named = " " + plain(p.Name)
	}
	x.say(1, "port%s (%s %d):", named, p.Protocol, p.Port.Port)
	x.frontends(p)
	name := model.PortName{Service: x.name, Port: p.Name, Protocol: p.Protocol}
	i := slices.IndexFunc(x.served, func(s *model.ServicePort) bool { return s.Name == name })
	if i < 0 {
		x.say(2, "nothing of it is served in this family")
		return
	}
	mine := x.all.of(p.Name, p.Protocol)
	chosen := choose(mine, x.location(), x.served[i])
	for _, e := range mine {
		x.endpoint(2, e, chosen.inCluster(e), chosen.inLocal(e), chosen.why(e))
		x.sayIf(x.service.Balancing.Weighs() && (chosen.inCluster(e) || chosen.inLocal(e)), 3, "weight %d", e.Weight)
	}
	for _, e := range x.unusable() {
		if e.Port == p.Name && e.Protocol == p.Protocol {
			x.endpoint(2, e, false, false, whyNoEndpoint(e.Addr, x.set.Family))
		}
	}
	x.notes(x.served[i], chosen)
}

// balancing says how the Service asks for connections to be spread.
func (x *explanation) balancing() {
	b := x.service.Balancing
	if b == nil {
		return
	}
	x.sayIf(b.Scheduler != "", 1, "scheduler %s, as the annotation %s asks", b.Scheduler, b.SchedulerFrom)
	x.sayIf(b.Weighs() && b.ByCores, 1, "endpoints weigh by the cores of their nodes, as the annotation %s asks", b.WeightsFrom)
	x.sayIf(b.Weighs() && !b.ByCores, 1, "endpoints weigh by the labels of their nodes, as the annotation %s asks", b.WeightsFrom)
	for _, reason := range b.Ignored {
		x.say(1, "%s", reason)
	}
}

// unusable returns the endpoints of the family that have addresses of no use.
func (x *explanation) unusable() (out []*model.Endpoint) {
	for i := range x.service.Endpoints {
		e := &x.service.Endpoints[i]
		if why := whyNoEndpoint(e.Addr, x.set.Family); why != "" && why != otherFamily {
			out = append(out, e)
		}
	}
	return out
}

// strays explains endpoints that fit no port by name and protocol, and counts the other family's.
func (x *explanation) strays() {
	unusable, strayed := x.unusable(), func(e *model.Endpoint) bool {
		return !slices.ContainsFunc(x.ports, func(p port) bool { return p.Name == e.Port && p.Protocol == e.Protocol })
	}
	for _, e := range slices.Concat(x.all, unusable) {
		if strayed(e) {
			noPort := fmt.Sprintf("the Service has no port %q with %s", e.Port, e.Protocol)
			x.endpoint(1, e, false, false, cmp.Or(whyNoEndpoint(e.Addr, x.set.Family), noPort))
		}
	}
	others := 0
	for _, e := range x.service.Endpoints {
		if whyNoEndpoint(e.Addr, x.set.Family) == otherFamily {
			others++
		}
	}
	x.sayIf(others > 0, 1, "endpoints of the other family: %d", others)
}

// frontends explains each address and node port that a port asks for, in the order of ownership.go.
func (x *explanation) frontends(p *port) {
	for _, a := range x.addresses(x.record) {
		kind := "additional address"
		switch {
		case x.hasCluster(a):
			kind = "ClusterIP"
		case x.allocations[a].Former:
			kind = "former address"
		}
		x.decided(kind, a, p, x.decideCluster(x.record, a))
	}
	for a, k := range x.claims.outside() {
		kind := "load balancer IP"
		if k == bySpec {
			kind = "external IP"
		}
		x.decided(kind, a, p, x.decideOutside(x.record, p.front(a)))
	}
	noCluster := ""
	if len(x.cluster) == 0 {
		noCluster = "the Service has no ClusterIP of this family"
	}
	noExternal := noCluster
	if x.set.NoExternalIPs {
		noExternal = "external IPs are switched off"
	}
	x.unclaimed("ClusterIP", x.service.ClusterIPs, "")
	x.unclaimed("load balancer IP", x.service.LoadBalancerIPs, noCluster)
	x.unclaimed("external IP", x.service.ExternalIPs, noExternal)
	if p.NodePort != 0 {
		x.frontend(fmt.Sprintf("node port %d", p.NodePort), cmp.Or(noCluster, x.whyNoNodePort(p)))
	}
}

// frontend explains one address or node port. It is served if there is no reason why not.
func (x *explanation) frontend(what, whyNot string) {
	if whyNot == "" {
		x.say(2, "%s: served", what)
		return
	}
	x.say(2, "%s: not served, %s", what, whyNot)
}

func (x *explanation) decided(kind string, a netip.Addr, p *port, v decision) {
	winner := "no Service"
	if v.winner != (model.ServiceName{}) {
		winner = plain(v.winner.String())
	}
	why := ""
	switch {
	case !p.firstPort:
		why = "an earlier port of the Service has the same number and protocol"
	case v.already:
		why = "as it is a ClusterIP or additional address of the Service already"
	case v.reason == model.AllocatedToOther:
		why = "its IPAddress names " + winner
	case v.reason == model.NotAllocated && x.held:
		why = "no IPAddress names this Service while it is held"
	case v.reason == model.NotAllocated:
		why = "no IPAddress names this Service, and that is enforced"
	case v.reason == model.ClusterIPOfOther:
		why = "it is a ClusterIP or additional address of another Service; it belongs to " + winner
	case v.reason != "":
		why = "the Service " + winner + " has it, by better or older rights"
	}
	x.frontend(fmt.Sprintf("%s %s", kind, netip.AddrPortFrom(a, p.Port.Port)), why)
}

// unclaimed explains addresses of the Service that are not even looked at: those of no use and, if
// there is a reason against all of their kind, all of them; but not those of the other family.
func (x *explanation) unclaimed(kind string, addrs []netip.Addr, whyNone string) {
	for _, a := range addrs {
		why := cmp.Or(whyNoVirtualIP(a, x.set.Family), whyNone)
		if why != "" && why != otherFamily {
			x.frontend(kind+" "+plain(a.String()), why)
		}
	}
}

func (x *explanation) whyNoNodePort(p *port) string {
	switch winner := x.nodePorts.first(p.nodePort()); {
	case !p.firstNodePort:
		return "an earlier port of the Service has the same node port and protocol"
	case winner != nil && winner != x.record:
		return "the older Service " + plain(winner.name.String()) + " has it"
	default:
		return ""
	}
}

// endpoint says in which sets an endpoint is, and why it is not in the rest.
func (x *explanation) endpoint(indent int, e *model.Endpoint, cluster, local bool, why string) {
	where := "unknown node"
	if e.Node != "" {
		where = "node " + plain(e.Node)
	}
	words := "left out: " + why
	switch {
	case cluster && local:
		words = "used for cluster and local traffic"
	case cluster:
		words = "used for cluster traffic"
	case local:
		words = "used for local traffic"
	}
	if why != "" && (cluster || local) {
		words += " only: " + why
	}
	x.say(indent, "endpoint %s on %s: %s", plain(e.Addr.String()), where, words)
}

// why says why an endpoint is not in a set that the policies ask for.
func (s selection) why(e *model.Endpoint) string {
	var why []string
	if s.cluster && !s.inCluster(e) {
		why = append(why, s.whyNotCluster(e))
	}
	if s.local && !s.inLocal(e) {
		why = append(why, s.whyNotLocal(e))
	}
	return strings.Join(slices.Compact(why), "; ")
}

func (s selection) whyNotCluster(e *model.Endpoint) string {
	switch {
	case !couldServe(e):
		return notReady(e)
	case !e.Ready:
		return "terminating, and ready ones exist"
	case s.hints == sameNode:
		return "for other nodes: hints name " + plain(strings.Join(e.Hints.ForNodes(), ", "))
	default:
		return "other zone: hints name " + plain(strings.Join(e.Hints.ForZones(), ", "))
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

// notes says what else decides about traffic to a port.
func (x *explanation) notes(p *model.ServicePort, s selection) {
	x.sayIf(s.cluster && s.hints == sameNode, 2, "every endpoint has node hints, and some name this node: traffic to any endpoint keeps to those")
	x.sayIf(s.cluster && s.hints == sameZone, 2, "every endpoint has zone hints, and some name this zone: traffic to any endpoint keeps to those")
	x.sayIf(s.cluster && s.clusterEnding && len(p.Cluster) > 0, 2, "nothing is ready: endpoints that terminate are used as long as they serve")
	x.sayIf(s.local && s.localEnding && len(p.Local) > 0, 2,
		"nothing is ready on this node: endpoints on it that terminate are used as long as they serve")
	closed := len(p.LoadBalancerIPs) > 0 && x.closed(x.record)
	x.sayIf(closed, 2, "the port is %s", model.SourcesUnusable)
	x.sayIf(len(p.SourceRanges) > 0 && !closed, 2, "load balancer IPs are for sources in %v, others are dropped", p.SourceRanges)
	if !p.HasEndpoints {
		x.say(2, "new connections are rejected: there is no endpoint that could serve")
		return
	}
	away := len(p.Local) == 0
	x.sayIf(len(p.ClusterIPs) > 0 && p.InternalLocal && away, 2,
		"new connections to ClusterIPs are dropped: the internal policy is Local, and no endpoint on this node can serve")
	noExternal := p.HasExternal() && p.ExternalLocal && away
	x.sayIf(noExternal, 2, "new connections from outside are dropped: the external policy is Local, and no endpoint on this node can serve")
	x.sayIf(noExternal, 2, "those of the node and its pods go to endpoints elsewhere")
}

// plain quotes what could be more than a word on a terminal.
func plain(s string) string {
	if quoted := strconv.Quote(s); quoted != `"`+s+`"` {
		return quoted
	}
	return s
}
