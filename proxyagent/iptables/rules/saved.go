package rules

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Saved is our part of what iptables-save printed: our chains, and other rules that lead to them.
type Saved struct {
	chains map[chain][]string // bodies
	jumps  map[jump]int       // how often each is there
	// Unreadable are the tables of which iptables-save shows nothing although they may have rules.
	Unreadable []Table
	// Invalid is the number of packets dropped because connection tracking found them invalid.
	Invalid uint64
}

// jump is a rule of a built-in chain that leads to one of ours. Body is all after the chain name.
type jump struct {
	table Table
	from  string
	body  string
}

// jumps are those that have to be there, each once. When made, they stand first in their chains.
var jumps = []jump{
	{nat, "PREROUTING", "-j " + chainServices},
	{nat, "OUTPUT", "-j " + chainServices},
	{nat, "POSTROUTING", "-j " + chainPostrouting},
	{filter, "INPUT", "-j " + chainInput},
	{filter, "FORWARD", "-j " + chainForward},
	{filter, "OUTPUT", "-j " + chainOutput},
}

// ParseSave reads our chains in what iptables-save printed of some tables; the rest is not ours.
func ParseSave(tables ...[]byte) Saved {
	return parse(func(chain string) bool { return strings.HasPrefix(chain, Prefix) }, tables...)
}

// ParseKubeProxy reads the same for the chains of kube-proxy's modes iptables and ipvs.
func ParseKubeProxy(tables ...[]byte) Saved { return parse(isKubeProxyChain, tables...) }

// kubeProxyChains are chains of kube-proxy's modes iptables and ipvs; a dash ends a beginning. The
// kubelet's own (KUBE-KUBELET-CANARY, KUBE-IPTABLES-HINT, KUBE-FIREWALL) are not among them.
var kubeProxyChains = []string{
	"KUBE-SERVICES", "KUBE-EXTERNAL-SERVICES", "KUBE-NODEPORTS", "KUBE-POSTROUTING", "KUBE-MARK-MASQ", "KUBE-FORWARD",
	"KUBE-PROXY-FIREWALL", "KUBE-PROXY-CANARY", "KUBE-SVC-", "KUBE-SVL-", "KUBE-EXT-", "KUBE-FW-", "KUBE-SEP-", "KUBE-XLB-",
	"KUBE-NODE-PORT", "KUBE-LOAD-BALANCER", "KUBE-SOURCE-RANGES-FIREWALL", "KUBE-IPVS-FILTER", "KUBE-IPVS-OUT-FILTER",
}

func isKubeProxyChain(name string) bool {
	return slices.ContainsFunc(kubeProxyChains, func(known string) bool {
		return name == known || strings.HasSuffix(known, "-") && strings.HasPrefix(name, known)
	})
}

// kubeProxySets are the names of the sets of kube-proxy's mode ipvs behind [KubeProxySets].
var kubeProxySets = []string{
	"LOOP-BACK", "CLUSTER-IP", "EXTERNAL-IP", "EXTERNAL-IP-LOCAL", "LOAD-BALANCER", "LOAD-BALANCER-LOCAL", "LOAD-BALANCER-FW", "LOAD-BALANCER-SOURCE-CIDR", "LOAD-BALANCER-SOURCE-IP",
	"NODE-PORT-TCP", "NODE-PORT-LOCAL-TCP", "NODE-PORT-UDP", "NODE-PORT-LOCAL-UDP", "NODE-PORT-SCTP-HASH", "NODE-PORT-LOCAL-SCTP-HASH", "HEALTH-CHECK-NODE-PORT", "IPVS-IPS",
}

// maxSetName is how long the name of a set may be: kube-proxy cuts its own there.
const maxSetName = 31

// KubeProxySets is what the names of the sets of kube-proxy's mode ipvs begin with.
func KubeProxySets(f model.Family) string {
	if f == model.IPv6 {
		return "KUBE-6-"
	}
	return "KUBE-"
}

// IsKubeProxySet reports whether a set is one of kube-proxy's mode ipvs, in a family.
func IsKubeProxySet(name string, f model.Family) bool {
	return slices.ContainsFunc(kubeProxySets, func(known string) bool {
		full := KubeProxySets(f) + known
		return name == full[:min(len(full), maxSetName)]
	})
}

// parse reads the same for some chains, and rules that lead to them. It skips all other lines.
func parse(wanted func(chain string) bool, tables ...[]byte) Saved {
	s := Saved{chains: map[chain][]string{}, jumps: map[jump]int{}}
	var current Table
	for _, text := range tables {
		for line := range strings.Lines(string(text)) {
			packets, line := counted(strings.TrimSpace(line))
			first, rest, _ := strings.Cut(line, " ")
			name, body, _ := strings.Cut(rest, " ")
			switch {
			case strings.HasPrefix(line, "*"):
				current = Table(line[1:])
				s.Unreadable = slices.DeleteFunc(s.Unreadable, func(t Table) bool { return t == current })
			case strings.HasPrefix(line, unshown):
				t, _, _ := strings.Cut(line[len(unshown):], "'")
				s.Unreadable = append(s.Unreadable, Table(t))
			case strings.HasPrefix(first, ":") && wanted(first[1:]):
				s.chains[chain{current, first[1:]}] = nil
			case first == "-A" && wanted(name):
				c := chain{current, name}
				s.chains[c] = append(s.chains[c], body)
			case first == "-A" && wanted(target(body)):
				s.jumps[jump{current, name, body}]++
			}
			if line == invalidRule {
				s.Invalid = packets
			}
		}
	}
	return s
}

