package migration

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/relation"
)

// judge holds what the decision on a single address depends on beside its entry.
type judge struct {
	now       time.Time
	allocator Allocator
	ranges    []allocator.Range // where none is known nothing is out of it
}

// decision is a finding about an address and the step that mends it. The zero one: all is well.
type decision struct {
	finding Finding
	step    Step
	again   time.Duration // when a grace is over, for another look
}

// address judges the Services that hold an address and its IPAddress like the repair loop of an API
// server that begins to allocate from IPAddresses.
func (j judge) address(a netip.Addr, e entry) decision {
	switch state := relation.Of(a, e.owner(), e.object); {
	case state == relation.Unclaimed:
		return j.unclaimed(a, e)
	case len(e.claims) == 0:
		return decision{} // a reservation
	case len(j.ranges) > 0 && !slices.ContainsFunc(j.ranges, func(r allocator.Range) bool { return r.Contains(a) }):
		return found(OutOfRange, a, e, "", "create the Service anew, or add a ServiceCIDR with this address; nothing is done to it here")
	case j.allocator.WritesIPAddresses() && addressindex.Misspells(e.claims[0].Misspelt, a):
		// A finding of its own: the API server deletes the IPAddress over and over, whatever writes it.
		return decision{}
	case state == relation.Missing:
		v := found(IPAddressMissing, a, e, "", "create it")
		v.step = Step{Do: CreateIPAddress, Address: a, Service: e.claims[0].Name.String()}
		return v
	case e.object.Deleting:
		return found(IPAddressMissing, a, e, "the IPAddress is being deleted and a finalizer holds it", "wait for the finalizer, then run again")
	case foreign(e.object):
		return found(IPAddressForeign, a, e, fmt.Sprintf("it names %s and is managed by %q", parentText(e.object), e.object.ManagedBy),
			"delete that IPAddress, or create the Service anew; what others manage is never touched here")
	case state == relation.WrongParent && j.grace(e.object) > 0:
		return decision{again: j.grace(e.object)} // the address may have passed on to a Service that is about to be written
	case state == relation.WrongParent:
		return j.destroying(ReplaceIPAddress, found(IPAddressWrongParent, a, e, "it names "+parentText(e.object),
			"delete it and create it for the Service: the parent of an IPAddress cannot be changed"), a, e)
	case state == relation.WrongLabels:
		v := found(IPAddressWrongLabels, a, e, fmt.Sprintf("managed-by is %q, ip-family is %q", e.object.ManagedBy, e.object.Family), "write the labels")
		v.step = j.onObject(RelabelIPAddress, a, e)
		return v
	default:
		return decision{}
	}
}

// duplicate judges whether an address is held more than once: a finding beside the IPAddress's.
func (j judge) duplicate(a netip.Addr, e entry) decision {
	if len(e.claims) < 2 {
		return decision{}
	}
	var others []string
	for _, s := range e.claims[1:] {
		others = append(others, s.Name.String())
	}
	return found(DuplicateClusterIP, a, e, fmt.Sprintf("Service %s held it first", e.claims[0].Name),
		fmt.Sprintf("the IPAddress goes to Service %s; create %s anew, so that it gets an address of its own", e.claims[0].Name, strings.Join(others, ", ")))
}

// unclaimed judges an IPAddress of API servers without a Service.
func (j judge) unclaimed(a netip.Addr, e entry) decision {
	switch {
	case j.grace(e.object) > 0:
		return decision{again: j.grace(e.object)} // its Service is about to be written
	case e.object.Deleting: // an API server's repair loop spins on it
		return found(IPAddressOrphan, a, e, "it is being deleted and a finalizer holds it",
			"take the finalizer away, or give it another managed-by label; an API server that allocates from IPAddresses would delete it over and over")
	}
	return j.destroying(DeleteIPAddress, found(IPAddressOrphan, a, e, "it names "+parentText(e.object), "delete it"), a, e)
}

// grace is what is left of the time in which the Service of an IPAddress may still be on its way. A
// cluster may flip while it is looked at, so that each object that an API server wrote has one.
func (j judge) grace(o *relation.IPAddress) time.Duration {
	return o.Underway(j.now, !j.allocator.WritesIPAddresses())
}

