package watch

import (
	"fmt"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// maxBytesPerService is what one Service with one slice of three endpoints and one IPAddress may take in the stores. The objects as they
// come from an API server take four times as much.
const maxBytesPerService = 2100

// usual is a Service as one finds it in clusters, with all that is in it for others.
func usual(i int) (*corev1.Service, *discoveryv1.EndpointSlice) {
	name := fmt.Sprintf("service-%05d", i)
	s := newService(name, fmt.Sprintf("10.%d.%d.%d", 96+i>>16, i>>8&255, i&255), func(s *corev1.Service) {
		s.ObjectMeta = usualMeta(name)
		s.Spec.Selector = map[string]string{"app": name}
	})
	e := newSlice(name+"-abcde", name, func(e *discoveryv1.EndpointSlice) {
		e.ObjectMeta = usualMeta(name + "-abcde")
		e.Labels[discoveryv1.LabelServiceName] = name
		for n := range 3 {
			e.Endpoints = append(e.Endpoints, discoveryv1.Endpoint{
				Addresses:  []string{fmt.Sprintf("10.%d.%d.%d", 128+n, i>>8&255, i&255)},
				NodeName:   new(fmt.Sprintf("ip-10-0-%d-%d.eu-central-1.compute.internal", n, i%100)),
				Zone:       new("eu-central-1a"),
				Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
				TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: "ns", Name: fmt.Sprintf("%s-%d", name, n)},
			})
		}
	})
	return s, e
}

func usualMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "ns", Name: name, UID: "01234567-89ab-cdef-0123-456789abcdef", ResourceVersion: "123456789", CreationTimestamp: longAgo,
		Labels:        map[string]string{"app": name, "app.kubernetes.io/managed-by": "Helm"},
		Annotations:   map[string]string{"kubectl.kubernetes.io/last-applied-configuration": string(make([]byte, 500))},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl", FieldsV1: metav1.NewFieldsV1(string(make([]byte, 300)))}},
	}
}

// filled returns a Source that knows n usual Services, as after a list.
func filled(tb testing.TB, n int) *Source {
	tb.Helper()
	s, err := New(newAPIServer().client, Options{NodeName: "here"})
	if err != nil {
		tb.Fatal(err)
	}
	addresses, err := s.addressInformer("v1", nil)
	if err != nil {
		tb.Fatal(err)
	}
	s.addresses.show(addresses)
	for i := range n {
		in, e := usual(i)
		service, _ := convertService(in)
		slice, _ := convertSlice(e)
		address, _ := convertIPAddress(newIPAddress(in.Spec.ClusterIP, in.Name))
		store(tb, s.services.shared, service)
		store(tb, s.slices.shared, slice)
		store(tb, addresses.shared, address)
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
	before := heap()
	s := filled(t, n)
	size := int(heap()-before) / n
	runtime.KeepAlive(s)
	t.Logf("%d bytes for one Service with three endpoints and its IPAddress", size)
	if size > maxBytesPerService {
		t.Errorf("%d bytes for one Service, at most %d", size, maxBytesPerService)
	}
}

// heap is what is in use after all garbage is gone.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
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
	s.sliceChanged(s.slices, change[*slice]{old: &changed, new: old})
	if got := s.Take(); len(got.Services) != 1 || len(got.Services[name].Endpoints) != 3 {
		tb.Fatalf("took %v", got)
	}
}

// TestCostOfAnEvent counts allocations, which a machine that is busy with other things does not change.
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
