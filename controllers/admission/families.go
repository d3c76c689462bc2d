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
func (r request) missing(configured []allocator.Family) []allocator.Family {
	if !r.service.needsAddress() || len(configured) == 0 {
		return nil
	}
	if r.old != nil && !r.old.needsAddress() {
		if r.old.Spec.Type != corev1.ServiceTypeExternalName {
			return nil // a headless Service stays headless
		}
		r.old = nil
	}
	var have []allocator.Family
	for _, c := range r.keeps {
		if !c.address.IsValid() {
			return nil
		}
		have = append(have, allocator.FamilyOf(c.address))
	}
	wanted := r.families(have, configured)
	if len(wanted) <= len(have) || !slices.Equal(wanted[:len(have)], have) {
		return nil
	}
	return wanted[len(have):]
}

// families returns those that the Service should have, nil where the API server refuses or leaves
// it as it is.
func (r request) families(have, configured []allocator.Family) []allocator.Family {
	if len(r.service.Spec.IPFamilies) > 2 || len(have) > 2 {
		return nil
	}
	policy := r.policy()
	var asked []allocator.Family
	for _, f := range r.service.Spec.IPFamilies {
		asked = append(asked, allocator.Family(f))
	}
	if len(have) > len(asked) {
		asked = append(asked, have[len(asked):]...)
	}
	if r.stays() || slices.ContainsFunc(asked, func(f allocator.Family) bool { return !slices.Contains(configured, f) }) {
		return nil
	}
	if len(asked) == 0 {
		asked = configured[:1]
	}
	switch {
	case policy == corev1.IPFamilyPolicySingleStack:
		if len(asked) > 1 && r.old == nil {
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

// policy is the one in force: of the request, or else of the old Service, or else SingleStack.
func (r request) policy() corev1.IPFamilyPolicy {
	switch {
	case r.service.Spec.IPFamilyPolicy != nil:
		return *r.service.Spec.IPFamilyPolicy
	case r.old != nil && r.old.Spec.IPFamilyPolicy != nil:
		return *r.old.Spec.IPFamilyPolicy
	default:
		return corev1.IPFamilyPolicySingleStack
	}
}

// stays: a Service that prefers two stacks gets no second address just because the cluster became
// dual-stack, only when something about the Service changes that has to do with addresses.
func (r request) stays() bool {
	s, old := r.service, r.old
	return old != nil && old.Spec.Type == s.Spec.Type && prefers(s) && (old.Spec.IPFamilyPolicy == nil || prefers(old)) &&
		slices.Equal(r.keeps, old.ips()) && slices.Equal(s.Spec.IPFamilies, old.Spec.IPFamilies)
}

func prefers(s *service) bool {
	return s.Spec.IPFamilyPolicy != nil && *s.Spec.IPFamilyPolicy == corev1.IPFamilyPolicyPreferDualStack
}
