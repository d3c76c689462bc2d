package watch

import "net/netip"

// parseAddr reads an address as the API writes it: no leading zeros, which some read as octal; no zone; no IPv4 address in IPv6 dress,
// which would be a second name of the same thing.
func parseAddr(s string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(s)
	if err != nil || a.Zone() != "" || a.Is4In6() {
		return netip.Addr{}, false
	}
	return a, true
}

// parsePrefix reads a CIDR by the same rules. Bits behind the prefix length are cleared.
func parsePrefix(s string) (netip.Prefix, bool) {
	p, err := netip.ParsePrefix(s)
	if err != nil || p.Addr().Is4In6() {
		return netip.Prefix{}, false
	}
	return p.Masked(), true
}

// virtual reports whether an address can be one that a Service is reached at. The API refuses the others in most places; a load
// balancer's status is written by programs, and one that claims 127.0.0.1 would take all traffic that stays on the node.
func virtual(a netip.Addr) bool {
	return !a.IsUnspecified() && !a.IsLoopback() && !a.IsMulticast()
}

// reachable reports whether an address can be one that an endpoint has, by the rules of the API.
func reachable(a netip.Addr) bool {
	return virtual(a) && !a.IsLinkLocalUnicast()
}

// parseAddrs reads the addresses that are virtual; the others are junk.
func parseAddrs(what string, in []string, j *junk) []netip.Addr {
	var out []netip.Addr
	for _, s := range in {
		if a, ok := parseAddr(s); ok && virtual(a) {
			out = append(out, a)
		} else {
			j.add(what, s)
		}
	}
	return out
}

// parsePrefixes reads CIDRs; what is none is junk.
func parsePrefixes(what string, in []string, j *junk) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range in {
		if p, ok := parsePrefix(s); ok {
			out = append(out, p)
		} else {
			j.add(what, s)
		}
	}
	return out
}
