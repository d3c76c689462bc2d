package addressindex

import (
	"net/netip"
	"sort"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

const (
	// maxCooling is how many addresses of one family cool down at most after Services of one
	// namespace. A quota counts Services that are there, so that a tenant that creates and deletes
	// one in a loop would be bounded by nothing else: each of its addresses is an object in etcd.
	// It lets 500 dual-stack Services that are uninstalled at once cool down.
	maxCooling = 512
	// crowd is from how many cooling addresses on a namespace gives its own ones first when nothing
	// is free. Namespaces with fewer are treated alike, by age alone.
	crowd = 8
	// maxAsked is how many namespaces a draw asks for a cooling address, those with the most first.
	maxAsked = 64
)

// coolDowns are the addresses that cool down. Each that is not in flight, and of which its
// namespace has not too many, is in the account of the namespace. They know neither clock nor lock,
// and Index.mu guards them. The zero coolDowns are none.
type coolDowns struct {
	at map[netip.Addr]CoolDown
	// byFamily has IPv4 first.
	byFamily [2]coolers
}

// coolers are the accounts of the namespaces that have cooling addresses of one family.
type coolers struct {
	of     map[string]*cooler // by namespace
	ranked []*cooler          // those with the most addresses first
	// surplus are addresses beyond what their namespaces may have.
	surplus allocator.Ages
}

// cooler is the account of a namespace.
type cooler struct {
	namespace string
	cooling   allocator.Ages
	rank      int // in coolers.ranked
}

func (d *coolDowns) family(a netip.Addr) *coolers {
	if a.Is4() {
		return &d.byFamily[0]
	}
	return &d.byFamily[1]
}

// note remembers the cool-down of an address that is in flight: it cools on if no Service uses it.
// What is surplus stays so, lest a deletion that is under way begins anew.
func (d *coolDowns) note(a netip.Addr, c CoolDown) {
	d.lift(a)
	if d.at == nil {
		d.at = map[netip.Addr]CoolDown{}
	}
	was := d.at[a]
	c.Surplus = c.Surplus || was.Surplus && was.Released.Equal(c.Released)
	d.at[a] = c
}

// put lets an address cool down that is not in flight. When that makes one too many of its
// namespace, the one that was freed first is surplus from now on. So which ones are does not depend
// on the order in which a replica hears of them.
func (d *coolDowns) put(a netip.Addr, c CoolDown) {
	d.note(a, c)
	f := d.family(a)
	if d.at[a].Surplus {
		f.surplus.Put(a, c.Released.Round(0))
		return
	}
	mine := f.account(c.Service.Namespace)
	mine.cooling.Put(a, c.Released.Round(0)) // those of objects have no monotonic clock
	f.grown(mine)
	if mine.cooling.Len() <= maxCooling {
		return
	}
	first, _, _ := mine.cooling.Oldest()
	d.lift(first)
	early := d.at[first]
	early.Surplus = true
	d.at[first] = early
	f.surplus.Put(first, early.Released.Round(0))
}

// lift takes an address out of the account of its namespace: it is in flight, or ceases to cool.
func (d *coolDowns) lift(a netip.Addr) {
	c, ok := d.at[a]
	if !ok {
		return
	}
	f := d.family(a)
	f.surplus.Remove(a)
	if mine := f.of[c.Service.Namespace]; mine != nil && mine.cooling.Remove(a) {
		f.shrunk(mine)
	}
}

// drop forgets an address, which does not cool any more.
func (d *coolDowns) drop(a netip.Addr) {
	d.lift(a)
	delete(d.at, a)
}

// yields is the address of some tiers that is drawn when all the rest are taken; false if none of
// them cools. What is surplus comes first; then the oldest of the namespace that has the most
// addresses cooling anywhere. So a tenant that creates and deletes Services in a loop shortens its
// own cool-downs, and not those of its neighbours. Then it is the oldest of all: ask the pool.
func (d *coolDowns) yields(order []*allocator.Tier) (netip.Addr, bool) {
	for i := range d.byFamily {
		f := &d.byFamily[i]
		if a, _, ok := f.surplus.OldestIn(order); ok {
			return a, true
		}
		for _, one := range f.ranked[:min(len(f.ranked), maxAsked)] {
			if one.cooling.Len() < crowd {
				break
			}
			if a, _, ok := one.cooling.OldestIn(order); ok {
				return a, true
			}
		}
	}
	return netip.Addr{}, false
}

// account returns the account of a namespace.
func (f *coolers) account(namespace string) *cooler {
	if c := f.of[namespace]; c != nil {
		return c
	}
	if f.of == nil {
		f.of = map[string]*cooler{}
	}
	c := &cooler{namespace: namespace, rank: len(f.ranked)}
	f.of[namespace], f.ranked = c, append(f.ranked, c)
	return c
}

// grown brings the ranks in line after an account has gained one address: it changes places with
// the first one of those that had as many as it had.
func (f *coolers) grown(c *cooler) {
	n := c.cooling.Len()
	f.swap(c.rank, sort.Search(c.rank, func(i int) bool { return f.ranked[i].cooling.Len() < n }))
}

// shrunk restores the ranks after an account has lost one address, and forgets an empty one.
func (f *coolers) shrunk(c *cooler) {
	n, behind := c.cooling.Len(), f.ranked[c.rank+1:]
	f.swap(c.rank, c.rank+sort.Search(len(behind), func(i int) bool { return behind[i].cooling.Len() <= n }))
	if n > 0 {
		return
	}
	last := len(f.ranked) - 1 // an empty account is behind all others
	f.ranked[last], f.ranked = nil, f.ranked[:last]
	delete(f.of, c.namespace)
}

func (f *coolers) swap(i, j int) {
	f.ranked[i], f.ranked[j] = f.ranked[j], f.ranked[i]
	f.ranked[i].rank, f.ranked[j].rank = i, j
}
