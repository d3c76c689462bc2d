package scale

import (
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/framework/seed"
)

// The world, number by number: what has number i is the same whenever it is asked for, so that it
// can be written again with a change.
const (
	// block is how many Services share an IPv6 range, of which 65,536 addresses are used at most.
	block = 50_000
	// poolLabel is on ServiceCIDRs, tenantLabel on namespaces.
	poolLabel, tenantLabel = "bench.example.com/pool", "bench.example.com/tenant"
	// touched is the label that an event changes.
	touched = "bench.example.com/touched"
	// reserved is how many addresses each policy keeps.
	reserved = 10
)

// supernet is what growing policies create their next ranges in, in blocks of a /24.
var supernet = netip.MustParsePrefix("10.224.0.0/12")

// world makes the objects.
type world struct {
	// namespaces is how many there are, few how many Services in the first level.
	namespaces, few int
	// service and addresses are one that the API server made, and its IPAddresses.
	service   *corev1.Service
	addresses []*networkingv1.IPAddress
	began     metav1.Time
}

// uid is the same for the same kind and number.
func uid(kind byte, i int) types.UID {
	return types.UID(fmt.Sprintf("%08x-0000-4000-8000-%012x", kind, i))
}

func (w *world) meta(kind byte, i int, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, UID: uid(kind, i), CreationTimestamp: w.began}
}

// namespaceOf is the i-th namespace.
func (w *world) namespaceOf(i int) string { return fmt.Sprintf("tenant-%04d", i%w.namespaces) }

// homeOf is the namespace of the i-th Service. Services beyond the first level are in the first
// half of the namespaces: a change of a namespace concerns its Services, and those of the other
// half have as many in each level.
func (w *world) homeOf(i int) string {
	if i < w.few {
		return w.namespaceOf(i)
	}
	return w.namespaceOf(i % (w.namespaces / 2))
}

// rangesOf are those that the i-th Service has its addresses from.
func rangesOf(i int) []netip.Prefix {
	return []netip.Prefix{servicesV4, netip.MustParsePrefix(fmt.Sprintf("fd00:10:%x::/112", 0x96+i/block))}
}

var servicesV4 = netip.MustParsePrefix("10.96.0.0/12")

// addressesOf are those of the i-th Service.
func addressesOf(i int) []string {
	r := rangesOf(i)
	return []string{seed.Address(r[0], i).String(), seed.Address(r[1], i%block).String()}
}

func (w *world) serviceAt(i int, touch string) seed.Object {
	o := w.service.DeepCopy()
	o.Namespace, o.Name, o.UID, o.CreationTimestamp = w.homeOf(i), fmt.Sprintf("service-%06d", i), uid('s', i), w.began
	o.Spec.ClusterIPs = addressesOf(i)
	o.Spec.ClusterIP = o.Spec.ClusterIPs[0]
	if touch != "" {
		metav1.SetMetaDataLabel(&o.ObjectMeta, touched, touch)
	}
	return seed.Object{Key: "/registry/services/specs/" + o.Namespace + "/" + o.Name, Kind: corev1.SchemeGroupVersion.WithKind("Service"), Value: o}
}

// ipAddressAt is an IPAddress of the n/2-th Service: the IPv4 one if n is even. The operator has
// labelled it: it labels 50 a second, which would go on for more than an hour. It has just come,
// for API servers delete one of more than a minute that has no Service yet, and make it anew.
func (w *world) ipAddressAt(n int) seed.Object {
	i, family := n/2, n%2
	o := w.addresses[family].DeepCopy()
	o.Name, o.UID, o.CreationTimestamp = addressesOf(i)[family], uid('a', n), metav1.Now()
	metav1.SetMetaDataLabel(&o.ObjectMeta, v1alpha1.LabelBand, allocator.Dynamic.String())
	o.Spec.ParentRef.Namespace, o.Spec.ParentRef.Name = w.homeOf(i), fmt.Sprintf("service-%06d", i)
	return seed.Object{Key: "/registry/ipaddresses/" + o.Name, Kind: networkingv1.SchemeGroupVersion.WithKind("IPAddress"), Value: o}
}

func (w *world) namespaceAt(i int, ranges int, touch string) seed.Object {
	o := &corev1.Namespace{ObjectMeta: w.meta('n', i, w.namespaceOf(i)), Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive}}
	o.Labels = map[string]string{corev1.LabelMetadataName: o.Name, tenantLabel: rangeName(i % ranges)}
	if touch != "" {
		o.Labels[touched] = touch
	}
	o.Spec.Finalizers = []corev1.FinalizerName{corev1.FinalizerKubernetes}
	return seed.Object{Key: "/registry/namespaces/" + o.Name, Kind: corev1.SchemeGroupVersion.WithKind("Namespace"), Value: o}
}

