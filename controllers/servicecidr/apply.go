package servicecidr

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/conditions"
	"github.com/clusterip-operator/clusterip-operator/internal/objects"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

// addFinalizer puts our finalizer on the object if missing, and turns cidr into what is there then.
func (r *Reconciler) addFinalizer(ctx context.Context, cidr *networkingv1.ServiceCIDR) error {
	if slices.Contains(cidr.Finalizers, v1alpha1.FinalizerServiceCIDR) || !cidr.DeletionTimestamp.IsZero() {
		return nil // the API server accepts no new finalizer on an object that is being deleted
	}
	return r.patchFinalizer(ctx, cidr, "finalizers")
}

// release takes our finalizer off after it has read the API server's own IPAddresses, because the
// cache may lag behind an allocation that slipped in before the API servers knew of the deletion.
func (r *Reconciler) release(ctx context.Context, cidr *networkingv1.ServiceCIDR) error {
	if !slices.Contains(cidr.Finalizers, v1alpha1.FinalizerServiceCIDR) {
		return nil
	}
	left, err := r.liveOrphan(ctx, r.Index.Orphans(cidr.Name))
	if err != nil {
		return err
	}
	if left.IsValid() {
		return fmt.Errorf("address %s is in use and the cache does not know it yet", left)
	}
	log.FromContext(ctx).Info("Releasing a ServiceCIDR, nothing depends on it", "cidrs", cidr.Spec.CIDRs)
	return r.patchFinalizer(ctx, cidr, "$deleteFromPrimitiveList/finalizers")
}

// patchFinalizer merges ours by value, as upstream does its own: two writers never undo each other.
func (r *Reconciler) patchFinalizer(ctx context.Context, cidr *networkingv1.ServiceCIDR, field string) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": cidr.UID, field: []string{v1alpha1.FinalizerServiceCIDR}}})
	if err != nil {
		return err
	}
	target := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: cidr.Name}}
	switch err := r.Client.Patch(ctx, target, client.RawPatch(types.StrategicMergePatchType, body), client.FieldOwner(v1alpha1.ManagerServiceCIDR)); {
	case err == nil:
		*cidr = *target // with the version that the next write has to name
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("changing the finalizers of ServiceCIDR %s: %w", cidr.Name, err)
	}
	return nil
}

// liveOrphan returns an IPAddress inside the spans that the API server has, the zero Addr if there
// is none. It lists in pages, once for every ServiceCIDR that is about to go.
func (r *Reconciler) liveOrphan(ctx context.Context, spans []allocator.Span) (netip.Addr, error) {
	if len(spans) == 0 {
		return netip.Addr{}, nil
	}
	gvk, err := r.Client.GroupVersionKindFor(&networkingv1.IPAddress{})
	if err != nil {
		return netip.Addr{}, err
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind("IPAddressList"))
	for {
		if err := r.Live.List(ctx, list, client.Limit(500), client.Continue(list.Continue)); err != nil {
			return netip.Addr{}, fmt.Errorf("listing IPAddresses: %w", err)
		}
		for _, item := range list.Items {
			a, err := netip.ParseAddr(item.Name)
			if err == nil && slices.ContainsFunc(spans, func(s allocator.Span) bool { return s.Contains(a) }) {
				return a, nil
			}
		}
		if list.Continue == "" {
			return netip.Addr{}, nil
		}
	}
}

// writeConditions applies the conditions if any is new, and returns those whose status is new.
func (r *Reconciler) writeConditions(ctx context.Context, cidr *networkingv1.ServiceCIDR, want []metav1.Condition) ([]metav1.Condition, error) {
	changed := slices.DeleteFunc(slices.Clone(want), func(c metav1.Condition) bool {
		now := meta.FindStatusCondition(cidr.Status.Conditions, c.Type)
		return now != nil && same(*now, c)
	})
	if len(changed) == 0 {
		return nil, nil
	}
	// The version guards the copy of Ready that the apply carries: it must not undo what
	// kube-controller-manager has just written.
	apply := networkingv1ac.ServiceCIDR(cidr.Name).WithAPIVersion(r.APIVersion).WithUID(cidr.UID).WithResourceVersion(cidr.ResourceVersion)
	return changed, applyConditions(ctx, r.Client, apply, cidr, want, r.Clock.Now(), v1alpha1.ManagerServiceCIDR)
}

// withdrawReady takes the condition Ready off a default range that no API server seems to allocate
// from. One that does writes it anew within ten seconds, and with it who has written it: that is
// lost when an API server of 1.32, which does not know v1, has changed the object since.
func (r *Reconciler) withdrawReady(ctx context.Context, cidr *networkingv1.ServiceCIDR) error {
	if meta.FindStatusCondition(cidr.Status.Conditions, networkingv1.ServiceCIDRConditionReady) == nil {
		return nil
	}
	before := &networkingv1.ServiceCIDR{} // the cache does not keep who has written what
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(cidr), before); err != nil {
		return fmt.Errorf("reading ServiceCIDR %s: %w", cidr.Name, err)
	}
	if upstream.WrittenByAPIServer(before) {
		return nil
	}
	before.DeepCopyInto(cidr)
	meta.RemoveStatusCondition(&cidr.Status.Conditions, networkingv1.ServiceCIDRConditionReady)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, cidr, patch, client.FieldOwner(v1alpha1.ManagerServiceCIDR)); err != nil {
		return fmt.Errorf("withdrawing the condition Ready of ServiceCIDR %s: %w", cidr.Name, err)
	}
	return nil
}

// applyConditions writes a manager's conditions, in the words already there if they mean the same.
func applyConditions(
	ctx context.Context, to client.Client, apply *networkingv1ac.ServiceCIDRApplyConfiguration, cidr *networkingv1.ServiceCIDR,
	want []metav1.Condition, at time.Time, as client.FieldOwner,
) error {
	all := conditions.Dated(cidr.Status.Conditions, want, at)
	for i, c := range all {
		if now := meta.FindStatusCondition(cidr.Status.Conditions, c.Type); now != nil && same(*now, c) {
			all[i] = *now
		}
	}
	return objects.ApplyToServiceCIDR(ctx, to, apply, all, as)
}

// same reports whether what is there means the same as what we want. Ready is shared with
// kube-controller-manager and the API server, each with words of its own: there status and reason
// decide. Only our own words are brought up to date.
func same(now, want metav1.Condition) bool {
	if want.Type == networkingv1.ServiceCIDRConditionReady && !strings.HasPrefix(now.Message, terminatingPrefix) {
		want.Message = now.Message
	}
	return conditions.Same(now, want)
}

// announce sends an event for each abnormal condition written, such as ServiceCIDRNearlyFull.
// client-go folds events of one reason within minutes into a series with the first one's words; the
// first blocker is the related object, so that other blockers make another event. Of refused writes
// the client that was refused tells, at once.
func (r *Reconciler) announce(cidr *networkingv1.ServiceCIDR, in inputs, written []metav1.Condition) {
	for _, c := range written {
		kind, prefixed := strings.CutPrefix(c.Type, v1alpha1.Prefix+"/")
		if !prefixed || c.Status != metav1.ConditionTrue || c.Type == v1alpha1.ConditionWritesRefused {
			continue
		}
		var related runtime.Object
		if c.Type == v1alpha1.ConditionDeletionBlocked && len(in.blockers) > 0 {
			related = upstream.Named(in.blockers[0].address.String())
		}
		r.Events.Eventf(cidr, related, corev1.EventTypeWarning, "ServiceCIDR"+kind, "Audit", "%s", c.Message)
	}
}
