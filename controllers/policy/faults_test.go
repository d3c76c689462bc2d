package policy

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/steering"
)

// The fake client is here to fail in ways that a real API server fails too rarely. How objects behave is tested on a real one.

// stand is a Keeper or a Reporter with everything around it.
type stand struct {
	*testing.T
	client    client.Client
	index     *addressindex.Index
	clock     *clocktesting.FakePassiveClock
	policies  *steering.Cache
	addresses *controllertest.FakeInformer
}

// ranges of the stand: one of each family.
var ranges = []string{"10.0.0.0/24", "fd00::/120"}

func newStand(t *testing.T, faults interceptor.Funcs, policies ...*v1alpha1.ServiceCIDRPolicy) *stand {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), networkingv1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	build := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.ServiceCIDRPolicy{}).WithInterceptorFuncs(faults)
	for _, p := range policies {
		build = build.WithObjects(p.DeepCopy())
	}
	s := &stand{T: t, client: build.Build(), clock: clocktesting.NewFakePassiveClock(now)}
	s.index = addressindex.NewWithClock(s.clock)
	informers := &informertest.FakeInformers{Scheme: scheme}
	if err := s.index.Watch(t.Context(), informers); err != nil {
		t.Fatal(err)
	}
	s.addresses = s.informer(informers, &networkingv1.IPAddress{})
	cidr := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: ranges}}
	s.informer(informers, cidr).Add(cidr)
	s.policies = steering.NewCache()
	s.policies.Set(steering.Inputs{Policies: policies, ServiceCIDRs: []addressindex.ServiceCIDR{readyRange("a", ranges...)}})
	s.index.SetRules(s.policies.Current())
	return s
}

func (s *stand) informer(of *informertest.FakeInformers, o client.Object) *controllertest.FakeInformer {
	s.Helper()
	i, err := of.FakeInformerFor(s.Context(), o)
	if err != nil {
		s.Fatal(err)
	}
	return i
}

func (s *stand) keeper() *Keeper {
	return &Keeper{Client: s.client, Index: s.index, Board: s.policies, Clock: s.clock, APIVersion: "networking.k8s.io/v1"}
}

// object returns the IPAddress, nil without one.
func (s *stand) object(a netip.Addr) *networkingv1.IPAddress {
	s.Helper()
	ip := &networkingv1.IPAddress{}
	if err := s.client.Get(s.Context(), client.ObjectKey{Name: a.String()}, ip); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		s.Fatal(err)
	}
	return ip
}

// look reconciles an address, which should fail or not, and come back in time.
func (s *stand) look(k *Keeper, a netip.Addr, wantErr bool, wantAgain time.Duration) {
	s.Helper()
	result, err := k.Reconcile(s.Context(), a)
	if (err != nil) != wantErr || result.RequeueAfter != wantAgain {
		s.Errorf("error %v, again in %v; want an error: %v, again in %v", err, result.RequeueAfter, wantErr, wantAgain)
	}
}

// mayBeGiven reports whether a Service could be given the address.
func (s *stand) mayBeGiven(a netip.Addr) bool {
	if !s.give(a) {
		return false
	}
	s.index.Forget(a)
	return true
}

// give hands the address to a Service, and reports whether that could be.
func (s *stand) give(a netip.Addr) bool {
	given, _ := s.index.Take(a, shop)
	return given
}

var (
	taken    = apierrors.NewAlreadyExists(schema.GroupResource{Resource: "ipaddresses"}, "x")
	another  = apierrors.NewConflict(schema.GroupResource{Resource: "ipaddresses"}, "x", errors.New("another UID"))
	overload = apierrors.NewInternalError(errors.New("etcd is slow"))
)

// failing lets the first creation end like this, after the API server has done it or instead.
func failing(err error, done bool) interceptor.Funcs {
	first := true
	return interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		o.SetUID("made")
		if !first {
			return c.Create(ctx, o, opts...)
		}
		first = false
		if done {
			if err := c.Create(ctx, o, opts...); err != nil {
				return err
			}
		}
		return err
	}}
}

// writeSeen is how long the address index waits for the watch to show a write.
const writeSeen = 5 * time.Second

func inBothFamilies(t *testing.T, test func(t *testing.T, a netip.Addr)) {
	for family, a := range families {
		t.Run(family, func(t *testing.T) { test(t, a) })
	}
}

