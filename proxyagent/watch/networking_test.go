package watch

import (
	"errors"
	"testing"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

func TestAPIServerThatIsNotUpYet(t *testing.T) {
	for _, mode := range []model.AllocationMode{model.Prefer, model.Enforce, model.Ignore} {
		t.Run(string(mode), func(t *testing.T) {
			inWorld(t, func(w *world) {
				everything := []string{"discovery", "services", "endpointslices", "nodes", "ipaddresses", "servicecidrs"}
				for _, resource := range everything {
					w.refuse(resource, errDown)
				}
				w.start(Options{Allocations: mode})
				w.pass(time.Hour)
				if w.ready() || !w.source.Take().Empty() {
					t.Fatal("ready without an API server")
				}
				for _, resource := range everything {
					w.refuse(resource, nil)
				}
				w.pass(time.Minute + time.Second)
				if got := w.take(); !w.ready() || got.Services == nil || got.Allocations == nil || got.Ranges == nil || got.Node == nil {
					t.Errorf("after the API server came: ready %t, took %+v", w.ready(), got)
				}
				if lines := w.log.with("cannot be followed"); len(lines) < 30 || len(lines) > 6*13 {
					t.Errorf("%d lines about an hour without API server", len(lines))
				}
			}, scene()...)
		})
	}
}

func TestWithoutTheAPI(t *testing.T) {
	for _, mode := range []model.AllocationMode{model.Prefer, model.Ignore, ""} {
		t.Run("goes on with "+string(mode), func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.serve("")
				w.start(Options{Allocations: mode})
				if !w.ready() {
					t.Fatal("not ready at once")
				}
				if got := w.take(); got.Allocations != nil || got.Ranges != nil || len(got.Services) != 2 {
					t.Errorf("took %+v", got)
				}
				w.pass(time.Hour)
				w.wantSleep("an hour without the API")
				if got := w.log.with("has no IPAddresses"); len(got) != 1 {
					t.Errorf("want one line, got %q", got)
				}
			}, scene()...)
		})
	}
	t.Run("fails with enforce", func(t *testing.T) {
		inWorld(t, func(w *world) {
			w.serve("")
			w.start(Options{Allocations: model.Enforce})
			if err := <-w.ended; !errors.Is(err, ErrNotServed) {
				t.Errorf("Run: %v", err)
			}
			if w.ready() {
				t.Error("ready all the same")
			}
		}, scene()...)
	})
}

// A control plane is upgraded from one without the API to 1.32 and then to 1.36, and the agent runs on.
func TestTheAPIComesAndChangesItsVersion(t *testing.T) {
	inWorld(t, func(w *world) {
		w.serve("")
		w.start(Options{})
		w.take()

		w.serve("v1beta1")
		w.pass(2 * time.Minute)
		w.wantTake(model.Changes{Allocations: wantAllocations(map[string]string{"10.96.0.10": "web"}), Ranges: wantRanges("10.96.0.0/16")})

		w.set(newIPAddress("10.96.0.20", "other"))
		w.wantTake(model.Changes{Allocations: wantAllocations(map[string]string{"10.96.0.20": "other"})})

		w.serve("v1")
		w.remove(newIPAddress("10.96.0.20", "other"))
		w.set(newCIDR("more", "fd00::/112"))
		w.pass(2 * time.Minute)
		w.wantTake(model.Changes{
			Allocations: wantAllocations(map[string]string{"10.96.0.10": "web", "10.96.0.20": ""}),
			Ranges:      wantRanges("10.96.0.0/16", "fd00::/112"),
		})

		w.set(newIPAddress("10.96.0.10", "other"))
		w.wantTake(model.Changes{Allocations: wantAllocations(map[string]string{"10.96.0.10": "other"})})
	}, scene()...)
}

func TestTheAPIGoesAway(t *testing.T) {
	for _, mode := range []model.AllocationMode{model.Prefer, model.Enforce} {
		t.Run(string(mode), func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.start(Options{Allocations: mode})
				w.take()
				w.serve("")
				w.pass(time.Hour)
				w.wantSleep("the end of the API")
				w.set(newSlice("web-1", "web", at("10.0.0.9")))
				w.wantTake(model.Changes{Services: services(map[string]*model.Service{"web": web("10.0.0.9", "10.0.0.2")})})
				select {
				case err := <-w.ended:
					t.Errorf("Run ended: %v", err)
				default:
				}
			}, scene()...)
		})
	}
}

