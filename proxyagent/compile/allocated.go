package compile

import "net/netip"

// count notes that Services have those addresses, or no longer.
func (c *Compiler) count(w *work, addrs []netip.Addr, by int) {
	for _, a := range addrs {
		w.touched[a] = struct{}{}
		if c.winners[a] += by; c.winners[a] == 0 {
			delete(c.winners, a)
		}
	}
}

// touchAll is for new ranges: every address that somebody has may be inside of one now, or no longer.
func (c *Compiler) touchAll(w *work) {
	for a := range c.allocations {
		w.touched[a] = struct{}{}
	}
	for a := range c.winners {
		w.touched[a] = struct{}{}
	}
}

// reviewAllocated notes whether somebody has the address now, when that is news.
func (c *Compiler) reviewAllocated(w *work, a netip.Addr) {
	_, named := c.allocations[a]
	now := (named || c.winners[a] > 0) && insideAny(c.globals.Ranges, a)
	if _, before := c.allocated[a]; before == now {
		return
	}
	if w.delta.Allocated == nil {
		w.delta.Allocated = map[netip.Addr]bool{}
	}
	w.delta.Allocated[a] = now
	if now {
		c.allocated[a] = struct{}{}
	} else {
		delete(c.allocated, a)
	}
}