func TestNobodyIsGivenAnAddressUntilTheBooksShowItsReservation(t *testing.T) {
	inBothFamilies(t, func(t *testing.T, a netip.Addr) {
		s := newStand(t, failing(nil, true), reserving(policyOn("p"), a.String()))
		k := s.keeper()
		s.look(k, a, false, 0)
		if s.mayBeGiven(a) {
			t.Error("the address can be given away although its reservation is written and not seen")
		}
		s.look(k, a, false, writeSeen) // woken too early
		s.addresses.Add(s.object(a))
		s.look(k, a, false, 0)
		if !s.mayBeGiven(a) {
			t.Error("the address can not be given to its Service although its reservation is seen")
		}
	})
}

func TestAWriteThatIsNeverSeenLocksNothingForEver(t *testing.T) {
	inBothFamilies(t, func(t *testing.T, a netip.Addr) {
		s := newStand(t, failing(nil, true), reserving(policyOn("p"), a.String()))
		k := s.keeper()
		s.look(k, a, false, 0)
		s.clock.SetTime(now.Add(writeSeen))
		s.index.Sweep()
		if !s.mayBeGiven(a) {
			t.Error("the address stays locked")
		}
	})
}

func TestCreationsThatFail(t *testing.T) {
	for name, tc := range map[string]struct {
		err        error
		done       bool
		wantErr    bool
		wantObject bool // after the first attempt
	}{
		"somebody else was first":          {err: taken},
		"the API server is overloaded":     {err: overload, wantErr: true},
		"the answer got lost":              {err: context.DeadlineExceeded, done: true, wantErr: true, wantObject: true},
		"the request got lost":             {err: context.DeadlineExceeded, wantErr: true},
		"the policy's range is refused us": {err: apierrors.NewForbidden(schema.GroupResource{}, "x", errors.New("no")), wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			inBothFamilies(t, func(t *testing.T, a netip.Addr) {
				s := newStand(t, failing(tc.err, tc.done), reserving(policyOn("p"), a.String()))
				k := s.keeper()
				s.look(k, a, tc.wantErr, 0)
				if !s.mayBeGiven(a) {
					t.Error("the address stays locked after the failure")
				}
				if got := s.object(a) != nil; got != tc.wantObject {
					t.Errorf("there is an object: %v, want %v", got, tc.wantObject)
				}
				s.look(k, a, false, 0)
				if s.object(a) == nil {
					t.Error("no reservation after the second attempt")
				}
			})
		})
	}
}

func TestAnAddressThatIsBeingHandedOutIsLeftAlone(t *testing.T) {
	inBothFamilies(t, func(t *testing.T, a netip.Addr) {
		s := newStand(t, interceptor.Funcs{}, reserving(policyOn("p"), a.String()))
		if !s.give(a) {
			t.Fatal("the address is not free")
		}
		s.look(s.keeper(), a, false, inFlight)
		if s.object(a) != nil {
			t.Error("a reservation was written under a Service that is being created")
		}
	})
}

// standing puts an IPAddress at the address, in the API server and in the index.
func (s *stand) standing(ip *networkingv1.IPAddress) {
	s.Helper()
	if err := s.client.Create(s.Context(), ip); err != nil {
		s.Fatal(err)
	}
	s.addresses.Add(ip)
}

func TestDeletionsThatMeetSomebodyElse(t *testing.T) {
	notFound := apierrors.NewNotFound(schema.GroupResource{Resource: "ipaddresses"}, "x")
	for name, tc := range map[string]struct {
		err     error
		wantErr bool
	}{
		"a replica took it away to hand the address out": {err: notFound},
		"another object stands there by now":             {err: another},
		"the API server is overloaded":                   {err: overload, wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			inBothFamilies(t, func(t *testing.T, a netip.Addr) {
				creations := 0
				s := newStand(t, interceptor.Funcs{
					Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return tc.err },
					Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
						creations++
						return c.Create(ctx, o, opts...)
					},
				}, reserving(policyOn("p"), a.String()))
				s.standing(reservation("q")(a)) // to be made anew for p
				s.look(s.keeper(), a, tc.wantErr, 0)
				if creations != 1 {
					t.Errorf("%d creations: one was written although the deletion was not ours", creations-1)
				}
				if !s.mayBeGiven(a) {
					t.Error("the address stays locked")
				}
			})
		})
	}
}

