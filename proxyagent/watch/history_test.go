package watch

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// TestTakesAddUp lets random things happen, some unseen, and adds up what is taken when woken. The
// sum has to be what the API server holds in the end, when no Service is held any more.
func TestTakesAddUp(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inFixture(t, func(w *fixture) {
				h := history{fixture: w, random: rand.New(rand.NewPCG(seed, 0))}
				w.start(Options{FollowNodes: true})
				h.live(60)
				w.pass(2 * time.Minute)
				h.takeIfWoken()
				if diff := cmp.Diff(w.state(), h.sum, comparers); diff != "" {
					t.Errorf("seed %d (-API server +sum):\n%s", seed, diff)
				}
				w.wantSleep("all was taken")
			}, smallCluster()...)
		})
	}
}

// history makes random changes in a fixture, and has the sum of what was taken.
type history struct {
	*fixture
	random *rand.Rand
	sum    model.State
}

func (h *history) live(steps int) {
	for range steps {
		switch h.random.IntN(12) {
		case 0:
			h.unseen(func() {
				for range h.random.IntN(6) {
					h.change()
				}
			})
		case 1:
			h.pass(time.Duration(h.random.IntN(20)) * time.Second)
		case 2, 3:
			synctest.Wait()
			h.takeIfWoken()
		case 4:
			h.takeIfWoken() // events are on their way
		default:
			h.change()
		}
	}
}

func (h *history) takeIfWoken() {
	select {
	case <-h.source.Wake():
		h.add(h.source.Take())
	default:
	}
}

// change sets or removes one of a few objects.
func (h *history) change() {
	n := h.random.IntN(4)
	var o apiObject
	switch h.random.IntN(9) {
	case 8:
		o = newNode(fmt.Sprint("n", n), h.relabel)
	case 0, 1:
		o = newService(fmt.Sprint("s", n), fmt.Sprintf("10.96.0.%d", 50+h.random.IntN(3)), h.twist)
	case 2, 3, 4:
		o = newSlice(fmt.Sprint("e", n), fmt.Sprint("s", h.random.IntN(4)), at(fmt.Sprintf("10.0.0.%d", h.random.IntN(3)+1)), onNode(fmt.Sprint("n", h.random.IntN(4))))
	case 5, 6:
		o = newIPAddress(fmt.Sprintf("10.96.0.%d", 50+n), fmt.Sprint("s", h.random.IntN(3)))
	default:
		o = newCIDR(fmt.Sprint("c", n), fmt.Sprintf("10.%d.0.0/16", 100+h.random.IntN(3)))
	}
	if h.random.IntN(3) > 0 {
		h.set(o)
	} else if h.has(o) {
		h.remove(o)
	}
}

// twist changes the type of some Services.
func (h *history) twist(s *corev1.Service) {
	switch h.random.IntN(7) {
	case 5:
		s.Annotations = map[string]string{v1alpha1.AnnotationEndpointWeights: "cores"}
	case 6:
		s.Annotations = map[string]string{v1alpha1.AnnotationEndpointWeights: "topology.kubernetes.io/zone=b:3,disk=ssd:2", v1alpha1.AnnotationScheduler: "wrr"}
	case 0:
		externalName(s)
		s.Spec.ClusterIP = ""
	case 1, 2:
		renumbering(s)
	case 3:
		s.Spec.Ports[0].Port = 81
	}
}

// relabel gives a Node cores and labels.
func (h *history) relabel(n *corev1.Node) {
	n.Labels["disk"] = []string{"ssd", "hdd"}[h.random.IntN(2)]
	n.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(h.random.Int64N(3)+1, resource.DecimalSI)}
}

// add is what every receiver of Changes does.
func (h *history) add(c model.Changes) {
	if h.sum.Services == nil {
		h.sum.Services, h.sum.Allocations = map[model.ServiceName]model.Service{}, map[netip.Addr]model.Allocation{}
	}
	for name, s := range c.Services {
		delete(h.sum.Services, name)
		if s != nil {
			h.sum.Services[name] = *s
		}
	}
	for addr, a := range c.Allocations {
		delete(h.sum.Allocations, addr)
		if a != nil {
			h.sum.Allocations[addr] = *a
		}
	}
	if c.Ranges != nil {
		h.sum.Ranges = *c.Ranges
	}
	if c.Node != nil {
		h.sum.Node = *c.Node
	}
}

// weigher is what the API server's Nodes say, read anew for each address.
func (w *fixture) weigher(of *weights) func(sliceAddress) uint8 {
	return func(a sliceAddress) uint8 {
		if of == nil {
			return 0
		}
		n, ok := w.objects["nodes"]["/"+a.node.Value()].(*corev1.Node)
		if !ok {
			return of.of(a.zone, nil)
		}
		p, _ := convertPeer(n)
		return of.of(a.zone, p)
	}
}

// state is what the API server holds, put together the slow way.
func (w *fixture) state() model.State {
	out := model.State{Services: map[model.ServiceName]model.Service{}, Allocations: map[netip.Addr]model.Allocation{}, Node: *wantNode(false)}
	var cidrs []any
	w.mu.Lock()
	defer w.mu.Unlock()
	for o := range maps.Values(w.objects["services"]) {
		if s, _ := convertService(o.(*corev1.Service)); s.served {
			for e := range maps.Values(w.objects["endpointslices"]) {
				if e.GetNamespace() == o.GetNamespace() && e.GetLabels()[discoveryv1.LabelServiceName] == o.GetName() {
					converted, _ := convertSlice(e.(*discoveryv1.EndpointSlice))
					s.model.Endpoints = converted.appendEndpoints(s.model.Endpoints, w.weigher(s.weights))
				}
			}
			out.Services[s.model.Name] = s.model
		}
	}
	for o := range maps.Values(w.objects["ipaddresses"]) {
		a, _ := convertIPAddress(o.(*networkingv1.IPAddress))
		out.Allocations[a.model.Addr] = a.model
	}
	for o := range maps.Values(w.objects["servicecidrs"]) {
		c, _ := convertServiceCIDR(o.(*networkingv1.ServiceCIDR))
		cidrs = append(cidrs, c)
	}
	out.Ranges = rangesOf(cidrs)
	return out
}

func (a *apiServer) has(o apiObject) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, ok := a.objects[resourceOf(o)][keyOf(o)]
	return ok
}
