package service

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/loop"
)

// apiServer has Services and ServiceCIDRs for a Reconciler with an empty index, as after an outage.
type apiServer struct {
	client.Client
	ranges   []string
	listings int
	err      error
	// gone: the Service is in the cache alone.
	gone bool
}

func (a *apiServer) live() client.Reader { return liveReader{a} }

// liveReader reads past the cache.
type liveReader struct{ *apiServer }

func (l liveReader) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	if l.gone {
		return apierrors.NewNotFound(corev1.Resource("services"), key.Name)
	}
	return l.apiServer.Get(ctx, key, o, options...)
}

func (a *apiServer) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	s := o.(*corev1.Service)
	s.Name, s.Namespace, s.UID = key.Name, key.Namespace, "uid"
	s.Spec.ClusterIPs = []string{"10.9.0.7", "fd09::7"}
	return nil
}

func (a *apiServer) List(_ context.Context, o client.ObjectList, _ ...client.ListOption) error {
	a.listings++
	if len(a.ranges) > 0 {
		o.(*networkingv1.ServiceCIDRList).Items = []networkingv1.ServiceCIDR{{Spec: networkingv1.ServiceCIDRSpec{CIDRs: a.ranges}}}
	}
	return a.err
}

// auditor is a Reconciler with its surroundings.
type auditor struct {
	*Reconciler
	api    *apiServer
	clock  *clocktesting.FakePassiveClock
	events *events.FakeRecorder
}

func newAuditor() *auditor {
	a := &auditor{api: &apiServer{}, clock: clocktesting.NewFakePassiveClock(time.Unix(1e9, 0)), events: events.NewFakeRecorder(100)}
	index := addressindex.New()
	index.Declare([]allocator.Range{})
	a.Reconciler = &Reconciler{Cluster: loop.Cluster{Client: a.api, Live: a.api.live(), Index: index, Events: a.events, Clock: a.clock}}
	return a
}

// audit reconciles a Service and returns when it wants to be asked again.
func (a *auditor) audit(t *testing.T, name string) time.Duration {
	t.Helper()
	result, err := a.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "ns", Name: name}})
	if err != nil {
		t.Fatal(err)
	}
	return result.RequeueAfter
}

// believed audits a Service until its complaint has lasted.
func (a *auditor) believed(t *testing.T) time.Duration {
	t.Helper()
	if left := a.audit(t, "s"); left != confirmFor {
		t.Fatalf("a new complaint is to be looked at again after %s", left)
	}
	a.clock.SetTime(a.clock.Now().Add(confirmFor))
	return a.audit(t, "s")
}

func TestAServiceOutOfAllRangesIsReported(t *testing.T) {
	a := newAuditor()
	a.api.ranges = []string{"10.9.0.8/29", "fd08::/64"}
	if left := a.believed(t); left != 0 || len(a.events.Events) != 2 {
		t.Errorf("again after %s, %d events", left, len(a.events.Events))
	}
}

// After an outage the watch of ServiceCIDRs may be behind that of Services by half a minute.
func TestAServiceIsNotReportedWhileTheIndexIsBehind(t *testing.T) {
	a := newAuditor()
	a.api.ranges = []string{"10.9.0.0/24", "fd09::/64"}
	if left := a.believed(t); left != confirmFor || len(a.events.Events) != 0 {
		t.Errorf("again after %s, %d events", left, len(a.events.Events))
	}
	if n := a.Tracker.Count(); len(n) != 0 {
		t.Errorf("drift of a healthy Service: %v", n)
	}
	a.api.ranges = []string{"10.9.0.0/24"} // it goes before the address index knows it
	a.clock.SetTime(a.clock.Now().Add(confirmFor))
	a.believed(t)
	if len(a.events.Events) != 1 {
		t.Errorf("%d events", len(a.events.Events))
	}
}

func TestAServiceThatIsGoneIsNotReported(t *testing.T) {
	a := newAuditor()
	a.api.gone = true
	if left := a.believed(t); left != 0 || len(a.events.Events) != 0 || len(a.Tracker.Count()) != 0 {
		t.Errorf("again after %s, %d events, drift %v", left, len(a.events.Events), a.Tracker.Count())
	}
}

func TestThousandsOfComplaintsAreSettledByOneListing(t *testing.T) {
	a := newAuditor()
	for _, name := range []string{"a", "b", "c"} {
		a.audit(t, name)
	}
	a.clock.SetTime(a.clock.Now().Add(confirmFor))
	for _, name := range []string{"a", "b", "c"} {
		a.audit(t, name)
	}
	if a.api.listings != 1 || len(a.events.Events) != 6 {
		t.Errorf("%d listings, %d events", a.api.listings, len(a.events.Events))
	}
}

// What cannot be confirmed is not reported.
func TestAComplaintWaitsForTheAPIServer(t *testing.T) {
	a := newAuditor()
	a.audit(t, "s")
	a.clock.SetTime(a.clock.Now().Add(confirmFor))
	a.api.err = errors.New("away")
	_, err := a.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "ns", Name: "s"}})
	if !errors.Is(err, a.api.err) || len(a.events.Events) != 0 {
		t.Errorf("%v, %d events", err, len(a.events.Events))
	}
	a.api.err = nil
	a.audit(t, "s")
	if len(a.events.Events) != 2 {
		t.Errorf("%d events", len(a.events.Events))
	}
}
