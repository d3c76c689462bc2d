package renumber

import (
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// leaving returns the Service as an ExternalName, with the record of what it is now in an
// annotation. kept are its former addresses, including those that it is about to give up or to get.
func leaving(s *corev1.Service, text string, kept []netip.Addr) *corev1.Service {
	out := s.DeepCopy()
	spec := &out.Spec
	for i := range spec.Ports {
		spec.Ports[i].NodePort = 0
	}
	spec.Type, spec.ExternalName = corev1.ServiceTypeExternalName, v1alpha1.ExternalNameRenumbering
	spec.ClusterIP, spec.ClusterIPs, spec.IPFamilies, spec.IPFamilyPolicy = "", nil, nil, nil
	spec.HealthCheckNodePort, spec.ExternalTrafficPolicy, spec.InternalTrafficPolicy, spec.AllocateLoadBalancerNodePorts = 0, "", nil, nil
	spec.LoadBalancerClass, spec.LoadBalancerIP, spec.LoadBalancerSourceRanges = nil, "", nil
	metav1.SetMetaDataAnnotation(&out.ObjectMeta, v1alpha1.AnnotationRenumbering, text)
	setFormer(out, kept)
	return out
}

// entering returns a Service that is between as what it was, with these addresses; the API server
// chooses those that it lacks. kept are its former addresses without these; asExternal serves them
// as external IPs. The annotation stays on a load balancer that lacks its status still.
func entering(s *corev1.Service, was *record, with, kept []netip.Addr, asExternal bool) *corev1.Service {
	out := s.DeepCopy()
	spec := &out.Spec
	if ownersEditsStay(was) {
		spec.Type, spec.ExternalName, spec.IPFamilies, spec.IPFamilyPolicy = was.Spec.Type, "", was.Spec.IPFamilies, was.Spec.IPFamilyPolicy
		spec.ExternalTrafficPolicy, spec.InternalTrafficPolicy = was.Spec.ExternalTrafficPolicy, was.Spec.InternalTrafficPolicy
	} else {
		was.Spec.DeepCopyInto(spec)
		out.Labels, out.Annotations = maps.Clone(was.Labels), maps.Clone(was.Annotations)
		metav1.SetMetaDataAnnotation(&out.ObjectMeta, v1alpha1.AnnotationRenumbering, s.Annotations[v1alpha1.AnnotationRenumbering])
	}
	if len(was.Balancer.Ingress) == 0 {
		delete(out.Annotations, v1alpha1.AnnotationRenumbering)
	}
	spec.ClusterIP, spec.ClusterIPs = "", strs(with)
	if len(with) > 0 {
		spec.ClusterIP = spec.ClusterIPs[0]
	}
	setFormer(out, kept)
	spec.ExternalIPs = slices.DeleteFunc(spec.ExternalIPs, func(text string) bool { return slices.Contains(strs(with), text) })
	if asExternal {
		addExternal(spec, kept)
	}
	if spec.Type == corev1.ServiceTypeClusterIP && len(spec.ExternalIPs) == 0 {
		spec.ExternalTrafficPolicy = "" // the API server refuses it where nothing comes from outside: external IPs were taken away meanwhile
	}
	return out
}

// addExternal has any proxy serve addresses.
func addExternal(spec *corev1.ServiceSpec, all []netip.Addr) {
	for _, text := range strs(all) {
		if !slices.Contains(spec.ExternalIPs, text) {
			spec.ExternalIPs = append(spec.ExternalIPs, text)
		}
	}
}

// released drops former addresses, and our manager with the last: the owner has its fields again.
func released(s *corev1.Service, gone []netip.Addr) *corev1.Service {
	out := s.DeepCopy()
	out.Spec.ExternalIPs = slices.DeleteFunc(out.Spec.ExternalIPs, func(text string) bool { return slices.Contains(strs(gone), text) })
	setFormer(out, without(former(s), gone))
	if len(former(out)) > 0 {
		return out
	}
	out.ManagedFields = slices.DeleteFunc(out.ManagedFields, func(f metav1.ManagedFieldsEntry) bool { return f.Manager == v1alpha1.ManagerRenumbering })
	if !v1alpha1.BeingRenumbered(out) {
		delete(out.Annotations, v1alpha1.AnnotationRenumbering)
	}
	return out
}

func setFormer(s *corev1.Service, all []netip.Addr) {
	if len(all) == 0 {
		delete(s.Annotations, v1alpha1.AnnotationFormerIPs)
		return
	}
	metav1.SetMetaDataAnnotation(&s.ObjectMeta, v1alpha1.AnnotationFormerIPs, texts(all))
}
