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

// gather reads the world of a Service: the Service from reader, all else from what the process keeps.
func (r *Reconciler) gather(ctx context.Context, reader client.Reader, name types.NamespacedName) (world, error) {
	w := world{now: r.Clock.Now(), name: name, offers: map[slot]offer{}}
	s, err := objects.Get(ctx, reader, name, &corev1.Service{})
	if err != nil {
		return w, err
	}
	w.held = r.held(name)
	if s == nil {
		r.askers.set(name, nil)
		return w, nil
	}
	w.service = &service{uid: s.UID, deleting: !s.DeletionTimestamp.IsZero(), wish: steering.AdditionalRequestOf(s)}
	r.askers.set(name, w.service.wish.From) // before the ranges are read, so that no change falls between
	return w, r.addOffers(ctx, &w, s)
}

// held returns the additional IPAddresses of the Service.
func (r *Reconciler) held(name types.NamespacedName) []held {
	var out []held
	for a, k := range r.Index.Additional(name) {
		out = append(out, held{address: a, uid: k.UID, serviceCIDR: k.ServiceCIDR, service: k.ServiceUID})
	}
	return out
}

// addOffers enters what there is for each slot of the wish, and for the empty ones what may be drawn from.
func (r *Reconciler) addOffers(ctx context.Context, w *world, s *corev1.Service) error {
	for _, name := range w.service.wish.From {
		cidr, err := objects.Get(ctx, r.Client, types.NamespacedName{Name: name}, &networkingv1.ServiceCIDR{})
		if err != nil {
			return err
		}
		if cidr == nil {
			continue
		}
		for _, is4 := range w.service.wish.Families() {
			w.offers[slot{name, is4}] = newOffer(cidr, is4)
		}
	}
	filled, _ := w.sort()
	for at, o := range w.offers {
		if _, has := filled[at]; has || len(o.ranges) == 0 {
			continue
		}
		if err := r.ask(ctx, w, s, at); err != nil {
			return err
		}
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

// ask enters what policies say about a slot.
func (r *Reconciler) ask(ctx context.Context, w *world, s *corev1.Service, at slot) error {
	namespace, err := objects.Get(ctx, r.Client, types.NamespacedName{Name: s.Namespace}, &corev1.Namespace{})
	if err != nil {
		return err
	}
	who := steering.Service{NamespacedName: w.name, Labels: s.Labels}
	if namespace != nil {
		who.NamespaceLabels = namespace.Labels
	}
	o := w.offers[at]
	tiers, refusal := r.Board.Current().Additional(who, at.serviceCIDR, at.is4)
	if refusal != nil {
		o.refusal = refusal.Message
	}
	o.tiers = tiers
	w.offers[at] = o
	return nil
}
