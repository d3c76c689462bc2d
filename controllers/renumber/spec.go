package renumber

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// saved is what a Service loses when it turns into an ExternalName, in AnnotationRenumbering.
type saved struct {
	Type                          corev1.ServiceType                   `json:"type"`
	ClusterIPs                    []string                             `json:"clusterIPs"`
	IPFamilies                    []corev1.IPFamily                    `json:"ipFamilies,omitempty"`
	IPFamilyPolicy                *corev1.IPFamilyPolicy               `json:"ipFamilyPolicy,omitempty"`
	NodePorts                     []nodePort                           `json:"nodePorts,omitempty"`
	HealthCheckNodePort           int32                                `json:"healthCheckNodePort,omitempty"`
	ExternalTrafficPolicy         corev1.ServiceExternalTrafficPolicy  `json:"externalTrafficPolicy,omitempty"`
	InternalTrafficPolicy         *corev1.ServiceInternalTrafficPolicy `json:"internalTrafficPolicy,omitempty"`
	AllocateLoadBalancerNodePorts *bool                                `json:"allocateLoadBalancerNodePorts,omitempty"`
	LoadBalancerClass             *string                              `json:"loadBalancerClass,omitempty"`
	LoadBalancerIP                string                               `json:"loadBalancerIP,omitempty"`
	LoadBalancerSourceRanges      []string                             `json:"loadBalancerSourceRanges,omitempty"`
	// Status is that of a load balancer.
	Status corev1.LoadBalancerStatus `json:"status,omitzero"`
}

// nodePort is the node port of a port, which is found again by number and protocol: they are unique in a Service.
type nodePort struct {
	Port     int32           `json:"port"`
	Protocol corev1.Protocol `json:"protocol"`
	NodePort int32           `json:"nodePort"`
}

// externalName stands in spec.externalName for the moment. DNS knows nothing below .invalid (RFC 6761).
const externalName = "being-renumbered.invalid"

// leaving returns the Service as an ExternalName, with what it loses in an annotation. The addresses that it gives up are former ones from now on; those that it had before that
// stay in the list, and those that it is about to get too, until it has them.
func leaving(s *corev1.Service, gives []netip.Addr) (*corev1.Service, error) {
	keep := saved{
		Type: s.Spec.Type, ClusterIPs: s.Spec.ClusterIPs, IPFamilies: s.Spec.IPFamilies, IPFamilyPolicy: s.Spec.IPFamilyPolicy, HealthCheckNodePort: s.Spec.HealthCheckNodePort,
		ExternalTrafficPolicy: s.Spec.ExternalTrafficPolicy, InternalTrafficPolicy: s.Spec.InternalTrafficPolicy, AllocateLoadBalancerNodePorts: s.Spec.AllocateLoadBalancerNodePorts,
		LoadBalancerClass: s.Spec.LoadBalancerClass, LoadBalancerIP: s.Spec.LoadBalancerIP, LoadBalancerSourceRanges: s.Spec.LoadBalancerSourceRanges,
	}
	out := s.DeepCopy()
	for i, p := range out.Spec.Ports {
		if p.NodePort != 0 {
			keep.NodePorts = append(keep.NodePorts, nodePort{p.Port, p.Protocol, p.NodePort})
			out.Spec.Ports[i].NodePort = 0
		}
	}
	text, err := json.Marshal(keep)
	if err != nil {
		return nil, fmt.Errorf("writing annotation %s: %w", v1alpha1.AnnotationRenumbering, err)
	}
	spec := &out.Spec
	spec.Type, spec.ExternalName = corev1.ServiceTypeExternalName, externalName
	spec.ClusterIP, spec.ClusterIPs, spec.IPFamilies, spec.IPFamilyPolicy = "", nil, nil, nil
	spec.HealthCheckNodePort, spec.ExternalTrafficPolicy, spec.InternalTrafficPolicy, spec.AllocateLoadBalancerNodePorts = 0, "", nil, nil
	spec.LoadBalancerClass, spec.LoadBalancerIP, spec.LoadBalancerSourceRanges = nil, "", nil
	metav1.SetMetaDataAnnotation(&out.ObjectMeta, v1alpha1.AnnotationRenumbering, string(text))
	setFormer(out, append(former(s), without(gives, former(s))...))
	return out, nil
}

