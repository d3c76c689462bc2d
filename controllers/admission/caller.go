package admission

import (
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
)

// system are the users of the control plane, which know what they do: API servers, and kube-controller-manager with one account or with
// one for each controller (--use-service-account-credentials).
var system = []string{
	"system:apiserver",
	"system:kube-controller-manager",
	"system:serviceaccount:kube-system:generic-garbage-collector",
	"system:serviceaccount:kube-system:namespace-controller",
	"system:serviceaccount:kube-system:service-cidrs-controller",
}

// trusted reports whether a request comes from the control plane or from the operator itself, whose user name is given. Guards are for
// everybody else.
func trusted(req admissionv1.AdmissionRequest, operator string) bool {
	user := req.UserInfo.Username
	return slices.Contains(system, user) || operator != "" && user == operator
}
