package v1alpha1

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// ExternalNameRenumbering stands in spec.externalName of a Service between the two updates that
// exchange its ClusterIPs. DNS knows nothing below .invalid (RFC 6761).
const ExternalNameRenumbering = "being-renumbered.invalid"

// BeingRenumbered reports whether a Service says that it is between the two updates that exchange
// its ClusterIPs: it has AnnotationRenumbering, and is of type ExternalName under
// ExternalNameRenumbering, or a load balancer again that does not have its status back. Another
// type or name that its owner gives it meanwhile ends that.
//
// The owner of the Service may say so too. It is a reason to go on serving what was known before
// and to keep what the Service has, but none to give the Service anything.
func BeingRenumbered(s *corev1.Service) bool {
	if _, says := s.Annotations[AnnotationRenumbering]; !says {
		return false
	}
	switch s.Spec.Type {
	case corev1.ServiceTypeExternalName:
		return s.Spec.ExternalName == ExternalNameRenumbering
	case corev1.ServiceTypeLoadBalancer:
		return len(s.Status.LoadBalancer.Ingress) == 0
	default:
		return false
	}
}

// secondInfix is between the name of a Service, as far as there is room, and ten digits in the name
// of a second one that keeps its old address.
const secondInfix, secondDigits = "-former-", 10

// SecondName is the name of a second Service. digits are ten hexadecimal digits.
func SecondName(first, digits string) string {
	const most = 63 - len(secondInfix) - secondDigits
	return first[:min(len(first), most)] + secondInfix + digits
}

// HasNameOfSecond reports whether a Service has the name of a second one of another, as any tenant
// may call its Service.
func HasNameOfSecond(second, first string) bool {
	at := len(second) - secondDigits
	return at > 0 && strings.HasSuffix(second[:at], secondInfix) && SecondName(first, second[at:]) == second
}
