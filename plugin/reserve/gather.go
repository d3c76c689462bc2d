package reserve

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
)

// gather reads what a plan follows from.
func gather(ctx context.Context, s *cli.Cluster, f flags) (in inputs, err error) {
	in = inputs{name: f.name, namespace: f.namespace, prune: f.prune}
	if in.selector, err = labels.Parse(f.selector); err != nil {
		return in, fmt.Errorf("--selector: %w", err)
	}
	cidrs, policies, err := s.RangesAndPolicies(ctx)
	if err != nil {
		return in, err
	}
	in.policies, in.byAPIServer = policies.Items, firstAddresses(cidrs.Items)
	if in.ranges, err = cli.NamedRanges("--range", f.ranges, cidrs.Items); err != nil {
		return in, err
	}
	// All of the namespace: a Service without the labels is not gone.
	services := &corev1.ServiceList{}
	err = s.ListNamed(ctx, services, "Services", client.InNamespace(f.namespace))
	in.services = services.Items
	return in, err
}

// firstAddresses are those of the default ServiceCIDR's ranges, which policies cannot reserve.
func firstAddresses(cidrs []networkingv1.ServiceCIDR) (out []netip.Addr) {
	for _, o := range cidrs {
		if o.Name != v1alpha1.DefaultServiceCIDR {
			continue
		}
		for _, text := range o.Spec.CIDRs {
			if r, err := allocator.ParseRange(text); err == nil {
				out = append(out, r.Span().First)
			}
		}
	}
	return out
}
