package renumber

import (
	"net/netip"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

// drawer gives out new addresses, each once.
type drawer struct {
	from  []allocator.Range
	to    []Target
	taken sets.Set[netip.Addr]
	next  map[netip.Prefix]netip.Addr // where to look for a free address of a range: below, all are taken
}

// fill chooses the new addresses of an item, or says why it cannot.
func (d *drawer) fill(i *Item) string {
	i.New = make([]netip.Addr, 0, len(i.Old))
	for _, a := range i.Old {
		to := a
		for _, from := range d.from {
			if from.Prefix().Contains(a) {
				to = d.draw(a, from)
			}
		}
		if !to.IsValid() {
			i.New = nil
			return "the new ranges have no address left"
		}
		d.taken.Insert(to)
		i.New = append(i.New, to)
	}
	return ""
}

// draw returns the address at the same place of the new range, if free and in the same band, else
// the next free one of a dynamic band, at last of a static one, or the zero Addr if there is none.
func (d *drawer) draw(old netip.Addr, from allocator.Range) netip.Addr {
	band, _ := from.BandOf(old)
	for _, t := range d.to {
		same := shifted(old, from.Prefix(), t.Prefix())
		if b, ok := t.BandOf(same); ok && b == band && !d.taken.Has(same) {
			return same
		}
	}
	for _, band := range []allocator.Band{allocator.Dynamic, allocator.Static} {
		for _, t := range d.to {
			if a := d.first(t.Band(band)); a.IsValid() && a.Is4() == old.Is4() {
				return a
			}
		}
	}
	return netip.Addr{}
}

// shifted is the address as far into to as a is into from; zero if beyond to, or of another family.
func shifted(a netip.Addr, from, to netip.Prefix) netip.Addr {
	if from.Addr().Is4() != to.Addr().Is4() {
		return netip.Addr{}
	}
	out, source, start := to.Masked().Addr().AsSlice(), a.AsSlice(), from.Masked().Addr().AsSlice()
	for i := range out {
		out[i] ^= source[i] ^ start[i]
	}
	moved, _ := netip.AddrFromSlice(out)
	if !to.Contains(moved) { // what does not fit has changed the bits of the prefix
		return netip.Addr{}
	}
	return moved
}

// first returns the lowest free address of a span. What it has passed it does not look at again.
func (d *drawer) first(s allocator.Span) netip.Addr {
	if s.IsEmpty() {
		return netip.Addr{}
	}
	if d.next == nil {
		d.next = map[netip.Prefix]netip.Addr{}
	}
	key := netip.PrefixFrom(s.First, s.First.BitLen())
	a, ok := d.next[key]
	if !ok {
		a = s.First
	}
	for a.IsValid() && s.Contains(a) && d.taken.Has(a) {
		a = a.Next()
	}
	d.next[key] = a
	if !a.IsValid() || !s.Contains(a) {
		return netip.Addr{}
	}
	return a
}
