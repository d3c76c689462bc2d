package policy

import (
	"math"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
)

// inputs is everything that is known about one policy. status reads nothing else.
type inputs struct {
	generation int64
	policy     *steering.Policy
	// asks: the policy asks for ranges; selects: by their labels.
	asks, selects bool
	ranges        []rangeUse
	// reserved counts the addresses that the policy reserves, absent those of them that are not in
	// place, pending those absent ones that nothing holds. first are the first of the absent.
	reserved, absent, pending int
	first                     []absentee
	// elsewhere counts the reserved addresses that the policy keeps and that no range of its own has.
	elsewhere int
	// enforces: the API server is to keep other Services out. enforced is the condition Enforced,
	// which another controller writes, nil without one.
	enforces bool
	enforced *metav1.Condition
}

// rangeUse is the use of a range of the policy.
type rangeUse struct {
	steering.PolicyRange
	static, dynamic bandUse
}

// bandUse is the use of one band. kept is how many of its addresses reservations keep.
type bandUse struct {
	allocator.Usage
	kept uint64
}

// absentee is a reserved address that is not in place.
type absentee struct {
	address     netip.Addr
	reservation string
	// why says what has it; empty when nothing has and it is only a matter of time.
	why string
}

// namesShown is how many absentees a condition names.
const namesShown = 3

// addAbsent counts an absentee and shows the first. Those in use go before: the rest come in time.
func (in *inputs) addAbsent(one absentee) {
	in.absent++
	if one.why == "" {
		in.pending++
	}
	if len(in.first) == namesShown && one.why != "" {
		if i := slices.IndexFunc(in.first, func(a absentee) bool { return a.why == "" }); i >= 0 {
			in.first = slices.Delete(in.first, i, i+1)
		}
	}
	if len(in.first) < namesShown {
		in.first = append(in.first, one)
	}
}

// status is the status that a policy should have, without refusals (not ours) and times.
func status(in inputs) v1alpha1.ServiceCIDRPolicyStatus {
	out := v1alpha1.ServiceCIDRPolicyStatus{
		ObservedGeneration: in.generation,
		Conditions:         conditionsOf(in),
	}
	counted := map[netip.Prefix]bool{}
	for _, r := range in.ranges {
		prefix := r.Range.Prefix()
		one := v1alpha1.PolicyRange{CIDR: prefix.String(), ServiceCIDR: r.ServiceCIDR, Static: r.static.status(), Dynamic: r.dynamic.status()}
		out.Ranges = append(out.Ranges, one)
		if !counted[prefix] { // two ServiceCIDRs may offer the same range
			counted[prefix] = true
			out.Summary.Ranges++
			addTo(&out.Summary.BandStatus, one.Static)
			addTo(&out.Summary.BandStatus, one.Dynamic)
		}
	}
	addTo(&out.Summary.BandStatus, v1alpha1.BandStatus{Reserved: int64(in.elsewhere)})
	return out
}

// status counts for users: what other managers reserve is used, what our reservations keep is not.
func (u bandUse) status() v1alpha1.BandStatus {
	kept := min(u.kept, u.Reserved)
	capped := func(n uint64) int64 { return int64(min(n, math.MaxInt64)) }
	return v1alpha1.BandStatus{
		Size: capped(u.Size), Used: capped(u.Allocated + u.Reserved - kept), Free: capped(u.Free),
		Cooling: capped(u.Cooling), Reserved: capped(kept),
	}
}

// addTo adds numbers that are not negative, and stops at the largest.
func addTo(sum *v1alpha1.BandStatus, b v1alpha1.BandStatus) {
	plus := func(to *int64, n int64) { *to += min(n, math.MaxInt64-*to) }
	plus(&sum.Size, b.Size)
	plus(&sum.Used, b.Used)
	plus(&sum.Free, b.Free)
	plus(&sum.Cooling, b.Cooling)
	plus(&sum.Reserved, b.Reserved)
}

// due reports whether to write a status, or how much later: mere counts wait since the last write.
func due(have, want v1alpha1.ServiceCIDRPolicyStatus, sinceWritten time.Duration) (write bool, wait time.Duration) {
	switch {
	case says(have, want):
		return false, 0
	case canWait(have, want) && sinceWritten < countsEvery:
		return false, countsEvery - sinceWritten
	default:
		return true, 0
	}
}

// says reports whether a status has all that is wanted, whatever else it has.
func says(have, want v1alpha1.ServiceCIDRPolicyStatus) bool {
	return have.Summary == want.Summary && equality.Semantic.DeepEqual(have.Ranges, want.Ranges) && judges(have, want)
}

// judges reports whether a status has the conditions that are wanted.
func judges(have, want v1alpha1.ServiceCIDRPolicyStatus) bool {
	return have.ObservedGeneration == want.ObservedGeneration &&
		!slices.ContainsFunc(want.Conditions, func(c metav1.Condition) bool {
			was := meta.FindStatusCondition(have.Conditions, c.Type)
			return was == nil || !equality.Semantic.DeepEqual(*was, c)
		})
}

// canWait reports whether a status lacks only counts, none of which came from zero or went to it.
func canWait(have, want v1alpha1.ServiceCIDRPolicyStatus) bool {
	return judges(have, want) && slices.EqualFunc(have.Ranges, want.Ranges, func(a, b v1alpha1.PolicyRange) bool {
		return a.CIDR == b.CIDR && a.ServiceCIDR == b.ServiceCIDR && present(a) == present(b)
	})
}

// present says which kinds of addresses there are in a range: free, cooling, reserved.
func present(r v1alpha1.PolicyRange) [3]bool {
	return [3]bool{
		r.Static.Free > 0 || r.Dynamic.Free > 0,
		r.Static.Cooling > 0 || r.Dynamic.Cooling > 0,
		r.Static.Reserved > 0 || r.Dynamic.Reserved > 0,
	}
}

// turnedBad returns the conditions that say now what is wrong and said something else before.
func turnedBad(before, now []metav1.Condition) []metav1.Condition {
	return slices.DeleteFunc(slices.Clone(now), func(c metav1.Condition) bool {
		was := meta.FindStatusCondition(before, c.Type)
		return !bad(c) || (was != nil && bad(*was) && was.Reason == c.Reason)
	})
}

// bad reports whether an admin has to act and no other condition says so. What is on its way, a
// range or a reservation that is being written, is nothing to warn of. Ready sums up the others,
// and Accepted and Conflicting tell first of mistakes and of better policies.
func bad(c metav1.Condition) bool {
	switch c.Type {
	case v1alpha1.PolicyConflicting:
		return c.Status == metav1.ConditionTrue
	case v1alpha1.PolicyReady:
		return false
	case v1alpha1.PolicyProgrammed:
		return c.Status == metav1.ConditionFalse && !onItsWay(c) && c.Reason != ReasonOutranked && c.Reason != ReasonInvalid
	default:
		return c.Status == metav1.ConditionFalse
	}
}