func TestForbiddenKinds(t *testing.T) {
	t.Run("the Node is waited for a little", func(t *testing.T) {
		inWorld(t, func(w *world) {
			w.forbid("nodes")
			w.start(Options{})
			w.pass(nodePatience - time.Second)
			if w.ready() {
				t.Fatal("ready too early")
			}
			w.wantSleep("everything but the Node")
			w.pass(time.Second)
			if got := w.take(); !w.ready() || got.Node != nil || len(got.Services) != 2 {
				t.Fatalf("ready %t, took %+v", w.ready(), got)
			}
			w.refuse("nodes", nil)
			w.pass(time.Minute)
			w.wantTake(model.Changes{Node: wantNode(false)})
		}, scene()...)
	})
	for _, kind := range []string{"services", "endpointslices"} {
		t.Run(kind+" are waited for always", func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.forbid(kind)
				w.start(Options{})
				w.pass(time.Hour)
				if w.ready() {
					t.Fatal("ready without them")
				}
				w.refuse(kind, nil)
				w.pass(time.Minute)
				if got := w.take(); !w.ready() || len(got.Services) != 2 {
					t.Errorf("ready %t, took %+v", w.ready(), got)
				}
			}, scene()...)
		})
	}
	for _, kind := range []string{"ipaddresses", "servicecidrs"} {
		t.Run(kind+" alone hold up a little", func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.forbid(kind)
				w.start(Options{})
				w.pass(networkingPatience - time.Second)
				if w.ready() {
					t.Fatal("ready too early")
				}
				w.pass(time.Second)
				if got := w.take(); !w.ready() || (got.Allocations == nil) != (kind == "ipaddresses") || (got.Ranges == nil) != (kind == "servicecidrs") {
					t.Errorf("ready %t, took %+v", w.ready(), got)
				}
			}, scene()...)
		})
	}
	for _, mode := range []model.AllocationMode{model.Prefer, model.Ignore} {
		t.Run("IPAddresses and ServiceCIDRs hold up "+string(mode)+" a little", func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.forbid("ipaddresses")
				w.forbid("servicecidrs")
				w.start(Options{Allocations: mode})
				w.pass(networkingPatience - time.Second)
				if w.ready() {
					t.Fatal("ready too early")
				}
				w.pass(time.Second)
				if got := w.take(); !w.ready() || got.Allocations != nil || got.Ranges != nil || len(got.Services) != 2 {
					t.Fatalf("ready %t, took %+v", w.ready(), got)
				}
				w.pass(4 * time.Minute)
				w.wantSleep("minutes without IPAddresses")
				if got := w.log.with("cannot be followed", "IPAddress", "forbidden"); len(got) != 1 {
					t.Errorf("want one line, got %q", got)
				}
				w.refuse("ipaddresses", nil)
				w.refuse("servicecidrs", nil)
				w.pass(2 * time.Minute)
				w.wantTake(model.Changes{
					Allocations: wantAllocations(map[string]string{"10.96.0.10": "web"}),
					Ranges:      wantRanges("10.96.0.0/16"),
				})
			}, scene()...)
		})
	}
	t.Run("enforce waits for IPAddresses and not for ServiceCIDRs", func(t *testing.T) {
		inWorld(t, func(w *world) {
			w.forbid("ipaddresses")
			w.forbid("servicecidrs")
			w.start(Options{Allocations: model.Enforce})
			w.pass(time.Hour)
			if w.ready() {
				t.Fatal("ready without IPAddresses")
			}
			w.refuse("ipaddresses", nil)
			w.pass(2 * time.Minute)
			if got := w.take(); !w.ready() || len(got.Allocations) != 1 {
				t.Errorf("ready %t, took %+v", w.ready(), got)
			}
		}, scene()...)
	})
}

// Addresses of an informer that has not listed all of them yet would be told gone by a Take that comes too early.
func TestAddressesCountOnceTheyAreShown(t *testing.T) {
	s := filled(t, 1)
	s.pending.open()
	s.Take()
	early, err := s.addressInformer("v1", nil)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := convertIPAddress(newIPAddress("10.96.0.99", "web"))
	s.addressChanged(early, change[*allocation]{new: a})
	if got := s.Take(); !got.Empty() {
		t.Errorf("took %+v", got)
	}
	s.addresses.show(early)
	s.addressChanged(early, change[*allocation]{new: a})
	if got := s.Take(); len(got.Allocations) != 1 {
		t.Errorf("took %+v", got)
	}
}

func TestDiscoveryThatIsForbidden(t *testing.T) {
	inWorld(t, func(w *world) {
		w.refuse("discovery", errors.New("forbidden"))
		w.start(Options{})
		w.pass(networkingPatience)
		if !w.ready() {
			t.Fatal("not ready")
		}
		w.take()
		w.refuse("discovery", nil)
		w.pass(time.Minute)
		w.wantTake(model.Changes{Allocations: wantAllocations(map[string]string{"10.96.0.10": "web"}), Ranges: wantRanges("10.96.0.0/16")})
	}, scene()...)
}

// The gate opens without IPAddresses after networkingPatience: an API server that is back must be asked before.
func TestDiscoveryDoesNotSleepThroughThePatience(t *testing.T) {
	pauses := discoveryPauses()
	for i := range 50 {
		if p := pauses.Step(); p >= networkingPatience {
			t.Fatalf("pause %d is of %s", i, p)
		}
	}
}
