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
	"k8s.io/apimachinery/pkg/types"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/conditions"
	"github.com/clusterip-operator/clusterip-operator/internal/loop"
	"github.com/clusterip-operator/clusterip-operator/internal/metrics"
)

// defaultResync is how often the default range is compared without an event, as API servers do.
const defaultResync = 10 * time.Second

// DefaultReconciler looks after the ServiceCIDR `kubernetes`. Where the API server allocates from
// the bitmap it creates the object from the API server's range, and extends it from single to dual
// stack, as an API server with IPAddresses does itself. It keeps a condition while object and range
// disagree: the API server says so once, in an event that expires. All fields but Ranges are
// required.
type DefaultReconciler struct {
	loop.Cluster
	// Ranges is the API server's --service-cluster-ip-range. Without it nothing is compared, and what
	// an earlier start with it has said is taken back.
	Ranges     []netip.Prefix
	APIVersion string
	// Bitmap: the API server does not create the object, so we do.
	Bitmap bool

	// mismatchSince is when the disagreement was first seen, zero without one.
	mismatchSince time.Time
}

// SetupWithManager starts the controller with mgr.
func (r *DefaultReconciler) SetupWithManager(mgr manager.Manager) error {
	// The object may be missing, so there is no event to begin with.
	start := source.TypedFunc[string](func(_ context.Context, q workqueue.TypedRateLimitingInterface[string]) error {
		q.Add(v1alpha1.DefaultServiceCIDR)
		return nil
	})
	changes := addressindex.Map(r.Index.Ranges(), func(name string) []string {
		if name != v1alpha1.DefaultServiceCIDR {
			return nil
		}
		return []string{name}
	})
	return loop.Setup(mgr, loop.Options{Name: "defaultservicecidr", Workers: 1, Retry: 200 * time.Millisecond, LongestRetry: defaultResync}, r,
		changes, start)
}

// Reconcile compares the object with the range.
func (r *DefaultReconciler) Reconcile(ctx context.Context, name string) (reconcile.Result, error) {
	cidr := &networkingv1.ServiceCIDR{}
	err := r.Client.Get(ctx, client.ObjectKey{Name: name}, cidr)
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("reading the default ServiceCIDR: %w", err)
	}
	d := decideDefault(defaultInputs{
		exists: err == nil, deleting: !cidr.DeletionTimestamp.IsZero(), cidrs: cidr.Spec.CIDRs, ranges: r.texts(), bitmap: r.Bitmap,
	})
	err = r.apply(ctx, cidr, d)
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
		return reconcile.Result{}, err
	}
	if len(r.Ranges) == 0 {
		return reconcile.Result{}, nil // changes of the object wake us
	}
	// After a conflict the event of the other write wakes us, and the resync does.
	return reconcile.Result{RequeueAfter: defaultResync}, nil
}

func (r *DefaultReconciler) apply(ctx context.Context, cidr *networkingv1.ServiceCIDR, d defaultDecision) error {
	switch d {
	case defaultAbsent:
		r.mismatchSince = time.Time{}
		metrics.DefaultRangeMismatch.Set(0)
		return nil
	case defaultUnknown:
		return r.takeBack(ctx, cidr)
	case defaultCreate:
		cidr = &networkingv1.ServiceCIDR{
			ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultServiceCIDR}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: r.texts()},
		}
		if err := r.Client.Create(ctx, cidr, client.FieldOwner(v1alpha1.ManagerDefaultRange)); err != nil {
			return fmt.Errorf("creating the default ServiceCIDR: %w", err)
		}
		return nil
	case defaultExtend:
		return r.extendOrReplace(ctx, cidr)
	case defaultFine:
		r.mismatchSince = time.Time{}
		return r.report(ctx, cidr, conditions.New(v1alpha1.ConditionDefaultRangeMismatch, metav1.ConditionFalse,
			"Consistent", "The default ServiceCIDR is the API server's range."))
	default:
		// The API server, which extends its range to dual stack itself, gets the time to.
		now := r.Clock.Now()
		if r.mismatchSince.IsZero() {
			r.mismatchSince = now
		} else if now.Sub(r.mismatchSince) >= defaultResync {
			return r.report(ctx, cidr, r.mismatch(cidr, "Inconsistent", ". Start the API server with the former, "+
				"or move the Services and delete this ServiceCIDR, which the API server then creates anew."))
		}
		return nil
	}
}

