package steering

import (
	"cmp"
	"fmt"
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

// Refusal says in whose name a Service may not have what it asks for.
//
// Its user is told what the API server itself would tell, and the name of a policy that refuses
// where the API server would not: an admin who is asked for help can look there. Only admins learn
// which Service has an address, for which it is kept, and which Services a policy selects: else
// users of one namespace would learn of other Services by asking for one address after another.
type Refusal struct {
	// Policy refuses; empty for none.
	Policy string
	// Message is what the user is told.
	Message string
	// Reason is what admins are told beside the name of the policy, empty if Message says all.
	Reason string
}

// Why is the reason for admins.
func (r *Refusal) Why() string { return cmp.Or(r.Reason, r.Message) }

// elsewhere is what can be done about an address.
const elsewhere = "; choose another address, leave the choice to the cluster, or ask an administrator"

// Taken refuses an address that another Service has or had, or that a reservation keeps. The user
// is told the same in all cases, in the words of the API server, which finds an IPAddress there.
func Taken(policy string, a netip.Addr, reason string) *Refusal {
	return &Refusal{policy, fmt.Sprintf("failed to allocate IP %s: provided IP is already allocated", a) + elsewhere, reason}
}

// Cools refuses a Service an address that cools down until then. Its user is told of a Service of
// its own namespace, which it can create again, and of no other one: then the answer is Taken's.
func Cools(policy string, a netip.Addr, until time.Time, last, to types.NamespacedName) *Refusal {
	when := until.UTC().Format(time.RFC3339)
	r := Taken(policy, a, fmt.Sprintf("the address %s cools down until %s after Service %s had it; before that it is for a Service of that name, for one that a reservation names, "+
		"or for all when coolDown is shorter", a, when, last))
	if last.Namespace == to.Namespace {
		r.Message = fmt.Sprintf("failed to allocate IP %s: provided IP is already allocated: it cools down until %s after Service %s had it, which alone may have it back before that", a, when, last) + elsewhere +
			fmt.Sprintf(" (ServiceCIDRPolicy %q: coolDown, or a reservation for this Service)", policy)
	}
	return r
}

// reservedFor refuses an address of a reservation.
func reservedFor(r Reservation, a netip.Addr) *Refusal {
	whose := "from all"
	if r.For != (types.NamespacedName{}) {
		whose = "for Service " + r.For.String()
	}
	return Taken(r.Policy, a, fmt.Sprintf("the address %s is kept %s by the reservation %q", a, whose, r.Name))
}

// closedTo refuses an address of an exclusive range.
func closedTo(owner *Policy, a netip.Addr) *Refusal {
	return &Refusal{owner.Name, fmt.Sprintf("ServiceCIDRPolicy %q: the address %s is not open to this Service", owner.Name, a) + elsewhere,
		fmt.Sprintf("the address %s lies in a range that the policy keeps for the Services that it selects", a)}
}

// cordoned refuses an address of a cordoned range.
func cordoned(by *Policy, a netip.Addr) *Refusal {
	return &Refusal{by.Name, fmt.Sprintf("ServiceCIDRPolicy %q: the address %s lies in a range that is cordoned: no Service is given an address of it", by.Name, a) + elsewhere,
		fmt.Sprintf("the address %s lies in a range that the policy has cordoned (allocation: Cordoned)", a)}
}

// cordonedServiceCIDR refuses an additional address of a ServiceCIDR.
func cordonedServiceCIDR(by *Policy, serviceCIDR string) *Refusal {
	return &Refusal{Policy: by.Name, Message: fmt.Sprintf("ServiceCIDRPolicy %q: ServiceCIDR %s is cordoned: no Service is given an address of it; "+
		"name another ServiceCIDR, or ask an administrator", by.Name, serviceCIDR)}
}

// JustWithheld refuses a Service whose address was found in a range that a policy has taken out of
// use while the request waited for it.
func JustWithheld(by *Policy, f allocator.Family) *Refusal {
	return &Refusal{Policy: by.Name, Message: fmt.Sprintf("ServiceCIDRPolicy %q: the range in which an %s address was found for this Service has been taken out of use just now; "+
		"send the Service again", by.Name, f)}
}

// undrawable says that the last policy of a route refuses because nothing is drawn from its ranges,
// free or not. Nil, if something is.
func (s *Compiled) undrawable(p *Policy, f allocator.Family) *Refusal {
	var by *Policy
	for _, r := range p.ranges(f) {
		if by = s.RestrictionOf(r); by == nil {
			return nil
		}
	}
	if by == nil {
		return nil
	}
	told, what := "its range is cordoned; ask an administrator", "cordoned"
	if !cordons(by) {
		told, what = "its range gives addresses by request only; choose one in spec.clusterIPs, or ask an administrator", "by request only"
	}
	return &Refusal{p.Name, fmt.Sprintf("ServiceCIDRPolicy %q: no %s address is drawn for this Service: %s", p.Name, f, told),
		fmt.Sprintf("no %s address is drawn from its ranges (%s), which are %s by ServiceCIDRPolicy %q; set allocation: Automatic there, add a ServiceCIDR to the policy, "+
			"or set onFull: Fallback", f, p.rangesText(f), what, by.Name)}
}

// Full says why a route has no address left of a family: its policy refuses, or policies keep all
// that is left for other Services, or from draws. Nil, where the API server may look itself.
func (s *Compiled) Full(r *Route, f allocator.Family) *Refusal {
	told := fmt.Sprintf("no %s address is left for this Service: range is full; delete Services that are not needed, or ask an administrator", f)
	switch {
	case r.Fails:
		last := r.Policies[len(r.Policies)-1]
		if refusal := s.undrawable(last, f); refusal != nil {
			return refusal
		}
		return &Refusal{last.Name, fmt.Sprintf("ServiceCIDRPolicy %q: ", last.Name) + told, fmt.Sprintf("no %s address is left in its ranges (%s); "+
			"delete Services there, add a ServiceCIDR to the policy, or set onFull: Fallback", f, last.rangesText(f))}
	case s.closes[f] > 0:
		return &Refusal{"", told, fmt.Sprintf("no %s address is left in the ranges that are open to this Service; "+
			"other ranges are kept by ServiceCIDRPolicies for the Services that they select, by request only, or cordoned: delete Services, or add a ServiceCIDR", f)}
	}
	return nil
}
