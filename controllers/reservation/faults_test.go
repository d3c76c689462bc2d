package reservation

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
)

// These answers a real API server gives too rarely. How objects behave is tested on one.

// fixture is a Reconciler without an API server: a cache of at most one IPAddress and set errors.
type fixture struct {
	*testing.T
	*Reconciler
	cached                   *networkingv1.IPAddress
	createFails, deleteFails error
	writes                   []string
	// uids are those that deletions named.
	uids []string
}

// newFixture has a reservation of the address by the policy p.
func newFixture(t *testing.T, a netip.Addr) *fixture {
	clock := clocktesting.NewFakePassiveClock(now)
	f := &fixture{T: t, Reconciler: &Reconciler{Index: addressindex.NewWithClock(clock), Clock: clock, APIVersion: "networking.k8s.io/v1"}}
	f.Index.Declare([]allocator.Range{allocator.MustParseRange("10.0.0.0/24"), allocator.MustParseRange("fd00::/120")})
	f.Policies = steering.NewCache()
	f.Policies.Set(steering.Inputs{Policies: []*v1alpha1.ServiceCIDRPolicy{reserving(policyOn("p"), a.String())}})
	f.Client = interceptor.NewClient(nil, interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
			if f.cached == nil {
				return apierrors.NewNotFound(networkingv1.Resource("ipaddresses"), key.Name)
			}
			f.cached.DeepCopyInto(into.(*networkingv1.IPAddress))
			return nil
		},
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			f.writes = append(f.writes, "create")
			o.SetUID("made")
			return f.createFails
		},
		Delete: func(_ context.Context, _ client.WithWatch, _ client.Object, options ...client.DeleteOption) error {
			f.writes = append(f.writes, "delete")
			o := (&client.DeleteOptions{}).ApplyOptions(options)
			f.uids = append(f.uids, string(*o.Preconditions.UID))
			return f.deleteFails
		},
	})
	return f
}

// reconcile looks at an address, and checks the error, the time of the next look and all writes.
func (f *fixture) reconcile(a netip.Addr, wantErr bool, wantAgain time.Duration, wantWrites ...string) {
	f.Helper()
	result, err := f.Reconcile(f.Context(), a)
	if (err != nil) != wantErr || result.RequeueAfter != wantAgain || !slices.Equal(f.writes, wantWrites) {
		f.Errorf("error %v, again in %v, writes %v; want an error: %v, again in %v, writes %v", err, result.RequeueAfter, f.writes, wantErr, wantAgain, wantWrites)
	}
}

// give hands the address to a Service, and reports whether that could be.
func (f *fixture) give(a netip.Addr) bool {
	given, _ := f.Index.Take(a, addressindex.Holder{Service: shop})
	return given
}

func inBothFamilies(t *testing.T, test func(t *testing.T, a netip.Addr)) {
	for family, a := range families {
		t.Run(family, func(t *testing.T) { test(t, a) })
	}
}

func TestNobodyIsGivenAnAddressUntilTheWatchShowsItsReservation(t *testing.T) {
	inBothFamilies(t, func(t *testing.T, a netip.Addr) {
		f := newFixture(t, a)
		f.reconcile(a, false, 0, "create")
		if f.give(a) {
			t.Error("the address can be given away although its reservation is written and not seen")
		}
		f.reconcile(a, false, 5*time.Second, "create") // woken too early
	})
}

func TestCreationsThatFail(t *testing.T) {
	for name, tc := range map[string]struct {
		err     error
		wantErr bool
	}{
		"somebody else was first":      {apierrors.NewAlreadyExists(networkingv1.Resource("ipaddresses"), "x"), false},
		"the API server is overloaded": {apierrors.NewInternalError(errors.New("etcd is slow")), true},
		"no answer":                    {context.DeadlineExceeded, true},
		"it is refused us":             {apierrors.NewForbidden(networkingv1.Resource("ipaddresses"), "x", errors.New("no")), true},
	} {
		t.Run(name, func(t *testing.T) {
			inBothFamilies(t, func(t *testing.T, a netip.Addr) {
				f := newFixture(t, a)
				f.createFails = tc.err
				f.reconcile(a, tc.wantErr, 0, "create")
				if !f.give(a) {
					t.Error("the address stays locked after the failure")
				}
				f.Index.Forget(a, addressindex.Holder{Service: shop})
				f.createFails = nil
				f.reconcile(a, false, 0, "create", "create")
			})
		})
	}
}

func TestAnAddressThatIsBeingHandedOutIsLeftAlone(t *testing.T) {
	inBothFamilies(t, func(t *testing.T, a netip.Addr) {
		f := newFixture(t, a)
		if !f.give(a) {
			t.Fatal("the address is not free")
		}
		f.reconcile(a, false, inFlight)
	})
}

func TestDeletionsThatMeetSomebodyElse(t *testing.T) {
	for name, tc := range map[string]struct {
		err     error
		wantErr bool
	}{
		"a replica took it away to hand the address out": {apierrors.NewNotFound(networkingv1.Resource("ipaddresses"), "x"), false},
		"another object stands there by now":             {apierrors.NewConflict(networkingv1.Resource("ipaddresses"), "x", errors.New("another UID")), false},
		"the API server is overloaded":                   {apierrors.NewInternalError(errors.New("etcd is slow")), true},
	} {
		t.Run(name, func(t *testing.T) {
			inBothFamilies(t, func(t *testing.T, a netip.Addr) {
				f := newFixture(t, a)
				f.deleteFails, f.cached = tc.err, reservation("q")(a) // to be made anew for p
				f.reconcile(a, tc.wantErr, 0, "delete")
				if !f.give(a) {
					t.Error("the address stays locked")
				}
				if !slices.Equal(f.uids, []string{"u"}) {
					t.Errorf("the deletion names the UIDs %v, want that of the object that was seen", f.uids)
				}
			})
		})
	}
}