// extendOrReplace adds the second family. API servers before 1.33 hold a ServiceCIDR immutable:
// there it is deleted, and created anew once gone. Nothing is lost meanwhile: they allocate from
// the bitmap and the address index goes by the flag. It must precede the upgrade: a 1.36 API server
// looks for Services outside of every range before it extends its own.
//
// Only config/components/service-cluster-ip-range grants deletion; else the condition asks for it.
func (r *DefaultReconciler) extendOrReplace(ctx context.Context, cidr *networkingv1.ServiceCIDR) error {
	extended := cidr.DeepCopy()
	extended.Spec.CIDRs = r.texts()
	unchanged := client.MergeFromWithOptions(cidr, client.MergeFromWithOptimisticLock{})
	switch err := r.Client.Patch(ctx, extended, unchanged, client.FieldOwner(v1alpha1.ManagerDefaultRange)); {
	case err == nil:
		return nil
	case !apierrors.IsInvalid(err):
		return fmt.Errorf("extending the default ServiceCIDR to %v: %w", r.texts(), err)
	}
	switch err := r.Client.Delete(ctx, cidr, client.Preconditions{UID: &cidr.UID}); {
	case apierrors.IsForbidden(err):
		return r.report(ctx, cidr, r.mismatch(cidr, "Immutable", ", and this API server cannot add a family to a "+
			"ServiceCIDR. Delete the ServiceCIDR before you upgrade: nothing allocates from it, and the operator creates it anew with both."))
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("replacing the default ServiceCIDR: %w", err)
	}
	return nil
}

// defaultInputs is everything that decideDefault reads.
type defaultInputs struct {
	exists        bool
	deleting      bool
	cidrs, ranges []string
	bitmap        bool
}

type defaultDecision int

const (
	defaultFine     defaultDecision = iota
	defaultAbsent                   // it is going, or the API server will create it
	defaultCreate                   // no API server will
	defaultExtend                   // from single to dual stack
	defaultMismatch                 // object and range disagree
	defaultUnknown                  // what the API server was started with is not known
)

// decideDefault follows the API server's own rule: only the step from one to two CIDRs is a change
// that is made, every other difference is reported.
func decideDefault(in defaultInputs) defaultDecision {
	switch {
	case in.exists && len(in.ranges) == 0:
		return defaultUnknown
	case !in.exists && in.bitmap:
		return defaultCreate
	case !in.exists || in.deleting:
		return defaultAbsent
	case slices.Equal(in.cidrs, in.ranges):
		return defaultFine
	case in.bitmap && len(in.cidrs) == 1 && len(in.ranges) == 2 && in.cidrs[0] == in.ranges[0]:
		return defaultExtend
	default:
		return defaultMismatch
	}
}

func (r *DefaultReconciler) texts() []string {
	out := make([]string, 0, len(r.Ranges))
	for _, p := range r.Ranges {
		out = append(out, p.Masked().String())
	}
	return out
}

// report writes the condition if it says something new. A cluster that was never wrong lacks it.
func (r *DefaultReconciler) report(ctx context.Context, cidr *networkingv1.ServiceCIDR, want metav1.Condition) error {
	mismatch := want.Status == metav1.ConditionTrue
	if mismatch {
		metrics.DefaultRangeMismatch.Set(1)
	} else {
		metrics.DefaultRangeMismatch.Set(0)
	}
	now := meta.FindStatusCondition(cidr.Status.Conditions, want.Type)
	if (now == nil && !mismatch) || (now != nil && same(*now, want)) {
		return nil
	}
	apply := networkingv1ac.ServiceCIDR(cidr.Name).WithAPIVersion(r.APIVersion).WithUID(cidr.UID)
	err := applyConditions(ctx, r.Client, apply, cidr, []metav1.Condition{want}, r.Clock.Now(), v1alpha1.ManagerDefaultRange)
	if err == nil && mismatch {
		// Upstream's reason.
		r.Events.Eventf(cidr, nil, corev1.EventTypeWarning, "KubernetesDefaultServiceCIDRInconsistent", "Audit", "%s", want.Message)
	}
	return err
}

// takeBack removes the condition, whichever manager wrote it last, as cleanup does: after a restore
// from a backup ours owns nothing. Nothing is told any more because nothing is compared.
func (r *DefaultReconciler) takeBack(ctx context.Context, cidr *networkingv1.ServiceCIDR) error {
	if meta.FindStatusCondition(cidr.Status.Conditions, v1alpha1.ConditionDefaultRangeMismatch) == nil {
		return nil
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": cidr.UID},
		"status":   map[string]any{"conditions": []map[string]string{{"$patch": "delete", "type": v1alpha1.ConditionDefaultRangeMismatch}}},
	})
	if err != nil {
		return err
	}
	patch := client.RawPatch(types.StrategicMergePatchType, body)
	if err := r.Client.Status().Patch(ctx, cidr.DeepCopy(), patch, client.FieldOwner(v1alpha1.ManagerDefaultRange)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("taking the condition %s of the default ServiceCIDR back: %w", v1alpha1.ConditionDefaultRangeMismatch, err)
	}
	return nil
}

// mismatch says that object and range disagree, and what to do.
func (r *DefaultReconciler) mismatch(cidr *networkingv1.ServiceCIDR, reason, remedy string) metav1.Condition {
	return conditions.New(v1alpha1.ConditionDefaultRangeMismatch, metav1.ConditionTrue, reason, fmt.Sprintf("The default ServiceCIDR is %s, "+
		"--service-cluster-ip-range is %s%s", strings.Join(cidr.Spec.CIDRs, ","), strings.Join(r.texts(), ","), remedy))
}
