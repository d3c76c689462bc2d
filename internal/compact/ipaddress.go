package compact

import (
	"maps"
	"slices"
	"unique"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// IPAddress is one of a Service, with the labels that API servers write, with a band or without.
type IPAddress struct {
	identity
	labels    uint8 // which of allocated
	service   string
	namespace unique.Handle[string]
}

// allocated are the labels of IPAddresses that API servers write, with our band or without. They
// are not changed.
var allocated = func() (all []map[string]string) {
	for _, f := range []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol} {
		labels := map[string]string{networkingv1.LabelManagedBy: v1alpha1.ManagedByAPIServer, networkingv1.LabelIPAddressFamily: string(f)}
		all = append(all, labels)
		for _, b := range []allocator.Band{allocator.Static, allocator.Dynamic} {
			banded := maps.Clone(labels)
			banded[v1alpha1.LabelBand] = b.String()
			all = append(all, banded)
		}
	}
	return all
}()

// services is the resource of which an IPAddress names one.
const services = "services"

// OfIPAddress returns what a cache keeps of an IPAddress as API servers make them; nil of another.
func OfIPAddress(ip *networkingv1.IPAddress) *IPAddress {
	id, ok := identify(&ip.ObjectMeta)
	ref := ip.Spec.ParentRef
	if !ok || ip.Namespace != "" || ref == nil || ref.Group != "" || ref.Resource != services {
		return nil
	}
	labels := slices.IndexFunc(allocated, func(all map[string]string) bool { return maps.Equal(all, ip.Labels) })
	if labels < 0 {
		return nil
	}
	return &IPAddress{identity: id, labels: uint8(labels), service: ref.Name, namespace: unique.Make(ref.Namespace)}
}

// GetNamespace is empty.
func (ip *IPAddress) GetNamespace() string { return "" }

// GetLabels returns labels of which other IPAddresses have the same map.
func (ip *IPAddress) GetLabels() map[string]string { return allocated[ip.labels] }

// DeepCopyObject returns the IPAddress in full, so that the readers of a cache do.
func (ip *IPAddress) DeepCopyObject() runtime.Object {
	out := &networkingv1.IPAddress{ObjectMeta: ip.meta()}
	out.Labels = maps.Clone(ip.GetLabels())
	out.Spec.ParentRef = &networkingv1.ParentReference{Resource: services, Namespace: ip.namespace.Value(), Name: ip.service}
	return out
}
