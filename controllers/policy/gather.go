package policy

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/addressindex"
)

// gather reads the inputs of a decision about an address: the IPAddress from the cache, everything else from the address index and the policies.
func (k *Keeper) gather(ctx context.Context, a netip.Addr) (world, error) {
	rules := k.Board.Current()
	w := world{now: k.Clock.Now(), address: a, claimed: len(k.Index.Claims(a)) > 0}
	covering := k.Index.Covering(a)
	w.covered = len(covering) > 0
	w.offered = slices.ContainsFunc(covering, func(c addressindex.ServiceCIDR) bool { return !c.Terminating })
	if r, ok := rules.Reservation(a); ok {
		w.reservation = &r
	}
	if d, p := rules.CoolDown(a); p != nil {
		w.coolDown, w.cooler = d, owner{p.Name, p.UID}
	}
	var err error
	if w.object, err = k.object(ctx, a); err != nil {
		return w, err
	}
	w.rest = k.rest(a, w.object)
	return w, nil
}

func (k *Keeper) object(ctx context.Context, a netip.Addr) (*object, error) {
	ip := &networkingv1.IPAddress{}
	switch err := k.Client.Get(ctx, client.ObjectKey{Name: a.String()}, ip); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading IPAddress %s: %w", a, err)
	}
	return newObject(ip), nil
}

// rest asks the object first: it is what every replica sees, and the cache has it a moment before the address index.
func (k *Keeper) rest(a netip.Addr, o *object) *addressindex.CoolDown {
	if o != nil && o.kind == kept && o.purpose() == v1alpha1.PurposeCooling {
		r := o.rest()
		return &r
	}
	if r, ok := k.Index.Cooling(a); ok {
		return &r
	}
	return nil
}
