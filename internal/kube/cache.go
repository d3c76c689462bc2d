package kube

import (
	"os"
	"slices"
	"strconv"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/compact"
	"github.com/clusterip-operator/clusterip-operator/internal/nodeports"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
)

// CacheOptions keeps of the objects of which there are many only what the loops read. Of a Service
// of 2 KiB that is some 100 bytes, as of its IPAddress: see package compact. policies is the answer
// of DiscoverPolicies: there is no cache of a kind that is not served.
func CacheOptions(policies bool) cache.Options {
	service, ipAddress := Transforms()
	o := cache.Options{
		// A read of a kind that nothing watches is a mistake, not a reason to watch it.
		ReaderFailOnMissingInformer: true,
		NewInformer:                 NewInformer,
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Service{}:           {Transform: service, UnsafeDisableDeepCopy: new(false)},
			&corev1.Node{}:              {Transform: transform(trimNode)},
			&corev1.Namespace{}:         {Transform: transform(trimNamespace)},
			&networkingv1.IPAddress{}:   {Transform: ipAddress, UnsafeDisableDeepCopy: new(false)},
			&networkingv1.ServiceCIDR{}: {Transform: cache.TransformStripManagedFields()},
		},
	}
	if policies {
		o.ByObject[&v1alpha1.ServiceCIDRPolicy{}] = cache.ByObject{Transform: cache.TransformStripManagedFields()}
	}
	return o
}

// Transforms are what the caches of CacheOptions make of a Service and of an IPAddress.
func Transforms() (service, ipAddress toolscache.TransformFunc) {
	return transform(keepService), transform(keepIPAddress)
}

// NewInformer makes the informer of a kind. IPAddresses have no namespace, by which all of them
// would be indexed as one more set of their names.
func NewInformer(from toolscache.ListerWatcher, kind runtime.Object, resync time.Duration, by toolscache.Indexers) toolscache.SharedIndexInformer {
	if _, ok := kind.(*networkingv1.IPAddress); ok {
		by = toolscache.Indexers{}
	}
	return toolscache.NewSharedIndexInformer(from, kind, resync, by)
}

// transform adapts what keeps an object to the cache, which hands it anything (tombstones too).
func transform[T any](keep func(T) any) func(any) (any, error) {
	return func(o any) (any, error) {
		if t, ok := o.(T); ok {
			return keep(t), nil
		}
		return o, nil
	}
}

// comparing says that client-go compares what is in its caches with copies of before, and ends the
// process if they differ, as compact objects do from their copies. Then none are made: this is an
// aid for debugging, with which a cache takes more memory anyway.
var comparing, _ = strconv.ParseBool(os.Getenv("KUBE_CACHE_MUTATION_DETECTOR"))

// keepService returns a compact Service, or a trimmed one if there is more to it. Of either the
// readers of the cache return a copy: that of a compact one is the full object.
func keepService(s *corev1.Service) any {
	trimmed := trimService(s)
	if c := compact.OfService(trimmed); c != nil && !comparing {
		return c
	}
	return trimmed
}

// keepIPAddress is keepService for IPAddresses.
func keepIPAddress(ip *networkingv1.IPAddress) any {
	trimmed := trimIPAddress(ip)
	if c := compact.OfIPAddress(trimmed); c != nil && !comparing {
		return c
	}
	return trimmed
}

func trimMeta(m metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: m.Name, Namespace: once(m.Namespace), UID: m.UID, ResourceVersion: m.ResourceVersion,
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp,
	}
}

// once returns the text, of which objects share the bytes: all of them while a unique.Handle of it
// is held, as compact objects hold those of their namespaces; otherwise those that come between two
// garbage collections.
func once(text string) string { return unique.Make(text).Value() }

// trimService keeps of a Service what has a bound, whatever its author writes: no labels, and only
// the parsed annotations. What a Service may cost is a promise (see the test); code that needs more
// reads it from the API server. The few with additional or former addresses cost a bit more, and
// the numbers of node ports cost what the range of node ports has, in all Services together.
func trimService(s *corev1.Service) *corev1.Service {
	out := &corev1.Service{
		ObjectMeta: trimMeta(s.ObjectMeta),
		Spec:       corev1.ServiceSpec{Type: s.Spec.Type, ClusterIPs: s.Spec.ClusterIPs, Ports: nodeports.Remembered(s)},
	}
	if out.Annotations = steering.Remembered(s); out.Annotations == nil {
		return out
	}
	out.Spec.IPFamilies = s.Spec.IPFamilies
	if v1alpha1.BeingRenumbered(s) && s.Spec.Type == corev1.ServiceTypeExternalName {
		out.Spec.ExternalName = v1alpha1.ExternalNameRenumbering
	}
	return out
}

// trimNamespace keeps the labels, by which policies select namespaces.
func trimNamespace(n *corev1.Namespace) any {
	out := &corev1.Namespace{ObjectMeta: trimMeta(n.ObjectMeta)}
	out.Labels = n.Labels
	return out
}

func only(all map[string]string, names ...string) map[string]string {
	var out map[string]string
	for _, name := range names {
		if value, ok := all[name]; ok {
			if out == nil {
				out = map[string]string{}
			}
			out[name] = value
		}
	}
	return out
}

func trimNode(n *corev1.Node) any {
	return &corev1.Node{
		ObjectMeta: trimMeta(n.ObjectMeta),
		Spec:       corev1.NodeSpec{PodCIDRs: n.Spec.PodCIDRs},
		Status:     corev1.NodeStatus{Addresses: n.Status.Addresses},
	}
}

func trimIPAddress(ip *networkingv1.IPAddress) *networkingv1.IPAddress {
	out := &networkingv1.IPAddress{ObjectMeta: trimMeta(ip.ObjectMeta), Spec: ip.Spec}
	if ref := ip.Spec.ParentRef; ref != nil {
		out.Spec.ParentRef = &networkingv1.ParentReference{Group: once(ref.Group), Resource: once(ref.Resource), Namespace: once(ref.Namespace), Name: ref.Name}
	}
	out.Labels = only(ip.Labels, networkingv1.LabelManagedBy, networkingv1.LabelIPAddressFamily, v1alpha1.LabelPurpose, v1alpha1.LabelBand)
	out.OwnerReferences = ip.OwnerReferences
	if slices.Contains(ip.Finalizers, v1alpha1.FinalizerFormer) {
		out.Finalizers = []string{v1alpha1.FinalizerFormer}
	}
	// What we note on IPAddresses of ours; the API server's have none of it.
	out.Annotations = only(ip.Annotations, v1alpha1.AnnotationLastService, v1alpha1.AnnotationReleased, v1alpha1.AnnotationReservation,
		v1alpha1.AnnotationServiceCIDR, v1alpha1.AnnotationServiceUID)
	return out
}
