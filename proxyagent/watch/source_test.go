package watch

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

func TestFirstTakeTellsEverything(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.start(Options{})
		if !w.ready() || !w.woken() {
			t.Fatalf("not ready, or ready without a token: %q", w.log.all)
		}
		w.wantTake(model.Changes{
			Services: services(map[string]*model.Service{
				"web":   wantService("web", "10.96.0.10", "10.0.0.1", "10.0.0.2"),
				"empty": wantService("empty", "10.96.0.11"),
			}),
			Allocations:   wantAllocations(map[string]string{"10.96.0.10": "web", "10.96.0.11": "empty"}),
			Ranges:        wantRanges("10.96.0.0/16", "fd00::/112"),
			Node:          wantNode(false),
			ServiceEvents: 2,
		})
		w.wantSleep("the first Take")
	},
		newService("web", "10.96.0.10"), newService("empty", "10.96.0.11"), newSlice("web-1", "web", at("10.0.0.1", "10.0.0.2")),
		newIPAddress("10.96.0.10", "web"), newIPAddress("10.96.0.11", "empty"),
		newCIDR("kubernetes", "10.96.0.0/16", "fd00::/112"), newNode("here"),
	)
}

// smallCluster has one of each kind: web with two slices, other, and alias without virtual IP.
func smallCluster() []apiObject {
	return []apiObject{
		newService("web", "10.96.0.10"), newSlice("web-1", "web", at("10.0.0.1")), newSlice("web-2", "web", at("10.0.0.2")),
		newService("other", "10.96.0.20"), newService("alias", "", externalName),
		newIPAddress("10.96.0.10", "web"), newCIDR("kubernetes", "10.96.0.0/16"), newNode("here"),
	}
}

func externalName(s *corev1.Service) {
	s.Spec.Type, s.Spec.ExternalName, s.Spec.ClusterIPs = corev1.ServiceTypeExternalName, "example.com", nil
}

func set(objects ...apiObject) func(*fixture) { return func(w *fixture) { w.set(objects...) } }

// web is the Service of smallCluster with these endpoints.
func web(endpoints ...string) *model.Service { return wantService("web", "10.96.0.10", endpoints...) }

