package trace

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// String returns the steps and then the verdict, as lines.
func (p Path) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", p.Packet)
	for _, s := range p.Steps {
		b.WriteString(s.String())
	}
	b.WriteString(p.verdict())
	return b.String()
}

// String returns the packet as text.
func (p Packet) String() string {
	from := "sent by this node"
	if p.In != "" {
		from = "coming in by " + p.In
	}
	return fmt.Sprintf("A new %s connection from %s to %s, %s", p.Protocol, p.Src, p.Dst, from)
}

// String is the rule, indented, and under it what is said about it.
func (s Step) String() string {
	var b strings.Builder
	indent := strings.Repeat("  ", s.Depth)
	fmt.Fprintf(&b, "%s%s\n", indent, s.Text)
	if len(s.Notes) > fewNotes {
		s.Notes = append(slices.Clone(s.Notes[:fewNotes]), fmt.Sprintf("and so on, %d in all", len(s.Notes)))
	}
	for _, note := range s.Notes {
		fmt.Fprintf(&b, "%s      > %s\n", indent, note)
	}
	return b.String()
}

// fewNotes is the most notes about one rule: a thousand endpoints can reach the same one.
const fewNotes = 8

// verdict lists all outcomes; those that differ only in the destination share a sentence.
func (p Path) verdict() string {
	var b strings.Builder
	if len(p.Outcomes) == 0 {
		return "Verdict: none\n"
	}
	label := "Verdict: "
	for rest := p.Outcomes; len(rest) > 0; label = "     or: " {
		n := 1
		for n < len(rest) && rest[0].besides(rest[n]) {
			n++
		}
		fmt.Fprintf(&b, "%s%s\n", label, sentence(rest[:n]))
		for _, condition := range rest[0].If {
			fmt.Fprintf(&b, "         if %s\n", condition)
		}
		rest = rest[n:]
	}
	return b.String()
}

// besides reports whether two outcomes are the same but for their destination.
func (o Outcome) besides(p Outcome) bool {
	o.Dst = p.Dst
	return o.Verdict == Delivered && o.End == p.End && slices.Equal(o.If, p.If)
}

// sentence describes outcomes that differ only in their destination. A share of 1 is left out.
func sentence(os []Outcome) string {
	o := os[0]
	share := o.shareText()
	switch o.Verdict {
	case Delivered:
		return delivered(os)
	case Refused:
		return fmt.Sprintf("refused%s (%s) by %s", share, o.Detail, o.Because)
	case Dropped:
		return fmt.Sprintf("dropped%s by %s", share, o.Because)
	case Unroutable:
		return fmt.Sprintf("goes nowhere%s: no route to %s (%s)", share, o.Dst, o.Detail)
	case NotFollowed:
		return fmt.Sprintf("goes to %s%s by %s; it is not followed further", o.Detail, share, o.Because)
	default:
		return "unknown"
	}
}

func (o Outcome) shareText() string {
	if sameShare(o.Share, 1) {
		return ""
	}
	return " (" + fraction(o.Share) + ")"
}

func delivered(os []Outcome) string {
	to := make([]string, len(os))
	for i, o := range os {
		to[i] = o.Dst.String() + o.shareText()
	}
	s := "goes to " + enumeration(to)
	if os[0].Here {
		s += " on this node itself"
	}
	switch o := os[0]; {
	case o.Source != "":
		s += ", with " + o.Source
	case o.Translated:
		s += ", with its own source"
	case o.Touched:
		s += ", not translated"
	default:
		s += ", not touched by any rule"
	}
	return s
}

// enumeration joins words; many of them one by line.
func enumeration(words []string) string {
	switch n := len(words); {
	case n == 1:
		return words[0]
	case n <= fewNotes:
		return strings.Join(words[:n-1], ", ") + " or " + words[n-1]
	default:
		const line = "\n           "
		return fmt.Sprintf("one of %d:%s%s\n        ", n, line, strings.Join(words, line))
	}
}

// fraction writes a share as people do: 1/3 where it is one, otherwise in percent.
func fraction(share float64) string {
	const largest = 10000
	switch n := math.Round(1 / share); {
	case sameShare(share, 1):
		return "all"
	case share <= 0:
		return "0"
	case n <= largest && math.Abs(share*n-1) < 1e-4:
		return fmt.Sprintf("1/%.0f", n)
	}
	for n := 3.0; n <= 20; n++ {
		if k := math.Round(share * n); math.Abs(share*n-k) < 1e-6*n {
			return fmt.Sprintf("%.0f/%.0f", k, n)
		}
	}
	return fmt.Sprintf("%.2f %%", 100*share)
}
