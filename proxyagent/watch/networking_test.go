package watch

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

func TestAPIServerThatIsNotUpYet(t *testing.T) {
	for _, mode := range []model.AllocationMode{model.Prefer, model.Enforce, model.Ignore} {
		t.Run(string(mode), func(t *testing.T) {
			inFixture(t, func(w *fixture) {
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
			}, smallCluster()...)
		})
	}
}

func TestWithoutTheAPI(t *testing.T) {
	for _, mode := range []model.AllocationMode{model.Prefer, model.Ignore, ""} {
		t.Run("goes on with "+string(mode), func(t *testing.T) {
			inFixture(t, func(w *fixture) {
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
			}, smallCluster()...)
		})
	}
	t.Run("fails with enforce", func(t *testing.T) {
		inFixture(t, func(w *fixture) {
			w.serve("")
			w.start(Options{Allocations: model.Enforce})
			if err := <-w.ended; !errors.Is(err, ErrNotServed) {
				t.Errorf("Run: %v", err)
			}
			if w.ready() {
				t.Error("ready all the same")
			}
		}, smallCluster()...)
	})
}

// A control plane is upgraded from one without the API to 1.32 and then to 1.36, and the agent runs on.
func TestTheAPIComesAndChangesItsVersion(t *testing.T) {
	inFixture(t, func(w *fixture) {
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
	}, smallCluster()...)
}

func TestTheAPIGoesAway(t *testing.T) {
	for _, mode := range []model.AllocationMode{model.Prefer, model.Enforce} {
		t.Run(string(mode), func(t *testing.T) {
			inFixture(t, func(w *fixture) {
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
			}, smallCluster()...)
		})
	}
}

func TestForbiddenKinds(t *testing.T) {
	t.Run("the Node is waited for a little", func(t *testing.T) {
		inFixture(t, func(w *fixture) {
			w.forbid("nodes")
			w.start(Options{})
			w.pass(nodeTimeout - time.Second)
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
		}, smallCluster()...)
	})
	for _, kind := range []string{"services", "endpointslices"} {
		t.Run(kind+" are waited for always", func(t *testing.T) {
			inFixture(t, func(w *fixture) {
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
			}, smallCluster()...)
		})
	}
	for _, kind := range []string{"ipaddresses", "servicecidrs"} {
		t.Run(kind+" alone hold up a little", func(t *testing.T) {
			inFixture(t, func(w *fixture) {
				w.forbid(kind)
				w.start(Options{})
				w.pass(networkingTimeout - time.Second)
				if w.ready() {
					t.Fatal("ready too early")
				}
				w.pass(time.Second)
				if got := w.take(); !w.ready() || (got.Allocations == nil) != (kind == "ipaddresses") || (got.Ranges == nil) != (kind == "servicecidrs") {
					t.Errorf("ready %t, took %+v", w.ready(), got)
				}
			}, smallCluster()...)
		})
	}
	for _, mode := range []model.AllocationMode{model.Prefer, model.Ignore} {
		t.Run("IPAddresses and ServiceCIDRs hold up "+string(mode)+" a little", func(t *testing.T) {
			inFixture(t, func(w *fixture) {
				w.forbid("ipaddresses")
				w.forbid("servicecidrs")
				w.start(Options{Allocations: mode})
				w.pass(networkingTimeout - time.Second)
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
			}, smallCluster()...)
		})
	}
	t.Run("enforce waits for IPAddresses and not for ServiceCIDRs", func(t *testing.T) {
		inFixture(t, func(w *fixture) {
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
		}, smallCluster()...)
	})
}

// Addresses of an informer that has not listed all of them yet would be reported as deleted by an early Take.
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
	inFixture(t, func(w *fixture) {
		w.refuse("discovery", errors.New("forbidden"))
		w.start(Options{})
		w.pass(networkingTimeout)
		if !w.ready() {
			t.Fatal("not ready")
		}
		w.take()
		w.refuse("discovery", nil)
		w.pass(time.Minute)
		w.wantTake(model.Changes{Allocations: wantAllocations(map[string]string{"10.96.0.10": "web"}), Ranges: wantRanges("10.96.0.0/16")})
	}, smallCluster()...)
}

// The gate opens without IPAddresses after networkingTimeout: an API server that is back must be asked before.
func TestDiscoveryPausesAreShorterThanTheTimeout(t *testing.T) {
	pauses := discoveryPauses()
	for i := range 50 {
		if p := pauses.Step(); p >= networkingTimeout {
			t.Fatalf("pause %d is of %s", i, p)
		}
	}
}