func TestEventsTellWhatTheyConcern(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.start(Options{})
		w.take()
		news := func(want model.Changes) {
			t.Helper()
			if !w.woken() || w.woken() {
				t.Error("not woken, or twice")
			}
			w.wantTake(want)
			w.wantSleep("all was taken")
		}
		about := func(name string, s *model.Service) map[model.ServiceName]*model.Service {
			return services(map[string]*model.Service{name: s})
		}

		w.set(newSlice("late-1", "late", at("10.0.0.3")))
		w.wantSleep("a slice without Service")
		w.set(newService("late", "10.96.0.40"))
		news(model.Changes{Services: about("late", wantService("late", "10.96.0.40", "10.0.0.3")), ServiceEvents: 1})

		w.set(newSlice("alias-1", "alias", at("10.0.0.4")))
		w.wantSleep("a slice of an alias")
		w.set(newService("alias", "10.96.0.41"))
		news(model.Changes{Services: about("alias", wantService("alias", "10.96.0.41", "10.0.0.4")), ServiceEvents: 1})
		w.set(newService("alias", "", externalName))
		news(model.Changes{Services: about("alias", nil), ServiceEvents: 1})

		w.set(newSlice("web-1", "other", at("10.0.0.1"))) // it moves
		news(model.Changes{Services: services(map[string]*model.Service{
			"web": web("10.0.0.2"), "other": wantService("other", "10.96.0.20", "10.0.0.1"),
		})})
		w.set(newSlice("web-1", "", at("10.0.0.1"))) // it loses its label
		news(model.Changes{Services: about("other", wantService("other", "10.96.0.20"))})
		w.set(newSlice("web-1", "web", func(s *discoveryv1.EndpointSlice) { s.Namespace = "elsewhere" }, at("10.0.0.7")))
		w.wantSleep("a slice of elsewhere/web")

		for _, address := range []string{"10.0.0.9", "10.0.0.8", "10.0.0.1"} { // many events before one Take
			w.set(newSlice("web-1", "web", at(address)))
		}
		w.remove(newIPAddress("10.96.0.10", "web"))
		w.set(newIPAddress("10.96.0.10", "other"))
		news(model.Changes{Services: about("web", web("10.0.0.1", "10.0.0.2")), Allocations: wantAllocations(map[string]string{"10.96.0.10": "other"})})

		leaving := newCIDR("kubernetes", "10.96.0.0/16")
		leaving.DeletionTimestamp, leaving.Finalizers = &longAgo, []string{"x"}
		w.set(leaving)
		news(model.Changes{Ranges: wantRanges()})
		w.remove(leaving)
		w.wantSleep("the end of a ServiceCIDR that was leaving")
		w.remove(newNode("here")) // it stays known
		news(model.Changes{Node: wantNode(true)})
		w.set(newNode("here", func(n *corev1.Node) { n.Status, n.Spec = corev1.NodeStatus{}, corev1.NodeSpec{} })) // made again
		news(model.Changes{Node: wantNode(false)})
		w.set(newNode("here", func(n *corev1.Node) {
			n.Status.Addresses, n.Spec.PodCIDRs = n.Status.Addresses[2:], []string{"10.244.2.0/24"}
		}))
		moved := wantNode(false)
		moved.IPs, moved.PodCIDRs = addrs("192.0.2.1"), prefixes("10.244.2.0/24")
		news(model.Changes{Node: moved})
		w.set(newNode("here"))
		news(model.Changes{Node: wantNode(false)})

		later := metav1.NewTime(longAgo.Add(time.Hour))
		w.unseen(func() {
			w.remove(newService("web", "10.96.0.10"))
			w.set(newService("web", "10.96.0.10", func(s *corev1.Service) { s.CreationTimestamp = later }))
		})
		w.pass(time.Minute)
		reborn := web("10.0.0.1", "10.0.0.2")
		reborn.Created = later.UTC()
		news(model.Changes{Services: about("web", reborn), ServiceEvents: 1})
	}, smallCluster()...)
}

// Services that another proxy serves are told with what they claim, and without endpoints.
func TestServicesOfOtherProxies(t *testing.T) {
	labelled := func(value string) func(*corev1.Service) {
		return func(s *corev1.Service) {
			s.Labels = map[string]string{labelProxyName: value}
			s.Spec.ExternalIPs, s.Spec.LoadBalancerSourceRanges = []string{"203.0.113.7"}, []string{"192.0.2.0/24"}
			s.Annotations = map[string]string{"clusterip-operator.io/endpoint-weights": "topology.kubernetes.io/zone=a:3"}
		}
	}
	foreign := wantService("web", "10.96.0.10")
	foreign.Foreign, foreign.ExternalIPs = true, []netip.Addr{netip.MustParseAddr("203.0.113.7")}
	for proxy, values := range map[string][]string{"": {"x", ""}, "mine": {"x", "", "Mine"}} {
		for _, value := range values {
			inFixture(t, func(w *fixture) {
				w.start(Options{ProxyName: proxy})
				w.wantTake(model.Changes{
					Services: services(map[string]*model.Service{"web": foreign}), ServiceEvents: 1,
				})
				w.set(newSlice("web-1", "web", at("10.0.0.1", "10.0.0.2")), newService("web", "10.96.0.10", labelled(value), func(s *corev1.Service) {
					s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
				}))
				w.wantSleep("what is for its own proxy")
				ours := newService("web", "10.96.0.10")
				if proxy != "" {
					ours.Labels = map[string]string{labelProxyName: proxy}
				}
				w.set(ours)
				w.wantTake(model.Changes{Services: services(map[string]*model.Service{"web": web("10.0.0.1", "10.0.0.2")}), ServiceEvents: 1})
				w.set(newService("web", "10.96.0.10", labelled(value)))
				w.wantTake(model.Changes{Services: services(map[string]*model.Service{"web": foreign}), ServiceEvents: 1})
				w.remove(ours)
				w.wantTake(model.Changes{Services: services(map[string]*model.Service{"web": nil}), ServiceEvents: 1})
			}, newService("web", "10.96.0.10", labelled(value)))
		}
	}
}

