package trace

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// apply executes the target of a rule for the packets that it matched: some are accepted for the table, some return from the chain, some go on
// to the next rule.
func (k *walk) apply(t table, r rule, hit []flow, depth int) (accepted, fallen, on []flow) {
	to := t[r.target]
	switch {
	case to != nil && r.isGoto:
		accepted, fallen = k.chain(t, to, hit, depth+1)
	case to != nil:
		accepted, on = k.chain(t, to, hit, depth+1)
	case r.target == "RETURN":
		fallen = hit
	case r.target == "ACCEPT":
		accepted = hit
	case r.target == "DROP":
		k.ends(hit, "dropped by "+r.text)
	case r.target == "REJECT":
		k.ends(hit, "refused by "+r.text)
	case r.target == "DNAT", r.target == "SNAT", r.target == "MASQUERADE":
		accepted = k.translate(r, hit)
	case r.target == "MARK":
		on = k.mark(r, hit, depth)
	case r.target == "REDIRECT":
		k.ends(hit, "goes to this node itself by "+r.text)
	case slices.Contains(harmless, r.target) && value(r.args, "--map-set") == "":
		on = hit
	default:
		on = k.unknownTarget(hit, depth)
	}
	return accepted, fallen, on
}

// harmless are targets that let packets go on as they are. No target at all only counts.
var harmless = []string{"", "LOG", "NFLOG", "SET", "TCPMSS", "CHECKSUM", "TRACE"}

// unknownTarget passes a target by.
func (k *walk) unknownTarget(hit []flow, depth int) (on []flow) {
	k.say(depth, "      > not known here; it is passed by")
	for _, f := range hit {
		f.doubts++
		on = append(on, f)
	}
	return on
}

// translate gives packets another destination or source. Of a range of destinations the kernel chooses any.
func (k *walk) translate(r rule, hit []flow) (accepted []flow) {
	to := value(r.args, "--to-destination")
	for _, f := range hit {
		var ok bool
		switch r.target {
		case "SNAT":
			f.source = value(r.args, "--to-source")
		case "MASQUERADE":
			f.source = nodeSource
		default:
			if f.Dst, ok = destination(to, f.Dst); !ok {
				k.end(f, End{Verdict: "goes to " + to + ", which is not followed further"})
				continue
			}
		}
		accepted = append(accepted, f)
	}
	return merge(accepted)
}

// nodeSource stands for the address that MASQUERADE gives.
const nodeSource = "the node's address"

// destination reads an address, a port or both; a missing part keeps its value.
func destination(text string, now netip.AddrPort) (netip.AddrPort, bool) {
	if a, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		return netip.AddrPortFrom(a, now.Port()), true
	}
	if port, ok := strings.CutPrefix(text, ":"); ok {
		n, err := strconv.ParseUint(port, 10, 16)
		return netip.AddrPortFrom(now.Addr(), uint16(n)), err == nil
	}
	to, err := netip.ParseAddrPort(text)
	return to, err == nil
}

// mark changes the mark, in the spelling of iptables-save.
func (k *walk) mark(r rule, hit []flow, depth int) (on []flow) {
	v, m, ok := parseMark(value(r.args, "--set-xmark"))
	if !ok {
		return k.unknownTarget(hit, depth)
	}
	for _, f := range hit {
		f.mark = f.mark&^m ^ v
		on = append(on, f)
	}
	return on
}
