package admission

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

// missing returns the families of the addresses that the API server would choose itself for a
// request, in the order of spec.clusterIPs, behind those that the Service has; nothing where it
// would choose none, or refuse. configured are the families of the cluster, the default one first.
// The rules are those of KEP-563 as kube-apiserver 1.36 applies them
// (pkg/registry/core/service/storage/alloc.go).
func missing(s, old *service, configured []allocator.Family) []allocator.Family {
	if !s.needsAddress() || len(configured) == 0 {
		return nil
	}
	if old != nil && !old.needsAddress() {
		if old.Spec.Type != corev1.ServiceTypeExternalName {
			return nil // a headless Service stays headless
		}
		old = nil
	}
	all, ok := parseAll(keeps(s, old))
	if !ok {
		return nil
	}
	var have []allocator.Family
	for _, a := range all {
		have = append(have, allocator.FamilyOf(a))
	}
	wanted := families(s, old, have, configured)
	if len(wanted) <= len(have) || !slices.Equal(wanted[:len(have)], have) {
		return nil
	}
	return wanted[len(have):]
}

// families returns those that the Service should have, nil where the API server refuses or leaves
// it as it is.
func families(s, old *service, have, configured []allocator.Family) []allocator.Family {
	if len(s.Spec.IPFamilies) > 2 || len(have) > 2 {
		return nil
	}
	policy := policyOf(s, old)
	var asked []allocator.Family
	for _, f := range s.Spec.IPFamilies {
		asked = append(asked, familyOf(f))
	}
	if len(have) > len(asked) {
		asked = append(asked, have[len(asked):]...)
	}
	if stays(s, old) || slices.ContainsFunc(asked, func(f allocator.Family) bool { return !slices.Contains(configured, f) }) {
		return nil
	}
	if len(asked) == 0 {
		asked = configured[:1]
	}
	switch {
	case policy == corev1.IPFamilyPolicySingleStack:
		if len(asked) > 1 && old == nil {
			return nil // two families and one stack: refused
		}
		return asked[:1]
	case len(configured) == 1 && policy == corev1.IPFamilyPolicyRequireDualStack:
		return nil
	case len(asked) == 1 && len(configured) == 2:
		return []allocator.Family{asked[0], asked[0].Other()}
	}
	return asked
}

func familyOf(f corev1.IPFamily) allocator.Family {
	if f == corev1.IPv4Protocol {
		return allocator.IPv4
	}
	return allocator.IPv6
}

// policyOf is the policy in force: of the request, or else of the old Service, or else SingleStack.
func policyOf(s, old *service) corev1.IPFamilyPolicy {
	switch {
	case s.Spec.IPFamilyPolicy != nil:
		return *s.Spec.IPFamilyPolicy
	case old != nil && old.Spec.IPFamilyPolicy != nil:
		return *old.Spec.IPFamilyPolicy
	default:
		return corev1.IPFamilyPolicySingleStack
	}
}

// stays: a Service that prefers two stacks gets no second address just because the cluster became
// dual-stack, only when something about the Service changes that has to do with addresses.
func stays(s, old *service) bool {
	return old != nil && old.Spec.Type == s.Spec.Type && prefers(s) && (old.Spec.IPFamilyPolicy == nil || prefers(old)) &&
		slices.Equal(keeps(s, old), old.ips()) && slices.Equal(s.Spec.IPFamilies, old.Spec.IPFamilies)
}

func prefers(s *service) bool {
	return s.Spec.IPFamilyPolicy != nil && *s.Spec.IPFamilyPolicy == corev1.IPFamilyPolicyPreferDualStack
}