func TestADeletionNamesTheObjectThatWasSeen(t *testing.T) {
	inBothFamilies(t, func(t *testing.T, a netip.Addr) {
		var got client.DeleteOptions
		s := newStand(t, interceptor.Funcs{Delete: func(_ context.Context, _ client.WithWatch, _ client.Object, opts ...client.DeleteOption) error {
			got.ApplyOptions(opts)
			return nil
		}})
		s.standing(reservation("p")(a))
		s.look(s.keeper(), a, false, 0)
		if got.Preconditions == nil || got.Preconditions.UID == nil || *got.Preconditions.UID != "u" {
			t.Errorf("preconditions %v, want UID u", got.Preconditions)
		}
	})
}

func TestAnAddressThatWasFreedIsWrittenAfterASecondAndFreedInTime(t *testing.T) {
	inBothFamilies(t, func(t *testing.T, a netip.Addr) {
		s := newStand(t, failing(nil, true), coolingFor(policyOn("p", "a"), time.Minute))
		k := s.keeper()
		s.standing(cooling("p", 0)(a)) // what a leader wrote that is gone
		s.look(k, a, false, time.Minute+skew)
		s.clock.SetTime(now.Add(time.Minute + skew))
		s.look(k, a, false, 0)
		if s.object(a) != nil {
			t.Error("the address still cools")
		}
	})
}

func (s *stand) reporter() (*Reporter, *events.FakeRecorder) {
	recorder := events.NewFakeRecorder(10)
	return &Reporter{Client: s.client, Index: s.index, Board: s.policies, Events: recorder, Clock: s.clock}, recorder
}

// applies counts the applies of a status, and lets the first one fail.
func applies(count *int, first error) interceptor.Funcs {
	return interceptor.Funcs{SubResourceApply: func(ctx context.Context, c client.Client, sub string, o runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
		if *count++; *count == 1 && first != nil {
			return first
		}
		return c.SubResource(sub).Apply(ctx, o, opts...)
	}}
}

func TestAStatusIsWrittenOnceAndWarnedOfOnce(t *testing.T) {
	count := 0
	p := reserving(policyOn("p", "a", "nowhere"), "10.0.0.5", "fd00::5")
	p.Status.Refusals = []v1alpha1.PolicyRefusal{{Time: metav1.NewMicroTime(now), Service: "ns/x", Message: "full"}}
	s := newStand(t, applies(&count, nil), p)
	r, warned := s.reporter()
	for range 5 {
		if _, err := r.Reconcile(t.Context(), "p"); err != nil {
			t.Fatal(err)
		}
		s.clock.SetTime(s.clock.Now().Add(every))
	}
	if count != 1 || len(warned.Events) != 1 {
		t.Errorf("%d writes and %d events, want 1 of each", count, len(warned.Events))
	}
	got := &v1alpha1.ServiceCIDRPolicy{}
	if err := s.client.Get(t.Context(), client.ObjectKey{Name: "p"}, got); err != nil {
		t.Fatal(err)
	}
	if len(got.Status.Refusals) != 1 || len(got.Status.Conditions) != 3 || got.Status.Summary.Ranges != 2 {
		t.Errorf("status %+v", got.Status)
	}
	if diff := cmp.Diff(int64(254+255), got.Status.Summary.Size); diff != "" {
		t.Errorf("size (-want +got):\n%s", diff)
	}
}

func TestAStatusThatCannotBeWritten(t *testing.T) {
	for name, tc := range map[string]struct {
		err       error
		wantErr   bool
		wantAgain time.Duration
	}{
		"the policy was created anew":  {err: another, wantAgain: every},
		"the policy was deleted":       {err: apierrors.NewNotFound(schema.GroupResource{}, "p"), wantAgain: every},
		"the API server is overloaded": {err: overload, wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			count := 0
			s := newStand(t, applies(&count, tc.err), policyOn("p", "nowhere"))
			r, warned := s.reporter()
			result, err := r.Reconcile(t.Context(), "p")
			if (err != nil) != tc.wantErr || result.RequeueAfter != tc.wantAgain {
				t.Errorf("error %v, again in %v", err, result.RequeueAfter)
			}
			if len(warned.Events) != 0 {
				t.Error("warned of what was not written")
			}
			s.clock.SetTime(now.Add(every))
			if _, err := r.Reconcile(t.Context(), "p"); err != nil || count != 2 || len(warned.Events) != 1 {
				t.Errorf("then: error %v, %d writes, %d events; want none, 2, 1", err, count, len(warned.Events))
			}
		})
	}
}

// allocated is what the API server writes for the address of a Service.
func allocated(a netip.Addr) *networkingv1.IPAddress {
	return bare(v1alpha1.ManagedByAPIServer, "", ofService, 0)(a)
}

// offering is policy number i, which has the ranges of the stand.
func offering(i int) *v1alpha1.ServiceCIDRPolicy { return policyOn(fmt.Sprintf("p%d", i), "a") }

