package watch

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

var everything = []string{"version", "services", "endpointslices", "nodes", "ipaddresses", "servicecidrs"}

// TestAPIServerThatIsNotUpYet has everything known a second after the API server came, also what
// the agent can do without: it would write rules twice, the first ones for the wrong Services.
func TestAPIServerThatIsNotUpYet(t *testing.T) {
	for mode, err := range map[model.AllocationMode]error{
		model.Prefer: errors.New("connection refused"), model.Enforce: context.DeadlineExceeded,
		model.Ignore: apierrors.NewServiceUnavailable("starting"),
	} {
		t.Run(string(mode), func(t *testing.T) {
			inFixture(t, func(w *fixture) {
				w.refuse(err, everything...)
				w.start(Options{Allocations: mode})
				w.pass(time.Hour)
				if w.ready() || !w.source.Take().Empty() {
					t.Fatal("ready without an API server")
				}
				w.refuse(nil, everything...)
				w.pass(time.Second)
				if got := w.take(); !w.ready() || got.Services == nil || got.Allocations == nil || got.Ranges == nil || got.Node == nil {
					t.Errorf("after the API server came: ready %t, took %+v", w.ready(), got)
				}
				if lines := w.log.with("cannot be followed"); len(lines) < 10 || len(lines) > 13 {
					t.Errorf("%d lines about an hour without API server", len(lines))
				}
			}, smallCluster()...)
		})
	}
}

// TestKindsThatAreMissing are read later; it has the time after which the agent goes on without.
func TestKindsThatAreMissing(t *testing.T) {
	const never = 4 * time.Minute // failures are logged again after five
	networking := []string{"ipaddresses", "servicecidrs"}
	for name, tc := range map[string]struct {
		mode  model.AllocationMode
		kinds []string
		err   error
		after time.Duration
	}{
		"the Node is waited for a little":               {"", []string{"nodes"}, errForbidden, nodeTimeout},
		"Services are waited for always":                {"", []string{"services"}, errForbidden, never},
		"EndpointSlices too":                            {"", []string{"endpointslices"}, errForbidden, never},
		"IPAddresses alone hold up a little":            {model.Prefer, networking[:1], errForbidden, networkingTimeout},
		"ServiceCIDRs too":                              {model.Prefer, networking[1:], errForbidden, networkingTimeout},
		"both together no longer":                       {model.Prefer, networking, errForbidden, networkingTimeout},
		"also where they are not looked at":             {model.Ignore, networking, errForbidden, networkingTimeout},
		"enforce waits for IPAddresses":                 {model.Enforce, networking, errForbidden, never},
		"and not for ServiceCIDRs":                      {model.Enforce, networking[1:], errForbidden, networkingTimeout},
		"an old API server has neither":                 {model.Prefer, networking, errNotServed, 0},
		"an old API server, and they are not looked at": {model.Ignore, networking, errNotServed, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inFixture(t, func(w *fixture) {
				w.refuse(tc.err, tc.kinds...)
				w.start(Options{Allocations: tc.mode})
				w.pass(max(tc.after, time.Second) - time.Second)
				if w.ready() != (tc.after == 0) {
					t.Fatalf("ready %t too early or too late", w.ready())
				}
				w.pass(time.Second)
				missing := func(kind string) bool { return slices.Contains(tc.kinds, kind) }
				if got := w.take(); tc.after < never && (len(got.Services) != 2 || (got.Node == nil) != missing("nodes") ||
					(got.Allocations == nil) != missing("ipaddresses") || (got.Ranges == nil) != missing("servicecidrs")) {
					t.Fatalf("took %+v", got)
				}
				w.pass(never - tc.after)
				w.wantSleep("minutes without")
				told := w.log.with("cannot be followed", "forbidden")
				told = append(told, w.log.with("does not have this kind")...)
				if w.ready() != (tc.after < never) || len(told) != len(tc.kinds) {
					t.Errorf("ready %t, want one line for each kind, got %q", w.ready(), told)
				}
				w.refuse(nil, tc.kinds...)
				w.pass(time.Minute)
				if got := w.take(); !w.ready() || missing("nodes") && got.Node == nil || missing("ipaddresses") && len(got.Allocations) != 1 ||
					missing("servicecidrs") && got.Ranges == nil {
					t.Errorf("when they are back: ready %t, took %+v", w.ready(), got)
				}
			}, smallCluster()...)
		})
	}
}

func TestEnforceFailsWithoutTheAPI(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.refuse(errNotServed, "ipaddresses", "servicecidrs")
		w.start(Options{Allocations: model.Enforce})
		if len(w.ended) == 0 {
			t.Fatal("Run goes on")
		}
		if err := <-w.ended; !errors.Is(err, ErrNotServed) || w.ready() {
			t.Errorf("ready %t, Run: %v", w.ready(), err)
		}
	}, smallCluster()...)
}

