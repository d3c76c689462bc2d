package view

import (
	"cmp"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
)

// Parent is what has an address: a Service, a ServiceCIDRPolicy, or an object of another manager.
// The zero value is nothing.
type Parent struct{ Kind, Namespace, Name string }

// ServiceParent is a Service as a parent, by the text namespace/name.
func ServiceParent(name string) Parent {
	namespace, name, _ := strings.Cut(name, "/")
	return Parent{Kind: "service", Namespace: namespace, Name: name}
}

// ParentOf is what an IPAddress names.
func ParentOf(o *networkingv1.IPAddress) Parent {
	ref := o.Spec.ParentRef
	if ref == nil {
		return Parent{}
	}
	singular := map[string]string{"services": "service", "servicecidrpolicies": "servicecidrpolicy"}
	return Parent{Kind: cmp.Or(singular[ref.Resource], ref.Resource), Namespace: ref.Namespace, Name: ref.Name}
}

// String is namespace/name of a Service, otherwise kind/name or kind/namespace/name, and empty for
// nothing.
func (p Parent) String() string {
	switch {
	case p == Parent{}:
		return ""
	case p.Kind == "service":
		return p.Namespace + "/" + p.Name
	case p.Namespace == "":
		return p.Kind + "/" + p.Name
	}
	return p.Kind + "/" + p.Namespace + "/" + p.Name
}
