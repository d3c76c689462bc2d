//go:build linux

package nftables

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// table is the name of our table, one for each family.
const table = "clusterip-proxyagent"

// Chains that exist always, and the verdict that is none.
const (
	chainServices  = "services"
	chainNodePorts = "node-ports"
	chainNew       = "new-connections"
	chainRefuse    = "refuse"
	chainMasq      = "with-node-address"
	chainForward   = "filter-forward"
	chainLoopback  = "from-elsewhere-to-loopback"
	chainSources   = "source-ranges"
	drop           = "drop"
)

// route leads from a front to the endpoint of one of n indexes. Fronts of a kind with as many
// endpoints share its chain, unless it is of one port.
type route struct {
	node    bool // a node port
	outside bool // for traffic from outside: with the node's address, unless only local endpoints are used
	local   bool // endpoints on this node
	through bool // for clients on this node, whom another route has sent here
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
func (r route) key() key {
	if r.through {
		return key{set: through, of: r.number()}
	}
	return key{set: routes, of: r.number()}
}

// hook is where the kernel calls a chain; the zero hook is none.
type hook struct {
	kind     nftables.ChainType
	number   uint32
	priority int
}

// chain is a chain with its rules.
type chain struct {
	hook  hook
	rules []rule
}

// layout writes rules.
type layout struct {
	model.Globals
	firewall, hairpin bool // some port needs these rules
}

func (l layout) load() *fields { return load(l.Family) }

// static are the chains that exist whatever ports there are.
func (l layout) static() map[string]chain {
	all := map[string]chain{
		chainServices: {rules: l.services()}, chainNew: {rules: l.newConnections()},
		chainNodePorts: {rules: []rule{l.load().node().follow(nodeFrontRoutes, routes), l.load().node().vmap(nodeFronts)}},
		chainRefuse:    {rules: []rule{and(isProtocol(model.TCP), rule{refuse(l.Family, true)}), {refuse(l.Family, false)}}},
		chainMasq:      {rules: []rule{setMark(l.MasqueradeBit, true), {masquerade}}},
		chainSources:   {rules: l.sources()},
		// An untracked packet has no status: a rule that asks for it goes on to the next one.
		chainLoopback: {rules: []rule{and(ctState(stateEstablished|stateRelated), rule{returned}), and(status(dnatted), rule{returned}), {dropped}}},
	}
	maps.Copy(all, l.hooks())
	return all
}

// services are the rules that new connections meet first. A vmap without the key goes on.
func (l layout) services() []rule {
	all := append([]rule{l.load().front().follow(frontRoutes, routes), l.load().front().vmap(fronts)}, l.atNodePorts(rule{goTo(chainNodePorts)})...)
	if l.firewall {
		all = slices.Insert(all, 0, and(l.load().front().in(firewalled), rule{jump(chainSources)}))
	}
	return all
}

// sources return where a client is in a source range of the front. Ranges have few lengths: in a
// set with ranges of any length the kernel looks through all of them, of all Services, for each
// that goes, which takes a minute with some ten thousand.
func (l layout) sources() (all []rule) {
	for bits := stride; bits <= l.Family.Bits(); bits += stride {
		all = append(all, and(l.load().length(bits).front().saddrOf(bits).in(sources), rule{returned}))
	}
	// Untranslated packets from elsewhere meet the front in newConnections, which drops them. IPVS
	// would be earlier with what the node itself sends.
	if l.Balanced {
		return append(all, rule{dropped})
	}
	return append(all, rule{accepted})
}

// atNodePorts limits a rule to node port addresses. Never ::1: IPv6 has no route_localnet.
func (l layout) atNodePorts(r rule) (all []rule) {
	if !l.NodePortAny {
		for _, a := range l.NodePortAddrs {
			all = append(all, and(l.load().daddr().within(netip.PrefixFrom(a, a.BitLen()), true), r))
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
	return []rule{and(where, r)}
}

var loopback = netip.MustParsePrefix("127.0.0.0/8")

// route are the rules of a route: mark what has to get the node's address, and translate.
func (l layout) route(r route) (all []rule) {
	key, in := (*fields).front, atAddress
	if r.node {
		key, in = (*fields).node, atNode
	}
	endpoints := in.picked
	if r.local {
		endpoints = in.local
	}
	anywhere := func() rule {
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
	return append(all, and(picked, rule{dnat(l.Family)}))
}

// affinity are the rules by which a client gets the endpoint that it had, while that exists, and a
// new one is remembered. Of first connections at the same time all get the endpoint of the fastest.
// If there is no room for a client, or its port has too many new ones, the last rule ends early,
// and the next serves without.
func (l layout) affinity(r route, client, picked rule) []rule {
	f, again := l.Family, rule{constant(values-1, localField(r.local))}
	return []rule{
		and(client, known(f, true), again, rule{remember(f, r.affinity), dnat(f)}),
		and(client, known(f, false), again, rule{forget(f)}),
		and(client, hidden(f, r.local), picked, rule{admit(r.affinity), remember(f, r.affinity), lookUpClient(f), dnat(f)}),
	}
}

// localSource matches traffic of pods on this node, or all other traffic; nil if they are unknown.
func (l layout) localSource(local bool) rule {
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
func (l layout) newConnections() []rule {
	all := []rule{and(status(dnatted), rule{returned})}
	if l.Balanced {
		all = append(all,
			and(l.load().front().in(firewalled), rule{jump(chainSources)}),
			l.load().front().vmap(unserved),
			and(l.load().front().in(balanced), isLocal(false, true), rule{returned}))
	} else {
		all = append(all,
			and(l.load().front().in(firewalled), rule{dropped}),
			l.load().front().vmap(unserved),
			// An address of the node itself has other ports than those of Services.
			and(l.load().daddr().in(active), isLocal(false, false), rule{goTo(chainRefuse)}))
	}
	for _, r := range l.Ranges { // what the node itself has there, such as its DNS cache, is no Service's
		all = append(all, and(l.load().daddr().within(r, true), l.load().daddr().notIn(allocated), isLocal(false, false), rule{dropped}))
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
func (l layout) elsewhereOnVirtual() (all []rule) {
	for _, a := range l.NodeAddrs {
		all = append(all, and(l.load().daddr().within(netip.PrefixFrom(a, a.BitLen()), true), rule{returned}))
	}
	for _, s := range []set{active, vips} {
		all = append(all, and(l.load().daddr().in(s), rule{goTo(chainRefuse)}))
	}
	return all
}

// Bits of connection tracking: linux/netfilter/nf_conntrack_common.h.
const (
	stateInvalid, stateEstablished, stateRelated, stateNew = 1, 2, 4, 8
	dnatted                                                = 1 << 5
)

// hooks are the chains that the kernel calls.
func (l layout) hooks() map[string]chain {
	toNew := and(ctState(stateNew), rule{jump(chainNew)})
	input, forward := []rule{toNew}, []rule{toNew}
	if l.Family == model.IPv4 && (l.LocalhostNodePorts || slices.ContainsFunc(l.NodePortAddrs, netip.Addr.IsLoopback)) {
		// route_localnet (node ports at 127.0.0.1) lets neighbours reach listeners there (CVE-2020-8558).
		input = slices.Insert(input, 0, and(l.load().saddr().within(loopback, false), l.load().daddr().within(loopback, true), rule{jump(chainLoopback)}))
	}
	if !l.KeepInvalid {
		// Out-of-window packets stay untranslated: receivers would reset (kubernetes/kubernetes#74839).
		forward = slices.Insert(forward, 0, and(ctState(stateInvalid), rule{&expr.Counter{}, dropped}))
	}
	post := []rule{and(marked(l.MasqueradeBit), rule{goTo(chainMasq)})}
	if l.hairpin {
		translated := status(dnatted)
		if l.Balanced { // IPVS does not set it. What an endpoint sends to itself does not leave it untranslated, except on the node, through the loopback interface
			translated = leavesBy("lo", false)
		}
		post = append(post, and(translated, l.load().saddr().front().in(hairpin), rule{masquerade}))
	}
	services := []rule{{jump(chainServices)}}
	all := map[string]chain{
		"nat-prerouting":  {hook: hook{nftables.ChainTypeNAT, unix.NF_INET_PRE_ROUTING, -100}, rules: services},
		"nat-output":      {hook: hook{nftables.ChainTypeNAT, unix.NF_INET_LOCAL_OUT, -100}, rules: services},
		"nat-postrouting": {hook: hook{nftables.ChainTypeNAT, unix.NF_INET_POST_ROUTING, 100}, rules: post},
		"filter-input":    {hook: hook{nftables.ChainTypeFilter, unix.NF_INET_LOCAL_IN, 0}, rules: input},
		chainForward:      {hook: hook{nftables.ChainTypeFilter, unix.NF_INET_FORWARD, 0}, rules: forward},
		"filter-output":   {hook: hook{nftables.ChainTypeFilter, unix.NF_INET_LOCAL_OUT, 0}, rules: []rule{toNew}},
	}
	return all
}