// nodeAt is a node that was heard of at a time, as kubelet tells of itself in its status.
func (w *world) nodeAt(i int, heard time.Time) seed.Object {
	o := &corev1.Node{ObjectMeta: w.meta('k', i, fmt.Sprintf("node-%04d", i))}
	o.Labels = map[string]string{corev1.LabelHostname: o.Name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64"}
	o.Spec.PodCIDRs = []string{fmt.Sprintf("100.%d.%d.0/24", 64+i/256, i%256), fmt.Sprintf("fd01:%x::/64", i+1)}
	o.Spec.PodCIDR = o.Spec.PodCIDRs[0]
	o.Status.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("192.168.%d.%d", i/256, i%256)}, {Type: corev1.NodeInternalIP, Address: fmt.Sprintf("fd02::%x", i+1)},
		{Type: corev1.NodeHostName, Address: o.Name},
	}
	for _, kind := range []corev1.NodeConditionType{corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		status := corev1.ConditionFalse
		if kind == corev1.NodeReady {
			status = corev1.ConditionTrue
		}
		o.Status.Conditions = append(o.Status.Conditions, corev1.NodeCondition{
			Type: kind, Status: status, Reason: "Kubelet" + string(kind), Message: "as kubelet says", LastHeartbeatTime: metav1.NewTime(heard), LastTransitionTime: w.began,
		})
	}
	return seed.Object{Key: "/registry/minions/" + o.Name, Kind: corev1.SchemeGroupVersion.WithKind("Node"), Value: o}
}

func rangeName(i int) string { return fmt.Sprintf("range-%04d", i) }

// cidrsOf are those of the i-th range.
func cidrsOf(i int) []string {
	return []string{fmt.Sprintf("10.%d.%d.0/24", 128+i/256, i%256), fmt.Sprintf("fd00:%x::/112", i+1)}
}

func (w *world) rangeAt(i int) seed.Object { return w.serviceCIDR('r', i, rangeName(i), cidrsOf(i)...) }

// serviceCIDR is one from which API servers allocate.
func (w *world) serviceCIDR(kind byte, i int, name string, cidrs ...string) seed.Object {
	o := &networkingv1.ServiceCIDR{ObjectMeta: w.meta(kind, i, name), Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs}}
	o.Labels, o.Finalizers = map[string]string{poolLabel: name}, []string{v1alpha1.FinalizerServiceCIDR}
	o.Status.Conditions = []metav1.Condition{{
		Type: networkingv1.ServiceCIDRConditionReady, Status: metav1.ConditionTrue, Message: "Kubernetes Service CIDR is ready", LastTransitionTime: w.began,
	}}
	return seed.Object{Key: "/registry/servicecidrs/" + name, Kind: networkingv1.SchemeGroupVersion.WithKind("ServiceCIDR"), Value: o}
}

// endpointSliceAt is one of the i-th Service, whose endpoints have changed at a time.
func (w *world) endpointSliceAt(i int, at time.Time) seed.Object {
	service, ready := fmt.Sprintf("service-%06d", i), true
	o := &discoveryv1.EndpointSlice{ObjectMeta: w.meta('e', i, service+"-1"), AddressType: discoveryv1.AddressTypeIPv4}
	o.Namespace, o.Labels = w.homeOf(i), map[string]string{discoveryv1.LabelServiceName: service}
	o.Annotations = map[string]string{corev1.EndpointsLastChangeTriggerTime: at.UTC().Format(time.RFC3339Nano)}
	for n := range 3 {
		o.Endpoints = append(o.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{fmt.Sprintf("100.%d.%d.%d", 64+i/256%64, i%256, 10+n)}, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
		})
	}
	return seed.Object{Key: "/registry/endpointslices/" + o.Namespace + "/" + o.Name, Kind: discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), Value: o}
}

// policyAt has the i-th range for the namespaces of a tenant, and keeps addresses of it. Of ten two
// have it exclusively, and another one grows.
func policyAt(i int) *v1alpha1.ServiceCIDRPolicy {
	p := &v1alpha1.ServiceCIDRPolicy{ObjectMeta: metav1.ObjectMeta{Name: rangeName(i)}}
	p.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{tenantLabel: p.Name}}
	p.Spec.OnFull = v1alpha1.OnFullFail
	switch {
	case grows(i):
		p.Spec.ServiceCIDRSelector = &metav1.LabelSelector{MatchLabels: map[string]string{poolLabel: p.Name}}
		p.Spec.Growth = &v1alpha1.Growth{From: []v1alpha1.Supernet{{CIDR: supernet.String(), PrefixLength: 24}}, WhenFreePercent: 10, MaxRanges: 2}
	default:
		p.Spec.ServiceCIDRs = []string{p.Name}
	}
	if i%10 < 2 {
		p.Spec.Exclusive, p.Spec.Enforcement = true, v1alpha1.EnforcementWebhook
	}
	first := netip.MustParsePrefix(cidrsOf(i)[0]).Addr().Next()
	for n := range reserved {
		first = first.Next()
		p.Spec.Reservations = append(p.Spec.Reservations, v1alpha1.Reservation{Name: fmt.Sprint("r", n), Address: first.String()})
	}
	return p
}

// grows reports whether the i-th policy grows.
func grows(i int) bool { return i%10 == 2 }
