package history

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/clusterip-operator/clusterip-operator/internal/history"
)

// A ConfigMap that an admin has made immutable, or that no role names, keeps no other one waiting.
func TestAConfigMapThatIsRefusedWaitsAlone(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	const unreadable, immutable, fine = "10.0.0.6", "10.0.0.7", "fd00::8"
	name := func(a string) string { return history.NameOf(history.ShardOf(netip.MustParseAddr(a))) }
	refused, tried := errors.New("refused"), map[string]int{}
	c := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			if key.Name == name(unreadable) {
				tried["read "+unreadable]++
				return refused
			}
			return c.Get(ctx, key, o, options...)
		},
		Apply: func(_ context.Context, _ client.WithWatch, o runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
			written := o.(*corev1ac.ConfigMapApplyConfiguration).WithResourceVersion("1")
			tried["write "+*written.Name]++
			if *written.Name == name(immutable) {
				return refused
			}
			return nil
		},
	}).Build()
	clk := clocktesting.NewFakePassiveClock(now)
	r := &Recorder{Client: c, Live: c, Clock: clk, Namespace: "x", Owners: 5, ledger: history.NewLedger(5), log: newChangeLog(logr.Discard())}
	for i, a := range []string{unreadable, immutable, fine} {
		at := now.Add(time.Duration(i) * time.Millisecond)
		r.ledger.Begin(history.Record{Address: netip.MustParseAddr(a), Service: types.NamespacedName{Namespace: "shop", Name: "web"}, UID: "u", Came: history.Created, From: history.At(at)}, at)
	}
	for range history.Shards + 120 { // all are read, then two minutes, a step a second
		_, err := r.step(t.Context(), clk.Now())
		if err != nil && !errors.Is(err, refused) {
			t.Fatal(err)
		}
		clk.SetTime(clk.Now().Add(pace))
	}
	if tried["read "+unreadable] < 3 || tried["write "+name(immutable)] < 3 {
		t.Errorf("what is refused is not tried again: %v", tried)
	}
	want := map[string]int{"read " + unreadable: tried["read "+unreadable], "write " + name(immutable): tried["write "+name(immutable)], "write " + name(fine): 1}
	if diff := cmp.Diff(want, tried); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
