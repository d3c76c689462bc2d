package additional

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/loop"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
)

// teller is a Reconciler without a cluster: it tells what it is given.
type teller struct {
	*Reconciler
	events *events.FakeRecorder
}

func newTeller() teller {
	recorder := events.NewFakeRecorder(10_000)
	return teller{&Reconciler{Cluster: loop.Cluster{Events: recorder}, Policies: steering.NewCache(), limits: lru.New(namespaces)}, recorder}
}

// lacks has a Service lack addresses for so many seconds now, for these reasons, and returns what
// was told and when to look again.
func (r teller) lacks(t *testing.T, namespace, name string, seconds int, reasons ...string) (told int, again time.Duration) {
	t.Helper()
	in := inputs{
		now: time.Unix(1000+int64(seconds), 0), name: types.NamespacedName{Namespace: namespace, Name: name}, service: &service{uid: types.UID("uid of " + name), version: "1"},
	}
	before := len(r.events.Events)
	result, err := r.act(t.Context(), in, decision{complaints: reasons})
	if err != nil {
		t.Fatal(err)
	}
	return len(r.events.Events) - before, result.RequeueAfter
}

// What only a policy, a ServiceCIDR or the Service can change is told once, and not looked for.
func TestAComplaintIsToldOnceAndNotPolled(t *testing.T) {
	r := newTeller()
	for _, step := range []struct {
		seconds, told int
		again         time.Duration
		reasons       []string
	}{
		{0, 0, 2 * time.Second, []string{"ServiceCIDR a does not exist"}},
		{1, 0, time.Second, []string{"ServiceCIDR a does not exist"}},
		{2, 1, 0, []string{"ServiceCIDR a does not exist"}},
		{900, 0, 0, []string{"ServiceCIDR a does not exist"}},
		{901, 1, 0, []string{"ServiceCIDR a does not exist", "ServiceCIDR b does not exist"}},
		{902, 0, 0, []string{"ServiceCIDR b does not exist"}},
	} {
		told, again := r.lacks(t, "shop", "web", step.seconds, step.reasons...)
		if told != step.told || again != step.again {
			t.Errorf("after %d s: told %d times, next look in %s; want %d and %s", step.seconds, told, again, step.told, step.again)
		}
	}
}

// A tenant may write other Services, which lack other addresses, again and again. That costs a
// number of events that does not depend on it, and no memory; other namespaces notice nothing.
func TestComplaintsHaveARate(t *testing.T) {
	r := newTeller()
	for minute := range 10 {
		for i := range 300 {
			r.lacks(t, "hostile", fmt.Sprint("s", i), 60*minute, "no reason")
		}
		for i := range 300 {
			r.lacks(t, "hostile", fmt.Sprint("s", i), 60*minute+2, fmt.Sprint("reason ", minute))
		}
	}
	if told, want := len(r.events.Events), tellBurst+9*6; told > want+1 || told < want-1 {
		t.Errorf("told %d times in 9 minutes, want about %d", told, want)
	}
	r.lacks(t, "friendly", "web", 600, "reason")
	if n, _ := r.lacks(t, "friendly", "web", 602, "reason"); n != 1 {
		t.Errorf("another namespace was told %d times", n)
	}
	known, _ := r.waiting.Load(types.NamespacedName{Namespace: "hostile", Name: "s0"})
	if n := len(known.(*wait).told); n > 1 {
		t.Errorf("%d complaints are remembered", n)
	}
}

// A Service that is woken by nothing but the time waits on, without a request, until a range has
// room.
func TestWaitingForRoomAsksTheIndexAlone(t *testing.T) {
	r := newTeller()
	in := inputs{now: time.Unix(1000, 0), name: types.NamespacedName{Namespace: "shop", Name: "web"}, service: &service{version: "1"}}
	if d := r.pause(in); d != 0 {
		t.Errorf("a Service of which nothing is known waits for %s", d)
	}
	w := &wait{since: in.now.Add(-10 * time.Second), version: "1", policies: r.Policies.Current()}
	r.waiting.Store(in.name, w)
	if d := r.pause(in); d != 0 {
		t.Errorf("a Service that waits for something else looks again in %s", d)
	}
}

// An event reaches a Service that is known, so that nothing of it stays behind, and otherwise only
// one that asks.
func TestConcerns(t *testing.T) {
	r := newTeller()
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: map[string]string{v1alpha1.AnnotationAdditionalFrom: "a"}}}
	if !r.concerns(s) {
		t.Error("one that asks is passed over")
	}
	s.Annotations = nil
	r.asks.Store(types.NamespacedName{Namespace: "shop", Name: "web"}, nil)
	if !r.concerns(s) {
		t.Error("one that has asked is passed over")
	}
}

// The labels of a namespace wake its Services alone.
func TestWaitingIn(t *testing.T) {
	r := newTeller()
	for _, name := range []types.NamespacedName{{Namespace: "shop", Name: "a"}, {Namespace: "other", Name: "b"}} {
		r.waiting.Store(name, &wait{})
	}
	got := r.waitingIn(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	if diff := cmp.Diff([]reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: "shop", Name: "a"}}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
