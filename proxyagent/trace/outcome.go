package trace

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
)

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

// End is what a packet comes to, and how.
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
	// If are the conditions that could not be told, as sentences.
	If []string
}

// outcomes sums up shares. Its zero value is empty.
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
