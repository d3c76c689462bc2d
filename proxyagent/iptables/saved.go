package iptables

import (
	"bufio"
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// saved is what iptables-save printed, as far as it concerns us: chains of ours with their rules, and rules of others that lead to them.
type saved struct {
	chains map[chain][]string // bodies
	jumps  map[jump]int       // how often each is there
}

// jump is a rule of a built-in chain that leads to one of ours. Body is everything after the name of the chain.
type jump struct {
	table table
	from  string
	body  string
}

// jumps are those that have to be there, each once. They stand first in their chains when they are made.
var jumps = []jump{
	{nat, "PREROUTING", "-j " + chainServices},
	{nat, "OUTPUT", "-j " + chainServices},
	{nat, "POSTROUTING", "-j " + chainPostrouting},
	{filter, "INPUT", "-j " + chainInput},
	{filter, "FORWARD", "-j " + chainForward},
	{filter, "OUTPUT", "-j " + chainOutput},
}

// parseSave reads the output of iptables-save, of one table or several. Lines of other chains are skipped. It fails on nothing: what it
// does not know is not ours.
func parseSave(text []byte) saved {
	s := saved{chains: map[chain][]string{}, jumps: map[jump]int{}}
	var current table
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "*"):
			current = table(line[1:])
		case strings.HasPrefix(line, ":"+prefix):
			name, _, _ := strings.Cut(line[1:], " ")
			s.chains[chain{current, name}] = nil
		case strings.HasPrefix(line, "-A "):
			s.rule(current, line[len("-A "):])
		}
	}
	return s
}

func (s *saved) rule(t table, line string) {
	name, body, _ := strings.Cut(line, " ")
	if strings.HasPrefix(name, prefix) {
		c := chain{t, name}
		s.chains[c] = append(s.chains[c], body)
		return
	}
	if leadsToUs(body) {
		s.jumps[jump{t, name, body}]++
	}
}

// leadsToUs reports whether a rule of a foreign chain has one of ours as its target.
func leadsToUs(body string) bool {
	for _, option := range []string{"-j ", "-g "} {
		if i := strings.LastIndex(body, option+prefix); i == 0 || i > 0 && body[i-1] == ' ' {
			return !strings.Contains(body[i+len(option):], " ")
		}
	}
	return false
}

// sameRules reports whether the kernel's rules of a chain mean what was written. iptables-save spells some things in its own way, and
// not always the same from one version to the next.
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
	words := strings.Fields(rule)
	out := make([]string, 0, len(words))
	for i := 0; i < len(words); i++ {
		word := words[i]
		next := ""
		if i+1 < len(words) {
			next = words[i+1]
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
		case word == "--reject-with":
			i++ // the default, which some versions print
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
