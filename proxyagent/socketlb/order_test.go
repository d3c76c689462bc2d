//go:build linux

package socketlb

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
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

// TestWhatComesIsNotLeft: the maps are not said to be full while rules are written, or fail.
func TestWhatComesIsNotLeft(t *testing.T) {
	each(t, func(h *host, f model.Family) {
		one := h.serve(f, 1)
		says := func(want string) {
			h.t.Helper()
			told := strings.Join(h.backends[f].Describe(port("comes", vip(f, 1)).Name), "\n")
			if left := h.backends[f].Left(); !strings.Contains(told, want) || left != 0 {
				h.t.Errorf("%d are left, and it says %q, want %q", left, told, want)
			}
		}
		h.next.sync = func([]model.Delta) error {
			says("left to rules: the maps do not have it yet")
			return errors.New("a lock is held")
		}
		if _, err := h.backends[f].Sync(t.Context(), set(port("comes", vip(f, 1), one.at))); err == nil {
			t.Error("the error of the rules is lost")
		}
		says("left to rules: the maps do not have it yet")
		h.next.sync = nil
		_, err := h.backends[f].Sync(t.Context())
		h.must(err)
		says("translated")
	})
}

// failToSync has a Service come while the rules cannot be written. It returns its endpoint.
func (h *host) failToSync(f model.Family) *server {
	h.t.Helper()
	s := h.serve(f, 1)
	h.next.sync = func([]model.Delta) error { return errors.New("a lock is held") }
	if _, err := h.backends[f].Sync(h.t.Context(), set(port("web", vip(f, 1), s.at))); err == nil {
		h.t.Fatal("the error of the rules is lost")
	}
	return s
}

// TestWhatComesWaitsForRules that fail, and comes with the next try, which has no own change.
func TestWhatComesWaitsForRules(t *testing.T) {
	each(t, func(h *host, f model.Family) {
		s := h.failToSync(f)
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

// TestAVirtualIPChangesItsOwner while connections are made: none that begins after Sync has
// returned gets to an endpoint of a former owner, nor to none. One that is under way at a change is
// led by rules, or as before or after. A dispute is the same change: the Plan has one owner.
func TestAVirtualIPChangesItsOwner(t *testing.T) {
	changes := 2000
	if testing.Short() {
		changes = 100
	}
	each(t, func(h *host, f model.Family) {
		var servers []*server
		for i := range 3 {
			servers = append(servers, h.serve(f, i+1))
		}
		owner := &owners{servers: servers}
		give := func(to int) {
			owner.changing.Add(1)
			d := set()
			for i, s := range servers { // each has one of three addresses
				p := port(fmt.Sprint("s", i), vip(f, 1+(i-to+len(servers))%len(servers)), s.at)
				d.Ports[p.Name] = p
			}
			h.sync(d)
			owner.now.Store(int64(to))
			owner.changing.Add(1)
		}
		give(0)
		stop := owner.follow(h, front(f, 1))
		for i := range changes {
			before := owner.judged.Load()
			give(i % len(servers))
			h.eventually(func() error {
				if owner.judged.Load() < before+4 {
					return errors.New("no connections are made")
				}
				return nil
			})
		}
		stop()
		t.Logf("%d connections were made between two changes, of %d", owner.judged.Load(), owner.all.Load())
	})
}

// owners are who has a virtual IP, one after the other.
type owners struct {
	servers  []*server
	now      atomic.Int64 // of servers
	changing atomic.Int64 // odd during a change
	all      atomic.Int64 // connections
	judged   atomic.Int64 // those between two changes
}

// follow makes connections until it is stopped, and fails the test for one that begins and ends
// between two changes and does not reach the owner.
func (o *owners) follow(h *host, to netip.AddrPort) (stop func()) {
	var loops sync.WaitGroup
	ended := make(chan struct{})
	for range 4 {
		loops.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
				}
				change, want := o.changing.Load(), o.servers[o.now.Load()].at
				got, err := ask(to)
				o.all.Add(1)
				if change%2 == 1 || change != o.changing.Load() {
					continue
				}
				if o.judged.Add(1); err != nil || got != want {
					h.t.Errorf("%s is of %s, and a connection got to %s: %v", to, want, got, err)
					return
				}
			}
		})
	}
	return func() { close(ended); loops.Wait() }
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
		h.failToSync(f)
		if _, err := h.backends[f].Check(t.Context(), minuteLater()); err != nil {
			t.Fatal(err)
		}
		h.leaves(front(f, 1))
	})
}
