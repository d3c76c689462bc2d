package watch

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// fixture is a Source on a fake API server inside of synctest, with its clock.
type fixture struct {
	*apiServer
	t      *testing.T
	source *Source
	log    *lines
	ended  chan error
	stop   context.CancelFunc
}

// inFixture runs a test on an API server with these objects. See start.
func inFixture(t *testing.T, test func(w *fixture), objects ...apiObject) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &fixture{apiServer: newAPIServer(), t: t, log: &lines{}, ended: make(chan error, 1)}
		w.set(objects...)
		test(w)
	})
}

// start starts a Source that ends with the test, and lets happen what takes no time.
func (w *fixture) start(o Options) {
	w.t.Helper()
	o.NodeName = "here"
	o.Logger = funcr.New(w.log.add, funcr.Options{})
	source, err := New(w.client, o)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(w.t.Context())
	w.source, w.stop = source, stop
	var running sync.WaitGroup
	running.Go(func() { w.ended <- source.Run(ctx) })
	w.t.Cleanup(running.Wait)
	w.t.Cleanup(stop)
	synctest.Wait()
}

// pass lets time go by.
func (w *fixture) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// woken reports whether there is a token, and takes it.
func (w *fixture) woken() bool { return received(w.source.Wake()) }

func (w *fixture) ready() bool { return received(w.source.Ready()) }

// received takes from a channel what is in it once all goroutines wait.
func received(from <-chan struct{}) bool {
	synctest.Wait()
	select {
	case <-from:
		return true
	default:
		return false
	}
}

// take is Take after all events have arrived.
func (w *fixture) take() model.Changes {
	synctest.Wait()
	return w.source.Take()
}

// wantTake compares what Take returns, except how many events an EndpointSlice of the first list
// is: that depends on whether its Service came first.
func (w *fixture) wantTake(want model.Changes) {
	w.t.Helper()
	w.wantChanges(want, w.take())
}

func (w *fixture) wantChanges(want, got model.Changes) {
	w.t.Helper()
	if diff := cmp.Diff(want, got, comparers, cmpopts.IgnoreFields(model.Changes{}, "EndpointEvents")); diff != "" {
		w.t.Errorf("Take (-want +got):\n%s", diff)
	}
}

// wantSleep wants no changes and no wake-up.
func (w *fixture) wantSleep(after string) {
	w.t.Helper()
	if w.woken() {
		w.t.Errorf("after %s: woken", after)
	}
	if got := w.source.Take(); !got.Empty() || len(got.Triggers) > 0 || got.ServiceEvents+got.EndpointEvents > 0 {
		w.t.Errorf("after %s: took %+v", after, got)
	}
}

// comparers know values with private parts, and that the order in a set means nothing.
var comparers = cmp.Options{
	cmpopts.EquateComparable(netip.Addr{}, netip.AddrPort{}, netip.Prefix{}),
	cmpopts.EquateEmpty(),
	cmpopts.SortSlices(func(a, b model.Endpoint) bool {
		return a.Addr.Compare(b.Addr) < 0 || a.Addr == b.Addr && (a.Port < b.Port || a.Port == b.Port && a.Node < b.Node)
	}),
}

// lines is a log. Its methods may be called concurrently.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) add(_, line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, line)
}

// with returns the lines that contain all texts.
func (l *lines) with(texts ...string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.all), func(line string) bool {
		return slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) })
	})
}

// build changes a fresh object.
func build[T any](o *T, options []func(*T)) *T {
	for _, option := range options {
		option(o)
	}
	return o
}

var longAgo = metav1.NewTime(time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC))

// newService is a Service of type ClusterIP with port 80 in the namespace ns.
func newService(name, clusterIP string, options ...func(*corev1.Service)) *corev1.Service {
	return build(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, CreationTimestamp: longAgo},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: clusterIP, ClusterIPs: []string{clusterIP},
			Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}},
		},
	}, options)
}

