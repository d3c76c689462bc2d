package peer

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"
)

// allocator is what both of upstream's can do.
type allocator interface {
	allocate() (net.IP, error)
	Release(net.IP) error
}

// TestMain drops the traces of slow allocations, which would go between the results.
func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	os.Exit(m.Run())
}

// BenchmarkAllocate measures a dynamic allocation and its release at a constant fill. The used
// share is that of the dynamic band, at random, rounded down so that one address at least is free.
func BenchmarkAllocate(b *testing.B) {
	for _, f := range fills() {
		run(b, "bitmap", f, newBitmap)
	}
	for _, f := range append(fills(), fill{prefix: netip.MustParsePrefix("fd00::/64"), million: true}) {
		run(b, "ipallocator", f, newObjects)
	}
}

// run fills once for all repetitions: a million objects take longer than an operation.
func run(b *testing.B, impl string, f fill, start func(testing.TB, fill) allocator) {
	var a allocator
	b.Run(fmt.Sprintf("impl=%s/%s", impl, f), func(b *testing.B) {
		if a == nil {
			a = start(b, f)
		}
		benchAllocate(b, a)
	})
}

func benchAllocate(b *testing.B, a allocator) {
	b.ReportAllocs()
	for b.Loop() {
		ip, err := a.allocate()
		if err != nil {
			b.Fatal(err)
		}
		if err := a.Release(ip); err != nil {
			b.Fatal(err)
		}
	}
}

// bitmap is the allocator of the API server up to 1.32, without its etcd and without metrics, which
// would cost it more than the search in most ranges.
type bitmap struct{ *ipallocator.Range }

func (a bitmap) allocate() (net.IP, error) { return a.AllocateNext() }

func newBitmap(tb testing.TB, f fill) allocator {
	r, err := ipallocator.NewInMemory(f.network())
	if err != nil {
		tb.Fatal(err)
	}
	if err := r.Restore(f.network(), f.bits().Bytes()); err != nil {
		tb.Fatal(err)
	}
	return bitmap{r}
}

// objects is the allocator of the API server since 1.33, with its objects in memory.
type objects struct{ *ipallocator.Allocator }

var service = &api.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "bench"}}

func (a objects) allocate() (net.IP, error) { return a.AllocateNextService(service) }

func newObjects(tb testing.TB, f fill) allocator {
	informer := newInformer()
	a, err := ipallocator.NewIPAllocator(f.network(), client{store: informer.Informer().GetIndexer()}, informer)
	if err != nil {
		tb.Fatal(err)
	}
	a.EnableMetrics()
	for _, ip := range f.used() {
		if err := informer.Informer().GetIndexer().Add(newIPAddress(ip)); err != nil {
			tb.Fatal(err)
		}
	}
	return objects{a}
}
