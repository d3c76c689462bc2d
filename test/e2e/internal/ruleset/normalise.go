package ruleset

import (
	"regexp"
	"slices"
	"strings"
)

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

// volatile are the words of an ipset save that change by themselves: how the kernel keeps the entries, and counters.
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

// nativeTables leaves of the list of tables those that iptables-nft does not show.
func nativeTables(list string) string {
	var kept []string
	for line := range strings.Lines(list) {
		if line = strings.TrimRight(line, "\n"); !ofIPTables.MatchString(line) {
			kept = append(kept, line)
		}
	}
	slices.Sort(kept)
	return strings.Join(kept, "\n")
}
