package watch

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// renumbering is a Service between the two updates, with an annotation that any tenant may write.
func renumbering(s *corev1.Service) {
	externalName(s)
	s.Spec.ClusterIP, s.Spec.ExternalName = "", v1alpha1.ExternalNameRenumbering
	s.Annotations = map[string]string{v1alpha1.AnnotationRenumbering: `{"clusterIPs":["10.96.0.99"]}`}
}

// held is a Service as it was before, with other endpoints.
func held(s *model.Service, endpoints ...string) *model.Service {
	out := *s
	out.Held, out.Endpoints = true, web(endpoints...).Endpoints
	return &out
}

// all is a Service with everything that one can have.
func all(s *corev1.Service) {
	loadBalancer("192.0.2.1")(s)
	sources("10.0.0.0/8")(s)
	localPolicy(s)
	affinity(clientIP(new(int32(42))))(s)
	s.Spec.ClusterIPs = []string{"10.96.0.10", "fd00::10"}
	s.Spec.ExternalIPs, s.Spec.Ports[0].NodePort = []string{"192.0.2.2"}, 30080
}

// wantHeld wants that web is held as it was last, and nothing else to have happened.
func (w *fixture) wantHeld(last *model.Service, endpoints ...string) {
	w.t.Helper()
	w.wantTakeOf("web", held(last, endpoints...))
}

// wantTakeOf wants news of one Service.
func (w *fixture) wantTakeOf(name string, want *model.Service) {
	w.t.Helper()
	got := w.take()
	got.ServiceEvents, got.EndpointEvents = 0, 0
	w.wantChanges(model.Changes{Services: services(map[string]*model.Service{name: want})}, got)
}

func TestAServiceThatIsRenumberedIsHeldAsItWas(t *testing.T) {
	inFixture(t, func(w *fixture) {
		before, _ := convertService(newService("web", "10.96.0.10", all))
		w.set(newService("web", "10.96.0.10", all))
		w.start(Options{})
		w.take()
		w.set(newService("web", "", renumbering))
		if !w.woken() {
			t.Error("not woken")
		}
		w.wantHeld(&before.model, "10.0.0.1", "10.0.0.2")

		w.set(newSlice("web-1", "web", at("10.0.0.7")))
		w.wantHeld(&before.model, "10.0.0.7", "10.0.0.2")
		w.set(newService("web", "", renumbering, func(s *corev1.Service) { s.Annotations[v1alpha1.AnnotationRenumbering] = "again" }))
		w.unseen(func() {})
		w.pass(holdFor - time.Second)
		w.wantSleep("the annotation changed, and everything was listed again")

		w.pass(time.Second)
		w.wantTakeOf("web", nil)
		w.set(newSlice("web-1", "web", at("10.0.0.8")))
		w.set(newService("web", "", renumbering))
		w.pass(2 * holdFor)
		w.wantSleep("its time was over")

		w.set(newService("web", "10.96.0.11"))
		w.wantTakeOf("web", wantService("web", "10.96.0.11", "10.0.0.8", "10.0.0.2"))
		w.set(newService("web", "", renumbering))
		w.wantHeld(wantService("web", "10.96.0.11"), "10.0.0.8", "10.0.0.2")
	}, smallCluster()...)
}

// TestABalancerIsHeldUntilItHasItsStatus: a load balancer with its type back, but not its status.
func TestABalancerIsHeldUntilItHasItsStatus(t *testing.T) {
	waiting := func(s *corev1.Service) {
		s.Spec.Type = corev1.ServiceTypeLoadBalancer
		s.Annotations = map[string]string{v1alpha1.AnnotationRenumbering: "{}"}
	}
	inFixture(t, func(w *fixture) {
		before, _ := convertService(newService("web", "10.96.0.10", all))
		after, _ := convertService(newService("web", "10.96.0.11", loadBalancer("192.0.2.1")))
		w.set(newService("web", "10.96.0.10", all))
		w.start(Options{})
		w.take()
		w.set(newService("web", "", renumbering))
		w.wantHeld(&before.model, "10.0.0.1", "10.0.0.2")
		w.set(newService("web", "10.96.0.11", waiting))
		w.wantHeld(&before.model, "10.0.0.1", "10.0.0.2")
		w.set(newService("web", "10.96.0.11", loadBalancer("192.0.2.1"), func(s *corev1.Service) { s.Annotations = map[string]string{v1alpha1.AnnotationRenumbering: "{}"} }))
		want := after.model
		want.Endpoints = web("10.0.0.1", "10.0.0.2").Endpoints
		w.wantTakeOf("web", &want)

		w.set(newService("web", "", renumbering))
		w.take()
		w.set(newService("web", "10.96.0.11", waiting))
		w.take()
		w.pass(holdFor)
		w.wantTakeOf("web", wantService("web", "10.96.0.11", "10.0.0.1", "10.0.0.2"))
	}, smallCluster()...)
}

