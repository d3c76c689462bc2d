package dualstack

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

// NewPlan plans for the Services of a namespace, "" for all, that a selector matches. It fails
// where the cluster has one family.
func NewPlan(ctx context.Context, c client.Client, cluster types.UID, namespace string, selector labels.Selector) (Plan, error) {
	if err := TwoFamilies(ctx, c); err != nil {
		return Plan{}, err
	}
	var all []candidate
	bySelector := false // some of them select pods
	err := each(ctx, c, func() client.ObjectList { return &corev1.ServiceList{} }, namespace, selector, func(o runtime.Object) error {
		s := o.(*corev1.Service)
		if decision, _ := decide(s, nil); decision == gains || decision == left {
			all = append(all, candidate{service: s})
			bySelector = bySelector || needsEndpoints(s) && len(s.Spec.Selector) > 0
		}
		return nil
	})
	if err != nil {
		return Plan{}, fmt.Errorf("listing Services: %w", err)
	}
	pods := podIndex{}
	if bySelector {
		if pods, err = listPods(ctx, c, namespace); err != nil {
			return Plan{}, fmt.Errorf("listing pods: %w", err)
		}
	}
	for i, s := range all {
		switch {
		case !needsEndpoints(s.service):
		case len(s.service.Spec.Selector) > 0:
			all[i].has = pods.reach(s.service)
		default:
			if all[i].has, err = sliceReach(ctx, c, s.service); err != nil {
				return Plan{}, fmt.Errorf("listing the EndpointSlices of Service %s/%s: %w", s.service.Namespace, s.service.Name, err)
			}
		}
	}
	return newPlan(cluster, all), nil
}

func needsEndpoints(s *corev1.Service) bool { return s.Spec.ClusterIP != corev1.ClusterIPNone }

// TwoFamilies fails where only one family has addresses, and says what to do.
func TwoFamilies(ctx context.Context, c client.Reader) error {
	list := &networkingv1.ServiceCIDRList{}
	if err := c.List(ctx, list); err != nil {
		return fmt.Errorf("listing ServiceCIDRs: %w", err)
	}
	families := map[allocator.Family]bool{}
	ranges := []string{}
	for _, o := range list.Items {
		if !o.DeletionTimestamp.IsZero() || meta.IsStatusConditionFalse(o.Status.Conditions, networkingv1.ServiceCIDRConditionReady) {
			continue
		}
		for _, text := range o.Spec.CIDRs {
			if p, err := netip.ParsePrefix(text); err == nil {
				families[allocator.FamilyOf(p.Addr())] = true
				ranges = append(ranges, text)
			}
		}
	}
	if len(families) == 2 {
		return nil
	}
	lacking := allocator.IPv6
	if families[lacking] {
		lacking = allocator.IPv4
	}
	return fmt.Errorf("there is no ServiceCIDR of %s that is Ready, only %v: give nodes and pods addresses of %s, then restart every kube-apiserver with a range of each family in --service-cluster-ip-range (docs/guides/dual-stack.md)",
		lacking, ranges, lacking)
}

// each calls do for every object of a kind, a page at a time.
func each(ctx context.Context, c client.Client, newList func() client.ObjectList, namespace string, selector labels.Selector, do func(runtime.Object) error) error {
	page := func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		list := newList()
		return list, c.List(ctx, list, &client.ListOptions{Namespace: namespace, LabelSelector: selector, Limit: o.Limit, Continue: o.Continue})
	}
	return pager.New(page).EachListItem(ctx, metav1.ListOptions{}, do)
}

// pod is what matters of one.
type pod struct {
	labels labels.Set
	has    reach
}

// podIndex has the pods of namespaces by each of their labels.
type podIndex map[[3]string][]*pod // namespace, key, value

func listPods(ctx context.Context, c client.Client, namespace string) (podIndex, error) {
	index := podIndex{}
	err := each(ctx, c, func() client.ObjectList { return &corev1.PodList{} }, namespace, labels.Everything(), func(o runtime.Object) error {
		p := o.(*corev1.Pod)
		if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed || p.DeletionTimestamp != nil {
			return nil
		}
		known := &pod{labels: p.Labels, has: reach{}}
		for _, ip := range p.Status.PodIPs {
			known.has.add(ip.IP)
		}
		for key, value := range p.Labels {
			at := [3]string{p.Namespace, key, value}
			index[at] = append(index[at], known)
		}
		return nil
	})
	return index, err
}

// reach returns the families of the pods that a Service selects.
func (index podIndex) reach(s *corev1.Service) reach {
	var fewest []*pod // of those that match one label of the selector
	first := true
	for key, value := range s.Spec.Selector {
		if some := index[[3]string{s.Namespace, key, value}]; first || len(some) < len(fewest) {
			fewest, first = some, false
		}
	}
	selects, has := labels.SelectorFromSet(s.Spec.Selector), reach{}
	for _, p := range fewest {
		if selects.Matches(p.labels) {
			for family := range p.has {
				has[family] = true
			}
		}
	}
	return has
}

func (r reach) add(address string) {
	if a, err := netip.ParseAddr(address); err == nil {
		r[corev1.IPFamily(allocator.FamilyOf(a).String())] = true
	}
}

// sliceReach returns the families of the EndpointSlices of a Service that selects no pods.
func sliceReach(ctx context.Context, c client.Client, s *corev1.Service) (reach, error) {
	list := &discoveryv1.EndpointSliceList{}
	err := c.List(ctx, list, client.InNamespace(s.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: s.Name})
	has := reach{}
	for _, o := range list.Items {
		if slices.ContainsFunc(o.Endpoints, func(e discoveryv1.Endpoint) bool { return len(e.Addresses) > 0 }) {
			has[corev1.IPFamily(o.AddressType)] = true
		}
	}
	return has, err
}
