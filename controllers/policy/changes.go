package policy

import (
	"maps"
	"math"
	"net/netip"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/steering"
)

// scene are the policies and ranges, which decide what is kept beside what is known of an address itself.
type scene struct {
	rules  *steering.Compiled
	ranges map[string]addressindex.ServiceCIDR
}

func emptyScene() scene { return scene{rules: steering.Compile(steering.Inputs{})} }

// addresses returns a function that tells which addresses the Keeper should look at since it was last asked.
func (k *Keeper) addresses() func() []netip.Addr {
	seen := emptyScene()
	return func() []netip.Addr {
		now := k.scene()
		reserved, cooling := seen.differ(now)
		seen = now
		var out []netip.Addr
		for _, s := range reserved {
			out = append(out, each(s)...)
		}
		for _, s := range cooling {
			out = append(out, k.resting(s)...)
		}
		return out
	}
}

func (k *Keeper) scene() scene {
	s := scene{rules: k.Board.Current(), ranges: map[string]addressindex.ServiceCIDR{}}
	for _, c := range k.Index.ServiceCIDRs() {
		s.ranges[c.Name] = c
	}
	return s
}

// resting returns the addresses of a span that cool down.
func (k *Keeper) resting(s allocator.Span) []netip.Addr {
	if k.Index.Usage(s).Cooling == 0 {
		return nil
	}
	return slices.DeleteFunc(k.Index.Used(s, math.MaxInt), func(a netip.Addr) bool { return k.Index.State(a) != allocator.Cooling })
}

// differ returns the spans whose reservation, or whose range, is not what it was, and those whose cool-down is not.
func (s scene) differ(now scene) (reserved, cooling []allocator.Span) {
	if s.rules != now.rules {
		for _, name := range names(s.rules, now.rules) {
			before, after := s.rules.Policy(name), now.rules.Policy(name)
			reserved = append(reserved, moved(reservations(before), reservations(after))...)
			if !sameRest(before, after) {
				cooling = append(append(cooling, spans(before)...), spans(after)...)
			}
		}
	}
	for _, touched := range s.touched(now) {
		for _, p := range now.rules.Policies() {
			for _, r := range p.Reservations {
				if r.Span.Overlaps(touched) {
					reserved = append(reserved, r.Span)
				}
			}
		}
	}
	return reserved, cooling
}

// touched returns the spans of the ServiceCIDRs that came, went, or are being deleted since.
func (s scene) touched(now scene) []allocator.Span {
	var out []allocator.Span
	add := func(c addressindex.ServiceCIDR) {
		for _, r := range c.Ranges {
			out = append(out, r.Span())
		}
	}
	for name, c := range now.ranges {
		if before := s.ranges[name]; before.Terminating != c.Terminating || !slices.Equal(before.Ranges, c.Ranges) {
			add(before)
			add(c)
		}
	}
	for name, c := range s.ranges {
		if _, still := now.ranges[name]; !still {
			add(c)
		}
	}
	return out
}

// names are those of the policies in either.
func names(a, b *steering.Compiled) []string {
	all := map[string]struct{}{}
	for _, s := range []*steering.Compiled{a, b} {
		for _, p := range s.Policies() {
			all[p.Name] = struct{}{}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

func reservations(p *steering.Policy) []steering.Reservation {
	if p == nil {
		return nil
	}
	return p.Reservations
}

// moved returns the spans of the reservations that are not in both.
func moved(before, after []steering.Reservation) []allocator.Span {
	if slices.Equal(before, after) {
		return nil
	}
	count := map[steering.Reservation]int{}
	for _, r := range before {
		count[r]--
	}
	for _, r := range after {
		count[r]++
	}
	var out []allocator.Span
	for r, n := range count {
		if n != 0 {
			out = append(out, r.Span)
		}
	}
	return out
}

// sameRest reports whether two versions of a policy have the same addresses cool for the same time.
func sameRest(before, after *steering.Policy) bool {
	switch {
	case before == nil && after == nil:
		return true
	case before == nil:
		return after.CoolDown == 0
	case after == nil:
		return before.CoolDown == 0
	default:
		return before.UID == after.UID && before.CoolDown == after.CoolDown && slices.Equal(before.Ranges, after.Ranges)
	}
}

// spans are those of the ranges of a policy.
func spans(p *steering.Policy) []allocator.Span {
	if p == nil {
		return nil
	}
	out := make([]allocator.Span, 0, len(p.Ranges))
	for _, r := range p.Ranges {
		out = append(out, r.Range.Span())
	}
	return out
}

// each returns the addresses of a span, which are 1,024 at most: no policy can reserve more.
func each(s allocator.Span) []netip.Addr {
	var out []netip.Addr
	for a := s.First; s.Contains(a); a = a.Next() {
		out = append(out, a)
	}
	return out
}
