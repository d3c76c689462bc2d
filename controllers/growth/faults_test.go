package growth

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/loop"
)

// A cache that lags behind cannot be had on demand. Everything else is tested on an API server.
func TestPublishBelievesTheAPIServer(t *testing.T) {
	full := decide(given(func(in *inputs) { in.obstacles = networks("network corporate", "10.0.0.0/8") }))
	otherwise := decide(given(func(in *inputs) { in.obstacles = networks("network office", "10.0.0.0/8") }))
	free := decide(given(func(*inputs) {}))
	for name, tc := range map[string]struct {
		live         []decision // at most one
		uid          string
		writes, told int
	}{
		"somebody has been told":      {[]decision{full}, "it", 0, 0},
		"in other words":              {[]decision{otherwise}, "it", 1, 0},
		"not yet":                     {nil, "it", 1, 1},
		"what was told is over":       {[]decision{free}, "it", 1, 1},
		"another policy of this name": {nil, "other", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			writes, recorder := 0, events.NewFakeRecorder(9)
			r := &Reconciler{Cluster: loop.Cluster{Events: recorder, Clock: clocktesting.NewFakePassiveClock(now)}}
			r.Client = interceptor.NewClient(nil, interceptor.Funcs{
				Get: func(_ context.Context, _ client.WithWatch, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
					live := blue("it", 0, false)
					live.UID = blue(tc.uid, 0, false).UID
					for _, d := range tc.live {
						for _, c := range d.conditions {
							meta.SetStatusCondition(&live.Status.Conditions, c)
						}
					}
					live.DeepCopyInto(into.(*v1alpha1.ServiceCIDRPolicy))
					return nil
				},
				SubResourceApply: func(context.Context, client.Client, string, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
					writes++
					return nil
				},
			})
			r.Live = r.Client
			if err := r.publish(t.Context(), blue("it", 0, false), full.conditions); err != nil {
				t.Fatal(err)
			}
			if writes != tc.writes || len(recorder.Events) != tc.told {
				t.Errorf("%d writes and %d events, want %d and %d", writes, len(recorder.Events), tc.writes, tc.told)
			}
		})
	}
}