// destroying adds the step, unless the object has a finalizer, whose controller decides about it.
func (j judge) destroying(do Action, v decision, a netip.Addr, e entry) decision {
	if held := e.object.Finalizers; len(held) > 0 {
		v.finding.Detail += ", and is held by " + strings.Join(held, ", ")
		v.finding.Plan = "the controller that set the finalizer takes it away, then run again"
		return v
	}
	v.step = j.onObject(do, a, e)
	return v
}

func (j judge) onObject(do Action, a netip.Addr, e entry) Step {
	s := Step{Do: do, Address: a, UID: e.object.UID, ResourceVersion: e.object.ResourceVersion}
	if len(e.claims) > 0 {
		s.Service = e.claims[0].Name.String()
	}
	return s
}

// foreign reports whether another manager keeps the object, by its label or a parent of other kind.
// The repair is bolder: it takes an address back for the Service that is named, or that has it.
func foreign(o *relation.IPAddress) bool {
	return o.Foreign() || o.ManagedBy == "" && o.Service.Name == ""
}

func found(k Kind, a netip.Addr, e entry, detail, plan string) decision {
	f := Finding{Kind: k, Address: a, Detail: detail, Plan: plan}
	for _, s := range e.claims {
		f.Objects = append(f.Objects, "Service "+s.Name.String())
	}
	if e.object != nil {
		f.Objects = append(f.Objects, "IPAddress "+a.String())
	}
	return decision{finding: f}
}

func parentText(o *relation.IPAddress) string {
	if o.Service.Name == "" {
		return "no Service"
	}
	return "Service " + o.Service.String()
}

// holders is which Services hold an address and which IPAddress stands on it. It is kept up to
// date one object at a time, at a cost that does not depend on their number.
type holders struct {
	entries  map[netip.Addr]entry
	services map[types.NamespacedName]*Service
}

type entry struct {
	claims []*Service // the rightful owner first
	object *relation.IPAddress
}

// owner is the Service with the right to the address, zero without any.
func (e entry) owner() (name types.NamespacedName) {
	if len(e.claims) > 0 {
		name = e.claims[0].Name
	}
	return name
}

func newHolders(w Snapshot) *holders {
	h := &holders{make(map[netip.Addr]entry, len(w.IPAddresses)), make(map[types.NamespacedName]*Service, len(w.Services))}
	for i := range w.IPAddresses {
		h.putIPAddress(&w.IPAddresses[i])
	}
	for i := range w.Services {
		h.putService(&w.Services[i])
	}
	return h
}

// putService enters a Service in place of its earlier state, and returns the addresses of both.
func (h *holders) putService(s *Service) (touched []netip.Addr) {
	touched = append(h.dropService(s.Name), s.Addresses...)
	h.services[s.Name] = s
	for _, a := range s.Addresses {
		e := h.entries[a]
		e.claims = append(e.claims, s)
		relation.Rank(e.claims, func(s *Service) relation.Claim {
			return relation.Claim{Service: s.Name, Created: s.Created, Misspelt: addressindex.Misspells(s.Misspelt, a)}
		})
		h.entries[a] = e
	}
	return touched
}

func (h *holders) dropService(name types.NamespacedName) []netip.Addr {
	old := h.services[name]
	if old == nil {
		return nil
	}
	delete(h.services, name)
	for _, a := range old.Addresses {
		e := h.entries[a]
		e.claims = slices.DeleteFunc(e.claims, func(s *Service) bool { return s == old })
		h.set(a, e)
	}
	return slices.Clone(old.Addresses)
}

func (h *holders) putIPAddress(ip *relation.IPAddress) {
	h.entries[ip.Address] = entry{h.entries[ip.Address].claims, ip}
}

func (h *holders) dropIPAddress(a netip.Addr) { h.set(a, entry{claims: h.entries[a].claims}) }

func (h *holders) set(a netip.Addr, e entry) {
	h.entries[a] = e
	if e.object == nil && len(e.claims) == 0 {
		delete(h.entries, a)
	}
}

// keys are the names of all Services and IPAddresses, "namespace/name" and an address.
func (h *holders) keys() sets.Set[string] {
	keys := sets.New[string]()
	for name := range h.services {
		keys.Insert(name.String())
	}
	for a, e := range h.entries {
		if e.object != nil {
			keys.Insert(a.String())
		}
	}
	return keys
}
