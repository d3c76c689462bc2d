package addressindex

import (
	"cmp"
	"maps"
	"math"
	"net/netip"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// ServiceCIDR is what matters of a ServiceCIDR. It is a value; do not change Labels and Ranges.
type ServiceCIDR struct {
	Name   string
	Labels map[string]string
	Ranges []allocator.Range
	// CreatedFor names the policy for whose growth it was created, as v1alpha1.AnnotationCreatedFor.
	CreatedFor string
	// Ready: API servers allocate from it.
	Ready bool
	// Terminating is set once deletion was asked for: such a range offers nothing any more, and covers
	// no address of another one (two equal ranges deleted together would orphan theirs).
	Terminating bool
}

// Usable reports whether addresses are given out.
func (c ServiceCIDR) Usable() bool { return c.Ready && !c.Terminating }

// Equal reports whether two forms of a ServiceCIDR say the same.
func (c ServiceCIDR) Equal(other ServiceCIDR) bool {
	return c.Name == other.Name && c.CreatedFor == other.CreatedFor && c.Ready == other.Ready && c.Terminating == other.Terminating &&
		slices.Equal(c.Ranges, other.Ranges) && maps.Equal(c.Labels, other.Labels)
}

// Contains reports whether a is a usable address of one of the ranges.
func (c ServiceCIDR) Contains(a netip.Addr) bool {
	return slices.ContainsFunc(c.Ranges, func(r allocator.Range) bool { return r.Contains(a) })
}

// RangeBand names a band of a range.
type RangeBand struct {
	CIDR netip.Prefix
	Band allocator.Band
}

// Declare enters ranges that the default ServiceCIDR has whether its object names them or not.
// Where the API server allocates from the bitmap its flag is the truth: the object may not exist
// yet, and a 1.31 or 1.32 API server refuses to add a family to it. Call it before Watch.
func (ix *Index) Declare(ranges []allocator.Range) {
	ix.declared = ranges
	ix.enter(ix.complete(ServiceCIDR{Name: v1alpha1.DefaultServiceCIDR}))
}

func (ix *Index) complete(c ServiceCIDR) ServiceCIDR {
	if c.Name != v1alpha1.DefaultServiceCIDR {
		return c
	}
	for _, r := range ix.declared {
		if !slices.Contains(c.Ranges, r) {
			c.Ranges = append(c.Ranges, r)
		}
	}
	return c
}

func (ix *Index) enter(c ServiceCIDR) (before ServiceCIDR, known bool) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	before, known = ix.ranges[c.Name]
	if !known || !slices.Equal(before.Ranges, c.Ranges) { // status and annotations change more often
		ix.unname(before)
		for _, r := range c.Ranges {
			addName(&ix.names, r.Prefix(), c.Name)
		}
	}
	if !before.Equal(c) {
		ix.ranges[c.Name] = c
		ix.relist(c.Name)
	}
	if ix.allocations[c.Name] == nil {
		ix.allocations[c.Name] = map[RangeBand]uint64{}
	}
	return before, known
}

// unname takes the name of a ServiceCIDR from its prefixes; the caller holds mu.
func (ix *Index) unname(c ServiceCIDR) {
	for _, r := range c.Ranges {
		removeName(&ix.names, r.Prefix(), c.Name)
	}
}

// Allocations returns how many IPAddresses appeared in a band since the start, by any allocator.
func (ix *Index) Allocations(servicecidr string, band RangeBand) uint64 {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	return ix.allocations[servicecidr][band]
}

// NewServiceCIDR reads an object. It leaves out what is no range: the API server has validated the
// rest, and a range that it may accept one day and we do not know must not stop the other ranges.
func NewServiceCIDR(o *networkingv1.ServiceCIDR) ServiceCIDR {
	c := ServiceCIDR{
		Name: o.Name, Labels: o.Labels, CreatedFor: o.Annotations[v1alpha1.AnnotationCreatedFor], Terminating: !o.DeletionTimestamp.IsZero(),
		// Without the condition API servers allocate: the controller that sets it does not run.
		Ready: !meta.IsStatusConditionFalse(o.Status.Conditions, networkingv1.ServiceCIDRConditionReady) &&
			!meta.IsStatusConditionPresentAndEqual(o.Status.Conditions, networkingv1.ServiceCIDRConditionReady, metav1.ConditionUnknown),
	}
	for _, text := range o.Spec.CIDRs {
		if r, err := allocator.ParseRange(text); err == nil {
			c.Ranges = append(c.Ranges, r)
		}
	}
	return c
}

// ServiceCIDR returns the one of a name.
func (ix *Index) ServiceCIDR(name string) (c ServiceCIDR, known bool) {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	c, known = ix.ranges[name]
	return c, known
}

// ServiceCIDRs returns all of them, by name: the same list until one changes. Do not change it.
func (ix *Index) ServiceCIDRs() []ServiceCIDR {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	ix.rangesAsked = true
	if ix.rangesByName == nil {
		ix.rangesByName = slices.SortedFunc(maps.Values(ix.ranges), func(a, b ServiceCIDR) int { return cmp.Compare(a.Name, b.Name) })
	}
	return ix.rangesByName
}

