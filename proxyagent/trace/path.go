package trace

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
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

// fewDestinations are listed one by one.
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

// whichOf returns which of the packets a rule matches; nothing if all.
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

// Verdict is what becomes of a packet.
type Verdict int

const (
	// Delivered packets go to Outcome.Dst.
	Delivered Verdict = iota
	// Refused packets are answered with an error.
	Refused
	// Dropped packets are not answered.
	Dropped
	// Unroutable packets are not let through by routing.
	Unroutable
	// NotFollowed packets go somewhere that the rule does not say.
	NotFollowed
)

// End is the verdict about a packet, and what caused it.
type End struct {
	Verdict Verdict
	// Dst is where it goes, of Delivered and Unroutable; Here: that is this node itself. Translated: a rule sent it there.
	Dst              netip.AddrPort
	Here, Translated bool
	// Source says what takes the place of the packet's source, in words; empty when it is kept.
	Source string
	// Touched is false when no rule did anything to it or let it through.
	Touched bool
	// Because is the rule that decided or, where none did, the policy; Detail says more.
	Because, Detail string
}

// Outcome is one End of such packets.
type Outcome struct {
	End
	// Share is which part of them comes here, from 0 to 1, when all of If holds.
	Share float64
	// If are the unknown conditions, as sentences.
	If []string
}

// outcomes adds up the shares of equal Ends. Its zero value is empty.
type outcomes struct {
	all []Outcome
	at  map[outcomeKey]int
}

type outcomeKey struct {
	End
	ifs string
}

func (os *outcomes) add(o Outcome) {
	key := outcomeKey{o.End, strings.Join(o.If, "\n")}
	if os.at == nil {
		os.at = map[outcomeKey]int{}
	}
	if i, known := os.at[key]; known {
		os.all[i].Share += o.Share
		return
	}
	os.at[key] = len(os.all)
	os.all = append(os.all, o)
}

// compareOutcomes puts what is certain first, and side by side what differs in its destination alone.
func compareOutcomes(a, b Outcome) int {
	return cmp.Or(slices.Compare(a.If, b.If), cmp.Compare(a.Verdict, b.Verdict), cmp.Compare(a.Source, b.Source),
		compareBools(a.Here, b.Here), compareBools(a.Translated, b.Translated), compareBools(a.Touched, b.Touched),
		a.Dst.Compare(b.Dst), cmp.Compare(a.Because, b.Because))
}

// compareBools puts false first.
func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}
