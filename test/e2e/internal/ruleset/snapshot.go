// Package ruleset reads the whole firewall of a network namespace, as the suites about robustness
// and cleanup compare it: the tables of iptables in both variants and both families, the ipsets,
// the native tables of nftables, and what IPVS has. It leaves out what is no rule: counters,
// comments of the programs, the order of entries in a set, and tables with only built-in chains of
// policy ACCEPT, which no program can take away again. Start with [Take].
package ruleset

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// Snapshot is the normalised text of each part of a firewall, by the program that printed it. Parts
// that hold nothing are absent: the Snapshot of an untouched namespace is empty.
type Snapshot map[string]string

// programs print all there is, each in its own format.
var programs = map[string]struct {
	args      []string
	normalise func(string) string
}{
	"iptables-nft-save":     {nil, tables},
	"iptables-legacy-save":  {nil, tables},
	"ip6tables-nft-save":    {nil, tables},
	"ip6tables-legacy-save": {nil, tables},
	"ipset":                 {[]string{"save"}, sets},
	"nft":                   {[]string{"--stateless", "list", "ruleset"}, nativeTables},
}

// ipvs is the part of a Snapshot that no single program prints.
const ipvs = "ipvs"

// setGone is what iptables-save says when a rule's set went after it had read the rule. What it
// printed is of two times, and is read anew.
const setGone = "in kernel doesn't exist"

// Take reads the firewall of a network namespace.
func Take(ctx context.Context, n *network.Namespace) (Snapshot, error) {
	s := Snapshot{}
	for program, how := range programs {
		out, err := n.Run(ctx, program, how.args...)
		for err != nil && strings.Contains(err.Error(), setGone) && ctx.Err() == nil {
			out, err = n.Run(ctx, program, how.args...)
		}
		if err != nil {
			return nil, err
		}
		if text := how.normalise(out); text != "" {
			s[program] = text
		}
	}
	out, err := n.Run(ctx, "sh", "-c", "ip -o link; ip -o addr; cat /proc/net/ip_vs 2>/dev/null || true")
	if err != nil {
		return nil, err
	}
	if text := balancer(out); text != "" {
		s[ipvs] = text
	}
	return s, nil
}

// Diff returns how two Snapshots differ, line by line; it is empty if they are equal.
func (s Snapshot) Diff(other Snapshot) string {
	return cmp.Diff(s.lines(), other.lines())
}

func (s Snapshot) lines() map[string][]string {
	all := map[string][]string{}
	for program, text := range s {
		all[program] = strings.Split(text, "\n")
	}
	return all
}

// String shows the whole Snapshot, for the report of a failure.
func (s Snapshot) String() string {
	var b strings.Builder
	for _, program := range slices.Sorted(maps.Keys(s)) {
		fmt.Fprintf(&b, "== %s\n%s\n", program, s[program])
	}
	return b.String()
}

// counters of a chain: ":INPUT ACCEPT [12:3456]".
var counters = regexp.MustCompile(` \[\d+:\d+\]$`)

// tables leaves of an iptables-save the tables that say anything.
func tables(save string) string {
	var kept []string
	for _, table := range split(save) {
		if slices.ContainsFunc(table[1:len(table)-1], saysSomething) {
			kept = append(kept, table...)
		}
	}
	return strings.Join(kept, "\n")
}

// split returns the tables of an iptables-save, each from its "*name" to its "COMMIT".
func split(save string) (all [][]string) {
	var table []string
	for line := range strings.Lines(save) {
		line = counters.ReplaceAllString(strings.TrimRight(line, "\n"), "")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		table = append(table, line)
		if line == "COMMIT" {
			all, table = append(all, table), nil
		}
	}
	return all
}

// saysSomething tells all lines from those of untouched built-in chains.
func saysSomething(line string) bool {
	return !strings.HasPrefix(line, ":") || !strings.HasSuffix(line, " ACCEPT")
}

// volatile are the words of an ipset save that change by themselves: counters, and kernel storage.
var volatile = regexp.MustCompile(` (initval 0x[0-9a-f]+|hashsize \d+|bucketsize \d+|packets \d+|bytes \d+)`)

// sets sorts the entries of each set; those that expire lose their time.
func sets(save string) string {
	var lines []string
	for line := range strings.Lines(save) {
		line = volatile.ReplaceAllString(strings.TrimRight(line, "\n"), "")
		if strings.HasPrefix(line, "add ") {
			line = regexp.MustCompile(` timeout \d+`).ReplaceAllString(line, "")
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// ofIPTables are the tables that iptables-nft makes for itself; they are read through it.
var ofIPTables = regexp.MustCompile(`^table ip6? (raw|mangle|nat|filter|security)$`)

// native matches a table of a ruleset, and a block in one: a chain, a map or a set.
var (
	native = regexp.MustCompile(`(?ms)^(table \S+ \S+) \{\n(.*?)^\}$`)
	block  = regexp.MustCompile(`(?ms)^\t\S+ \S+ \{\n.*?^\t\}$`)
)

// passing are the elements of maps that the traffic fills.
var passing = regexp.MustCompile(`(?s)(map clients-.*?)\telements = \{.*?\}\n`)

// nativeTables leaves the tables that iptables-nft does not show, sorted, each line with its table.
func nativeTables(list string) string {
	var kept []string
	tables := native.FindAllStringSubmatch(list, -1)
	slices.SortFunc(tables, func(a, b []string) int { return strings.Compare(a[1], b[1]) })
	for _, table := range tables {
		if ofIPTables.MatchString(table[1]) {
			continue
		}
		blocks := block.FindAllString(table[2], -1)
		slices.Sort(blocks)
		for line := range strings.Lines(passing.ReplaceAllString(strings.Join(blocks, "\n"), "$1")) {
			kept = append(kept, table[1]+" "+strings.TrimSpace(line))
		}
		if len(blocks) == 0 {
			kept = append(kept, table[1])
		}
	}
	return strings.Join(kept, "\n")
}
