package admission

import (
	"fmt"
	"net/netip"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/steering"
)

// careless warns of what the author of a policy may not have meant, as far as the policy alone tells.
func careless(spec v1alpha1.ServiceCIDRPolicySpec) []string {
	if len(spec.ServiceCIDRs) == 0 && spec.ServiceCIDRSelector == nil {
		return nil // it steers nobody
	}
	namespaces, services := selects(spec.NamespaceSelector), selects(spec.ServiceSelector)
	var out []string
	if spec.OnFull == v1alpha1.OnFullFail && !namespaces && !services {
		out = append(out, "onFull: Fail without namespaceSelector and serviceSelector refuses every new Service of the cluster, those of "+
			"kube-system included, when the ranges are full and as long as none of them exists; select Services, or set onFull: Fallback")
	}
	if spec.Exclusive && !namespaces && services {
		out = append(out, "exclusive without namespaceSelector: labels of Services belong to whoever creates them, so everybody can have "+
			"addresses of these ranges; set namespaceSelector to keep tenants apart")
	}
	return out
}

func selects(by *metav1.LabelSelector) bool {
	return by != nil && len(by.MatchLabels)+len(by.MatchExpressions) > 0
}

// closing warns of an exclusive policy that leaves the Services of others without any range, or without the default one. Nobody is an
// other to a policy that selects all Services.
func closing(spec v1alpha1.ServiceCIDRPolicySpec, p *steering.Policy, after *steering.Compiled) []string {
	if !p.Exclusive || !selects(spec.NamespaceSelector) && !selects(spec.ServiceSelector) {
		return nil
	}
	var out []string
	for _, family := range []string{"IPv4", "IPv6"} {
		ofFamily := func(r allocator.Range) bool { return r.Prefix().Addr().Is4() == (family == "IPv4") }
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

// anyOpen reports whether a range of a family is there that does not lie in one that a policy has for itself.
func anyOpen(s *steering.Compiled, ofFamily func(allocator.Range) bool) bool {
	var closed []netip.Prefix
	for _, p := range s.Policies() {
		for _, r := range p.Ranges {
			if p.Exclusive {
				closed = append(closed, r.Range.Prefix())
			}
		}
	}
	isOpen := func(r allocator.Range) bool {
		prefix := r.Prefix()
		return ofFamily(r) && !slices.ContainsFunc(closed, func(c netip.Prefix) bool { return c.Bits() <= prefix.Bits() && c.Overlaps(prefix) })
	}
	return slices.ContainsFunc(s.Inputs().ServiceCIDRs, func(c addressindex.ServiceCIDR) bool {
		return c.Usable() && slices.ContainsFunc(c.Ranges, isOpen)
	})
}
