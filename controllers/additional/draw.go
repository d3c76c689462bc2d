package additional

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/ledger"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/replicas"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/upstream"
)

// tries is how often a slot is drawn for when others are faster. Replicas draw from shards of their own, so that even once is rare.
const tries = 8

// filling is what came of filling slots.
type filling struct {
	addresses  []netip.Addr
	complaints []string
	// again: others were faster, or did not answer.
	again bool
	err   error
}

// fill draws an address for each slot of the verdict.
func (r *Reconciler) fill(ctx context.Context, w world, v verdict) filling {
	var out filling
	if len(v.draw) == 0 {
		return out
	}
	for _, at := range v.draw {
		a, err := r.fillSlot(ctx, w, at)
		switch {
		case errors.Is(err, allocator.ErrFull):
			out.complaints = append(out.complaints, full(at))
		case errors.Is(err, ledger.ErrBusy), errors.Is(err, errTaken):
			out.again = true
		case err != nil:
			out.err = errors.Join(out.err, err)
		default:
			out.addresses = append(out.addresses, a)
		}
	}
	return out
}

func (r *Reconciler) rights() replicas.Rights {
	if r.Rights == nil {
		return replicas.Rights{}
	}
	return r.Rights()
}

// errTaken says that others had, or may have, what was drawn: there is another time.
var errTaken = errors.New("others were faster")

// fillSlot draws until an address is written. The API server decides between replicas: a name can be taken once.
func (r *Reconciler) fillSlot(ctx context.Context, w world, at slot) (netip.Addr, error) {
	for range tries {
		lot := allocator.Lot{Tiers: w.offers[at].tiers, Shard: r.rights().Shard, Yield: true}
		drawn, err := r.Ledger.Draw(lot, ledger.Holder{Service: w.name})
		if err != nil {
			return netip.Addr{}, err
		}
		written, err := r.take(ctx, w, at, drawn)
		if err != nil || written {
			return drawn.Addr, err
		}
	}
	return netip.Addr{}, errTaken
}

// take writes the IPAddress of a drawn address. It is false when somebody else was faster.
func (r *Reconciler) take(ctx context.Context, w world, at slot, drawn allocator.Drawn) (bool, error) {
	if ours, err := r.settle(ctx, drawn); err != nil || !ours {
		return false, err
	}
	ip := newIPAddress(drawn.Addr, w, at)
	switch err := r.Client.Create(ctx, ip, client.FieldOwner(v1alpha1.ManagerAdditional)); {
	case apierrors.IsAlreadyExists(err):
		r.Ledger.Lost(drawn.Addr) // the watch is about to show who has it
		return false, nil
	case err != nil:
		r.Ledger.Forget(drawn.Addr)
		return false, fmt.Errorf("creating IPAddress %s: %w", drawn.Addr, err)
	}
	r.written.add(w.name, held{address: drawn.Addr, uid: ip.UID, serviceCIDR: at.serviceCIDR, service: w.service.uid, written: r.Clock.Now()})
	r.tellAllocated(w, at, drawn.Addr)
	return true, nil
}

// settle makes sure that no other replica hands the address out. It is false when one might. What may only be claimed is as good as what may be handed
// out: the IPAddress that is written next is a claim.
func (r *Reconciler) settle(ctx context.Context, drawn allocator.Drawn) (bool, error) {
	if k, ok := r.Ledger.Kept(drawn.Addr); ok {
		return r.makeRoom(ctx, drawn.Addr, k)
	}
	if drawn.Own || r.Borrow == nil {
		return true, nil
	}
	grant, err := r.Borrow(ctx, drawn.Addr)
	switch {
	case err != nil:
		r.Ledger.Forget(drawn.Addr)
		return false, fmt.Errorf("borrowing %s: %w: %w", drawn.Addr, errTaken, err)
	case grant == replicas.Elsewhere:
		r.Ledger.Forget(drawn.Addr)
	case grant == replicas.Refused:
		r.Ledger.Lost(drawn.Addr)
	}
	return grant == replicas.Outright || grant == replicas.Claimable, nil
}

// makeRoom takes away the IPAddress of ours at an address that was resting. It is false when another replica was faster.
func (r *Reconciler) makeRoom(ctx context.Context, a netip.Addr, k ledger.Kept) (bool, error) {
	if k.Purpose != v1alpha1.PurposeCooling {
		r.Ledger.Lost(a) // it came between the draw and this look
		return false, nil
	}
	ip := &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: a.String()}}
	err := r.Client.Delete(ctx, ip, client.Preconditions{UID: &k.UID})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		r.Ledger.Lost(a)
		return false, nil
	case err != nil:
		r.Ledger.Forget(a)
		return false, fmt.Errorf("taking the resting IPAddress %s away: %w", a, err)
	}
	return true, nil
}

// newIPAddress is an IPAddress of ours for a slot of a Service.
func newIPAddress(a netip.Addr, w world, at slot) *networkingv1.IPAddress {
	ip := upstream.NewIPAddress(a, w.name)
	ip.Labels[networkingv1.LabelManagedBy] = v1alpha1.ManagedByOperator
	ip.Labels[v1alpha1.LabelPurpose] = v1alpha1.PurposeAdditional
	ip.Annotations = map[string]string{
		v1alpha1.AnnotationServiceCIDR: at.serviceCIDR,
		v1alpha1.AnnotationServiceUID:  string(w.service.uid),
	}
	return ip
}