// reports lets a policy be looked at, which should have been written so often then, and should come back in time.
func (s *stand) reports(r *Reporter, what, name string, count *int, wantCount int, wantAgain time.Duration) {
	s.Helper()
	result, err := r.Reconcile(s.Context(), name)
	if err != nil || *count != wantCount || result.RequeueAfter != wantAgain {
		s.Errorf("%s: error %v, %d writes, again in %v; want none, %d, %v", what, err, *count, result.RequeueAfter, wantCount, wantAgain)
	}
}

func TestCountsAreWrittenNowAndThenAndWhatMattersAtOnce(t *testing.T) {
	inBothFamilies(t, func(t *testing.T, a netip.Addr) {
		count := 0
		s := newStand(t, applies(&count, nil), coolingFor(policyOn("p", "a"), time.Hour))
		r, _ := s.reporter()
		later := func(d time.Duration) { s.clock.SetTime(s.clock.Now().Add(d)) }
		s.reports(r, "the first words", "p", &count, 1, 0)
		later(every)
		s.addresses.Add(allocated(a))
		s.reports(r, "one more in use", "p", &count, 1, countsEvery-every)
		later(every)
		s.addresses.Add(cooling("p", 0)(a.Next()))
		s.reports(r, "the first that rests", "p", &count, 2, 0)
		later(every)
		s.addresses.Add(cooling("p", 0)(a.Next().Next()))
		s.reports(r, "the second", "p", &count, 2, countsEvery-every)
		later(countsEvery - every)
		s.reports(r, "its time has come", "p", &count, 3, 0)
		later(every)
		s.reports(r, "nothing new", "p", &count, 3, 0)
	})
}

func TestAllPoliciesTogetherAreWrittenSeldomEnough(t *testing.T) {
	const policies = 3 * writesASecond
	var all []*v1alpha1.ServiceCIDRPolicy
	for i := range policies {
		all = append(all, offering(i))
	}
	count := 0
	s := newStand(t, applies(&count, nil), all...)
	r, _ := s.reporter()
	begin := time.Now()
	for i := range policies {
		if _, err := r.Reconcile(t.Context(), offering(i).Name); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(begin); count != policies || took < 1900*time.Millisecond {
		t.Errorf("%d first words of %d were written in %v", count, policies, took)
	}
	s.clock.SetTime(now.Add(countsEvery))
	s.addresses.Add(allocated(families["IPv4"]))
	r.pace.budget.SetLimit(rate.Every(time.Hour)) // spent, however long the look takes
	for r.pace.budget.Allow() {
	}
	s.reports(r, "counts while the budget is spent", "p0", &count, policies, every)
	r.pace.budget.SetLimit(writesASecond)
	time.Sleep(time.Second / writesASecond)
	s.clock.SetTime(now.Add(countsEvery + every))
	s.reports(r, "counts when there is room", "p0", &count, policies+1, 0)
}

func TestAPolicyWaitsForItsTurn(t *testing.T) {
	count := 0
	s := newStand(t, applies(&count, nil), policyOn("p", "a"))
	r, _ := s.reporter()
	for _, tc := range []struct {
		at, wantAgain time.Duration
	}{{0, 0}, {time.Second, time.Second}, {every, 0}} {
		s.clock.SetTime(now.Add(tc.at))
		if result, err := r.Reconcile(t.Context(), "p"); err != nil || result.RequeueAfter != tc.wantAgain {
			t.Errorf("after %v: error %v, again in %v, want %v", tc.at, err, result.RequeueAfter, tc.wantAgain)
		}
	}
}

func TestAPolicyThatIsNewerThanTheRulesWaitsForThem(t *testing.T) {
	newer, another := policyOn("p", "a"), policyOn("p", "a")
	newer.Generation = 2
	another.UID = "another"
	for name, known := range map[string][]*v1alpha1.ServiceCIDRPolicy{
		"not known at all": nil, "another generation": {newer}, "another policy of that name": {another},
	} {
		t.Run(name, func(t *testing.T) {
			count := 0
			s := newStand(t, applies(&count, nil), policyOn("p", "a"))
			s.policies.Set(steering.Inputs{Policies: known})
			r, _ := s.reporter()
			if result, err := r.Reconcile(t.Context(), "p"); err != nil || result.RequeueAfter != uncompiled || count != 0 {
				t.Errorf("error %v, again in %v, %d writes", err, result.RequeueAfter, count)
			}
		})
	}
}
