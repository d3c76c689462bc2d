package watch

import (
	"cmp"
	"math"
	"net/netip"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// defaultAffinitySeconds is the API's default, for objects that were stored without it.
const defaultAffinitySeconds = 10800

// service is what is kept of a Service.
type service struct {
	version string
	// served is false without virtual IPs, where only the name is kept: a change of type changes it.
	served bool
	// renumbering is true if it says to get its virtual IPs back soon (hold.go), which its tenant may.
	renumbering bool
	// foreign is true for one that another proxy serves. served is false then.
	foreign bool
	// model has no endpoints; they are in the slices.
	model model.Service
	// weights are those of its endpoints.
	weights *weights
}

// GetObjectMeta implements [metav1.ObjectMetaAccessor].
func (s *service) GetObjectMeta() metav1.Object {
	h := head{namespace: s.model.Name.Namespace, name: s.model.Name.Name, version: s.version}
	return h.GetObjectMeta()
}

func (s *service) key() string { return s.model.Name.String() }

// isServed reports whether there is a Service and it is served.
func (s *service) isServed() bool { return s != nil && s.served }

// isForeign reports whether there is a Service and another proxy serves it.
func (s *service) isForeign() bool { return s != nil && s.foreign }

// same reports whether two Services are the same to a node; nil is one that does not exist.
func (s *service) same(o *service) bool {
	if s.isServed() != o.isServed() || s.isForeign() != o.isForeign() {
		return false
	}
	if !s.isServed() && !s.isForeign() {
		return true
	}
	return reflect.DeepEqual(&s.model, &o.model) && reflect.DeepEqual(s.weights, o.weights)
}

func (s *Source) serviceChanged(c change[*service]) {
	name := cmp.Or(c.new, c.old).model.Name
	s.peers.see(name, c.new.isServed() && c.new.weights.needPeers())
	if held := s.holds.see(c); !held && c.old.same(c.new) {
		return
	}
	s.pending.mark(func(b *batch) {
		b.services[name] = struct{}{}
		b.serviceEvents++
	})
}

// converter returns what reads Services.
//
// Those of other proxies are followed too: an address that one of them has is no other Service's,
// and IPAddresses, which say the same, are not known everywhere. Only their claims are kept.
func converter(o Options) func(*corev1.Service) (*service, malformed) {
	return func(in *corev1.Service) (*service, malformed) {
		name, labelled := in.Labels[labelProxyName]
		if labelled == (o.ProxyName != "") && name == o.ProxyName {
			out, bad := convertService(in)
			if !o.FollowNodes && out.weights.needPeers() {
				b := out.model.Balancing
				b.WeightsFrom, b.ByCores, b.Ignored = "", false, append(b.Ignored, model.WeightsNotAllowed)
				out.weights = nil
			}
			return out, bad
		}
		out, _ := convertService(in) // what cannot be read is for its own proxy to tell
		out.renumbering, out.foreign, out.served, out.weights = false, out.served, false, nil
		m := &out.model
		out.model = model.Service{
			Name: m.Name, Created: m.Created, ClusterIPs: m.ClusterIPs, ExternalIPs: m.ExternalIPs,
			LoadBalancerIPs: m.LoadBalancerIPs, Ports: m.Ports, Foreign: out.foreign,
		}
		return out, malformed{}
	}
}

func convertService(in *corev1.Service) (*service, malformed) {
	var bad malformed
	out := &service{version: in.ResourceVersion, served: hasVirtualIP(in)}
	m := &out.model
	m.Name = model.ServiceName{Namespace: wordOf(in.Namespace).Value(), Name: in.Name}
	out.renumbering = v1alpha1.BeingRenumbered(in)
	if out.renumbering || out.served {
		m.Created = in.CreationTimestamp.UTC()
	}
	if !out.served {
		return out, bad
	}
	m.ClusterIPs = parse("clusterIP", clusterIPs(in), parseVirtual, &bad)
	m.ExternalIPs = parse("externalIP", in.Spec.ExternalIPs, parseVirtual, &bad)
	m.LoadBalancerIPs = parse("load balancer IP", loadBalancerIPs(in), parseVirtual, &bad)
	m.SourceRanges, m.SourcesLost = sourceRanges(in.Spec.LoadBalancerSourceRanges, &bad)
	m.InternalLocal = ptr.Deref(in.Spec.InternalTrafficPolicy, "") == corev1.ServiceInternalTrafficPolicyLocal
	m.ExternalLocal = externalLocal(in)
	m.AffinitySeconds = affinitySeconds(in)
	m.HealthCheckNodePort = healthCheckNodePort(in)
	m.Ports = convertPorts(in.Spec.Ports, &bad)
	m.Balancing, out.weights = convertBalancing(in, &bad)
	return out, bad
}

// hasVirtualIP looks at the primary address, as kube-proxy does. The watch omits headless Services.
func hasVirtualIP(in *corev1.Service) bool {
	return in.Spec.Type != corev1.ServiceTypeExternalName && in.Spec.ClusterIP != "" && in.Spec.ClusterIP != corev1.ClusterIPNone
}

func clusterIPs(in *corev1.Service) []string {
	if len(in.Spec.ClusterIPs) == 0 {
		return []string{in.Spec.ClusterIP}
	}
	return in.Spec.ClusterIPs
}

// loadBalancerIPs are those at which the load balancer's packets arrive. With ipMode Proxy they
// arrive elsewhere, and traffic to this one has to leave the node. The Service's type is not asked:
// the API server clears the status of other types, unless an admin allows writing it.
func loadBalancerIPs(in *corev1.Service) []string {
	var out []string
	for _, ingress := range in.Status.LoadBalancer.Ingress {
		if ingress.IP != "" && ptr.Deref(ingress.IPMode, corev1.LoadBalancerIPModeVIP) == corev1.LoadBalancerIPModeVIP {
			out = append(out, ingress.IP)
		}
	}
	return out
}

// externalLocal ignores the policy without a way in: the API server keeps it over changes of type.
func externalLocal(in *corev1.Service) bool {
	open := in.Spec.Type == corev1.ServiceTypeLoadBalancer || in.Spec.Type == corev1.ServiceTypeNodePort || len(in.Spec.ExternalIPs) > 0
	return open && in.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

func affinitySeconds(in *corev1.Service) int {
	if in.Spec.SessionAffinity != corev1.ServiceAffinityClientIP {
		return 0
	}
	config := in.Spec.SessionAffinityConfig
	if config == nil || config.ClientIP == nil || config.ClientIP.TimeoutSeconds == nil || *config.ClientIP.TimeoutSeconds <= 0 {
		return defaultAffinitySeconds
	}
	return int(*config.ClientIP.TimeoutSeconds)
}

func healthCheckNodePort(in *corev1.Service) uint16 {
	if in.Spec.Type != corev1.ServiceTypeLoadBalancer || !externalLocal(in) {
		return 0
	}
	port, _ := portNumber(in.Spec.HealthCheckNodePort)
	return port
}

func convertPorts(in []corev1.ServicePort, bad *malformed) []model.Port {
	out := make([]model.Port, 0, len(in))
	for _, p := range in {
		protocol, known := model.ParseProtocol(string(p.Protocol))
		port, valid := portNumber(p.Port)
		if !known || !valid {
			bad.add("port", p.Name)
			continue
		}
		nodePort, _ := portNumber(p.NodePort)
		out = append(out, model.Port{Name: wordOf(p.Name).Value(), Protocol: protocol, Port: port, NodePort: nodePort})
	}
	return out
}

// portNumber reports false for what is no port; zero is none.
func portNumber(n int32) (uint16, bool) {
	if n <= 0 || n > math.MaxUint16 {
		return 0, false
	}
	return uint16(n), true
}

// autoscalerTaint marks a node that the cluster autoscaler is about to remove, with any effect.
const autoscalerTaint = "ToBeDeletedByClusterAutoscaler"

// node is what is kept of the own Node.
type node struct {
	head
	model model.Node
}

// same compares what the agent uses of two Nodes, not heartbeats or conditions; nil: there is none.
func (n *node) same(o *node) bool {
	if n == nil || o == nil {
		return n == o
	}
	return reflect.DeepEqual(&n.model, &o.model)
}

func (s *Source) nodeChanged(c change[*node]) {
	if !c.old.same(c.new) {
		s.pending.mark(func(b *batch) { b.node = true })
	}
}

func convertNode(in *corev1.Node) (*node, malformed) {
	var bad malformed
	return &node{head: headOf(in), model: model.Node{
		Name:     in.Name,
		Zone:     in.Labels[corev1.LabelTopologyZone],
		IPs:      nodeIPs(in, &bad),
		PodCIDRs: parse("podCIDR", podCIDRs(in), parsePrefix, &bad),
		Leaving:  leaving(in),
	}}, bad
}

// nodeIPs puts internal addresses first, then keeps the kubelet's order: its primary one is first.
func nodeIPs(in *corev1.Node, bad *malformed) []netip.Addr {
	var texts []string
	for _, kind := range []corev1.NodeAddressType{corev1.NodeInternalIP, corev1.NodeExternalIP} {
		for _, a := range in.Status.Addresses {
			if a.Type == kind {
				texts = append(texts, a.Address)
			}
		}
	}
	return parse("address", texts, parseVirtual, bad)
}

func podCIDRs(in *corev1.Node) []string {
	if len(in.Spec.PodCIDRs) == 0 && in.Spec.PodCIDR != "" {
		return []string{in.Spec.PodCIDR}
	}
	return in.Spec.PodCIDRs
}

func leaving(in *corev1.Node) bool {
	return in.DeletionTimestamp != nil || slices.ContainsFunc(in.Spec.Taints, func(t corev1.Taint) bool { return t.Key == autoscalerTaint })
}
