package trace

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Packet is the first packet of a connection.
type Packet struct {
	Protocol model.Protocol
	Src      netip.Addr
	Dst      netip.AddrPort
	// In is the interface that it comes in by, empty when the node itself sends it.
	In string
}

// Node has what rules refer to on a node. Where it returns an error, Walk cannot tell whether a rule matches.
type Node interface {
	// Kind returns the type of a set as ipset names it: "hash:ip,port".
	Kind(set string) (string, error)
	// Has reports whether a set has an entry, written as for ipset: "10.0.0.1,tcp:80".
	Has(set, entry string) (bool, error)
	// Local reports whether an address is one of this node.
	Local(netip.Addr) bool
	// Route returns the interface that a packet leaves by, and an error when routing refuses it.
	Route(p Packet, mark uint32) (out string, err error)
}

const (
	// deepest is more than the kernel lets chains be nested; a ruleset that was not read from a kernel may have loops.
	deepest = 64
	// mostFlows bounds how many possibilities are followed at a time.
	mostFlows = 20000
)

// state is a packet between two rules. It is comparable: what happens to equal states is the same.
type state struct {
	Packet // Src is invalid if it is an unknown address of the node
	// original is its destination as it was sent.
	original netip.AddrPort
	// out is the interface that it leaves by, once it is routed. here: it is for this node.
	out  string
	here bool
	mark uint32
	// source is the new source address after the last chain, in words; empty if it is not translated.
	source string
}

// flow is one possibility.
type flow struct {
	state
	// doubts counts the rules on the way of which it is not known whether they matched.
	doubts int
	// share is the share of such packets for which it happens, if the doubts are as assumed.
	share float64
}

// walk is one run of Walk.
type walk struct {
	rules Ruleset
	node  Node
	path  Path
	err   error
}

// Walk follows a packet through the rules of its family. It fails when there are too many possibilities, or chains without an end.
func Walk(p Packet, r Ruleset, w Node) (Path, error) {
	k := walk{rules: r, node: w, path: Path{Packet: p, Ends: map[End]float64{}}}
	start := []flow{{state: state{Packet: p, original: p.Dst}, share: 1}}
	if p.In == "" {
		k.fromNode(start)
	} else {
		k.fromOutside(start)
	}
	return k.path, k.err
}

// fromNode follows packets that the node itself sends. Those to itself come in again through the loopback interface, already translated.
func (k *walk) fromNode(flows []flow) {
	flows = k.hook("OUTPUT", k.route(flows), "raw", "mangle", "nat")
	// The kernel routes a packet again as soon as it is translated, but the remaining rules of OUTPUT still see the first interface.
	flows = k.hook("OUTPUT", flows, "filter", "security")
	flows = k.hook("POSTROUTING", k.route(flows), "mangle", "nat")
	here, away := parted(flows)
	k.delivered(away)
	for i := range here {
		here[i].In, here[i].out = "lo", ""
		if source := here[i].source; source != "" {
			here[i].Src, _ = netip.ParseAddr(source)
		}
	}
	k.delivered(k.hook("INPUT", k.hook("PREROUTING", here, "raw", "mangle"), "mangle", "filter", "security"))
}

// fromOutside follows packets that come in through an interface.
func (k *walk) fromOutside(flows []flow) {
	here, away := parted(k.route(k.hook("PREROUTING", flows, "raw", "mangle", "nat")))
	k.delivered(k.hook("INPUT", here, "mangle", "filter", "security", "nat"))
	k.delivered(k.hook("POSTROUTING", k.hook("FORWARD", away, "mangle", "filter", "security"), "mangle", "nat"))
}

func parted(flows []flow) (here, away []flow) {
	for _, f := range flows {
		if f.here {
			here = append(here, f)
		} else {
			away = append(away, f)
		}
	}
	return here, away
}

// route looks up the routes of the packets. Those without a route end here.
func (k *walk) route(flows []flow) (on []flow) {
	for _, f := range flows {
		f.here = k.node.Local(f.Dst.Addr())
		var err error
		switch {
		case !f.here:
			f.out, err = k.node.Route(f.Packet, f.mark)
		case f.In == "":
			f.out = "lo"
		}
		if err != nil {
			k.end(f, End{Verdict: "goes nowhere: " + err.Error()})
			continue
		}
		on = append(on, f)
	}
	return on
}

