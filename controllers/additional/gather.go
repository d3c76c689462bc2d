package additional

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/controllers/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/objects"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/steering"
)

// gather reads the Service from reader, and all else from what the process keeps.
func (r *Reconciler) gather(ctx context.Context, reader client.Reader, name types.NamespacedName) (inputs, error) {
	in := inputs{now: r.Clock.Now(), name: name, offers: map[slot]offer{}}
	s, err := objects.Get(ctx, reader, name, &corev1.Service{})
	if err != nil {
		return in, err
	}
	for a, k := range r.Index.Additional(name) {
		in.held = append(in.held, held{address: a, uid: k.UID, serviceCIDR: k.ServiceCIDR, service: k.ServiceUID})
	}
	if s == nil {
		r.asks.Delete(name)
		return in, nil
	}
	in.service = &service{uid: s.UID, deleting: !s.DeletionTimestamp.IsZero(), asks: steering.AdditionalRequestOf(s)}
	r.asks.Store(name, in.service.asks.From) // before the ranges are read, so that no change falls between
	if len(in.service.asks.From) == 0 {
		r.asks.Delete(name)
	}
	return in, r.addOffers(ctx, &in, s)
}

// addOffers enters what there is for each slot that the Service asks for, and for the empty ones what may be drawn from.
func (r *Reconciler) addOffers(ctx context.Context, in *inputs, s *corev1.Service) error {
	for _, name := range in.service.asks.From {
		cidr, err := objects.Get(ctx, r.Client, types.NamespacedName{Name: name}, &networkingv1.ServiceCIDR{})
		if err != nil {
			return err
		}
		if cidr == nil {
			continue
		}
		for _, is4 := range in.service.asks.Families() {
			in.offers[slot{name, is4}] = newOffer(cidr, is4)
		}
	}
	namespace, err := objects.Get(ctx, r.Client, types.NamespacedName{Name: s.Namespace}, &corev1.Namespace{})
	if err != nil {
		return err
	}
	who := steering.Service{NamespacedName: in.name, Labels: s.Labels}
	if namespace != nil {
		who.NamespaceLabels = namespace.Labels
	}
	filled, _ := in.slots()
	for at, o := range in.offers {
		if _, has := filled[at]; has || len(o.ranges) == 0 {
			continue
		}
		tiers, refusal := r.Policies.Current().Additional(who, at.serviceCIDR, at.is4)
		if refusal != nil {
			o.refusal = refusal.Message
		}
		o.tiers = tiers
		in.offers[at] = o
	}
	return nil
}

func newOffer(cidr *networkingv1.ServiceCIDR, is4 bool) offer {
	c := addressindex.NewServiceCIDR(cidr)
	o := offer{exists: true, deleting: c.Terminating, ready: c.Ready}
	for _, rng := range c.Ranges {
		if rng.Prefix().Addr().Is4() == is4 {
			o.ranges = append(o.ranges, rng)
		}
	}
	return o
}
