package history

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// serviceOf is a Service that is there.
func serviceOf(s *corev1.Service) *Object {
	o := &Object{UID: string(s.UID), Name: s.Namespace + "/" + s.Name, Created: s.CreationTimestamp.Time, Addresses: addresses(s.Spec.ClusterIPs)}
	o.Version, _ = strconv.ParseUint(s.ResourceVersion, 10, 64)
	return o
}

// ipAddressOf is an IPAddress that is there.
func ipAddressOf(ip *networkingv1.IPAddress) *Object {
	o := &Object{UID: string(ip.UID), Name: ip.Name, Created: ip.CreationTimestamp.Time, Parent: parent(ip.Spec.ParentRef), Beside: beside(ip.ObjectMeta)}
	o.Version, _ = strconv.ParseUint(ip.ResourceVersion, 10, 64)
	return o
}