func TestEventsWithoutMeaningDoNotWake(t *testing.T) {
	labelled := newCIDR("kubernetes", "10.96.0.0/16")
	labelled.Labels = map[string]string{"a": "b"}
	tests := map[string]func(w *fixture){
		"the status of a Service": set(newService("web", "10.96.0.10", func(s *corev1.Service) {
			s.Status.Conditions = []metav1.Condition{{Type: "x"}}
		})),
		"annotations and labels of a Service": set(newService("web", "10.96.0.10", func(s *corev1.Service) {
			s.Annotations, s.Labels = map[string]string{"a": "b"}, map[string]string{"c": "d"}
			s.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x"}}
		})),
		"another alias": set(newService("alias-2", "", externalName)),
		"an alias changes": set(newService("alias", "", externalName, func(s *corev1.Service) {
			s.Spec.ExternalName = "other.example.com"
		})),
		"an alias is deleted": func(w *fixture) {
			w.set(newService("short", "", externalName))
			w.remove(newService("short", ""))
		},
		"annotations of a slice": set(newSlice("web-1", "web", at("10.0.0.1"), triggeredAt(time.Now().Add(time.Hour)),
			func(s *discoveryv1.EndpointSlice) { s.Labels["x"] = "y" })),
		"a pod that is behind an address": set(newSlice("web-1", "web", at("10.0.0.1"), func(s *discoveryv1.EndpointSlice) {
			s.Endpoints[0].TargetRef = &corev1.ObjectReference{Name: "pod"}
			s.Endpoints[0].Conditions.Ready = new(true)
		})),
		"a slice without label": set(newSlice("free", "", at("10.0.0.3"))),
		"a slice of names": set(newSlice("web-3", "web", at("example.com"), func(s *discoveryv1.EndpointSlice) {
			s.AddressType = discoveryv1.AddressTypeFQDN
		})),
		"an empty slice": set(newSlice("web-3", "web")),
		"a heartbeat": set(newNode("here", func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, LastHeartbeatTime: metav1.Now()}}
			n.Status.Images = []corev1.ContainerImage{{Names: []string{"x"}}}
		})),
		"a label of an IPAddress":  set(newIPAddress("10.96.0.10", "web", func(a *networkingv1.IPAddress) { a.Labels["band"] = "static" })),
		"a label of a ServiceCIDR": set(labelled),
		"all watches end and everything is listed again": func(w *fixture) {
			w.unseen(func() {})
			w.pass(2 * time.Minute)
		},
	}
	inFixture(t, func(w *fixture) {
		w.start(Options{})
		w.take()
		for name, happens := range tests {
			happens(w)
			w.wantSleep(name)
		}
	}, smallCluster()...)
}

// The API server was unreachable while much changed. Then exactly the differences are delivered.
func TestListsAfterAnOutageTellTheDifference(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.start(Options{})
		w.take()
		w.unseen(func() {
			w.remove(newService("other", "10.96.0.20"), newIPAddress("10.96.0.10", "web"), newSlice("web-2", "web"))
			w.set(newService("new", "10.96.0.30"), newSlice("new-1", "new", at("10.0.0.3")), newIPAddress("10.96.0.30", "new"))
			w.set(newCIDR("more", "fd00::/112"))
		})
		w.pass(time.Minute)
		w.wantTake(model.Changes{
			Services: services(map[string]*model.Service{
				"web": web("10.0.0.1"), "other": nil, "new": wantService("new", "10.96.0.30", "10.0.0.3"),
			}),
			Allocations:   wantAllocations(map[string]string{"10.96.0.10": "", "10.96.0.30": "new"}),
			Ranges:        wantRanges("10.96.0.0/16", "fd00::/112"),
			ServiceEvents: 2,
		})
		w.wantSleep("the outage")
	}, smallCluster()...)
}

