package addressindex

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

// OwnedIPAddress is an IPAddress that the operator owns. Fields that its purpose lacks are zero.
type OwnedIPAddress struct {
	UID types.UID
	// Purpose is one of v1alpha1.Purpose..., or empty when the label was removed.
	Purpose string
	// Policy and Reservation say whose a reservation or a cooling address is.
	Policy, Reservation string
	// Service is the Service that had a cooling address, or that has an additional one.
	Service types.NamespacedName
	// ServiceUID and ServiceCIDR are those of an additional address.
	ServiceUID  types.UID
	ServiceCIDR string
	// Former: renumbering holds the address for its former Service. Deleted is when it was let go of.
	Former  bool
	Deleted time.Time
	// Released is when a cooling address was freed; the object's creation when that cannot be read.
	Released time.Time
}

// newOwned reads what can be read of an IPAddress of ours: other writers may edit its metadata.
func newOwned(o *networkingv1.IPAddress) OwnedIPAddress {
	k := OwnedIPAddress{
		UID: o.UID, Purpose: o.Labels[v1alpha1.LabelPurpose], Service: upstream.Service(o), Policy: upstream.Policy(o),
		Reservation: o.Annotations[v1alpha1.AnnotationReservation], ServiceCIDR: o.Annotations[v1alpha1.AnnotationServiceCIDR],
		ServiceUID: types.UID(o.Annotations[v1alpha1.AnnotationServiceUID]), Former: upstream.HeldAsFormer(o),
	}
	if o.DeletionTimestamp != nil {
		k.Deleted = o.DeletionTimestamp.Time
	}
	if k.Service.Name != "" {
		k.Purpose = v1alpha1.PurposeAdditional // nothing else of ours names a Service, whatever another writer puts into the label
	}
	if k.Purpose == v1alpha1.PurposeCooling {
		r := ReadCoolDown(o.Annotations, o.CreationTimestamp.Time)
		k.Service, k.Released = r.Service, r.Released
	}
	return k
}

// ReadCoolDown reads from the annotations of a cooling IPAddress which Service had the address, and
// when it was freed: the object's creation if that cannot be read or is later.
func ReadCoolDown(annotations map[string]string, created time.Time) CoolDown {
	namespace, name, _ := strings.Cut(annotations[v1alpha1.AnnotationLastService], "/")
	c := CoolDown{Service: types.NamespacedName{Namespace: namespace, Name: name}, Released: created}
	at, err := time.Parse(time.RFC3339Nano, annotations[v1alpha1.AnnotationReleased])
	if err == nil && (created.IsZero() || at.Before(created.Add(time.Second))) { // creation times are cut to seconds
		c.Released = at
	}
	return c
}

func (k OwnedIPAddress) state() allocator.State {
	switch k.Purpose {
	case v1alpha1.PurposeAdditional:
		return allocator.Allocated
	case v1alpha1.PurposeCooling:
		return allocator.Cooling
	default:
		return allocator.Reserved
	}
}

// Owned returns the IPAddress of ours at an address.
func (ix *Index) Owned(a netip.Addr) (OwnedIPAddress, bool) {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	k, ok := ix.owned.at[a]
	return k, ok
}

// Additional returns the additional IPAddresses of a Service by address, also those that this
// process wrote and the watch does not show yet. An IPAddress of an address in the spec of a
// Service is none, whatever its labels say.
func (ix *Index) Additional(service types.NamespacedName) map[netip.Addr]OwnedIPAddress {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	out := map[netip.Addr]OwnedIPAddress{}
	for _, a := range ix.owned.additional[service] {
		if !ix.addresses[a].claimed() {
			out[a] = ix.owned.at[a]
		}
	}
	for _, a := range ix.written.additional[service] {
		out[a] = ix.written.at[a]
	}
	return out
}

// ownedSet has IPAddresses of ours by address, and additional ones by Service. The zero ownedSet is
// empty.
type ownedSet struct {
	at         map[netip.Addr]OwnedIPAddress
	additional map[types.NamespacedName][]netip.Addr
}

// put enters an IPAddress, in place of the one that was there.
func (s *ownedSet) put(a netip.Addr, k OwnedIPAddress) {
	s.remove(a)
	if s.at == nil {
		s.at, s.additional = map[netip.Addr]OwnedIPAddress{}, map[types.NamespacedName][]netip.Addr{}
	}
	s.at[a] = k
	if k.Purpose == v1alpha1.PurposeAdditional {
		s.additional[k.Service] = append(s.additional[k.Service], a)
	}
}

// remove returns what was there.
func (s *ownedSet) remove(a netip.Addr) (OwnedIPAddress, bool) {
	k, ok := s.at[a]
	if !ok {
		return k, false
	}
	delete(s.at, a)
	if others := slices.DeleteFunc(s.additional[k.Service], func(b netip.Addr) bool { return a == b }); len(others) > 0 {
		s.additional[k.Service] = others
	} else {
		delete(s.additional, k.Service)
	}
	return k, true
}