// relist brings the list up to date about one ServiceCIDR, or has it made anew when it is next
// asked for: of thousands that change meanwhile only the first is worth a copy. Lists that callers
// have stay as they are.
func (ix *Index) relist(name string) {
	if !ix.rangesAsked {
		ix.rangesByName = nil
	}
	if ix.rangesAsked = false; ix.rangesByName == nil {
		return
	}
	at, listed := slices.BinarySearchFunc(ix.rangesByName, name, func(c ServiceCIDR, name string) int { return cmp.Compare(c.Name, name) })
	before, after := ix.rangesByName[:at], ix.rangesByName[at:]
	if listed {
		after = after[1:]
	}
	var now []ServiceCIDR
	if c, there := ix.ranges[name]; there {
		now = append(now, c)
	}
	ix.rangesByName = slices.Concat(before, now, after)
}

// Covering returns the ServiceCIDRs that have a as a usable address, terminating ones included.
func (ix *Index) Covering(a netip.Addr) []ServiceCIDR {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	var out []ServiceCIDR
	for _, names := range ix.names.Supernets(netip.PrefixFrom(a, a.BitLen())) {
		for _, name := range names {
			known := slices.ContainsFunc(out, func(c ServiceCIDR) bool { return c.Name == name }) // by a shorter prefix
			if c := ix.ranges[name]; !known && c.Contains(a) {
				out = append(out, c)
			}
		}
	}
	return out
}

// Inside reports whether a is in a ServiceCIDR, also as an address that no Service can have.
func (ix *Index) Inside(a netip.Addr) bool {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	return ix.names.Contains(a)
}

// BandOf returns the band of an address. One that is static in one range and dynamic in another is
// static: that band is the one to keep clean. ok is false when no ServiceCIDR offers the address.
func (ix *Index) BandOf(a netip.Addr) (band allocator.Band, ok bool) {
	for _, c := range ix.Covering(a) {
		for _, r := range c.Ranges {
			b, in := r.BandOf(a)
			if in && b == allocator.Static {
				return b, true
			}
			ok = ok || in
		}
	}
	return allocator.Dynamic, ok
}

// Orphans returns the spans that would be left without any range if the named ServiceCIDR went:
//
//	its ranges      |------------------|
//	live ranges          |-----|   |-------|
//	terminating    |-------------------|          no cover
//	answer          |---|       |-|
func (ix *Index) Orphans(name string) []allocator.Span {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	var cover []allocator.Span
	for _, r := range ix.declared {
		cover = append(cover, r.Span()) // the API server's flag, which no deletion takes away
	}
	for _, c := range ix.ranges {
		if c.Name == name || c.Terminating {
			continue
		}
		for _, r := range c.Ranges {
			cover = append(cover, r.Span())
		}
	}
	var out []allocator.Span
	for _, r := range ix.ranges[name].Ranges {
		out = append(out, r.Span().Subtract(cover...)...)
	}
	return out
}

// serviceCIDRChanged indexes a ServiceCIDR. It always tells of the object itself, whose metadata
// and status may have changed; of its neighbours and addresses only when the cover did.
func (ix *Index) serviceCIDRChanged(last, now *networkingv1.ServiceCIDR, _ bool) {
	if now == nil {
		ix.dropRange(last.Name)
		return
	}
	next := ix.complete(NewServiceCIDR(now))
	before, known := ix.enter(next)
	ix.rangeListeners.tell(now.Name)
	if !known || before.Terminating != next.Terminating || !slices.Equal(before.Ranges, next.Ranges) {
		ix.coverChanged(before, next)
	}
}

// dropRange removes a ServiceCIDR, down to what is declared of it.
func (ix *Index) dropRange(name string) {
	ix.mu.Lock()
	before := ix.ranges[name]
	ix.unname(before)
	delete(ix.ranges, name)
	ix.relist(name)
	delete(ix.allocations, name)
	ix.mu.Unlock()

	after := ix.complete(ServiceCIDR{Name: name})
	if len(after.Ranges) > 0 {
		ix.enter(after)
	}
	ix.rangeListeners.tell(name)
	ix.coverChanged(before, after)
}

// coverChanged wakes every range that meets the old or the new one, and the used addresses inside:
// their band may differ now, or no range may offer them any more.
func (ix *Index) coverChanged(before, after ServiceCIDR) {
	ranges := slices.Concat(before.Ranges, after.Ranges)
	var touched []netip.Prefix
	for _, r := range ranges {
		touched = append(touched, r.Prefix())
	}
	for _, name := range ix.meeting(touched) {
		ix.rangeListeners.tell(name)
	}
	for _, r := range ranges {
		for _, a := range ix.pool.Used(r.Span(), math.MaxInt) {
			ix.coverListeners.tell(a)
		}
	}
}
