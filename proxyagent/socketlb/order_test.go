//go:build linux

package socketlb

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// TestWhatGoesLeavesTheMapsFirst looks at the maps while rules are written.
func TestWhatGoesLeavesTheMapsFirst(t *testing.T) {
	each(t, func(h *host, f model.Family) {
		one, two := h.serve(f, 1), h.serve(f, 2)
		h.sync(set(port("changes", vip(f, 1), one.at, two.at), port("goes", vip(f, 2), one.at), port("replaced", vip(f, 3), one.at)))
		h.next.sync = func([]model.Delta) error {
			h.reaches(front(f, 1), two)
			h.reaches(front(f, 1), two)
			h.leaves(front(f, 2))
			h.leaves(front(f, 3))
			h.leaves(front(f, 4))
			return nil
		}
		d := set(port("changes", vip(f, 1), two.at), port("replaced", vip(f, 3), two.at), port("comes", vip(f, 4), one.at))
		d.Ports[port("goes", vip(f, 2)).Name] = nil
		h.sync(d)
		h.reaches(front(f, 1), two)
		h.leaves(front(f, 2))
		h.reaches(front(f, 3), two)
		h.reaches(front(f, 4), one)
	})
}

// TestWhatComesWaitsForRules that fail, and comes with the next try, which has no own change.
func TestWhatComesWaitsForRules(t *testing.T) {
	each(t, func(h *host, f model.Family) {
		s := h.serve(f, 1)
		h.next.sync = func([]model.Delta) error { return errors.New("a lock is held") }
		if _, err := h.backends[f].Sync(t.Context(), set(port("web", vip(f, 1), s.at))); err == nil {
			t.Fatal("the error of the rules is lost")
		}
		h.leaves(front(f, 1))
		h.next.sync = nil
		_, err := h.backends[f].Sync(t.Context())
		h.must(err)
		h.reaches(front(f, 1), s)
	})
}

// TestAPortWhoseRulesAreRefusedIsNotTranslated until rules serve it.
func TestAPortWhoseRulesAreRefusedIsNotTranslated(t *testing.T) {
	each(t, func(h *host, f model.Family) {
		s := h.serve(f, 1)
		p := port("web", vip(f, 1), s.at)
		h.sync(set(p))
		h.reaches(front(f, 1), s)
		h.next.degraded = []model.Degradation{{Port: p.Name, Reason: model.RulesRefused}}
		h.sync(set(p))
		h.leaves(front(f, 1))
		h.next.degraded = nil
		if _, err := h.backends[f].Check(t.Context(), minuteLater()); err != nil {
			t.Fatal(err)
		}
		h.reaches(front(f, 1), s)
	})
}

// TestAVirtualIPChangesItsOwner while connections are made: none that begins after Sync gets to an
// endpoint of the former owner. In the same change the first owner may get another one.
func TestAVirtualIPChangesItsOwner(t *testing.T) {
	each(t, func(h *host, f model.Family) {
		one, two := h.serve(f, 1), h.serve(f, 2)
		h.sync(set(port("one", vip(f, 1), one.at), port("two", vip(f, 2), two.at)))
		for range 50 {
			h.sync(set(port("one", vip(f, 2), one.at), port("two", vip(f, 1), two.at)))
			h.reaches(front(f, 1), two)
			h.reaches(front(f, 2), one)
			h.sync(set(port("one", vip(f, 1), one.at), port("two", vip(f, 2), two.at)))
			h.reaches(front(f, 1), one)
			h.reaches(front(f, 2), two)
		}
	})
}

// TestEndpointsGoWithoutALoss goes from ten endpoints to one and back, under load, of a million
// connections if there is time. What goes ends when Sync has returned and no connect() is under
// way that had begun before, with all its connections, as a pod does.
func TestEndpointsGoWithoutALoss(t *testing.T) {
	enough := int64(500_000)
	if testing.Short() {
		enough = 10_000
	}
	each(t, func(h *host, f model.Family) {
		stays := h.serve(f, 1)
		h.sync(set(port("web", vip(f, 1), stays.at)))
		load := h.load(front(f, 1))
		for load.n.Load() < enough {
			var coming []*server
			for i := range 9 {
				coming = append(coming, h.serve(f, i+2))
			}
			now := []netip.AddrPort{stays.at}
			for _, s := range coming {
				now = append(now, s.at)
			}
			h.sync(set(port("web", vip(f, 1), now...)))
			load.pass()
			h.sync(set(port("web", vip(f, 1), stays.at)))
			load.pass()
			for _, s := range coming {
				h.must(s.Close())
			}
		}
		load.stop()
	})
}

// TestACheckDoesNotPreemptRules that have failed: what waits for them waits on.
func TestACheckDoesNotPreemptRules(t *testing.T) {
	each(t, func(h *host, f model.Family) {
		s := h.serve(f, 1)
		h.next.sync = func([]model.Delta) error { return errors.New("a lock is held") }
		if _, err := h.backends[f].Sync(t.Context(), set(port("web", vip(f, 1), s.at))); err == nil {
			t.Fatal("the error of the rules is lost")
		}
		if _, err := h.backends[f].Check(t.Context(), minuteLater()); err != nil {
			t.Fatal(err)
		}
		h.leaves(front(f, 1))
	})
}
