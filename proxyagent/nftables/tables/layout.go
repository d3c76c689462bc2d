//go:build linux

package tables

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Name is the name of our table, one for each family.
const Name = "clusterip-proxyagent"

// Chains that exist always, and the verdict that is none.
const (
	chainServices  = "services"
	chainNodePorts = "node-ports"
	chainNew       = "new-connections"
	chainRefuse    = "refuse"
	chainMasq      = "with-node-address"
	ChainForward   = "filter-forward"
	chainLoopback  = "from-elsewhere-to-loopback"
	chainSources   = "source-ranges"
	Drop           = "drop"
)

// route leads from a front to the endpoint of one of n indexes. Fronts of a kind with as many
// endpoints share its chain, unless it is of one port.
type route struct {
	node    bool // a node port
	outside bool // for traffic from outside: with the node's address, unless only local endpoints are used
	local   bool // endpoints on this node
	through bool // for clients on this node that another route has sent here
	n       int
	by      picker
	counter string // digest of a port whose connections are counted to pick in turn, whose chain is its own
	// affinity is for how many seconds clients keep their endpoint; 0: they have none.
	affinity int
}

func (r route) name() string {
	words := []string{"pick"}
	for word, holds := range map[string]bool{"node": r.node, "outside": r.outside, "local": r.local, "through": r.through} {
		if holds {
			words = append(words, word)
		}
	}
	slices.Sort(words[1:])
	words = append(words, fmt.Sprint(r.n))
	switch r.by {
	case bySource:
		words = append(words, "by-source")
	case inTurn:
		words = append(words, "in-turn", r.counter)
	}
	if r.affinity > 0 {
		words = append(words, fmt.Sprintf("for-%ds", r.affinity))
	}
	return strings.Join(words, "-")
}

// direct reports whether fronts lead to the chain of the route itself, and not by its number: it is
// of one port, or has a time-out, for which a number has no room.
func (r route) direct() bool { return r.counter != "" || r.affinity > 0 }

// number stands for a route: its fields side by side.
func (r route) number() string {
	n := r.n<<6 | int(r.by)<<4
	for i, holds := range []bool{r.node, r.outside, r.local, r.through} {
		if holds {
			n |= 1 << i
		}
	}
	return index(n)
}

func routeOf(number string) route {
	n := binary.NativeEndian.Uint32([]byte(number))
	return route{node: n&1 != 0, outside: n&2 != 0, local: n&4 != 0, through: n&8 != 0, by: picker(n >> 4 & 3), n: int(n >> 6)}
}

// key is that of the chain of such a route.
func (r route) key() Key {
	if r.through {
		return Key{Set: through, Of: r.number()}
	}
	return Key{Set: routes, Of: r.number()}
}

// Hook is where the kernel calls a chain; the zero Hook is none.
type Hook struct {
	Kind     string // filter or nat
	Number   uint32
	Priority int
}

// Chain is a chain with its rules.
type Chain struct {
	Hook  Hook
	Rules []Rule
}

// layout writes rules.
type layout struct {
	model.Globals
	firewall bool // some port has source ranges
}

func (l layout) load() *fields { return load(l.Family) }

// static are the chains that exist whatever ports there are.
func (l layout) static() map[string]Chain {
	all := map[string]Chain{
		chainServices: {Rules: l.services()}, chainNew: {Rules: l.newConnections()},
		chainNodePorts: {Rules: []Rule{l.load().node().follow(nodeFrontRoutes, routes), l.load().node().vmap(nodeFronts)}},
		chainRefuse:    {Rules: []Rule{and(isProtocol(model.TCP), Rule{refuse(l.Family, true)}), {refuse(l.Family, false)}}},
		chainMasq:      {Rules: []Rule{setMark(l.MasqueradeBit, true), {masquerade}}},
		chainSources:   {Rules: l.sources()},
		// An untracked packet has no status: a rule that asks for it goes on to the next one.
		chainLoopback: {Rules: []Rule{and(ctState(stateEstablished|stateRelated), Rule{returned}), and(status(dnatted), Rule{returned}), {dropped}}},
	}
	maps.Copy(all, l.hooks())
	return all
}

// services are the rules that new connections meet first. A vmap without the key goes on.
func (l layout) services() []Rule {
	all := append([]Rule{l.load().front().follow(frontRoutes, routes), l.load().front().vmap(fronts)}, l.atNodePorts(Rule{goTo(chainNodePorts)})...)
	if l.firewall {
		all = slices.Insert(all, 0, and(l.load().front().in(firewalled), Rule{jump(chainSources)}))
	}
	return all
}

