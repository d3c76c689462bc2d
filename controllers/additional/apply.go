package additional

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/objects"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
	"github.com/clusterip-operator/clusterip-operator/internal/wording"
)

// tries bounds the draws for a slot. Rarely, the address index lacks what the API server has there.
const tries = 8

// release gives up IPAddresses, each only if it is still the object that was judged. A former one
// loses its finalizer; if no API server has deleted it, it is then deleted as any additional one.
func (r *Reconciler) release(ctx context.Context, addresses []held) error {
	var failed error
	for _, h := range addresses {
		do := r.remove
		if h.former {
			do = r.letGo
		}
		if err := do(ctx, h); err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		log.FromContext(ctx).Info("Released an additional address", "address", h.address, "serviceCIDR", h.serviceCIDR, "former", h.former)
	}
	return failed
}

func (r *Reconciler) remove(ctx context.Context, h held) error {
	if err := r.Client.Delete(ctx, upstream.Named(h.address.String()), client.Preconditions{UID: &h.uid}); objects.IgnoreGone(err) != nil {
		return fmt.Errorf("deleting IPAddress %s: %w", h.address, err)
	}
	return nil
}

// letGo takes the finalizer off a former address.
func (r *Reconciler) letGo(ctx context.Context, h held) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": h.uid, "$deleteFromPrimitiveList/finalizers": []string{v1alpha1.FinalizerFormer},
	}})
	if err != nil {
		return err
	}
	ip := upstream.Named(h.address.String())
	err = r.Client.Patch(ctx, ip, client.RawPatch(types.StrategicMergePatchType, patch), client.FieldOwner(v1alpha1.ManagerAdditional))
	if !apierrors.IsInvalid(err) && objects.IgnoreGone(err) != nil { // invalid is the UID, if another one has come
		return fmt.Errorf("taking the finalizer off the former address %s: %w", h.address, err)
	}
	return nil
}

// fill draws an address for each slot, and returns those where none is left.
func (r *Reconciler) fill(ctx context.Context, in inputs, slots []slot) (short []slot, failed error) {
	for _, at := range slots {
		switch err := r.fillSlot(ctx, in, at); {
		case errors.Is(err, allocator.ErrFull):
			short = append(short, at)
		case err != nil:
			failed = errors.Join(failed, err)
		}
	}
	return short, failed
}

// fillSlot draws until an address is written. The API server arbitrates: a name can be taken once.
func (r *Reconciler) fillSlot(ctx context.Context, in inputs, at slot) error {
	for range tries {
		drawn, err := r.Index.Draw(in.offers[at].tiers, addressindex.Holder{Service: in.name})
		if err != nil {
			return err
		}
		if err := r.write(ctx, in, at, drawn.Addr); !errors.Is(err, addressindex.ErrLost) {
			return err
		}
	}
	return fmt.Errorf("other clients took each of %d addresses that were drawn from ServiceCIDR %s", tries, at.serviceCIDR)
}

// write creates a drawn IPAddress. ErrLost: another writer was faster; the watch will show it.
func (r *Reconciler) write(ctx context.Context, in inputs, at slot, a netip.Addr) error {
	holder := addressindex.Holder{Service: in.name}
	if err := r.Index.MakeRoom(ctx, r.Client, a, holder, v1alpha1.PurposeCooling); err != nil {
		return err
	}
	ip := upstream.NewIPAddress(a, in.name)
	ip.Labels[networkingv1.LabelManagedBy] = v1alpha1.ManagedByOperator
	ip.Labels[v1alpha1.LabelPurpose] = v1alpha1.PurposeAdditional
	ip.Annotations = map[string]string{v1alpha1.AnnotationServiceCIDR: at.serviceCIDR, v1alpha1.AnnotationServiceUID: string(in.service.uid)}
	limit := r.limitsOf(in.name.Namespace)
	// A Service that gets all its addresses at once overdraws; the next of the namespace waits.
	limit.draws.ReserveN(in.now, 1)
	if err := r.Client.Create(ctx, ip, client.FieldOwner(v1alpha1.ManagerAdditional)); err != nil {
		return r.Index.NotWritten(a, holder, fmt.Errorf("creating IPAddress %s: %w", a, err))
	}
	r.Index.EndWrite(a, ip, "")
	if limit.news.AllowN(in.now, 1) {
		r.Events.Eventf(reference(in), upstream.Named(a.String()), corev1.EventTypeNormal, "AdditionalIPAllocated", action,
			"Additional address %s from ServiceCIDR %s", a, at.serviceCIDR)
	}
	return nil
}

// action of the events on a Service.
const action = "AdditionalIPAllocation"

// tell sends complaints to the Service in one event, unless all of them were told last time:
// client-go merges two events of one reason, and keeps the note of either.
//
// The rate is bounded per namespace, and the excess dropped: the webhook told the Service's author.
func (r *Reconciler) tell(in inputs, w *wait, complaints []string) {
	isNew := func(text string) bool { return !slices.Contains(w.told, text) }
	if !slices.ContainsFunc(complaints, isNew) || !r.limitsOf(in.name.Namespace).complaints.AllowN(in.now, 1) {
		return
	}
	w.told = complaints
	r.Events.Eventf(reference(in), nil, corev1.EventTypeWarning, "AdditionalIPNotAllocated", action,
		"%s", wording.Cut("No additional address: "+strings.Join(complaints, "; "), wording.NoteLimit))
}

// limits bound, per namespace, events of what Services lack and got, and the IPAddresses written.
type limits struct{ complaints, news, draws *rate.Limiter }

// limitsOf returns the limits of a namespace. If two workers make some, the second ones stay.
func (r *Reconciler) limitsOf(namespace string) *limits {
	if known, ok := r.limits.Get(namespace); ok {
		return known.(*limits)
	}
	p := &limits{
		complaints: rate.NewLimiter(rate.Every(tellEvery), tellBurst), news: rate.NewLimiter(rate.Every(tellEvery), newsBurst),
		draws: rate.NewLimiter(rate.Every(drawEvery), drawBurst),
	}
	r.limits.Add(namespace, p)
	return p
}

// reference is the Service as far as an event needs it.
func reference(in inputs) runtime.Object {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: in.name.Namespace, Name: in.name.Name, UID: in.service.uid}}
}
