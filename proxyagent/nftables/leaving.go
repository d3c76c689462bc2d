//go:build linux

package nftables

import (
	"maps"
	"time"
)

// underWay is longer than packets need to pass the rules, even if a virtual processor pauses.
const underWay = time.Second

// leaving is what differs from the kernel, but is to be taken away later.
type leaving struct {
	elements map[key]change
	chains   states
}

// leave takes what is leaving out of what differs. A transaction is atomic for programs, not for
// packets: each look-up sees what is there in its moment. So a packet that has drawn the index 7 of
// 10 may look for the endpoint after all but one have gone. It finds the endpoint as long as
// packets are under way that came before; later packets are led elsewhere.
func (t *Tables) leave(now time.Time) leaving {
	left := leaving{map[key]change{}, states{}}
	for k, c := range t.changed {
		if !c.there || c.wanted || !lookedUpLate(k) {
			continue
		}
		if c.left.IsZero() {
			c.left = now
		}
		if now.Sub(c.left) >= underWay {
			continue
		}
		left.elements[k] = c
		delete(t.changed, k)
		if schemas[k.set].kind == verdict && t.pending[c.was].there {
			left.chains[c.was] = state{there: true}
			delete(t.pending, c.was)
		}
	}
	return left
}

// lookedUpLate reports whether packets come to an element by way of another one that has gone: an
// endpoint, a route, or a source range, which may be part of one that has come.
func lookedUpLate(k key) bool {
	return k.set == routes || k.set == through || k.set == sources || schemas[k.set].kind == endpoint
}

// snapshot is what all needs, for a comparison that runs beside changes.
func (t *Tables) snapshot() *Tables {
	return &Tables{ports: maps.Clone(t.ports), plain: maps.Clone(t.plain), wanted: maps.Clone(t.wanted), routes: maps.Clone(t.routes)}
}
