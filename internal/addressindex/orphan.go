package addressindex

import (
	"net/netip"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

// Orphan returns the Service that the IPAddress at an address names, if it is the API server's by
// its labels and no Service has, or has had, the address since this process saw it; otherwise none.
// Where a Service had it the API server may be about to delete the IPAddress, by its name alone.
func (ix *Index) Orphan(a netip.Addr) (of types.NamespacedName, ok bool) {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	e := ix.addresses[a]
	if _, owned := ix.owned.at[a]; owned || e.held || e.claimed() || e.object != allocator.Allocated {
		return of, false
	}
	of = e.of()
	return of, of.Name != ""
}
