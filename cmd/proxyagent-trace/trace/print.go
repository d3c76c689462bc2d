//go:build linux

package trace

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os/exec"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/iptables"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// print writes what connect() does, a line for each rule that matched, and the verdict.
func (p packet) print(ctx context.Context, w io.Writer, atConnect string, steps []step) error {
	r := rules{ctx: ctx, lines: map[string][]string{}, saved: map[ruleset]map[string][]string{}}
	origin := "that the node makes"
	if p.in != "" {
		origin = "in by " + p.in
	}
	var b strings.Builder
	fmt.Fprintf(&b, "A new %s connection from %s to %s, %s:\n", p.protocol, p.src.Addr(), p.dst, origin)
	if atConnect != "" {
		fmt.Fprintf(&b, "  %s\n", atConnect)
	}
	last := "nothing"
	for _, s := range steps {
		if s.table == table {
			continue
		}
		if rule := r.text(s); rule != "" {
			last = fmt.Sprintf("%s: %s", s.where(), rule)
			fmt.Fprintf(&b, "  %s\n", last)
		}
	}
	fmt.Fprintf(&b, "Verdict: %s\n", p.verdict(steps, last))
	_, err := io.WriteString(w, b.String())
	return err
}

func (s step) where() string {
	if s.legacy {
		return fmt.Sprintf("legacy %s %s", s.table, s.chain)
	}
	return fmt.Sprintf("%s %s %s", familyNames[s.family], s.table, s.chain)
}

var familyNames = map[uint8]string{unix.NFPROTO_INET: "inet", unix.NFPROTO_IPV4: "ip", unix.NFPROTO_IPV6: "ip6", unix.NFPROTO_NETDEV: "netdev", unix.NFPROTO_BRIDGE: "bridge", unix.NFPROTO_ARP: "arp"}

// refusal matches a packet's end in the words of nft and iptables, not in a set's or chain's name.
var refusal = regexp.MustCompile(`(^|[ \t])(drop|reject|policy DROP|-j DROP|-j REJECT)([ \t]|$)`)

func refuses(rule string) bool { return refusal.MatchString(rule) }

// verdict is what became of the packet. Only a packet that no rule stopped meets our last chains.
func (p packet) verdict(steps []step, last string) string {
	if len(steps) == 0 {
		return "the packet did not come as far as the rules: its interface is down, or something drops packets before them (XDP, tc)"
	}
	end := steps[len(steps)-1]
	if end.table != table || end.chain != toHere && end.chain != away {
		if end.dropped() || refuses(last) {
			return "ended by " + last
		}
		return "no rule ended it, and routing did: no route leads to where it goes, or the reverse path filter does not let it come by that interface"
	}
	where := ""
	if end.chain == toHere {
		where = " on this node itself"
	}
	src, dst := addresses(end.header, end.transport)
	source := "its own source"
	if src != p.src.Addr() {
		source = "the source " + src.String()
	}
	return fmt.Sprintf("goes to %s%s, with %s", dst, where, source)
}

// addresses reads headers of IP and of a transport protocol as the kernel reports them.
func addresses(ip, transport []byte) (src netip.Addr, dst netip.AddrPort) {
	var to netip.Addr
	switch {
	case len(ip) >= 40 && ip[0]>>4 == 6:
		src, to = netip.AddrFrom16([16]byte(ip[8:24])), netip.AddrFrom16([16]byte(ip[24:40]))
	case len(ip) >= 20:
		src, to = netip.AddrFrom4([4]byte(ip[12:16])), netip.AddrFrom4([4]byte(ip[16:20]))
	}
	if len(transport) < 4 {
		return src, netip.AddrPortFrom(to, 0)
	}
	return src, netip.AddrPortFrom(to, binary.BigEndian.Uint16(transport[2:]))
}

// rules finds the texts of rules. The kernel reports them by number.
type rules struct {
	ctx   context.Context
	lines map[string][]string // of chains: what nft lists
	saved map[ruleset]map[string][]string
}

// ruleset is one that iptables-save shows: a variant and a family.
type ruleset struct {
	mode   iptables.Mode
	family uint8
}

// text is empty if a chain's end accepts. It never fails: the report matters more than its wording.
func (r rules) text(s step) string {
	find := r.nft
	if s.legacy {
		find = r.iptables
	}
	t, err := find(s)
	if err != nil {
		return fmt.Sprintf("rule %d, of which the text is unknown: %v", s.rule, err)
	}
	if strings.HasPrefix(t, policy) && t != policy+"DROP" {
		return ""
	}
	return t
}

// policy begins the text of a chain's end, as iptables writes it. A chain without a hook has "-".
const policy = "policy "

// nft words a rule of iptables-nft like iptables: nft itself leaves out, say, the name of an ipset.
func (r rules) nft(s step) (string, error) {
	if s.rule == 0 || s.kind != unix.NFT_TRACETYPE_RULE {
		if s.dropped() {
			return policy + "DROP", nil
		}
		return policy + "ACCEPT", nil
	}
	if r.lines[s.where()] == nil {
		out, err := exec.CommandContext(r.ctx, "nft", "--stateless", "--handle", "list", "chain", familyNames[s.family], s.table, s.chain).Output()
		if err != nil {
			return "", fmt.Errorf("asking nft: %w", err)
		}
		r.lines[s.where()] = handled.FindAllString(string(out), -1)
	}
	for i, line := range r.lines[s.where()] {
		rule, found := strings.CutSuffix(line, fmt.Sprintf(" # handle %d", s.rule))
		if !found {
			continue
		}
		if tables[s.table] {
			s.rule = uint64(i) // the first line is that of the chain itself
			if text, err := r.iptables(s); err == nil {
				return text, nil
			}
		}
		return strings.TrimSpace(rule), nil
	}
	return "", errGone
}

var (
	errGone = errors.New("it is not there anymore")
	// tables are those of iptables.
	tables = map[string]bool{"raw": true, "mangle": true, "nat": true, "filter": true, "security": true}
	// handled are the lines of nft that have a handle.
	handled = regexp.MustCompile(`(?m)^.* # handle \d+$`)
)

// iptables finds a rule by its number in its chain, from 1. The policy has the number behind the
// last rule; the kernel reports rules without a condition as policies, too.
func (r rules) iptables(s step) (string, error) {
	v := ruleset{iptables.NFT, s.family}
	if s.legacy {
		v.mode = iptables.Legacy
	}
	if r.saved[v] == nil {
		family, ok := map[uint8]model.Family{unix.NFPROTO_IPV4: model.IPv4, unix.NFPROTO_IPV6: model.IPv6}[s.family]
		if !ok {
			return "", errGone
		}
		out, err := iptables.Save(r.ctx, v.mode, family)
		if err != nil {
			return "", err
		}
		r.saved[v] = chains(string(out))
	}
	rules := r.saved[v][s.table+" "+s.chain]
	switch n := uint64(len(rules)); {
	case s.rule > n || n == 0:
		return "", errGone
	case s.rule == n:
		return rules[0], nil
	}
	return rules[s.rule], nil
}

// chains sorts iptables-save's lines by tables and chains. A chain's first line is its policy.
func chains(text string) map[string][]string {
	all := map[string][]string{}
	var table string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		words := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "*"):
			table = line[1:]
		case strings.HasPrefix(line, ":") && len(words) > 1:
			all[table+" "+words[0][1:]] = []string{policy + words[1]}
		case strings.HasPrefix(line, "-A ") && len(words) > 2:
			chain := table + " " + words[1]
			all[chain] = append(all[chain], strings.TrimPrefix(line, "-A "+words[1]+" "))
		}
	}
	return all
}
