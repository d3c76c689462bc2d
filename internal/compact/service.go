package compact

import (
	"net/netip"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Service is one of which a cache keeps type and ClusterIPs alone.
type Service struct {
	identity
	kind      kind
	claims    claims
	four      [4]byte
	six       [16]byte
	namespace unique.Handle[string]
}

// kind is the type of a Service.
type kind uint8

var kinds = [...]corev1.ServiceType{corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeExternalName, ""}

// claims says which ClusterIPs a Service has, in which order.
type claims uint8

const (
	nothing claims = iota
	headless
	fourAlone
	sixAlone
	fourThenSix
	sixThenFour
)

// OfService returns what a cache keeps of a Service that has no other fields than a compact one;
// nil if it has, and whatever was not trimmed has.
func OfService(s *corev1.Service) *Service {
	id, ok := identify(&s.ObjectMeta)
	if !ok || s.Labels != nil {
		return nil
	}
	out := &Service{identity: id, namespace: unique.Make(s.Namespace)}
	for i, k := range kinds {
		if k == s.Spec.Type {
			out.kind = kind(i)
		}
	}
	if kinds[out.kind] != s.Spec.Type || !out.claim(s.Spec.ClusterIPs) || !emptyBut(s) {
		return nil
	}
	return out
}

// emptyBut reports whether trimming left a Service nothing else than what a compact one keeps.
func emptyBut(s *corev1.Service) bool {
	return s.Spec.Ports == nil && s.Spec.IPFamilies == nil && s.Spec.ExternalName == "" && s.Spec.ClusterIP == "" && s.Spec.Selector == nil
}

// claim takes ClusterIPs in, and is false for what an API server of our time does not write.
func (s *Service) claim(texts []string) bool {
	switch {
	case len(texts) == 0:
		return texts == nil
	case len(texts) == 1 && texts[0] == corev1.ClusterIPNone:
		s.claims = headless
		return true
	case len(texts) > 2:
		return false
	}
	for i, text := range texts {
		a, err := netip.ParseAddr(text)
		if err != nil || a.String() != text || a.Zone() != "" || a.Is4In6() {
			return false
		}
		s.enter(a, i)
	}
	return s.claims != nothing
}

// enter takes in the i-th address; two of one family leave nothing.
func (s *Service) enter(a netip.Addr, i int) {
	alone, first, both := sixAlone, fourAlone, fourThenSix
	if a.Is4() {
		s.four = a.As4()
		alone, first, both = fourAlone, sixAlone, sixThenFour
	} else {
		s.six = a.As16()
	}
	switch {
	case i == 0:
		s.claims = alone
	case s.claims == first:
		s.claims = both
	default:
		s.claims = nothing
	}
}

// clusterIPs are the texts that claim took in.
func (s *Service) clusterIPs() []string {
	four, six := netip.AddrFrom4(s.four), netip.AddrFrom16(s.six)
	switch s.claims {
	case headless:
		return []string{corev1.ClusterIPNone}
	case fourAlone:
		return []string{four.String()}
	case sixAlone:
		return []string{six.String()}
	case fourThenSix:
		return []string{four.String(), six.String()}
	case sixThenFour:
		return []string{six.String(), four.String()}
	default:
		return nil
	}
}

// GetNamespace returns the namespace.
func (s *Service) GetNamespace() string { return s.namespace.Value() }

// GetLabels are none: a cache keeps none of a Service.
func (s *Service) GetLabels() map[string]string { return nil }

// DeepCopyObject returns the Service in full, so that the readers of a cache do.
func (s *Service) DeepCopyObject() runtime.Object {
	out := &corev1.Service{ObjectMeta: s.meta(), Spec: corev1.ServiceSpec{Type: kinds[s.kind], ClusterIPs: s.clusterIPs()}}
	out.Namespace = s.GetNamespace()
	return out
}
