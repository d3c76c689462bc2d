package policy

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/loop"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
)

// What an API server answers too rarely on demand. How objects behave is tested on a real one.

// fixture is a Reconciler of one policy without its ServiceCIDR; the first write is an error.
type fixture struct {
	*Reconciler
	clock  *clocktesting.FakePassiveClock
	policy *v1alpha1.ServiceCIDRPolicy
	fails  error
	writes int
	events *events.FakeRecorder
}

func newFixture(fails error) *fixture {
	f := &fixture{clock: clocktesting.NewFakePassiveClock(now), fails: fails, events: events.NewFakeRecorder(10), policy: &v1alpha1.ServiceCIDRPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "p", Generation: 1}, Spec: v1alpha1.ServiceCIDRPolicySpec{ServiceCIDRs: []string{"nowhere"}},
		Status: v1alpha1.ServiceCIDRPolicyStatus{Refusals: []v1alpha1.PolicyRefusal{{Service: "ns/x"}}},
	}}
	f.Reconciler = &Reconciler{Cluster: loop.Cluster{Index: addressindex.NewWithClock(f.clock), Events: f.events, Clock: f.clock}}
	f.compile(f.policy.DeepCopy())
	f.Client = interceptor.NewClient(nil, interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
			f.policy.DeepCopyInto(into.(*v1alpha1.ServiceCIDRPolicy))
			return nil
		},
		SubResourceApply: func(_ context.Context, _ client.Client, _ string, o runtime.ApplyConfiguration, _ ...client.SubResourceApplyOption) error {
			if f.writes++; f.writes == 1 && f.fails != nil {
				return f.fails
			}
			body, err := json.Marshal(o)
			return errors.Join(err, json.Unmarshal(body, f.policy))
		},
	})
	return f
}

func (f *fixture) compile(policies ...*v1alpha1.ServiceCIDRPolicy) {
	f.Policies = steering.NewCache()
	f.Policies.Set(steering.Inputs{Policies: policies})
}

// reconcile looks at the policy after a while, and compares error, return, writes and warnings.
func (f *fixture) reconcile(t *testing.T, after time.Duration, wantErr bool, wantAgain time.Duration, wantWrites, wantEvents int) {
	t.Helper()
	f.clock.SetTime(f.clock.Now().Add(after))
	result, err := f.Reconcile(t.Context(), "p")
	if (err != nil) != wantErr || result.RequeueAfter != wantAgain || f.writes != wantWrites || len(f.events.Events) != wantEvents {
		t.Errorf("error %v, again in %v, %d writes, %d events; want an error: %v, again in %v, %d, %d",
			err, result.RequeueAfter, f.writes, len(f.events.Events), wantErr, wantAgain, wantWrites, wantEvents)
	}
}

func TestAStatusIsWrittenOnceAndWarnedOfOnce(t *testing.T) {
	policies := v1alpha1.GroupVersion.WithResource("servicecidrpolicies").GroupResource()
	for name, tc := range map[string]struct {
		err       error
		wantErr   bool
		wantAgain time.Duration
	}{
		"the policy was created anew":  {err: apierrors.NewConflict(policies, "p", errors.New("another UID")), wantAgain: every},
		"the policy was deleted":       {err: apierrors.NewNotFound(policies, "p"), wantAgain: every},
		"the API server is overloaded": {err: apierrors.NewInternalError(errors.New("etcd is slow")), wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(tc.err)
			f.reconcile(t, 0, tc.wantErr, tc.wantAgain, 1, 0) // no event warns of what was not written
			f.reconcile(t, every-time.Second, false, time.Second, 1, 0)
			f.reconcile(t, time.Second, false, 0, 2, 1)
			f.reconcile(t, every, false, 0, 2, 1)
			if len(f.policy.Status.Refusals) != 1 || len(f.policy.Status.Conditions) != 4 {
				t.Errorf("status %+v", f.policy.Status)
			}
		})
	}
}

func TestAPolicyThatIsNewerThanTheCompiledOnesWaitsForThem(t *testing.T) {
	f := newFixture(nil)
	newer, another := f.policy.DeepCopy(), f.policy.DeepCopy()
	newer.Generation, another.UID = 2, "another"
	for name, known := range map[string][]*v1alpha1.ServiceCIDRPolicy{
		"not known at all": nil, "another generation": {newer}, "another policy of that name": {another},
	} {
		t.Run(name, func(t *testing.T) {
			f.compile(known...)
			f.reconcile(t, 0, false, uncompiled, 0, 0)
		})
	}
}

// Server-side apply removes what a manager applied once and then omits: refusals are never in it.
func TestRefusalsAreNotApplied(t *testing.T) {
	f := newFixture(nil)
	full := v1alpha1.ServiceCIDRPolicyStatus{ObservedGeneration: 1, Refusals: []v1alpha1.PolicyRefusal{{Service: "ns/y"}}}
	f.policy.UID = "" // the apply brings it
	if _, err := f.publish(t.Context(), &v1alpha1.ServiceCIDRPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "p"}}, full, &turn{}); err != nil {
		t.Fatal(err)
	}
	if got := f.policy.Status.Refusals; len(got) != 1 || got[0].Service != "ns/x" {
		t.Errorf("refusals %v are applied", got)
	}
	if uid := f.policy.UID; uid != "p" {
		t.Errorf("applied to UID %q, want p", uid)
	}
}
