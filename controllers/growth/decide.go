package growth

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/conditions"
	"github.com/clusterip-operator/clusterip-operator/internal/wording"
)

// inputs is everything that is known about the growth of one policy. decide reads nothing else.
type inputs struct {
	generation int64
	supernets  []supernet
	percent    int
	within     time.Duration // 0: no forecast
	maxRanges  int
	dryRun     bool
	// invalid: the policy has mistakes in its spec, and may have no range because of that.
	invalid bool
	// cordoned: the policy gives out no addresses, and needs no range.
	cordoned bool
	// families are those of the cluster. None: not known yet.
	families []allocator.Family
	// ranges are those of the policy, ready or not, without those that are being deleted.
	ranges []rangeUse
	// created are the ServiceCIDRs that were created for the policy.
	created []created
	// obstacles are what no block may overlap: ServiceCIDRs, and the networks in use by other things.
	obstacles []addressindex.Network
}

// rangeUse is the use of the dynamic band of a range, as far as the policy may draw from it.
type rangeUse struct {
	prefix netip.Prefix
	usage  allocator.Usage
	// perDay is by how many addresses a day the use grows; 0 if it does not, or that is not known.
	perDay int64
	// idle is the ServiceCIDR if it was created for the policy and long without use, empty otherwise.
	idle string
}

// created is a ServiceCIDR that was created for a policy.
type created struct {
	name   string
	prefix netip.Prefix
	// ready: API servers allocate from it. lost: another policy has it for itself.
	ready, lost bool
	// withheld is the other policy that has it cordoned or by request only, empty for none.
	withheld string
}

// decision is which ranges to create, and what to say.
type decision struct {
	create     []netip.Prefix
	conditions []metav1.Condition
}

// decide says which ranges a policy needs now, one of each family at most.
func decide(in inputs) decision {
	var d decision
	if in.cordoned {
		d.conditions = conditions.Observed(in.generation, cordoned()...)
		return d
	}
	var all []outlook
	for _, f := range allocator.Families {
		from := slices.DeleteFunc(slices.Clone(in.supernets), func(s supernet) bool { return allocator.FamilyOf(s.prefix.Addr()) != f })
		if len(from) > 0 {
			all = append(all, in.outlook(f, from))
		}
	}
	for _, o := range all {
		if o.creates() && !in.dryRun {
			d.create = append(d.create, o.next)
		}
	}
	d.conditions = conditions.Observed(in.generation, growing(in, all), exhausted(all))
	return d
}

// outlook is how a policy stands in one family.
type outlook struct {
	// need says why another range is needed; empty: it is not.
	need string
	// next is the range that comes next, the zero Prefix if there is none: reason and why say why.
	next        netip.Prefix
	reason, why string
	// spare are ServiceCIDRs that the family could do without.
	spare []string
}

func (o outlook) creates() bool { return o.need != "" && o.next.IsValid() }

// outlook looks at one family, whose supernets are given.
func (in inputs) outlook(f allocator.Family, from []supernet) outlook {
	o, cut := outlook{}, from[0]
	for _, s := range from {
		if o.next = s.block(in.obstacles); o.next.IsValid() {
			cut = s
			break
		}
	}
	total := in.sum(f)
	o.need, o.spare = in.need(f, total, cut.size()), in.spare(f, total, cut.size())
	if o.reason, o.why = in.bound(f); o.reason != "" {
		o.next = netip.Prefix{}
	} else if !o.next.IsValid() {
		o.reason, o.why = reasonNoBlockLeft, in.full(f, from)
	}
	return o
}

// need says why a family needs another range. Ranges count, ready or not: none is created twice.
//
// The share alone would not do: small blocks beside a large range leave it as it is, and one would
// follow the other. So there is enough while as much is free as a block brings.
func (in inputs) need(f allocator.Family, total sum, block float64) string {
	switch {
	case total.size == 0:
		return fmt.Sprintf("the policy has no %s range", f)
	case total.free <= total.size*float64(in.percent)/100 && total.free < block:
		return fmt.Sprintf("no more than %d %% of the %s addresses are free", in.percent, f)
	case in.within > 0 && total.perDay > 0 && total.free <= total.size/2 && total.free/total.perDay*float64(24*time.Hour) < float64(in.within):
		return fmt.Sprintf("the %s ranges will be full within %s if they go on filling up as now", f, in.within)
	default:
		return ""
	}
}

