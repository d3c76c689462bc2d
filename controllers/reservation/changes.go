package reservation

import (
	"cmp"
	"math"
	"net/netip"
	"slices"
	"sync"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
)

// moves are where ServiceCIDRs came, went or changed. The zero moves is ready, and safe for
// concurrent use.
type moves struct {
	mu    sync.Mutex
	told  map[string]addressindex.ServiceCIDR // as note was last told of them
	spans []allocator.Span                    // since take
}

// note reports whether a ServiceCIDR came, went or changed since it was last noted. Counts and
// conditions, which are written more often, change nothing that is wanted. It reads with its lock
// held, so that what is noted last was read last.
func (m *moves) note(name string, read func(name string) (addressindex.ServiceCIDR, bool)) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	was := m.told[name]
	now, _ := read(name)
	if was.Name == now.Name && was.Terminating == now.Terminating && slices.Equal(was.Ranges, now.Ranges) {
		return false
	}
	if m.told == nil {
		m.told = map[string]addressindex.ServiceCIDR{}
	}
	if m.told[name] = now; now.Name == "" {
		delete(m.told, name)
	}
	for _, r := range slices.Concat(was.Ranges, now.Ranges) {
		m.spans = append(m.spans, r.Span())
	}
	return true
}

// take returns the spans of all that moved since it was last asked.
func (m *moves) take() []allocator.Span {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer func() { m.spans = nil }()
	return m.spans
}

// changed returns a function that tells which addresses to look at since it was last asked.
func (r *Reconciler) changed() func() []netip.Addr {
	seen := steering.Compile(steering.Inputs{})
	return func() []netip.Addr {
		now := r.Policies.Current()
		reserved, cooling := differ(seen, now, r.moved.take())
		seen = now
		var out []netip.Addr
		for _, r := range reserved {
			out = slices.AppendSeq(out, r.Addresses())
		}
		for _, s := range cooling {
			out = append(out, r.cooling(s)...)
		}
		return out
	}
}

// cooling returns the addresses of a span that cool down.
func (r *Reconciler) cooling(s allocator.Span) []netip.Addr {
	if r.Index.Usage(s).Cooling == 0 {
		return nil
	}
	return slices.DeleteFunc(r.Index.Used(s, math.MaxInt), func(a netip.Addr) bool { return r.Index.State(a) != allocator.Cooling })
}

// differ returns the reservations that came or went, or where ServiceCIDRs moved, and spans of new
// cool-downs.
func differ(before, now *steering.Compiled, moved []allocator.Span) (reserved []steering.Reservation, cooling []allocator.Span) {
	for was, is := range steering.Changed(before, now) {
		before, after := cmp.Or(was, &steering.Policy{}), cmp.Or(is, &steering.Policy{})
		if !slices.Equal(before.Reservations, after.Reservations) {
			reserved = append(append(reserved, before.Reservations...), after.Reservations...)
		}
		if before.UID != after.UID || before.CoolDown != after.CoolDown || !slices.Equal(before.Ranges, after.Ranges) {
			cooling = append(append(cooling, cooledBy(before)...), cooledBy(after)...)
		}
	}
	for _, span := range moved {
		reserved = append(reserved, now.Reservations(span)...)
	}
	return reserved, cooling
}

// cooledBy returns the spans in which a policy has addresses cool down.
func cooledBy(p *steering.Policy) (out []allocator.Span) {
	for _, r := range p.Ranges {
		if p.CoolDown > 0 {
			out = append(out, r.Range.Span())
		}
	}
	return out
}
