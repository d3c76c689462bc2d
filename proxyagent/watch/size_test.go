package watch

import (
	"fmt"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework/alone"
)

// maxBytesPerService is what a Service with a slice of three endpoints and an IPAddress may take in
// the stores. The objects as they come from an API server take four times as much.
const maxBytesPerService = 2100

// usual is a Service as in real clusters, with what is in it for other programs.
func usual(i int) (*corev1.Service, *discoveryv1.EndpointSlice) {
	name := fmt.Sprintf("service-%05d", i)
	others := map[string]string{"kubectl.kubernetes.io/last-applied-configuration": string(make([]byte, 500))}
	s := newService(name, fmt.Sprintf("10.%d.%d.%d", 96+i>>16, i>>8&255, i&255))
	s.Annotations, s.Spec.Selector = others, map[string]string{"app": name}
	e := newSlice(name+"-abcde", name, at(fmt.Sprintf("10.128.%d.%d", i>>8, i&255), fmt.Sprintf("10.129.%d.%d", i>>8, i&255), "10.130.0.1"))
	e.Annotations = others
	for n := range e.Endpoints {
		e.Endpoints[n].NodeName = new(fmt.Sprintf("ip-10-0-%d-%d.eu-central-1.compute.internal", n, i%100))
		e.Endpoints[n].TargetRef = &corev1.ObjectReference{Kind: "Pod", Namespace: "ns", Name: fmt.Sprintf("%s-%d", name, n)}
	}
	return s, e
}

// filled returns a Source that knows n usual Services, as after a list.
func filled(tb testing.TB, n int) *Source {
	tb.Helper()
	s, err := New(newAPIServer().client, Options{NodeName: "here"})
	if err != nil {
		tb.Fatal(err)
	}
	for i := range n {
		in, e := usual(i)
		service, _ := convertService(in)
		slice, _ := convertSlice(e)
		address, _ := convertIPAddress(newIPAddress(in.Spec.ClusterIP, in.Name))
		store(tb, s.services.shared, service)
		store(tb, s.slices.shared, slice)
		store(tb, s.addresses.shared, address)
	}
	return s
}

func store(tb testing.TB, informer cache.SharedIndexInformer, o any) {
	tb.Helper()
	if err := informer.GetStore().Add(o); err != nil {
		tb.Fatal(err)
	}
}

func TestSize(t *testing.T) {
	const n = 10000
	before := alone.Heap()
	s := filled(t, n)
	size := (alone.Heap() - before) / n
	runtime.KeepAlive(s)
	t.Logf("%d bytes for one Service with three endpoints and its IPAddress", size)
	if size > maxBytesPerService {
		t.Errorf("%d bytes for one Service, at most %d", size, maxBytesPerService)
	}
}

// eventOn lets one EndpointSlice change and takes it.
func eventOn(tb testing.TB, s *Source) {
	name := model.ServiceName{Namespace: "ns", Name: "service-00007"}
	old, ok := s.slices.get("ns/service-00007-abcde")
	if !ok {
		tb.Fatal("no slice")
	}
	changed := *old
	changed.addresses = changed.addresses[:2]
	s.sliceChanged(change[*slice]{old: &changed, new: old})
	if got := s.Take(); len(got.Services) != 1 || len(got.Services[name].Endpoints) != 3 {
		tb.Fatalf("took %v", got)
	}
}

// TestCostOfAnEvent counts allocations, which do not depend on how busy the machine is.
func TestCostOfAnEvent(t *testing.T) {
	cost := func(services int) float64 {
		s := filled(t, services)
		s.pending.open()
		s.Take()
		return testing.AllocsPerRun(100, func() { eventOn(t, s) })
	}
	few, many := cost(10), cost(2000)
	if few != many || many > 30 {
		t.Errorf("an event costs %.0f allocations among 10 Services and %.0f among 2000; want the same, and at most 30", few, many)
	}
}
