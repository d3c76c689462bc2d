package migration

import (
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// addressIndex is who holds an address and which IPAddress stands on it, by address. It is kept up to date one object at a time, at
// a cost that does not depend on how many there are.
type addressIndex struct {
	entries  map[netip.Addr]*entry
	services map[types.NamespacedName]*Service
}

// entry is what is known of an address.
type entry struct {
	claims []*Service // the rightful owner first
	object *IPAddress
}

func newAddressIndex(w Snapshot) *addressIndex {
	b := &addressIndex{
		entries:  make(map[netip.Addr]*entry, len(w.IPAddresses)),
		services: make(map[types.NamespacedName]*Service, len(w.Services)),
	}
	for i := range w.IPAddresses {
		b.putIPAddress(&w.IPAddresses[i])
	}
	for i := range w.Services {
		b.putService(&w.Services[i])
	}
	return b
}

// putService enters a Service in the place of an earlier state of it, and returns the addresses that either holds.
func (b *addressIndex) putService(s *Service) (touched []netip.Addr) {
	touched = b.dropService(s.Name)
	b.services[s.Name] = s
	for _, a := range s.Addresses {
		e := b.at(a)
		e.claims = append(e.claims, s)
		slices.SortFunc(e.claims, byRight)
		touched = append(touched, a)
	}
	return touched
}

// dropService forgets a Service and returns the addresses that it held.
func (b *addressIndex) dropService(name types.NamespacedName) []netip.Addr {
	old := b.services[name]
	if old == nil {
		return nil
	}
	delete(b.services, name)
	for _, a := range old.Addresses {
		e := b.at(a)
		e.claims = slices.DeleteFunc(e.claims, func(s *Service) bool { return s == old })
		b.prune(a)
	}
	return slices.Clone(old.Addresses)
}

func (b *addressIndex) putIPAddress(ip *IPAddress) { b.at(ip.Address).object = ip }

func (b *addressIndex) dropIPAddress(a netip.Addr) {
	if e := b.entries[a]; e != nil {
		e.object = nil
		b.prune(a)
	}
}

// at returns the entry of an address, a new one if need be.
func (b *addressIndex) at(a netip.Addr) *entry {
	e := b.entries[a]
	if e == nil {
		e = &entry{}
		b.entries[a] = e
	}
	return e
}

func (b *addressIndex) prune(a netip.Addr) {
	if e := b.entries[a]; e.object == nil && len(e.claims) == 0 {
		delete(b.entries, a)
	}
}

// claimed reports whether a Service holds the address.
func (b *addressIndex) claimed(a netip.Addr) bool {
	e := b.entries[a]
	return e != nil && len(e.claims) > 0
}