// unshown begins the line that iptables-nft-save prints, and succeeds, for a table with a rule that
// it does not understand: one that another program has written by nft, such as `ct state vmap`. It
// shows nothing of that table, which is not empty. A line for a table of which it leaves out some
// chains, where no rule of ours can be, begins the same, and the table follows.
const unshown = "# Table `"

// Unreadable are the tables of which what iptables-save printed shows nothing.
func Unreadable(text []byte) []Table {
	return parse(func(string) bool { return false }, text).Unreadable
}

// Unshown is what counts as printed when iptables-save, asked for a table by name, prints nothing.
func Unshown(t Table) []byte { return []byte(unshown + string(t) + "'") }

// Ask has s know which of our jumps there are in the tables that cannot be read, because iptables
// answers for single rules there, too. It returns the tables with any.
func (s Saved) Ask(there func(t Table, from, body string) (bool, error)) (ours []Table, err error) {
	for _, j := range jumps {
		if !slices.Contains(s.Unreadable, j.table) {
			continue
		}
		found, err := there(j.table, j.from, j.body)
		if err != nil {
			return nil, fmt.Errorf("looking for the jump from %s in the table %s: %w", j.from, j.table, err)
		}
		if found {
			s.jumps[j] = 1
			ours = append(ours, j.table)
		}
	}
	return slices.Compact(ours), nil
}

// Known are the chains of ours in a table whose names are always the same, and the built-in chains
// from which a jump leads to one of them.
func Known(t Table) (chains []string, from map[string]string) {
	for c := range staticChains(model.Globals{}, facts{}) {
		if c.table == t {
			chains = append(chains, c.name)
		}
	}
	from = map[string]string{}
	for _, j := range jumps {
		if j.table == t {
			from[j.from] = target(j.body)
		}
	}
	return chains, from
}

// Amend has s read a transaction's chains as if it had been written before.
func (s Saved) Amend(t Transaction) {
	maps.Copy(s.chains, t.write)
	for _, c := range t.remove {
		delete(s.chains, c)
	}
}

// invalidRule is the line of the rule whose packets are counted for a metric.
const invalidRule = "-A " + chainForward + " -m conntrack --ctstate INVALID -j DROP"

// counted splits the counters off a rule: "[packets:bytes] -A ...".
func counted(line string) (packets uint64, rule string) {
	counters, rest, ok := strings.Cut(line, "] ")
	if !ok || !strings.HasPrefix(counters, "[") {
		return 0, line
	}
	number, _, _ := strings.Cut(counters[1:], ":")
	packets, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return 0, rest
	}
	return packets, rest
}

// target is the chain that a rule leads to, or empty. A jump has no options after that name.
func target(body string) string {
	w := words(body)
	if len(w) < 2 || w[len(w)-2] != "-j" && w[len(w)-2] != "-g" {
		return ""
	}
	return w[len(w)-1]
}

// words splits a rule as iptables-save prints it. Text in quotes, such as a comment, is one word
// and keeps its quotes, so that nothing in it is taken for an option.
func words(rule string) []string {
	var out []string
	for rule = strings.TrimSpace(rule); rule != ""; rule = strings.TrimLeft(rule, " ") {
		n := wordLength(rule)
		out, rule = append(out, rule[:n]), rule[n:]
	}
	return out
}

// wordLength is the length of the word that s begins with.
func wordLength(s string) int {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			quoted = !quoted
		case ' ':
			if !quoted {
				return i
			}
		}
	}
	return len(s)
}

// sameRules reports whether the kernel's rules of a chain mean what was written. iptables-save
// spells some things in its own way, and not in each version alike.
func sameRules(written, read []string) bool {
	if len(written) != len(read) {
		return false
	}
	for i := range written {
		if normal(written[i]) != normal(read[i]) {
			return false
		}
	}
	return true
}

// normal returns a rule in one spelling.
func normal(rule string) string {
	all := words(rule)
	out := make([]string, 0, len(all))
	for i := 0; i < len(all); i++ {
		word := all[i]
		next := ""
		if i+1 < len(all) {
			next = all[i+1]
		}
		switch {
		case word == "-m" && (next == "tcp" || next == "udp" || next == "sctp" || next == "statistic"):
			i++ // implied by what follows
			continue
		case word == "--or-mark":
			out, i = append(out, "--set-xmark", mark(next, next)), i+1
			continue
		case word == "--xor-mark":
			out, i = append(out, "--set-xmark", mark(next, "0x0")), i+1
			continue
		case word == "--reject-with" && strings.HasSuffix(next, "-port-unreachable"):
			i++ // the default, which is printed
			continue
		case word == "--probability":
			out, i = append(out, word, probability(next)), i+1
			continue
		case word == "--exist" || word == "--mode" || word == "random":
			continue
		}
		out = append(out, strings.TrimSuffix(strings.TrimSuffix(word, "/32"), "/128"))
	}
	return strings.Join(out, " ")
}

func mark(value, mask string) string { return value + "/" + mask }

// probability rounds to what every version prints.
func probability(s string) string {
	p, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return s
	}
	return fmt.Sprintf("%.6f", p)
}
