package servicecidr

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/loop"
	"github.com/clusterip-operator/clusterip-operator/internal/refusal"
)

// Conditions name the version after the finalizers' patch, or new ServiceCIDRs cost refused writes.
func TestConditionsFollowTheFinalizers(t *testing.T) {
	before := ready()
	before.LastTransitionTime = metav1.NewTime(now.AddDate(0, 0, -1)) // written by another client after the cache was filled
	applied := &networkingv1.ServiceCIDR{}
	c := interceptor.NewClient(nil, interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
			into.SetName(key.Name)
			into.SetResourceVersion("1")
			return nil
		},
		Patch: func(_ context.Context, _ client.WithWatch, o client.Object, _ client.Patch, _ ...client.PatchOption) error {
			o.SetResourceVersion("2")
			o.SetFinalizers([]string{v1alpha1.FinalizerServiceCIDR})
			o.(*networkingv1.ServiceCIDR).Status.Conditions = []metav1.Condition{before}
			return nil
		},
		SubResourceApply: func(_ context.Context, _ client.Client, _ string, o runtime.ApplyConfiguration, _ ...client.SubResourceApplyOption) error {
			body, err := json.Marshal(o)
			return errors.Join(err, json.Unmarshal(body, applied))
		},
	})
	clock := clocktesting.NewFakePassiveClock(now)
	r := &Reconciler{Cluster: loop.Cluster{Client: c, Index: addressindex.NewWithClock(clock), Clock: clock}, APIVersion: "networking.k8s.io/v1", Refusals: &refusal.Board{}}
	if result, err := r.Reconcile(t.Context(), "new"); err != nil || result.RequeueAfter < step || result.RequeueAfter > step*6/5 {
		t.Fatalf("again in %v, error %v; want %v or a fifth more, none", result.RequeueAfter, err, step)
	}
	written := meta.FindStatusCondition(applied.Status.Conditions, before.Type)
	if applied.ResourceVersion != "2" || written == nil || !written.LastTransitionTime.Equal(&before.LastTransitionTime) {
		t.Errorf("applied to version %q with Ready %v, want version 2 and what it has: %v", applied.ResourceVersion, written, before)
	}
}
