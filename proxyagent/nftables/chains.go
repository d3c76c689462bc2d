//go:build linux

package nftables

import (
	"maps"
	"net/netip"
	"reflect"
)

// layout is how chains are written as things stand.
func (t *Tables) layout() layout {
	return layout{t.globals, t.used[firewalled] > 0, t.used[hairpin] > 0, len(t.sticky) > 0}
}

// differing are the chains that have to be written, and those that have to be taken away.
func (t *Tables) differing() (write map[string]chain, remove []string) {
	write = map[string]chain{}
	l := t.layout()
	static := l.static()
	if t.written == nil || !reflect.DeepEqual(*t.written, l) {
		t.compareLayouts(l, static)
	}
	for vip, before := range t.touched {
		if _, stays := t.chains[rememberAt(vip)]; stays && !maps.Equal(before, t.fronts[vip]) {
			t.pending[rememberAt(vip)] = state{there: len(before) > 0}
		}
	}
	for name, s := range t.pending {
		c, wanted := static[name]
		if id, ok := t.chains[name]; ok {
			c, wanted = t.render(l, id), true
		}
		if wanted {
			write[name] = c
		} else if s.there {
			remove = append(remove, name)
		}
	}
	return write, remove
}

// compareLayouts finds the chains that another layout writes in another way.
func (t *Tables) compareLayouts(l layout, static map[string]chain) {
	var before map[string]chain
	if t.written != nil {
		before = t.written.static()
	}
	for name, c := range static {
		if was, there := before[name]; !there || !reflect.DeepEqual(was, c) {
			t.pending[name] = state{there: there}
		}
	}
	for name := range before {
		if _, stays := static[name]; !stays {
			t.pending[name] = state{there: true}
		}
	}
	for name, id := range t.chains {
		if t.written == nil || !reflect.DeepEqual(t.render(*t.written, id), t.render(l, id)) {
			t.pending[name] = state{there: t.pending[name].there || t.written != nil}
		}
	}
}

func (t *Tables) render(l layout, id chainID) chain {
	switch {
	case id.vip.IsValid():
		return chain{rules: l.rememberAt(t.fronts[id.vip])}
	case id.seconds > 0:
		return chain{rules: l.remember(id.route, id.seconds)}
	default:
		return chain{rules: l.route(id.route)}
	}
}

// settled notes that the kernel has everything but what is left for later. What was marked goes
// into new maps: a map never gets smaller.
func (t *Tables) settled(left leaving) {
	l := t.layout()
	t.written, t.changed, t.pending, t.maps, t.touched = &l, left.elements, left.chains, states{}, map[netip.Addr]map[stickyFront]string{}
}
