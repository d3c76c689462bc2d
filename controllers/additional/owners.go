package additional

import (
	"net/netip"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/addressindex"
)

// owners remember whose an additional address was, because the address index does not say it any more when the IPAddress is gone. The zero
// value is empty and ready; it is safe for concurrent use. It grows with the additional addresses of the cluster.
type owners struct {
	mu sync.Mutex
	of map[netip.Addr]types.NamespacedName
}

// wake returns the Services that an event on an address concerns: whose it is, and whose it was.
func (o *owners) wake(index *addressindex.Index, a netip.Addr) []reconcile.Request {
	k, ok := index.Owned(a)
	now := k.Service
	if !ok || k.Purpose != v1alpha1.PurposeAdditional {
		now = types.NamespacedName{}
	}
	before := o.replace(a, now)
	var out []reconcile.Request
	if now.Name != "" {
		out = append(out, reconcile.Request{NamespacedName: now})
	}
	if before.Name != "" && before != now {
		out = append(out, reconcile.Request{NamespacedName: before})
	}
	return out
}

func (o *owners) replace(a netip.Addr, now types.NamespacedName) (before types.NamespacedName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before = o.of[a]
	if now.Name == "" {
		delete(o.of, a)
		return before
	}
	if o.of == nil {
		o.of = map[netip.Addr]types.NamespacedName{}
	}
	o.of[a] = now
	return before
}
