package additional

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// askers remember which Services name which ServiceCIDR, so that a change of one wakes them. The zero value is empty and ready; it
// is safe for concurrent use.
type askers struct {
	mu      sync.Mutex
	names   map[types.NamespacedName][]string
	service map[string]map[types.NamespacedName]struct{}
}

// set replaces what a Service asks for.
func (a *askers) set(service types.NamespacedName, from []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, name := range a.names[service] {
		delete(a.service[name], service)
		if len(a.service[name]) == 0 {
			delete(a.service, name)
		}
	}
	delete(a.names, service)
	if len(from) == 0 {
		return
	}
	if a.names == nil {
		a.names, a.service = map[types.NamespacedName][]string{}, map[string]map[types.NamespacedName]struct{}{}
	}
	a.names[service] = from
	for _, name := range from {
		if a.service[name] == nil {
			a.service[name] = map[types.NamespacedName]struct{}{}
		}
		a.service[name][service] = struct{}{}
	}
}

// wake returns the Services that name a ServiceCIDR.
func (a *askers) wake(serviceCIDR string) []reconcile.Request {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make([]reconcile.Request, 0, len(a.service[serviceCIDR]))
	for service := range a.service[serviceCIDR] {
		out = append(out, reconcile.Request{NamespacedName: service})
	}
	return out
}
