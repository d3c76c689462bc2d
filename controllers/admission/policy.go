package admission

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
)

// PolicyGuard refuses ServiceCIDRPolicies that cannot be followed, or that reserve what another
// policy has reserved. It warns of what a policy has to wait for or loses to another policy, and of
// which Services it may hurt. It is safe for concurrent use. Where it lacks information it lets the
// request pass: the conditions of the policy will tell.
type PolicyGuard struct {
	Policies *steering.Cache
}

// Handle implements admission.Handler.
func (g *PolicyGuard) Handle(ctx context.Context, req admission.Request) admission.Response {
	before, after, err := objectsOf[v1alpha1.ServiceCIDRPolicy](req.AdmissionRequest)
	if err != nil || after == nil || before != nil && equality.Semantic.DeepEqual(before.Spec, after.Spec) {
		return respond(ctx, "", nil, err)
	}
	reservations, mistakes := steering.Validate(after)
	if !g.Policies.Synced() && len(mistakes) == 0 {
		return admission.Allowed("")
	}
	if len(mistakes) == 0 {
		mistakes = overlappingReservations(before, after, reservations, g.Policies.Current())
	}
	if len(mistakes) > 0 {
		return admission.Denied(fmt.Sprintf("ServiceCIDRPolicy %q: %s", after.Name, strings.Join(mistakes, "; ")))
	}
	return admission.Allowed("").WithWarnings(warnings(after, g.Policies.Current())...)
}

// overlappingReservations says which new reservations take what another policy has reserved. Old
// ones stay: a policy that lost its part must remain editable. all are those of now as Validate
// has read them, with no mistake; it has bounded their size.
func overlappingReservations(before, now *v1alpha1.ServiceCIDRPolicy, all []steering.Reservation, s *steering.Compiled) []string {
	var out []string
	for i, mine := range all {
		text := now.Spec.Reservations[i].Address
		if before != nil && slices.ContainsFunc(before.Spec.Reservations, func(r v1alpha1.Reservation) bool { return r.Address == text }) {
			continue
		}
		var last steering.Reservation
		for a := range mine.Addresses() {
			theirs, ok := s.Reservation(a)
			if !ok || theirs.Policy == mine.Policy || theirs.Policy == last.Policy && theirs.Name == last.Name {
				continue
			}
			out = append(out, fmt.Sprintf("reservations[%s]: ServiceCIDRPolicy %q has reserved %s already, by its reservation %q",
				mine.Name, theirs.Policy, a, theirs.Name))
			last = theirs
		}
	}
	return out
}

// warnings compiles the cluster with the policy, and says what results.
func warnings(p *v1alpha1.ServiceCIDRPolicy, before *steering.Compiled) []string {
	after := before.With(p)
	return slices.Concat(careless(p.Spec), closing(p, after), withholding(p, after), prospects(p.Name, before, after))
}

// prospects says what a policy has to wait for, what it loses, and what other policies lose to it.
func prospects(name string, before, after *steering.Compiled) []string {
	p := after.Policy(name)
	var out []string
	for _, cidr := range p.Missing {
		out = append(out, fmt.Sprintf("ServiceCIDR %s does not exist; the policy has its ranges when it does", cidr))
	}
	for _, cidr := range p.Deleting {
		out = append(out, fmt.Sprintf("ServiceCIDR %s is being deleted; the policy gets no addresses from it", cidr))
	}
	out = append(out, p.Conflicts...)
	for was, other := range steering.Changed(before, after) {
		if other.Name == name {
			continue
		}
		for _, conflict := range other.Conflicts {
			if !slices.Contains(was.Conflicts, conflict) {
				out = append(out, fmt.Sprintf("ServiceCIDRPolicy %s: %s", other.Name, conflict))
			}
		}
	}
	return out
}

// careless warns of what the author of a policy may not have meant, as the policy alone tells.
func careless(spec v1alpha1.ServiceCIDRPolicySpec) []string {
	if len(spec.ServiceCIDRs) == 0 && spec.ServiceCIDRSelector == nil {
		return nil // it steers no Service
	}
	namespaces, services := selects(spec.NamespaceSelector), selects(spec.ServiceSelector)
	var out []string
	if spec.OnFull == v1alpha1.OnFullFail && !namespaces && !services {
		out = append(out, "onFull: Fail without namespaceSelector and serviceSelector refuses every new Service of the cluster, those of "+
			"kube-system included, when the ranges are full and as long as none of them exists; select Services, or set onFull: Fallback")
	}
	if spec.SelectsByServiceLabelsAlone() {
		out = append(out, "exclusive without namespaceSelector: the author of a Service chooses its labels, so any tenant can have "+
			"addresses of these ranges; set namespaceSelector to keep tenants apart")
	}
	return out
}

func selects(by *metav1.LabelSelector) bool {
	return by != nil && len(by.MatchLabels)+len(by.MatchExpressions) > 0
}

// closing warns of an exclusive policy that leaves Services that it does not select without any
// range, or without the default one. A policy that selects all Services leaves none out.
func closing(o *v1alpha1.ServiceCIDRPolicy, after *steering.Compiled) []string {
	p := after.Policy(o.Name)
	if !p.Exclusive || !selects(o.Spec.NamespaceSelector) && !selects(o.Spec.ServiceSelector) {
		return nil
	}
	var out []string
	for _, family := range allocator.Families {
		ofFamily := func(r allocator.Range) bool { return r.Family() == family }
		mine := slices.DeleteFunc(slices.Clone(p.Ranges), func(r steering.PolicyRange) bool { return !ofFamily(r.Range) })
		isDefault := func(r steering.PolicyRange) bool { return r.ServiceCIDR == v1alpha1.DefaultServiceCIDR }
		switch {
		case len(mine) == 0:
		case !anyOpen(after, ofFamily):
			out = append(out, fmt.Sprintf("exclusive closes the last open %s range: Services that no policy with a range selects are refused an "+
				"%s address, those of kube-system included; leave a range open, or give them a policy with one", family, family))
		case slices.ContainsFunc(mine, isDefault):
			out = append(out, fmt.Sprintf("exclusive closes the default ServiceCIDR %s: Services that the policy does not select, those of "+
				"kube-system included, get no %s address from it any more", v1alpha1.DefaultServiceCIDR, family))
		}
	}
	return out
}

// withholding warns of a policy that leaves the cluster without any range to draw from.
func withholding(o *v1alpha1.ServiceCIDRPolicy, after *steering.Compiled) []string {
	p := after.Policy(o.Name)
	if !p.Restricts() {
		return nil
	}
	var out []string
	for _, family := range allocator.Families {
		ofFamily := func(r allocator.Range) bool { return r.Family() == family }
		if slices.ContainsFunc(p.Ranges, func(r steering.PolicyRange) bool { return ofFamily(r.Range) }) && !anyOpen(after, ofFamily) {
			out = append(out, fmt.Sprintf("allocation: %s closes the last open %s range: Services that no policy with another range selects, and that choose no "+
				"address, are refused an %s address, those of kube-system included; leave a range open", p.Allocation, family, family))
		}
	}
	return out
}

// anyOpen reports whether there is a range of a family that lies in none that a policy has
// exclusively, or keeps from draws.
func anyOpen(after *steering.Compiled, ofFamily func(allocator.Range) bool) bool {
	isOpen := func(r allocator.Range) bool { return ofFamily(r) && !after.Closed(r.Prefix()) }
	return slices.ContainsFunc(after.Inputs().ServiceCIDRs, func(c addressindex.ServiceCIDR) bool {
		return c.Usable() && slices.ContainsFunc(c.Ranges, isOpen)
	})
}
