package dualstack

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// outcome is what is to be done about a Service.
type outcome int

const (
	complete outcome = iota // it has all that it wants
	gains                   // it is to gain the family that it lacks
	left                    // it lacks a family, and better goes on so
	unwanted                // it does not ask for two families, or is not there any more
)

// reach are the families in which a Service has endpoints, or would have.
type reach map[corev1.IPFamily]bool

// decide tells what is to be done about a Service, and, if that is nothing, why.
func decide(s *corev1.Service, has reach) (outcome, string) {
	switch {
	case s.DeletionTimestamp != nil:
		return unwanted, "it is being deleted"
	case s.Spec.Type == corev1.ServiceTypeExternalName:
		return unwanted, "it is an ExternalName"
	case s.Spec.IPFamilyPolicy == nil || *s.Spec.IPFamilyPolicy != corev1.IPFamilyPolicyPreferDualStack:
		return unwanted, "its ipFamilyPolicy is not PreferDualStack"
	case len(s.Spec.IPFamilies) != 1:
		return complete, ""
	}
	if manager := managerOfFamilies(s); manager != "" {
		return left, fmt.Sprintf("%s has written spec.ipFamilies, and the API server would refuse its next apply; name both families there, or none", manager)
	}
	have, lacks := s.Spec.IPFamilies[0], missing(s)
	// A headless Service's name leads to its endpoints; any other's would lead to a dead address.
	if s.Spec.ClusterIP == corev1.ClusterIPNone || !has[have] || has[lacks] {
		return gains, ""
	}
	if len(s.Spec.Selector) == 0 {
		return left, fmt.Sprintf("it has no selector, and none of its EndpointSlices has addresses of %s", lacks)
	}
	return left, fmt.Sprintf("none of its pods has an address of %s; create them anew, then plan again", lacks)
}

// decideItem decides about the Service of an item of a plan, nil if there is none of that name.
func decideItem(i Item, s *corev1.Service) (outcome, string) {
	switch {
	case s == nil:
		return unwanted, "it is gone"
	case s.UID != i.UID:
		return unwanted, "it was created anew"
	}
	return decide(s, nil) // who has endpoints the plan has looked at
}

// missing is the family that a Service with one family lacks.
func missing(s *corev1.Service) corev1.IPFamily {
	if s.Spec.IPFamilies[0] == corev1.IPv4Protocol {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

// managerOfFamilies is the manager that wrote spec.ipFamilies, empty if the API server did.
func managerOfFamilies(s *corev1.Service) string {
	for _, m := range s.ManagedFields {
		var fields struct {
			Spec struct {
				Families *struct{} `json:"f:ipFamilies"`
			} `json:"f:spec"`
		}
		if m.FieldsV1 != nil && json.Unmarshal(m.FieldsV1.GetRawBytes(), &fields) == nil && fields.Spec.Families != nil {
			return m.Manager
		}
	}
	return ""
}
