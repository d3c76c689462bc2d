//go:build linux

package nftables

import (
	"maps"
	"net/netip"
	"time"
)

// underWay is longer than a packet needs to pass the rules, also where a virtual processor stands still in between.
const underWay = time.Second

// leave takes elements out of what differs that are to be taken away, but later, and returns them. A transaction is one for those that write, not for packets: each look-up sees what is there in
// its moment. So a packet that has drawn the index 7 of 10 may look for the endpoint after all but one have gone. It finds it as long as packets are under way that came before; those that
// come later are led elsewhere.
func (t *Tables) leave(now time.Time) (left map[key]change) {
	left = map[key]change{}
	for k, c := range t.changed {
		if !c.there || c.wanted || !t.lookedUpLate(k) {
			continue
		}
		if c.left.IsZero() {
			c.left = now
		}
		if now.Sub(c.left) < underWay {
			left[k] = c
			delete(t.changed, k)
		}
	}
	return left
}

// lookedUpLate reports whether packets come to an element by way of another one that has gone: an endpoint, or a source range of a front that has none any more.
func (t *Tables) lookedUpLate(k key) bool {
	if k.set == allowed {
		front := k.of[:len(k.of)-t.globals.Family.Bits()/8]
		return t.wanted[key{set: firewalled, of: front}] == 0
	}
	return schemas[k.set].kind == endpoint
}

// snapshot is what all needs, for a comparison that runs beside changes.
func (t *Tables) snapshot() *Tables {
	fronts := map[netip.Addr]map[stickyFront]string{}
	for vip := range t.fronts {
		fronts[vip] = nil
	}
	return &Tables{ports: maps.Clone(t.ports), plain: maps.Clone(t.plain), wanted: maps.Clone(t.wanted), fronts: fronts}
}