// TestTheEndOfAHold has what ends it at once, and once only.
func TestTheEndOfAHold(t *testing.T) {
	younger := func(s *corev1.Service) { s.CreationTimestamp = metav1.NewTime(longAgo.Add(time.Second)) }
	for name, tc := range map[string]struct {
		happens func(*fixture)
		want    *model.Service
	}{
		"it is served again": {
			set(newService("web", "10.96.0.11")), wantService("web", "10.96.0.11", "10.0.0.1", "10.0.0.2"),
		},
		"it is deleted":                {func(w *fixture) { w.remove(newService("web", "")) }, nil},
		"it is an alias for good":      {set(newService("web", "", externalName)), nil},
		"it has no address":            {set(newService("web", "")), nil},
		"it was deleted in an outage":  {func(w *fixture) { w.unseen(func() { w.remove(newService("web", "")) }) }, nil},
		"another one took its name":    {set(newService("web", "", renumbering, younger)), nil},
		"an alias, and then once more": {set(newService("web", "", externalName), newService("web", "", renumbering)), nil},
	} {
		t.Run(name, func(t *testing.T) {
			inFixture(t, func(w *fixture) {
				w.start(Options{})
				w.take()
				w.set(newService("web", "", renumbering))
				w.wantHeld(web(), "10.0.0.1", "10.0.0.2")
				tc.happens(w)
				w.pass(holdFor / 2) // lists after an outage take a while
				w.wantTakeOf("web", tc.want)
				w.pass(2 * holdFor)
				w.wantSleep("the end of its time")
			}, smallCluster()...)
		})
	}
}

// TestNothingIsHeldThatWasNotServed: Services unknown to the agent, several updates in one Take.
func TestNothingIsHeldThatWasNotServed(t *testing.T) {
	younger := func(s *corev1.Service) { s.CreationTimestamp = metav1.NewTime(longAgo.Add(time.Second)) }
	again := newService("web", "10.96.0.11")
	for name, tc := range map[string]struct {
		before *corev1.Service
		then   func(*fixture)
		want   *model.Service
	}{
		"when the agent starts":   {newService("web", "", renumbering), func(*fixture) {}, nil},
		"an alias":                {newService("web", "", externalName), set(newService("web", "", renumbering)), nil},
		"headless":                {newService("web", ""), set(newService("web", "", renumbering)), nil},
		"an alias in between":     {newService("web", "10.96.0.10"), set(newService("web", "", externalName), newService("web", "", renumbering)), nil},
		"a type that is not it":   {newService("web", "10.96.0.10"), set(newService("web", "", renumbering, func(s *corev1.Service) { s.Spec.Type = "ClusterIP" })), nil},
		"another one of its name": {newService("web", "10.96.0.10"), func(w *fixture) { w.unseen(func() { w.set(newService("web", "", renumbering, younger)) }) }, nil},
		"served again":            {newService("web", "10.96.0.10"), set(newService("web", "", renumbering), again), wantService("web", "10.96.0.11", "10.0.0.1", "10.0.0.2")},
		"served again, and held":  {newService("web", "10.96.0.10"), set(newService("web", "", renumbering), again, newService("web", "", renumbering)), held(wantService("web", "10.96.0.11"), "10.0.0.1", "10.0.0.2")},
		"held after an outage":    {newService("web", "10.96.0.10"), func(w *fixture) { w.unseen(func() { w.set(newService("web", "", renumbering)) }) }, held(web(), "10.0.0.1", "10.0.0.2")},
	} {
		t.Run(name, func(t *testing.T) {
			inFixture(t, func(w *fixture) {
				w.set(tc.before)
				w.start(Options{})
				sum := history{fixture: w}
				sum.add(w.take())
				tc.then(w)
				w.pass(holdFor / 2)
				sum.add(w.take())
				got, served := sum.sum.Services[web().Name]
				if served != (tc.want != nil) {
					t.Fatalf("served %t: %+v", served, got)
				}
				if served {
					w.wantChanges(model.Changes{Services: services(map[string]*model.Service{"web": tc.want})},
						model.Changes{Services: services(map[string]*model.Service{"web": &got})})
				}
			}, smallCluster()...)
		})
	}
}

// TestHoldsEndOneByOne has several Services, of each of which the time begins for itself.
func TestHoldsEndOneByOne(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.start(Options{})
		w.take()
		for _, name := range []string{"web", "other"} {
			w.set(newService(name, "", renumbering))
			w.pass(holdFor / 4)
		}
		w.take()
		w.pass(holdFor / 2)
		w.wantTakeOf("web", nil)
		w.pass(holdFor/4 - 1)
		w.wantSleep("the first one's time is over")
		w.pass(1)
		w.wantTakeOf("other", nil)
	}, smallCluster()...)
}

// TestTheStoreIsAheadOfTheEvents has a Take after the store has an update, but before its event.
func TestTheStoreIsAheadOfTheEvents(t *testing.T) {
	const key, name = "ns/service-00007", "service-00007"
	s := filled(t, 10)
	s.pending.open()
	before, _ := s.services.get(key)
	take := func() (*model.Service, bool) {
		s.pending.mark(func(b *batch) { b.services[before.model.Name] = struct{}{} })
		got, told := s.Take().Services[before.model.Name]
		return got, told
	}
	then, _ := convertService(newService(name, "", renumbering))
	store(t, s.services.shared, then)
	if got, told := take(); told {
		t.Errorf("before the event: told %+v", got)
	}
	s.serviceChanged(change[*service]{old: before, new: then})
	if got, _ := take(); got == nil || !got.Held {
		t.Errorf("after the event: got %+v", got)
	}
	alias, _ := convertService(newService(name, "", externalName))
	s.serviceChanged(change[*service]{old: then, new: alias}) // and back in the store already
	if got, told := take(); told {
		t.Errorf("after it was an alias: told %+v", got)
	}
	s.serviceChanged(change[*service]{old: alias, new: then})
	if got, told := take(); !told || got != nil {
		t.Errorf("after the last event: told %t, %+v", told, got)
	}
}