func managedBy(who string) func(*networkingv1.IPAddress) {
	return func(a *networkingv1.IPAddress) { a.Labels[networkingv1.LabelManagedBy] = who }
}

func parent(p *networkingv1.ParentReference) func(*networkingv1.IPAddress) {
	return func(a *networkingv1.IPAddress) { a.Spec.ParentRef = p }
}

func TestConvertIPAddress(t *testing.T) {
	web := model.ServiceName{Namespace: "ns", Name: "web"}
	v4, v6 := netip.MustParseAddr("10.96.0.1"), netip.MustParseAddr("fd00::1")
	tests := map[string]struct {
		in   *networkingv1.IPAddress
		want model.Allocation
		junk int
	}{
		"of a Service":      {newIPAddress("10.96.0.1", "web"), model.Allocation{Addr: v4, Service: web}, 0},
		"of the other kind": {newIPAddress("fd00::1", "web"), model.Allocation{Addr: v6, Service: web}, 0},
		"additional": {
			newIPAddress("10.96.0.1", "web", managedBy(v1alpha1.ManagedByOperator)),
			model.Allocation{Addr: v4, Service: web, Additional: true}, 0,
		},
		"managed by somebody else": {newIPAddress("10.96.0.1", "web", managedBy("x")), model.Allocation{Addr: v4, Service: web}, 0},
		"without labels": {
			newIPAddress("10.96.0.1", "web", func(a *networkingv1.IPAddress) { a.Labels = nil }), model.Allocation{Addr: v4, Service: web}, 0,
		},
		"without parent": {newIPAddress("10.96.0.1", "web", parent(nil)), model.Allocation{Addr: v4}, 0},
		"of ours for something else": {
			newIPAddress("10.96.0.1", "web", managedBy(v1alpha1.ManagedByOperator),
				parent(&networkingv1.ParentReference{Group: "gateway.networking.k8s.io", Resource: "gateways", Namespace: "ns", Name: "web"})),
			model.Allocation{Addr: v4}, 0,
		},
		"of services of another group": {
			newIPAddress("10.96.0.1", "web", parent(&networkingv1.ParentReference{Group: "x", Resource: "services", Namespace: "ns", Name: "web"})),
			model.Allocation{Addr: v4}, 0,
		},
		"of another kind of the same group": {
			newIPAddress("10.96.0.1", "web", parent(&networkingv1.ParentReference{Resource: "pods", Namespace: "ns", Name: "web"})),
			model.Allocation{Addr: v4}, 0,
		},
		"a name that is no address":   {newIPAddress("web", "web"), model.Allocation{}, 1},
		"a second name of an address": {newIPAddress("fd00::0001", "web"), model.Allocation{}, 1},
		"an address in disguise":      {newIPAddress("::ffff:10.96.0.1", "web"), model.Allocation{}, 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			beta, betaJunk := convertBetaIPAddress(as(tc.in, "v1beta1").(*networkingv1beta1.IPAddress))
			got, j := convertIPAddress(tc.in)
			if diff := cmp.Diff(tc.want, got.model, comparers); diff != "" {
				t.Errorf("convertIPAddress (-want +got):\n%s", diff)
			}
			if got.model != beta.model {
				t.Errorf("v1beta1 becomes %v", beta.model)
			}
			if j.count != tc.junk || betaJunk.count != tc.junk {
				t.Errorf("%d and %d pieces of junk, want %d: %s", j.count, betaJunk.count, tc.junk, &j)
			}
		})
	}
}

func TestRangesOf(t *testing.T) {
	leaving := newCIDR("leaving", "10.99.0.0/16")
	leaving.DeletionTimestamp = &longAgo
	var all []*serviceCIDR
	for _, in := range []apiObject{
		newCIDR("b", "10.97.0.0/16", "fd00::/112"), newCIDR("a", "10.96.0.0/16"), newCIDR("again", "10.96.0.0/16"),
		newCIDR("inside", "10.96.0.0/24"), newCIDR("odd", "10.98.0.7/16", "x", "010.0.0.0/8"), leaving,
	} {
		c, _ := convertBetaServiceCIDR(as(in, "v1beta1").(*networkingv1beta1.ServiceCIDR))
		all = append(all, c)
	}
	want := wantRanges("10.96.0.0/16", "10.96.0.0/24", "10.97.0.0/16", "10.98.0.0/16", "fd00::/112")
	if diff := cmp.Diff(*want, rangesOf(all), comparers); diff != "" {
		t.Errorf("rangesOf (-want +got):\n%s", diff)
	}
	if got := rangesOf(nil); got == nil || len(got) > 0 {
		t.Errorf("rangesOf nothing: %#v, want an empty slice", got)
	}
}