// An older control plane lacks the API: what is known stays, and is compared when the API is back.
func TestTheAPIGoesAwayAndComesBack(t *testing.T) {
	for _, mode := range []model.AllocationMode{model.Prefer, model.Enforce} {
		t.Run(string(mode), func(t *testing.T) {
			inFixture(t, func(w *fixture) {
				w.start(Options{Allocations: mode})
				w.take()
				w.unseen(func() { w.refuse(errNotServed, "ipaddresses", "servicecidrs") })
				w.pass(time.Hour)
				w.wantSleep("the end of the API")
				w.set(newSlice("web-1", "web", at("10.0.0.9")))
				w.wantTake(model.Changes{Services: services(map[string]*model.Service{"web": web("10.0.0.9", "10.0.0.2")})})
				w.remove(newIPAddress("10.96.0.10", "web"))
				w.set(newIPAddress("10.96.0.20", "other"), newCIDR("more", "fd00::/112"))
				w.refuse(nil, "ipaddresses", "servicecidrs")
				w.pass(time.Minute)
				w.wantTake(model.Changes{
					Allocations: wantAllocations(map[string]string{"10.96.0.10": "", "10.96.0.20": "other"}),
					Ranges:      wantRanges("10.96.0.0/16", "fd00::/112"),
				})
				if len(w.ended) > 0 {
					t.Errorf("Run ended: %v", <-w.ended)
				}
			}, smallCluster()...)
		})
	}
}

func TestConvertIPAddress(t *testing.T) {
	web := model.ServiceName{Namespace: "ns", Name: "web"}
	v4, v6 := netip.MustParseAddr("10.96.0.1"), netip.MustParseAddr("fd00::1")
	service := networkingv1.ParentReference{Resource: "services", Namespace: "ns", Name: "web"}
	gateway := networkingv1.ParentReference{Group: "gateway.networking.k8s.io", Resource: "gateways", Namespace: "ns", Name: "web"}
	foreign := networkingv1.ParentReference{Group: "x", Resource: "services", Namespace: "ns", Name: "web"}
	pod := networkingv1.ParentReference{Resource: "pods", Namespace: "ns", Name: "web"}
	for name, tc := range map[string]struct {
		name, managedBy string
		parent          *networkingv1.ParentReference
		want            model.Allocation
		malformed       int
	}{
		"of a Service":        {"10.96.0.1", "ipallocator.k8s.io", &service, model.Allocation{Addr: v4, Service: web}, 0},
		"of the other family": {"fd00::1", "ipallocator.k8s.io", &service, model.Allocation{Addr: v6, Service: web}, 0},
		"additional":          {"10.96.0.1", v1alpha1.ManagedByOperator, &service, model.Allocation{Addr: v4, Service: web, Additional: true}, 0},
		"former, and still the API server's": {
			"10.96.0.1", "ipallocator.k8s.io", &service, model.Allocation{Addr: v4, Service: web, Additional: true, Former: true}, 0,
		},
		"former, and the operator's": {
			"10.96.0.1", v1alpha1.ManagedByOperator, &service, model.Allocation{Addr: v4, Service: web, Additional: true, Former: true}, 0,
		},
		"former, of no Service":             {"10.96.0.1", "ipallocator.k8s.io", &gateway, model.Allocation{Addr: v4}, 0},
		"of a second Service":               {"10.96.0.1", "ipallocator.k8s.io", &service, model.Allocation{Addr: v4, Service: web, Former: true}, 0},
		"managed by another program":        {"10.96.0.1", "x", &service, model.Allocation{Addr: v4, Service: web}, 0},
		"without parent":                    {"10.96.0.1", "", nil, model.Allocation{Addr: v4}, 0},
		"of ours for something else":        {"10.96.0.1", v1alpha1.ManagedByOperator, &gateway, model.Allocation{Addr: v4}, 0},
		"of services of another group":      {"10.96.0.1", "", &foreign, model.Allocation{Addr: v4}, 0},
		"of another kind of the same group": {"10.96.0.1", "", &pod, model.Allocation{Addr: v4}, 0},
		"a name that is no address":         {"web", "", &service, model.Allocation{}, 1},
		"a second name of an address":       {"fd00::0001", "", &service, model.Allocation{}, 1},
		"an address in disguise":            {"::ffff:10.96.0.1", "", &service, model.Allocation{}, 1},
	} {
		got, bad := convertIPAddress(newIPAddress(tc.name, "web", func(a *networkingv1.IPAddress) {
			if strings.HasPrefix(name, "former") {
				a.Finalizers, a.DeletionTimestamp = []string{"example.com/other", v1alpha1.FinalizerFormer}, &longAgo
			}
			a.Labels, a.Spec.ParentRef = map[string]string{networkingv1.LabelManagedBy: tc.managedBy}, tc.parent
			if name == "of a second Service" {
				a.Labels[v1alpha1.LabelPurpose] = v1alpha1.PurposeSecond
			}
		}))
		if diff := cmp.Diff(tc.want, got.model, comparers); diff != "" || bad.count != tc.malformed {
			t.Errorf("%s: %d malformed pieces, want %d: %s (-want +got):\n%s", name, bad.count, tc.malformed, &bad, diff)
		}
	}
}

func TestRangesOf(t *testing.T) {
	leaving := newCIDR("leaving", "10.99.0.0/16")
	leaving.DeletionTimestamp = &longAgo
	var all []any
	for _, in := range []*networkingv1.ServiceCIDR{
		newCIDR("b", "10.97.0.0/16", "fd00::/112"), newCIDR("a", "10.96.0.0/16"), newCIDR("again", "10.96.0.0/16"),
		newCIDR("inside", "10.96.0.0/24"), newCIDR("odd", "10.98.0.7/16", "x", "010.0.0.0/8"), leaving,
	} {
		c, _ := convertServiceCIDR(in)
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
