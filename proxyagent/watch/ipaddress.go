package watch

import (
	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// allocation is what is kept of an IPAddress. Its address is invalid when the name is none, which the API refuses.
type allocation struct {
	head
	model model.Allocation
}

// same reports whether two IPAddresses say the same; nil is one that does not exist.
func (a *allocation) same(o *allocation) bool {
	if a == nil || o == nil {
		return a == o
	}
	return a.model == o.model
}

func convertIPAddress(in *networkingv1.IPAddress) (*allocation, junk) {
	return newAllocation(in, in.Spec.ParentRef)
}

// convertBetaIPAddress is convertIPAddress for Kubernetes 1.31 and 1.32.
func convertBetaIPAddress(in *networkingv1beta1.IPAddress) (*allocation, junk) {
	var parent *networkingv1.ParentReference
	if in.Spec.ParentRef != nil {
		ref := networkingv1.ParentReference(*in.Spec.ParentRef)
		parent = &ref
	}
	return newAllocation(in, parent)
}

func newAllocation(in metav1.Object, parent *networkingv1.ParentReference) (*allocation, junk) {
	var j junk
	out := &allocation{head: headOf(in)}
	addr, ok := parseAddr(out.name)
	if !ok || addr.String() != out.name {
		j.add("name", out.name)
		return out, j
	}
	out.model.Addr = addr
	if parent != nil && parent.Group == "" && parent.Resource == "services" {
		out.model.Service = model.ServiceName{Namespace: wordOf(parent.Namespace).Value(), Name: parent.Name}
		out.model.Additional = in.GetLabels()[networkingv1.LabelManagedBy] == v1alpha1.ManagedByOperator
	}
	return out, j
}