func TestTriggers(t *testing.T) {
	inFixture(t, func(w *fixture) {
		past, later := time.Now().Add(-time.Second), time.Now().Add(time.Second)
		w.set(newSlice("web-1", "web", at("10.0.0.1"), triggeredAt(later)))
		w.start(Options{})
		w.wantTriggers("the first list")
		w.set(newSlice("web-3", "web", at("10.0.0.3"), triggeredAt(later)))
		w.wantTriggers("a new slice", later)
		w.set(newSlice("web-3", "web", at("10.0.0.4"), triggeredAt(past)))
		w.wantTriggers("a slice that changed before the agent began")
		w.set(newSlice("web-2", "web", at("10.0.0.5")), newSlice("web-1", "web", at("10.0.0.6"), triggeredAt(later.Add(1))))
		w.wantTriggers("one change without a time and one with", later.Add(1))
		w.set(newSlice("web-1", "web", at("10.0.0.7"), triggeredAt(later.Add(1))))
		w.wantTriggers("a change that no pod caused")
		w.set(newSlice("web-1", "web", at("10.0.0.7"), triggeredAt(later.Add(2))))
		w.wantTriggers("a time and no change")
		w.set(newSlice("web-1", "web", at("10.0.0.1"), func(s *discoveryv1.EndpointSlice) {
			s.Annotations = map[string]string{corev1.EndpointsLastChangeTriggerTime: "yesterday\nor so"}
		}))
		w.wantTriggers("something that is no time")
		w.remove(newSlice("web-3", "web"))
		w.wantTriggers("a slice that is gone")
		w.set(newSlice("free", "nobody", at("10.0.0.4"), triggeredAt(later.Add(3))))
		w.wantTriggers("a slice that we do not serve")
		w.set(newSlice("web-2", "nobody", at("10.0.0.5"), triggeredAt(later.Add(4))))
		w.wantTriggers("a slice that we serve no longer")
	}, smallCluster()...)
}

func (w *fixture) wantTriggers(after string, want ...time.Time) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.take().Triggers, comparers); diff != "" {
		w.t.Errorf("triggers after %s (-want +got):\n%s", after, diff)
	}
}

func TestMalformedInputIsReportedOnceAndHarmsNoOther(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.start(Options{})
		w.take()
		w.set(newSlice("web-1", "web", at("10.0.0.01", "fe80::1%eth0", "10.0.0.1", "::ffff:10.0.0.1", "evil\nname", "127.0.0.1")))
		w.wantTake(model.Changes{})
		w.set(newSlice("web-1", "web", at("10.0.0.01", "10.0.0.3")))
		w.wantTake(model.Changes{Services: services(map[string]*model.Service{"web": web("10.0.0.2", "10.0.0.3")})})
		w.set(newSlice("web-1", "web", at("10.0.0.01", "10.0.0.3"), func(s *discoveryv1.EndpointSlice) { s.Labels["x"] = "y" }))
		w.take()
		if got := w.log.with("left out", "ns/web-1"); len(got) != 2 {
			t.Errorf("want one line for each kind of malformed input, got %q", got)
		}
		w.set(newSlice("web-1", "web", at("10.0.0.3")))
		w.set(newSlice("web-1", "web", at("10.0.0.01", "10.0.0.3")))
		w.take()
		if got := w.log.with("left out", "ns/web-1"); len(got) != 3 {
			t.Errorf("want another line after it was clean, got %q", got)
		}
		w.remove(newSlice("web-1", "web"))
		w.take()
		w.set(newSlice("web-1", "web", at("10.0.0.01", "10.0.0.3")))
		w.take()
		if got := w.log.with("left out", "ns/web-1"); len(got) != 4 {
			t.Errorf("want another line for a new object of that name, got %q", got)
		}
	}, smallCluster()...)
}

func TestRunEndsWithItsContext(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.start(Options{})
		w.stop()
		if err := <-w.ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}, smallCluster()...)
}