// hook evaluates a built-in chain of several tables and returns the packets that pass.
func (k *walk) hook(name string, flows []flow, tables ...string) []flow {
	for _, t := range tables {
		c := k.rules[t][name]
		if c == nil || len(flows) == 0 || len(c.rules) == 0 && c.policy != "DROP" {
			continue
		}
		k.say(0, t+" "+name)
		accepted, rest := k.chain(k.rules[t], c, flows, 1)
		if c.policy == "DROP" {
			k.ends(rest, "dropped by the policy of "+t+" "+name)
			rest = nil
		}
		flows = merge(append(accepted, rest...))
	}
	return flows
}

// chain evaluates the rules of a chain. It returns the packets that a rule accepted for the table, and those that returned from the
// chain or came to its end.
func (k *walk) chain(t table, c *chain, flows []flow, depth int) (accepted, fallen []flow) {
	if depth > deepest {
		k.err = errors.New("the chains have no end")
	}
	for _, r := range c.rules {
		if len(flows) > mostFlows {
			k.err = fmt.Errorf("there are more than %d possibilities", mostFlows)
		}
		if k.err != nil || len(flows) == 0 {
			break
		}
		hit, miss, unsure, unknown := k.match(r, flows)
		if len(hit) == 0 {
			continue
		}
		k.sayStep(depth, r, len(hit), len(flows), unknown)
		a, back, on := k.apply(t, r, hit, depth)
		accepted, fallen = append(accepted, a...), append(fallen, back...)
		flows = merge(slices.Concat(miss, differing(on, unsure), unsure))
	}
	return accepted, append(fallen, flows...)
}

// match returns the packets that a rule matches and those that it does not, which are both where it matches at random. Those of which it is
// not known whether it matches them are in hit and in unsure.
func (k *walk) match(r rule, flows []flow) (hit, miss, unsure []flow, unknown error) {
	for _, f := range flows {
		chance, err := k.ask(r, f.state)
		if err != nil {
			f.doubts++
			hit, unsure, unknown = append(hit, f), append(unsure, f), err
			continue
		}
		yes, no := f, f
		yes.share, no.share = f.share*chance, f.share*(1-chance)
		if yes.share > 0 {
			hit = append(hit, yes)
		}
		if no.share > 0 {
			miss = append(miss, no)
		}
	}
	return hit, miss, unsure, unknown
}

// ask evaluates all matches of a rule. One that certainly fails decides, whatever is unknown about the others.
func (k *walk) ask(r rule, s state) (float64, error) {
	all, unknown := 1.0, error(nil)
	for _, m := range r.matches {
		chance, err := m(k.node, s)
		switch {
		case err != nil:
			unknown = err
		case chance <= 0:
			return 0, nil
		default:
			all *= chance
		}
	}
	return all, unknown
}

// differing takes the doubt about a rule off packets to which it makes no difference whether the rule matches, and returns the others.
func differing(on, unsure []flow) (different []flow) {
	at := map[flow]int{}
	for i, f := range unsure {
		at[f] = i
	}
	for _, f := range on {
		if i, same := at[f]; same {
			unsure[i].doubts--
		} else {
			different = append(different, f)
		}
	}
	return different
}

// merge adds up the shares of equal possibilities, so that their number does not grow with the number of rules.
func merge(flows []flow) []flow {
	at := make(map[flow]int, len(flows))
	var sums []flow
	for _, f := range flows {
		key := f
		key.share = 0
		if i, known := at[key]; known {
			sums[i].share += f.share
			continue
		}
		at[key] = len(sums)
		sums = append(sums, f)
	}
	return sums
}

// say adds a line to the path.
func (k *walk) say(depth int, text string) {
	k.path.Steps = append(k.path.Steps, strings.Repeat("  ", depth)+text)
}

// sayStep adds a rule that matched, and for which packets.
func (k *walk) sayStep(depth int, r rule, hit, of int, unknown error) {
	k.say(depth, r.text)
	if hit < of {
		k.say(depth, fmt.Sprintf("      > for %d of %d possibilities", hit, of))
	}
	if unknown != nil {
		k.say(depth, fmt.Sprintf("      > cannot tell whether it matches (%v); both are followed", unknown))
	}
}

// delivered ends packets that passed all chains.
func (k *walk) delivered(flows []flow) {
	for _, f := range flows {
		k.end(f, End{Verdict: Delivered, Dst: f.Dst, Here: f.here, Source: f.source})
	}
}

func (k *walk) ends(flows []flow, verdict string) {
	for _, f := range flows {
		k.end(f, End{Verdict: verdict})
	}
}

func (k *walk) end(f flow, e End) {
	e.Perhaps = f.doubts > 0
	k.path.Ends[e] += f.share
}
