package migration

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
)

// creationGrace is how long an API server may take from an IPAddress to its Service. A cluster may
// flip while it is looked at, so that each object that an API server wrote has this grace.
const creationGrace = time.Minute

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

// address judges the relation of KEP-1880 between the Services that hold an address and its
// IPAddress, like the repair loop of an API server that begins to allocate from IPAddresses.
func (j judge) address(a netip.Addr, e entry) decision {
	switch {
	case len(e.claims) == 0:
		return j.unclaimed(a, e)
	case len(j.ranges) > 0 && !slices.ContainsFunc(j.ranges, func(r allocator.Range) bool { return r.Contains(a) }):
		return found(OutOfRange, a, e, "", "create the Service anew, or add a ServiceCIDR with this address; nothing is done to it here")
	case j.allocator.WritesIPAddresses() && e.claims[0].misspells(a):
		// A finding of its own: the API server deletes the IPAddress over and over, whatever writes it.
		return decision{}
	case e.object == nil:
		v := found(IPAddressMissing, a, e, "", "create it")
		v.step = Step{Do: CreateIPAddress, Address: a, Service: e.claims[0].Name.String()}
		return v
	case e.object.Deleting:
		return found(IPAddressMissing, a, e, "the IPAddress is being deleted and a finalizer holds it", "wait for the finalizer, then run again")
	case foreign(e.object):
		return found(IPAddressForeign, a, e, fmt.Sprintf("it names %s and is managed by %q", parentText(e.object), e.object.ManagedBy),
			"delete that IPAddress, or create the Service anew; what others manage is never touched here")
	case e.object.Service != e.claims[0].Name && j.grace(e.object) > 0:
		return decision{again: j.grace(e.object)} // the address may have passed on to a Service that is about to be written
	case e.object.Service != e.claims[0].Name:
		return j.destroying(ReplaceIPAddress, found(IPAddressWrongParent, a, e, "it names "+parentText(e.object),
			"delete it and create it for the Service: the parent of an IPAddress cannot be changed"), a, e)
	case e.object.ManagedBy != v1alpha1.ManagedByAPIServer || e.object.Family != allocator.FamilyOf(a).String():
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

// unclaimed judges an IPAddress without a Service: a reservation, unless it is of API servers.
func (j judge) unclaimed(a netip.Addr, e entry) decision {
	switch {
	case e.object == nil, e.object.ManagedBy != v1alpha1.ManagedByAPIServer:
		return decision{}
	case j.grace(e.object) > 0:
		return decision{again: j.grace(e.object)} // its Service is about to be written
	case e.object.Deleting: // an API server's repair loop spins on it
		return found(IPAddressOrphan, a, e, "it is being deleted and a finalizer holds it",
			"take the finalizer away, or give it another managed-by label; an API server that allocates from IPAddresses would delete it over and over")
	}
	return j.destroying(DeleteIPAddress, found(IPAddressOrphan, a, e, "it names "+parentText(e.object), "delete it"), a, e)
}

// grace is what is left of the time in which the Service of an IPAddress may still be on its way.
func (j judge) grace(o *IPAddress) time.Duration {
	if !o.ByAPIServer && !j.allocator.WritesIPAddresses() {
		return 0
	}
	return creationGrace - j.now.Sub(o.Created)
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
func foreign(o *IPAddress) bool {
	return o.ManagedBy == "" && o.Service.Name == "" || o.ManagedBy != "" && o.ManagedBy != v1alpha1.ManagedByAPIServer
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

func parentText(o *IPAddress) string {
	if o.Service.Name == "" {
		return "no Service"
	}
	return "Service " + o.Service.String()
}

// addressIndex is which Services hold an address and which IPAddress stands on it. It is kept up to
// date one object at a time, at a cost that does not depend on their number.
type addressIndex struct {
	entries  map[netip.Addr]entry
	services map[types.NamespacedName]*Service
}

type entry struct {
	claims []*Service // the rightful owner first
	object *IPAddress
}

func newAddressIndex(w Snapshot) *addressIndex {
	b := &addressIndex{make(map[netip.Addr]entry, len(w.IPAddresses)), make(map[types.NamespacedName]*Service, len(w.Services))}
	for i := range w.IPAddresses {
		b.putIPAddress(&w.IPAddresses[i])
	}
	for i := range w.Services {
		b.putService(&w.Services[i])
	}
	return b
}

// putService enters a Service in place of its earlier state, and returns the addresses of both.
func (b *addressIndex) putService(s *Service) (touched []netip.Addr) {
	touched = append(b.dropService(s.Name), s.Addresses...)
	b.services[s.Name] = s
	for _, a := range s.Addresses {
		e := b.entries[a]
		e.claims = append(e.claims, s)
		// The one that spells it right, and had it first, keeps it; names only break a tie.
		slices.SortFunc(e.claims, func(s, t *Service) int {
			return cmp.Or(compareBool(s.misspells(a), t.misspells(a)), s.Created.Compare(t.Created), strings.Compare(s.Name.String(), t.Name.String()))
		})
		b.entries[a] = e
	}
	return touched
}

// misspells reports whether a Service writes an address otherwise than its IPAddress is named.
func (s *Service) misspells(a netip.Addr) bool {
	return slices.ContainsFunc(s.Misspelt, func(text string) bool {
		b, ok := addressindex.ParseClusterIP(text)
		return ok && a == b
	})
}

// compareBool puts false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

func (b *addressIndex) dropService(name types.NamespacedName) []netip.Addr {
	old := b.services[name]
	if old == nil {
		return nil
	}
	delete(b.services, name)
	for _, a := range old.Addresses {
		e := b.entries[a]
		e.claims = slices.DeleteFunc(e.claims, func(s *Service) bool { return s == old })
		b.set(a, e)
	}
	return slices.Clone(old.Addresses)
}

func (b *addressIndex) putIPAddress(ip *IPAddress) {
	b.entries[ip.Address] = entry{b.entries[ip.Address].claims, ip}
}

func (b *addressIndex) dropIPAddress(a netip.Addr) { b.set(a, entry{claims: b.entries[a].claims}) }

func (b *addressIndex) set(a netip.Addr, e entry) {
	b.entries[a] = e
	if e.object == nil && len(e.claims) == 0 {
		delete(b.entries, a)
	}
}

// keys are the names of all Services and IPAddresses, "namespace/name" and an address.
func (b *addressIndex) keys() sets.Set[string] {
	keys := sets.New[string]()
	for name := range b.services {
		keys.Insert(name.String())
	}
	for a, e := range b.entries {
		if e.object != nil {
			keys.Insert(a.String())
		}
	}
	return keys
}
