package trace

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"
)

// Path is what Walk found.
type Path struct {
	Packet Packet
	// Steps are the rules that matched, in their order, indented by how deep their chains are.
	Steps []string
	// Ends are what becomes of such packets, with the share of each. What is Perhaps has no share that means anything.
	Ends map[End]float64
}

// Delivered is the verdict about packets that passed all rules.
const Delivered = "goes to"

// End is one thing that may become of a packet.
type End struct {
	// Perhaps: it depends on a rule of which it is not known whether it matches.
	Perhaps bool
	// Verdict is Delivered, or says why it is not.
	Verdict string
	// Source takes the place of the packet's source, an address or nodeSource; empty when it is kept.
	Source string
	// Dst is where it is delivered. Here: that is this node itself.
	Dst  netip.AddrPort
	Here bool
}

// String returns the steps and then the verdict, as lines.
func (p Path) String() string {
	var b strings.Builder
	from := "sent by this node"
	if p.Packet.In != "" {
		from = "coming in by " + p.Packet.In
	}
	fmt.Fprintf(&b, "A new %s connection from %s to %s, %s\n", p.Packet.Protocol, p.Packet.Src, p.Packet.Dst, from)
	for _, s := range p.Steps {
		b.WriteString(s + "\n")
	}
	b.WriteString(p.verdict())
	return b.String()
}

// verdict lists all ends, what is certain first; those that differ only in the destination share a line.
func (p Path) verdict() string {
	all := slices.SortedFunc(maps.Keys(p.Ends), func(a, b End) int {
		return cmp.Or(strings.Compare(a.group(), b.group()), a.Dst.Compare(b.Dst))
	})
	lines := []string{}
	for i := 0; i < len(all); {
		first, to := all[i], []string{}
		for ; i < len(all) && all[i].group() == first.group(); i++ {
			to = append(to, all[i].to()+p.share(all[i]))
		}
		lines = append(lines, first.sentence(to))
	}
	return "Verdict: " + strings.Join(lines, "\n     or: ") + "\n"
}

// group is the same for ends that differ only in the destination.
func (e End) group() string { return fmt.Sprint(e.Perhaps, e.Verdict, e.Here, e.Source) }

func (e End) to() string {
	if e.Verdict == Delivered {
		return " " + e.Dst.String()
	}
	return ""
}

// share is the part of the packets in brackets: 1/3 where it is one, otherwise in percent, nothing for all of them.
func (p Path) share(e End) string {
	s := p.Ends[e]
	n := math.Round(1 / s)
	switch {
	case e.Perhaps || math.Abs(s-1) < 1e-6:
		return ""
	case math.Abs(s*n-1) < 1e-4:
		return fmt.Sprintf(" (1/%.0f)", n)
	default:
		return fmt.Sprintf(" (%.2f %%)", 100*s)
	}
}

// sentence describes ends that differ only in their destination.
func (e End) sentence(to []string) string {
	text := e.Verdict + strings.Join(to, ",")
	if e.Perhaps {
		text = "perhaps " + text
	}
	switch {
	case e.Verdict != Delivered:
		return text
	case e.Here:
		text += " on this node itself"
	}
	switch e.Source {
	case "":
		return text + ", with its own source"
	case nodeSource:
		return text + ", with " + e.Source
	default:
		return text + ", with the source " + e.Source
	}
}
