package ruleset

import (
	"encoding/hex"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// devices are the dummy interfaces of Service proxies in mode ipvs: ours and that of kube-proxy.
var devices = []string{"clusterip-ipvs0", "kube-ipvs0"}

var (
	address = regexp.MustCompile(`^\d+: (\S+) +inet6? (\S+)/\d+ `)
	device  = regexp.MustCompile(`^\d+: (\S+): <`)
	// server and destination are lines of /proc/net/ip_vs, with numbers in hexadecimal.
	server      = regexp.MustCompile(`^(TCP|UDP|SCTP) +(\S+) (.*)$`)
	destination = regexp.MustCompile(`^  -> (\S+) +(\S+) +(\d+) `)
)

// balancer tells of IPVS by `ip -o` on interfaces and addresses, and /proc/net/ip_vs. Each line has
// its owner's interface, or "-". It omits counters and draining destinations, which have weight 0.
func balancer(text string) string {
	var lines []string
	of, own := map[netip.Addr]string{}, map[string]bool{} // ports that we have marked at 0.0.0.0 or ::
	for line := range strings.SplitSeq(text, "\n") {
		if m := device.FindStringSubmatch(line); m != nil && slices.Contains(devices, m[1]) {
			lines = append(lines, "interface "+m[1])
		} else if m := address.FindStringSubmatch(line); m != nil && slices.Contains(devices, m[1]) {
			lines = append(lines, "address "+m[1]+" "+m[2])
			of[netip.MustParseAddr(m[2])] = m[1]
		} else if m := server.FindStringSubmatch(line); m != nil && front(m[2]).Addr().IsUnspecified() {
			own[mark(m[1], front(m[2]))] = true
		}
	}
	who, at := "", ""
	for line := range strings.SplitSeq(text, "\n") {
		if m := server.FindStringSubmatch(line); m != nil {
			f := front(m[2])
			who, at = of[f.Addr()], m[1]+" "+f.String()
			if own[mark(m[1], f)] {
				who = devices[0]
			}
			if who == "" {
				who = "-"
			}
			lines = append(lines, strings.TrimSpace("server "+who+" "+at+" "+m[3]))
		} else if m := destination.FindStringSubmatch(line); m != nil && m[3] != "0" {
			lines = append(lines, strings.Join([]string{"destination", who, at, "->", front(m[1]).String(), m[2], m[3]}, " "))
		}
	}
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "\n")
}

// mark is what the agent marks a port of the node by: its family, its protocol and its number.
func mark(protocol string, f netip.AddrPort) string {
	return strings.Join([]string{strconv.Itoa(f.Addr().BitLen()), protocol, strconv.Itoa(int(f.Port()))}, " ")
}

// front reads /proc/net/ip_vs's addresses and ports: C0000201:0050, [2001:0db8:...]:0050.
func front(text string) netip.AddrPort {
	i := strings.LastIndex(text, ":")
	if i < 0 {
		return netip.AddrPort{}
	}
	port, _ := strconv.ParseUint(text[i+1:], 16, 16)
	addr, err := netip.ParseAddr(strings.Trim(text[:i], "[]"))
	if err != nil {
		b, _ := hex.DecodeString(text[:i])
		addr, _ = netip.AddrFromSlice(b)
	}
	return netip.AddrPortFrom(addr, uint16(port))
}
