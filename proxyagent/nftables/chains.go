//go:build linux

package nftables

import "reflect"

// layout is how chains are written as things stand.
func (t *Tables) layout() layout {
	return layout{t.globals, t.used[firewalled] > 0, t.used[hairpin] > 0}
}

// differing are the chains that have to be written, and those that have to be taken away.
func (t *Tables) differing() (write map[string]chain, remove []string) {
	write = map[string]chain{}
	l := t.layout()
	static := l.static()
	if t.written == nil || !reflect.DeepEqual(*t.written, l) {
		t.compareLayouts(l, static)
	}
	for name, s := range t.pending {
		c, wanted := static[name]
		if r, ok := t.chains[name]; ok {
			c, wanted = chain{rules: l.route(r)}, true
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
	for name, r := range t.chains {
		if t.written == nil || !reflect.DeepEqual(t.written.route(r), l.route(r)) {
			t.pending[name] = state{there: t.pending[name].there || t.written != nil}
		}
	}
}

// settled notes that the kernel has everything but what is left for later. What was marked goes
// into new maps: a map never gets smaller.
func (t *Tables) settled(left leaving) {
	l := t.layout()
	t.written, t.changed, t.pending = &l, left.elements, left.chains
}