// sources return where a client is in a source range of the front. Ranges have few lengths: in a
// set with ranges of any length the kernel looks through all of them, of all Services, for each
// that goes, which takes a minute with some ten thousand.
func (l layout) sources() (all []Rule) {
	for bits := stride; bits <= l.Family.Bits(); bits += stride {
		all = append(all, and(l.load().length(bits).front().saddrOf(bits).in(sources), Rule{returned}))
	}
	// Untranslated packets from elsewhere meet the front in newConnections, which drops them. IPVS
	// would be earlier with what the node itself sends.
	if l.Balanced {
		return append(all, Rule{dropped})
	}
	return append(all, Rule{accepted})
}

// atNodePorts limits a rule to node port addresses. Never ::1: IPv6 has no route_localnet.
func (l layout) atNodePorts(r Rule) (all []Rule) {
	if !l.NodePortAny {
		for _, a := range l.NodePortAddrs {
			all = append(all, and(l.load().daddr().within(model.Single(a), true), r))
		}
		return all
	}
	where := isLocal(false, true)
	switch {
	case l.Family == model.IPv6:
		where = and(l.load().daddr().within(netip.PrefixFrom(netip.IPv6Loopback(), 128), false), where)
	case !l.LocalhostNodePorts:
		where = and(l.load().daddr().within(loopback, false), where)
	}
	return []Rule{and(where, r)}
}

var loopback = netip.MustParsePrefix("127.0.0.0/8")

// route are the rules of a route: mark what has to get the node's address, and translate.
func (l layout) route(r route) (all []Rule) {
	key, in := (*fields).front, atAddress
	if r.node {
		key, in = (*fields).node, atNode
	}
	endpoints := in.picked
	if r.local {
		endpoints = in.local
	}
	anywhere := func() Rule {
		if r.direct() {
			return key(l.load()).vmap(in.anywhere)
		}
		return key(l.load()).follow(in.anywhere+routesOf, through)
	}
	mark := setMark(l.MasqueradeBit, false)
	switch {
	case r.outside && !r.local:
		all = append(all, mark)
	case r.outside: // pods of this node and the node itself may use all endpoints
		if here := l.localSource(true); here != nil {
			all = append(all, and(here, anywhere()))
		}
		all = append(all, and(isLocal(true, true), mark), and(isLocal(true, true), anywhere()))
	case r.through:
	case l.MasqueradeAll:
		all = append(all, mark)
	default:
		if others := l.localSource(false); others != nil {
			all = append(all, and(others, mark))
		}
		if l.Balanced { // the kernel gives the node's own connections to an address of the node this address as their source, too
			all = append(all, and(l.load().saddr().in(active), mark), and(l.load().saddr().in(vips), mark))
		}
	}
	if r.n == 0 {
		return all
	}
	load := func() *fields { return key(loadAt(l.Family, values)) }
	picked := load().pick(r.by, r.n).find(endpoints)
	if r.affinity > 0 {
		all = append(all, l.affinity(r, load().numbered(in, r.local), picked)...)
	}
	return append(all, and(picked, Rule{dnat(l.Family)}))
}

// affinity are the rules by which a client gets the endpoint that it had, while that exists, and a
// new one is remembered. Of first connections at the same time all get the endpoint of the fastest.
// If there is no room for a client, or its port has too many new ones, the last rule ends early,
// and the next serves without.
func (l layout) affinity(r route, client, picked Rule) []Rule {
	f, again := l.Family, Rule{constant(values-1, localField(r.local))}
	return []Rule{
		and(client, known(f, true), again, Rule{remember(f, r.affinity), dnat(f)}),
		and(client, known(f, false), again, Rule{forget(f)}),
		and(client, hidden(f, r.local), picked, Rule{admit(r.affinity), remember(f, r.affinity), lookUpClient(f), dnat(f)}),
	}
}

// localSource matches traffic of pods on this node, or all other traffic; nil if they are unknown.
func (l layout) localSource(local bool) Rule {
	switch s := l.LocalSource; {
	case s.CIDR.IsValid():
		return l.load().saddr().within(s.CIDR, local)
	case s.Interface != "":
		return cameBy(s.Interface, false, local)
	case s.InterfacePrefix != "":
		return cameBy(s.InterfacePrefix, true, local)
	default:
		return nil
	}
}

