package nodeports

import (
	"context"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/internal/compact"
)

// Index counts the node ports in use. NewIndex makes one, Watch connects it to Services; it is safe
// for concurrent use. An event costs what the Service has of node ports, a Usage nothing of note.
type Index struct {
	of Range

	mu sync.Mutex
	// holders counts the Services that have a port. Two have one for a moment, when the watch shows a
	// new Service before the deletion of the former one.
	holders map[uint16]int
	bands   map[allocator.Band]int // ports in use in each band
}

// Usage says how much of a range is in use.
type Usage struct {
	Static, Dynamic BandUsage
	// Outside are the ports of Services that do not lie in the range: it is another one than
	// kube-apiserver's, or that was changed.
	Outside int
}

// BandUsage says how much of a band is in use.
type BandUsage struct{ Size, Allocated int }

// NewIndex returns an empty index of a range.
func NewIndex(of Range) *Index {
	return &Index{of: of, holders: map[uint16]int{}, bands: map[allocator.Band]int{}}
}

// Watch connects the index to the informer of Services. It returns at once.
func (ix *Index) Watch(ctx context.Context, informers cache.Informers) error {
	informer, err := informers.GetInformer(ctx, &corev1.Service{}, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { ix.Change(nil, compact.Expand(o).(*corev1.Service)) },
		UpdateFunc: func(before, o any) {
			ix.Change(compact.Expand(before).(*corev1.Service), compact.Expand(o).(*corev1.Service))
		},
		DeleteFunc: func(o any) {
			if missed, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				o = missed.Obj // the last known state, where the watch missed the deletion
			}
			if last, ok := compact.Expand(o).(*corev1.Service); ok {
				ix.Change(last, nil)
			}
		},
	})
	return err
}

// Change takes a Service in as it is now, in the place of what it was before; nil for none.
func (ix *Index) Change(before, now *corev1.Service) {
	var had, has []uint16
	if before != nil {
		had = Of(before)
	}
	if now != nil {
		has = Of(now)
	}
	if slices.Equal(had, has) { // as nearly all changes
		return
	}
	ix.mu.Lock()
	defer ix.mu.Unlock()
	for _, port := range has {
		ix.count(port, 1)
	}
	for _, port := range had {
		ix.count(port, -1)
	}
}

// count adds to the holders of a port; the caller holds mu.
func (ix *Index) count(port uint16, by int) {
	before := ix.holders[port]
	now := before + by
	if now == 0 {
		delete(ix.holders, port)
	} else {
		ix.holders[port] = now
	}
	if band, ok := ix.of.BandOf(port); ok && (before == 0 || now == 0) {
		ix.bands[band] += by
	}
}

// Usage returns how much of the range is in use.
func (ix *Index) Usage() Usage {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	band := func(b allocator.Band) BandUsage { return BandUsage{Size: ix.of.Band(b).Size(), Allocated: ix.bands[b]} }
	u := Usage{Static: band(allocator.Static), Dynamic: band(allocator.Dynamic)}
	u.Outside = len(ix.holders) - u.Static.Allocated - u.Dynamic.Allocated
	return u
}
