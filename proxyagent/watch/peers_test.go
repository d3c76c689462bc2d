package watch

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// withCores is a Node with so many cores.
func withCores(name string, n int64) *corev1.Node {
	return newNode(name, func(n2 *corev1.Node) {
		n2.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(n, resource.DecimalSI)}
	})
}

// weighted is a Service whose endpoint, on the Node there, weighs as many as its cores.
func weighted(w uint8) *model.Service {
	s := wantService("web", "10.96.0.1", "10.0.0.1")
	s.Balancing = &model.Balancing{WeightsFrom: byWeight, ByCores: true}
	s.Endpoints[0].Node, s.Endpoints[0].Weight = "there", w
	return s
}

// lists counts how often Nodes were listed: once for the own one.
func (w *fixture) lists() (n int) {
	for _, a := range w.client.Actions() {
		if a.Matches("list", "nodes") {
			n++
		}
	}
	return n
}

func (w *fixture) wantLists(want int, when string) {
	w.t.Helper()
	if got := w.lists(); got != want {
		w.t.Errorf("%s: Nodes were listed %d times, want %d", when, got, want)
	}
}

var byCores = annotated(byWeight, "cores")

// TestNodesAreNotFollowedUnlessAllowed has a Service ask for the cores of a Node in vain, with its
// scheduler served all the same.
func TestNodesAreNotFollowedUnlessAllowed(t *testing.T) {
	for _, weights := range []string{"cores", "disk=ssd:3", "topology.kubernetes.io/zone=a:3,disk=ssd:3"} {
		inFixture(t, func(w *fixture) {
			w.set(newNode("here"), withCores("there", 4), newSlice("web-1", "web", at("10.0.0.1"), onNode("there")))
			w.start(Options{})
			w.take()
			w.set(newService("web", "10.96.0.1", annotated(byWeight, weights, scheduler, "rr")))
			want := wantService("web", "10.96.0.1", "10.0.0.1")
			want.Endpoints[0].Node = "there"
			want.Balancing = &model.Balancing{Scheduler: model.RoundRobin, SchedulerFrom: scheduler, Ignored: []model.DegradationReason{model.WeightsNotAllowed}}
			w.wantTake(model.Changes{Services: services(map[string]*model.Service{"web": want}), ServiceEvents: 1})
			w.set(withCores("there", 6))
			w.wantSleep("a Node that is not followed")
			w.wantLists(1, "no Service may ask")
		})
	}
}

// TestNodesAreFollowedWhileAServiceAsks for the cores of a Node, which changes, and then no more.
func TestNodesAreFollowedWhileAServiceAsks(t *testing.T) {
	inFixture(t, func(w *fixture) {
		plain := newService("web", "10.96.0.1")
		w.set(newNode("here"), withCores("there", 4), withCores("other", 8), plain, newSlice("web-1", "web", at("10.0.0.1"), onNode("there")))
		w.start(Options{FollowNodes: true})
		w.take()
		w.wantLists(1, "no Service asks")

		w.set(newService("web", "10.96.0.1", annotated(byWeight, "topology.kubernetes.io/zone=a:3")))
		w.take()
		w.wantLists(1, "the zone is in the slice")

		w.set(newService("web", "10.96.0.1", byCores))
		w.wantWeight(4)
		w.wantLists(2, "a Service asks")
		w.set(withCores("there", 6))
		w.wantWeight(6)
		w.set(withCores("other", 1), withCores("there", 6))
		w.wantSleep("a Node without its endpoints, and one that is as before")
		w.remove(withCores("there", 6))
		w.wantWeight(1)
		w.set(withCores("there", 2))
		w.wantWeight(2)

		w.set(plain)
		w.take()
		w.pass(peersFor - time.Second)
		w.set(newService("web", "10.96.0.1", byCores))
		w.wantWeight(2)
		w.wantLists(2, "it asks again in time")
		w.set(plain)
		w.pass(peersFor)
		w.take()
		w.set(withCores("there", 3))
		w.wantSleep("no Service asks")
		w.set(newService("web", "10.96.0.1", byCores))
		w.wantWeight(3)
		w.wantLists(3, "it asks after a while")
	})
}

func (w *fixture) wantWeight(want uint8) {
	w.t.Helper()
	got := w.take().Services[weighted(0).Name]
	if got == nil || len(got.Endpoints) != 1 || got.Endpoints[0].Weight != want {
		w.t.Errorf("got %+v, want weight %d", got, want)
	}
}

// TestTheFirstTakeHasWeights waits for Nodes, and not for ever.
func TestTheFirstTakeHasWeights(t *testing.T) {
	objects := []apiObject{newNode("here"), withCores("there", 4), newService("web", "10.96.0.1", byCores), newSlice("web-1", "web", at("10.0.0.1"), onNode("there"))}
	inFixture(t, func(w *fixture) {
		w.start(Options{FollowNodes: true})
		w.wantTake(model.Changes{Services: services(map[string]*model.Service{"web": weighted(4)}), Node: wantNode(false), ServiceEvents: 1})
	}, objects...)
	inFixture(t, func(w *fixture) {
		w.refuse(errForbidden, allNodes)
		w.start(Options{FollowNodes: true})
		w.pass(500 * time.Millisecond)
		if w.ready() {
			t.Error("ready, and the weights are not known")
		}
		w.refuse(nil, allNodes) // client-go asks again after 0.8 to 1.6 s
		w.pass(2 * time.Second)
		w.wantWeight(4)
	}, objects...)
	inFixture(t, func(w *fixture) {
		w.refuse(errForbidden, allNodes)
		w.start(Options{FollowNodes: true})
		w.pass(nodeTimeout)
		if !w.ready() {
			t.Fatal("not ready although the API server does not tell about Nodes")
		}
		w.wantWeight(1)
		w.refuse(nil, allNodes)
		w.pass(time.Minute)
		w.wantWeight(4)
	}, objects...)
}

func TestAZoneOfASliceIsItsWeight(t *testing.T) {
	inFixture(t, func(w *fixture) {
		in := newSlice("web-1", "web", at("10.0.0.1"), func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Zone = new("b") })
		w.set(newNode("here"), newService("web", "10.96.0.1", annotated(byWeight, "topology.kubernetes.io/zone=b:7")), in)
		w.start(Options{FollowNodes: true})
		w.wantWeight(7)
		in.Endpoints[0].Zone = new("c")
		w.set(in)
		w.wantWeight(1)
	})
}