// newConnections looks at first packets that nothing has translated.
func (l layout) newConnections() []Rule {
	all := []Rule{and(status(dnatted), Rule{returned})}
	if l.Balanced {
		all = append(all,
			and(l.load().front().in(firewalled), Rule{jump(chainSources)}),
			l.load().front().vmap(unserved),
			and(l.load().front().in(balanced), isLocal(false, true), Rule{returned}))
	} else {
		all = append(all,
			and(l.load().front().in(firewalled), Rule{dropped}),
			l.load().front().vmap(unserved),
			// An address of the node itself has other ports than those of Services.
			and(l.load().daddr().in(active), isLocal(false, false), Rule{goTo(chainRefuse)}))
	}
	for _, r := range l.Ranges { // what the node itself has there, such as its DNS cache, is no Service's
		all = append(all, and(l.load().daddr().within(r, true), l.load().daddr().notIn(allocated), isLocal(false, false), Rule{dropped}))
	}
	all = append(all, l.atNodePorts(l.load().node().vmap(nodeUnserved))...)
	if l.Balanced {
		all = append(all, l.elsewhereOnVirtual()...)
	}
	return all
}

// elsewhereOnVirtual refuses ports of virtual IPs that IPVS does not take, as sockets of the node
// would answer there. All ports of an address that is not one of the node yet, or no more, are
// refused: their packets would leave by the default route.
func (l layout) elsewhereOnVirtual() (all []Rule) {
	for _, a := range l.NodeAddrs {
		all = append(all, and(l.load().daddr().within(model.Single(a), true), Rule{returned}))
	}
	for _, s := range []Set{active, vips} {
		all = append(all, and(l.load().daddr().in(s), Rule{goTo(chainRefuse)}))
	}
	return all
}

// Bits of connection tracking: linux/netfilter/nf_conntrack_common.h.
const (
	stateInvalid, stateEstablished, stateRelated, stateNew = 1, 2, 4, 8
	dnatted                                                = 1 << 5
)

// hooks are the chains that the kernel calls.
func (l layout) hooks() map[string]Chain {
	toNew := and(ctState(stateNew), Rule{jump(chainNew)})
	input, forward := []Rule{toNew}, []Rule{toNew}
	if l.Family == model.IPv4 && (l.LocalhostNodePorts || slices.ContainsFunc(l.NodePortAddrs, netip.Addr.IsLoopback)) {
		// route_localnet (node ports at 127.0.0.1) lets neighbours reach listeners there (CVE-2020-8558).
		input = slices.Insert(input, 0, and(l.load().saddr().within(loopback, false), l.load().daddr().within(loopback, true), Rule{jump(chainLoopback)}))
	}
	if !l.KeepInvalid {
		// Out-of-window packets stay untranslated: receivers would reset (kubernetes/kubernetes#74839).
		forward = slices.Insert(forward, 0, and(ctState(stateInvalid), Rule{&expr.Counter{}, dropped}))
	}
	translated := status(dnatted)
	if l.Balanced { // IPVS does not set it. What an endpoint sends to itself does not leave it untranslated, except on the node, through the loopback interface
		translated = leavesBy("lo", false)
	}
	post := []Rule{
		and(marked(l.MasqueradeBit), Rule{goTo(chainMasq)}),
		and(translated, l.load().saddr().front().in(hairpin), Rule{masquerade}),
	}
	services := []Rule{{jump(chainServices)}}
	all := map[string]Chain{
		"nat-prerouting":  {Hook: Hook{"nat", unix.NF_INET_PRE_ROUTING, -100}, Rules: services},
		"nat-output":      {Hook: Hook{"nat", unix.NF_INET_LOCAL_OUT, -100}, Rules: services},
		"nat-postrouting": {Hook: Hook{"nat", unix.NF_INET_POST_ROUTING, 100}, Rules: post},
		"filter-input":    {Hook: Hook{"filter", unix.NF_INET_LOCAL_IN, 0}, Rules: input},
		ChainForward:      {Hook: Hook{"filter", unix.NF_INET_FORWARD, 0}, Rules: forward},
		"filter-output":   {Hook: Hook{"filter", unix.NF_INET_LOCAL_OUT, 0}, Rules: []Rule{toNew}},
	}
	return all
}