// wantService is what newService becomes, with an endpoint for each address.
func wantService(name, clusterIP string, endpoints ...string) *model.Service {
	out := &model.Service{
		Name: model.ServiceName{Namespace: "ns", Name: name}, Created: longAgo.UTC(),
		ClusterIPs: []netip.Addr{netip.MustParseAddr(clusterIP)},
		Ports:      []model.Port{{Name: "http", Protocol: model.TCP, Port: 80}},
	}
	for _, e := range endpoints {
		out.Endpoints = append(out.Endpoints, model.Endpoint{
			Port: "http", Protocol: model.TCP, Addr: netip.AddrPortFrom(netip.MustParseAddr(e), 8080), Ready: true, Serving: true,
		})
	}
	return out
}

// newSlice is an EndpointSlice of a Service, with port 8080 and IPv4 addresses without conditions.
func newSlice(name, service string, options ...func(*discoveryv1.EndpointSlice)) *discoveryv1.EndpointSlice {
	return build(&discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP)}},
	}, options)
}

func at(addresses ...string) func(*discoveryv1.EndpointSlice) {
	return func(s *discoveryv1.EndpointSlice) {
		for _, a := range addresses {
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}})
		}
	}
}

// onNode has all addresses be on a node.
func onNode(name string) func(*discoveryv1.EndpointSlice) {
	return func(s *discoveryv1.EndpointSlice) {
		for i := range s.Endpoints {
			s.Endpoints[i].NodeName = &name
		}
	}
}

func triggeredAt(when time.Time) func(*discoveryv1.EndpointSlice) {
	return func(s *discoveryv1.EndpointSlice) {
		s.Annotations = map[string]string{corev1.EndpointsLastChangeTriggerTime: when.UTC().Format(time.RFC3339Nano)}
	}
}

// newNode is a Node in zone a.
func newNode(name string, options ...func(*corev1.Node)) *corev1.Node {
	return build(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelTopologyZone: "a"}},
		Spec:       corev1.NodeSpec{PodCIDRs: []string{"10.244.1.0/24"}},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeHostName, Address: name},
			{Type: corev1.NodeExternalIP, Address: "203.0.113.1"},
			{Type: corev1.NodeInternalIP, Address: "192.0.2.1"},
		}},
	}, options)
}

func wantNode(leaving bool) *model.Node {
	return &model.Node{
		Name: "here", Zone: "a", Leaving: leaving,
		IPs:      []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("203.0.113.1")},
		PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24")},
	}
}

// newIPAddress is an IPAddress of a Service in ns.
func newIPAddress(addr, service string, options ...func(*networkingv1.IPAddress)) *networkingv1.IPAddress {
	return build(&networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: addr, Labels: map[string]string{networkingv1.LabelManagedBy: "ipallocator.k8s.io"}},
		Spec:       networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: "ns", Name: service}},
	}, options)
}

// wantAllocations are IPAddresses and their Services; an empty name is an IPAddress that is gone.
func wantAllocations(services map[string]string) map[netip.Addr]*model.Allocation {
	out := map[netip.Addr]*model.Allocation{}
	for text, service := range services {
		addr := netip.MustParseAddr(text)
		out[addr] = nil
		if service != "" {
			out[addr] = &model.Allocation{Addr: addr, Service: model.ServiceName{Namespace: "ns", Name: service}}
		}
	}
	return out
}

func newCIDR(name string, cidrs ...string) *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs}}
}

func wantRanges(cidrs ...string) *[]netip.Prefix {
	out := []netip.Prefix{}
	for _, c := range cidrs {
		out = append(out, netip.MustParsePrefix(c))
	}
	return &out
}

// services names Services in ns; nil is one that is gone.
func services(all map[string]*model.Service) map[model.ServiceName]*model.Service {
	out := map[model.ServiceName]*model.Service{}
	for name, s := range all {
		out[model.ServiceName{Namespace: "ns", Name: name}] = s
	}
	return out
}