// entering returns a Service that is between as what it was, with the addresses given; fewer than it had, or none, has the API server choose. Everything that its owner has changed
// meanwhile stays. With asExternal the former addresses go on being served as external ones. The annotation stays on a load balancer, which lacks its status still.
func entering(s *corev1.Service, with []netip.Addr, asExternal, balancer bool) (*corev1.Service, error) {
	var was saved
	if err := json.Unmarshal([]byte(s.Annotations[v1alpha1.AnnotationRenumbering]), &was); err != nil {
		return nil, fmt.Errorf("reading annotation %s of Service %s, which somebody has changed: %w", v1alpha1.AnnotationRenumbering, nameOf(s), err)
	}
	out := s.DeepCopy()
	spec := &out.Spec
	spec.Type, spec.ExternalName = was.Type, ""
	spec.IPFamilies, spec.IPFamilyPolicy = was.IPFamilies, was.IPFamilyPolicy
	if spec.ClusterIPs = strs(with); len(with) > 0 {
		spec.ClusterIP = spec.ClusterIPs[0]
	}
	spec.HealthCheckNodePort, spec.ExternalTrafficPolicy, spec.InternalTrafficPolicy = was.HealthCheckNodePort, was.ExternalTrafficPolicy, was.InternalTrafficPolicy
	spec.AllocateLoadBalancerNodePorts, spec.LoadBalancerClass = was.AllocateLoadBalancerNodePorts, was.LoadBalancerClass
	spec.LoadBalancerIP, spec.LoadBalancerSourceRanges = was.LoadBalancerIP, was.LoadBalancerSourceRanges
	for i, p := range spec.Ports {
		for _, n := range was.NodePorts {
			if n.Port == p.Port && n.Protocol == p.Protocol {
				spec.Ports[i].NodePort = n.NodePort
			}
		}
	}
	if !balancer {
		delete(out.Annotations, v1alpha1.AnnotationRenumbering)
	}
	setFormer(out, without(former(s), with))
	spec.ExternalIPs = slices.DeleteFunc(spec.ExternalIPs, func(text string) bool { return slices.Contains(strs(with), text) })
	if asExternal {
		addExternal(spec, former(out))
	}
	if spec.Type == corev1.ServiceTypeClusterIP && len(spec.ExternalIPs) == 0 {
		spec.ExternalTrafficPolicy = "" // the API server refuses it where nothing comes from outside: external IPs were taken away meanwhile
	}
	return out, nil
}

// addExternal has any proxy serve addresses.
func addExternal(spec *corev1.ServiceSpec, all []netip.Addr) {
	for _, text := range strs(all) {
		if !slices.Contains(spec.ExternalIPs, text) {
			spec.ExternalIPs = append(spec.ExternalIPs, text)
		}
	}
}

// released returns a Service without former addresses, and without our name among its field managers once there are none: its owner alone has its fields again.
func released(s *corev1.Service, gone []netip.Addr) *corev1.Service {
	out := s.DeepCopy()
	out.Spec.ExternalIPs = slices.DeleteFunc(out.Spec.ExternalIPs, func(text string) bool { return slices.Contains(strs(gone), text) })
	if setFormer(out, without(former(s), gone)); len(former(out)) > 0 {
		return out
	}
	out.ManagedFields = slices.DeleteFunc(out.ManagedFields, func(f metav1.ManagedFieldsEntry) bool { return f.Manager == v1alpha1.ManagerRenumbering })
	if !between(out) {
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