// spare are the unused ServiceCIDRs that a family could do without: all together, and with a
// block's addresses to spare, so that the next few Services do not have them created anew.
func (in inputs) spare(f allocator.Family, total sum, block float64) (names []string) {
	for _, r := range in.ranges {
		if r.idle == "" || allocator.FamilyOf(r.prefix.Addr()) != f {
			continue
		}
		rest := sum{total.size - float64(r.usage.Size), total.free - float64(r.usage.Free), total.perDay}
		if in.need(f, sum{rest.size, rest.free - block, rest.perDay}, block) == "" {
			total, names = rest, append(names, r.idle)
		}
	}
	return names
}

// sum is the use of all ranges of a family. An IPv6 range may have 2^64 addresses.
type sum struct{ size, free, perDay float64 }

// sum adds up the ranges of a family. A range that lies in another one of them is a part of it.
func (in inputs) sum(f allocator.Family) (total sum) {
	var counted []netip.Prefix
	largestFirst := func(a, b rangeUse) int { return cmp.Compare(a.prefix.Bits(), b.prefix.Bits()) }
	for _, r := range slices.SortedStableFunc(slices.Values(in.ranges), largestFirst) {
		if allocator.FamilyOf(r.prefix.Addr()) != f || slices.ContainsFunc(counted, r.prefix.Overlaps) {
			continue
		}
		counted = append(counted, r.prefix)
		total = sum{total.size + float64(r.usage.Size), total.free + float64(r.usage.Free), total.perDay + float64(r.perDay)}
	}
	return total
}

// bound says what keeps a family from growing, whatever blocks there are.
func (in inputs) bound(f allocator.Family) (reason, why string) {
	if in.invalid {
		return reasonInvalid, "The spec has mistakes; see Accepted."
	}
	if len(in.families) > 0 && !slices.Contains(in.families, f) {
		return reasonFamilyNotServed, fmt.Sprintf("The cluster has no %s Services: take its supernets out of growth.from.", f)
	}
	n := 0
	for _, c := range in.created {
		if allocator.FamilyOf(c.prefix.Addr()) != f {
			continue
		}
		n++
		if c.lost {
			return reasonRangeLost, fmt.Sprintf("Another policy has ServiceCIDR %s, which was created for this one, for itself (see Conflicting): "+
				"give serviceCIDRSelector labels that no better policy selects.", c.name)
		}
		if c.withheld != "" {
			return reasonWithheld, fmt.Sprintf("ServiceCIDRPolicy %q keeps ServiceCIDR %s, which was created for this one, from draws (allocation there): "+
				"take it from that policy, or set allocation: Automatic there.", c.withheld, c.name)
		}
	}
	if n >= in.maxRanges {
		return reasonMaxRanges, fmt.Sprintf("%d %s ranges were created, which is what growth.maxRanges allows: raise it.", n, f)
	}
	return "", ""
}

// obstaclesShown is how many of the networks that are in the way a condition names.
const obstaclesShown = 3

// full says that a family has no block left, and what is in the way.
func (in inputs) full(f allocator.Family, from []supernet) string {
	var supernets, names []string
	for _, s := range from {
		supernets = append(supernets, fmt.Sprintf("%s (blocks of /%d)", s.prefix, s.bits))
		for _, o := range in.obstacles {
			if name := fmt.Sprintf("%s has %s", o.Owner, o.Prefix); o.Prefix.Overlaps(s.prefix) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return fmt.Sprintf("No %s block is left in %s: %s. Add a supernet to growth.from.", f, strings.Join(supernets, ", "), wording.First(names, obstaclesShown))
}
