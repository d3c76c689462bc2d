package check

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
)

// Defaults is what an API server makes again by itself within ten seconds: the default ServiceCIDR,
// and the Service by which pods reach it. The zero value is that of a cluster that has both.
type Defaults struct {
	// WithoutRange: there is no ServiceCIDR kubernetes, and the API server allocates from it.
	WithoutRange bool
	// WithoutService: there is no Service default/kubernetes. First is its address, the zero Addr if
	// no ServiceCIDR tells it.
	WithoutService bool
	First          netip.Addr
	// Unknown is what the user may not read.
	Unknown []Unknown
}

// FirstAddress is what API servers give to Service default/kubernetes: the first address of their
// primary range, as the default ServiceCIDR tells it. It is the zero Addr without one.
func FirstAddress(all []networkingv1.ServiceCIDR) netip.Addr {
	for _, o := range all {
		if o.Name != v1alpha1.DefaultServiceCIDR || len(o.Spec.CIDRs) == 0 {
			continue
		}
		if p, err := netip.ParsePrefix(o.Spec.CIDRs[0]); err == nil {
			return p.Masked().Addr().Next()
		}
	}
	return netip.Addr{}
}

// LookAtDefaults looks for both. bitmap: the API server allocates from the bitmap in etcd, and
// makes no ServiceCIDR.
func LookAtDefaults(ctx context.Context, r client.Reader, ranges []networkingv1.ServiceCIDR, bitmap bool) (d Defaults, err error) {
	isDefault := func(o networkingv1.ServiceCIDR) bool { return o.Name == v1alpha1.DefaultServiceCIDR }
	d.WithoutRange = !bitmap && !slices.ContainsFunc(ranges, isDefault)
	d.First = FirstAddress(ranges)
	switch err := r.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "kubernetes"}, &corev1.Service{}); {
	case apierrors.IsNotFound(err):
		d.WithoutService = true
	case apierrors.IsForbidden(err):
		d.Unknown = []Unknown{{"the user may not get Service default/kubernetes", []string{"APIServiceMissing"}}}
	case err != nil:
		return d, fmt.Errorf("reading Service default/kubernetes: %w", cli.Permission(err))
	}
	return d, nil
}

// Items are what is wrong: one for both, if both are missing, for the Service needs the range.
func (d Defaults) Items() []Item {
	const refused = "If it does not come back, the API server is refused: look for an admission policy or a webhook, of the platform for example, that refuses it, and into the log of kube-apiserver."
	switch {
	case d.WithoutRange:
		text := "It does not exist, and the API server draws no address from its own range. It makes the ServiceCIDR again within ten seconds. " + refused
		if d.WithoutService {
			text += " Service default/kubernetes, by which pods reach the API server, is missing with it."
		}
		return []Item{{Check: "RangeDefaultMissing", Object: "servicecidr/" + v1alpha1.DefaultServiceCIDR, Message: text}}
	case d.WithoutService:
		text := "It does not exist, and pods do not reach the API server by it. The API server makes it again within ten seconds. " + refused
		i := Item{Check: "APIServiceMissing", Object: "service/default/kubernetes", Message: text}
		if d.First.IsValid() {
			i.Address = d.First.String()
			i.Message += fmt.Sprintf(" It gets %s and no other address: `kubectl clusterip why %s` says who has that.", d.First, d.First)
		}
		return []Item{i}
	}
	return nil
}
