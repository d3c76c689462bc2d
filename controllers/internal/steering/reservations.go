package steering

import (
	"iter"
	"net/netip"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

// Addresses yields the addresses of a reservation, which are 1,024 at most: no policy can reserve more.
func (r Reservation) Addresses() iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		for a := r.Span.First; r.Span.Contains(a) && yield(a); a = a.Next() {
		}
	}
}

// ReservedIn returns the parts of a span that reservations keep, in order.
func (s *Compiled) ReservedIn(sp allocator.Span) (out []allocator.Span) {
	for _, r := range s.reservedIn(sp) {
		out = append(out, intersect(r.Span, sp))
	}
	return out
}
