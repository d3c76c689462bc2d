package addressindex

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

// entry is one address: what the IPAddress object makes of it, and which Services claim it. An
// entry without object and claims is dropped from the map. There is one for each address of the
// cluster, so that it has 32 bytes, and one name of the Service, as a rule, for parent and claim.
// What the pointers lead to is not changed.
type entry struct {
	parent *types.NamespacedName // of the IPAddress; nil without a Service
	first  *types.NamespacedName // the Service that claimed it first; nil without claims
	later  *[]types.NamespacedName
	object allocator.State // Free: no IPAddress
	// held: a Service has had the address. One whose creation failed has not.
	held bool
}

// claims are the Services whose spec.clusterIPs hold the address, in the order first seen.
func (e entry) claims() []types.NamespacedName {
	if e.first == nil {
		return nil
	}
	out := []types.NamespacedName{*e.first}
	if e.later != nil {
		out = append(out, *e.later...)
	}
	return out
}

// claimed reports whether there are claims.
func (e entry) claimed() bool { return e.first != nil }

// disputed reports whether there are several.
func (e entry) disputed() bool { return e.later != nil }

// claimedBy reports whether a Service claims the address.
func (e entry) claimedBy(service types.NamespacedName) bool {
	return e.first != nil && *e.first == service || e.later != nil && slices.Contains(*e.later, service)
}

// claim enters a Service, unless it is there.
func (e *entry) claim(service types.NamespacedName) {
	switch {
	case e.claimedBy(service):
	case e.first != nil:
		e.setClaims(append(e.claims(), service))
	case e.parent != nil && *e.parent == service:
		e.first = e.parent
	default:
		e.first = &service
	}
}

// release takes a Service out.
func (e *entry) release(service types.NamespacedName) {
	if e.claimedBy(service) {
		e.setClaims(slices.DeleteFunc(e.claims(), func(k types.NamespacedName) bool { return k == service }))
	}
}

// setClaims keeps the slice.
func (e *entry) setClaims(all []types.NamespacedName) {
	e.first, e.later = nil, nil
	if len(all) > 0 {
		e.claim(all[0])
	}
	if len(all) > 1 {
		later := all[1:]
		e.later = &later
	}
}

// show takes in what the IPAddress says; a zero service is none.
func (e *entry) show(object allocator.State, service types.NamespacedName) {
	e.object, e.parent = object, nil
	switch {
	case service == types.NamespacedName{}:
	case e.first != nil && *e.first == service:
		e.parent = e.first
	default:
		e.parent = &service
	}
}

// of is the Service that the IPAddress names; zero for none.
func (e entry) of() types.NamespacedName {
	if e.parent == nil {
		return types.NamespacedName{}
	}
	return *e.parent
}

// covered reports whether the address has the right IPAddress: see Index.Relation.
func (e entry) covered() bool {
	return e.object == allocator.Allocated && e.claimed() && !e.disputed() && e.of() == *e.first
}

// last is the Service that has the address, as far as is known.
func (e entry) last() types.NamespacedName {
	if e.claimed() {
		return *e.first
	}
	return e.of()
}

// state is what the pool should hold: the IPAddress's, unless a Service claims the address.
func (e entry) state() allocator.State {
	if e.claimed() {
		return allocator.Allocated
	}
	return e.object
}
