package trace

import (
	"fmt"
	"net/netip"
	"strings"
)

// Step is one line of a Path: a chain that packets come to, or a rule that matches them.
type Step struct {
	// Depth is 0 for a built-in chain, more for rules and for those of chains that they lead to.
	Depth int
	// Text is the rule as iptables-save prints it, or the table and chain.
	Text string
	// Notes say in words what happens, and to which part of the packets.
	Notes []string
}

// builtin is a Step for a built-in chain and the packets that come to it.
func builtin(tableName, chainName string, flows []flow) Step {
	s := Step{Text: tableName + " " + chainName}
	if to := destinations(flows); len(to) <= fewDestinations {
		words := make([]string, len(to))
		for i, d := range to {
			words[i] = d.String()
		}
		s.Text += ", to " + strings.Join(words, ", ")
	} else {
		s.Text += fmt.Sprintf(", to %d destinations", len(to))
	}
	return s
}

// fewDestinations are told one by one.
const fewDestinations = 4

func destinations(flows []flow) (to []netip.AddrPort) {
	seen := map[netip.AddrPort]bool{}
	for _, f := range flows {
		if !seen[f.Dst] {
			seen[f.Dst] = true
			to = append(to, f.Dst)
		}
	}
	return to
}

// whichOf says which of the packets that came to a rule it matches; nothing when all.
func whichOf(before []flow, m matched) (notes []string) {
	from, to := destinations(before), destinations(m.hit)
	switch {
	case len(to) < len(from) && len(to) == 1:
		notes = append(notes, "those to "+to[0].String())
	case len(to) < len(from):
		notes = append(notes, fmt.Sprintf("those to %d of %d destinations", len(to), len(from)))
	}
	switch share := totalShare(m.hit); {
	case m.unknown != "":
		notes = append(notes, "cannot tell whether it matches ("+m.unknown+"); both are followed")
	case share < 1 && !sameShare(share, 1):
		notes = append(notes, fraction(share)+" of all")
	}
	return notes
}

func totalShare(flows []flow) (sum float64) {
	for _, f := range flows {
		sum += f.share
	}
	return sum
}
