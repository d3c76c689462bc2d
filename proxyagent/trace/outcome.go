package trace

import (
	"cmp"
	"net/netip"
	"slices"
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

// Outcome is one end that packets may come to.
type Outcome struct {
	Verdict Verdict
	// Dst is where it goes, of Delivered; Here: that is this node itself. Translated: a rule sent it there.
	Dst              netip.AddrPort
	Here, Translated bool
	// Source says what takes the place of the packet's source, in words; empty when it is kept.
	Source string
	// Touched is false when no rule did anything to it or let it through.
	Touched bool
	// Because is the rule that decided or, where none did, the policy; Detail says more.
	Because, Detail string
	// Share is which part of such packets comes here, from 0 to 1, when all of If holds.
	Share float64
	// If are the conditions that could not be told, as sentences.
	If []string
}

// same reports whether two Outcomes differ in nothing but their shares.
func (o Outcome) same(p Outcome) bool {
	ifs := slices.Equal(o.If, p.If)
	o.Share, p.Share, o.If, p.If = 0, 0, nil, nil
	return ifs && o.equal(p)
}

func (o Outcome) equal(p Outcome) bool {
	return o.Verdict == p.Verdict && o.Dst == p.Dst && o.Here == p.Here && o.Translated == p.Translated && o.Source == p.Source &&
		o.Touched == p.Touched && o.Because == p.Because && o.Detail == p.Detail
}

// addOutcome adds o to those that are known.
func addOutcome(os []Outcome, o Outcome) []Outcome {
	if i := slices.IndexFunc(os, o.same); i >= 0 {
		os[i].Share += o.Share
		return os
	}
	return append(os, o)
}

// compareOutcomes puts what is certain first, then by verdict and destination.
func compareOutcomes(a, b Outcome) int {
	return cmp.Or(slices.Compare(a.If, b.If), cmp.Compare(a.Verdict, b.Verdict), cmp.Compare(a.Source, b.Source),
		a.Dst.Compare(b.Dst), cmp.Compare(a.Because, b.Because))
}
