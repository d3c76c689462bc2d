package leader

import (
	"context"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/clusterip-operator/clusterip-operator/internal/timeline"
)

// witness is a client of one Lease that remembers its version, for the guard of the process. The
// leader writes the Lease every 0.7 s and every other replica reads it about as often, so that a
// Lease which is older than it was shows what was lost, to all of them.
type witness struct {
	coordinationclient.LeasesGetter
	guard *timeline.Guard

	mu   sync.Mutex
	seen string
}

// Leases implements coordinationclient.LeasesGetter.
func (w *witness) Leases(namespace string) coordinationclient.LeaseInterface {
	return witnessed{w.LeasesGetter.Leases(namespace), w}
}

// witnessed is what the election uses of a client.
type witnessed struct {
	coordinationclient.LeaseInterface
	*witness
}

// Get implements coordinationclient.LeaseInterface.
func (w witnessed) Get(ctx context.Context, name string, o metav1.GetOptions) (*coordinationv1.Lease, error) {
	return w.told(func() (*coordinationv1.Lease, error) { return w.LeaseInterface.Get(ctx, name, o) })
}

// Create implements coordinationclient.LeaseInterface. A Lease that was deleted comes back newer.
func (w witnessed) Create(ctx context.Context, lease *coordinationv1.Lease, o metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return w.told(func() (*coordinationv1.Lease, error) { return w.LeaseInterface.Create(ctx, lease, o) })
}

// Update implements coordinationclient.LeaseInterface.
func (w witnessed) Update(ctx context.Context, lease *coordinationv1.Lease, o metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	return w.told(func() (*coordinationv1.Lease, error) { return w.LeaseInterface.Update(ctx, lease, o) })
}

// told compares what the API server answers with what was seen before it was asked: requests may
// overtake one another. A proof is the answer, so that the Lease is neither renewed nor given up:
// the replicas that follow have until its end to see how old it is.
func (w *witness) told(ask func() (*coordinationv1.Lease, error)) (*coordinationv1.Lease, error) {
	w.mu.Lock()
	before := w.seen
	w.mu.Unlock()
	lease, err := ask()
	if err != nil {
		return lease, err
	}
	if proof := w.guard.Compare("Lease "+lease.Namespace+"/"+lease.Name, before, lease.ResourceVersion); proof != nil {
		return nil, proof
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = timeline.Later(w.seen, lease.ResourceVersion)
	return lease, nil
}
