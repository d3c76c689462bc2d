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
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/upstream"
)

// tries is how often a slot is drawn for when the API server has something else at an address than the address index. Even once is rare.
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
		case errors.Is(err, errTaken):
			out.again = true
		case err != nil:
			out.err = errors.Join(out.err, err)
		default:
			out.addresses = append(out.addresses, a)
		}
	}
	return out
}

// errTaken says that others had what was drawn: there is another time.
var errTaken = errors.New("others were faster")

// fillSlot draws until an address is written. The API server is the arbiter: a name can be taken once.
func (r *Reconciler) fillSlot(ctx context.Context, w world, at slot) (netip.Addr, error) {
	for range tries {
		drawn, err := r.Index.Draw(w.offers[at].tiers, w.name)
		if err != nil {
			return netip.Addr{}, err
		}
		written, err := r.write(ctx, w, at, drawn.Addr)
		if err != nil || written {
			return drawn.Addr, err
		}
	}
	return netip.Addr{}, errTaken
}

// write creates the IPAddress of a drawn address. It is false when somebody else was faster.
func (r *Reconciler) write(ctx context.Context, w world, at slot, a netip.Addr) (bool, error) {
	if k, ok := r.Index.Owned(a); ok {
		if done, err := r.makeRoom(ctx, a, k); err != nil || !done {
			return false, err
		}
	}
	ip := newIPAddress(a, w, at)
	switch err := r.Client.Create(ctx, ip, client.FieldOwner(v1alpha1.ManagerAdditional)); {
	case apierrors.IsAlreadyExists(err):
		r.Index.Lost(a) // the watch is about to show who has it
		return false, nil
	case err != nil:
		r.Index.Forget(a)
		return false, fmt.Errorf("creating IPAddress %s: %w", a, err)
	}
	r.Index.EndWrite(a, ip, "")
	r.tellAllocated(w, at, a)
	return true, nil
}

// makeRoom deletes the IPAddress of ours at an address that was cooling down. It is false when somebody else was faster.
func (r *Reconciler) makeRoom(ctx context.Context, a netip.Addr, k addressindex.OwnedIPAddress) (bool, error) {
	if k.Purpose != v1alpha1.PurposeCooling {
		r.Index.Lost(a) // it came between the draw and this look
		return false, nil
	}
	ip := &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: a.String()}}
	err := r.Client.Delete(ctx, ip, client.Preconditions{UID: &k.UID})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		r.Index.Lost(a)
		return false, nil
	case err != nil:
		r.Index.Forget(a)
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
