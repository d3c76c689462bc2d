package condition

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/conditions"
	"github.com/clusterip-operator/clusterip-operator/internal/objects"
)

const reasonFinalized = "Finalized"

// Counted returns the condition of a cluster on the bitmap, where covered of claimed ClusterIPs
// have their IPAddress, and where so many other things would have to be repaired.
func Counted(covered, claimed, others int) metav1.Condition {
	text := fmt.Sprintf("%d of %d ClusterIPs have their IPAddress", covered, claimed)
	switch {
	case others > 0:
		return migrated(metav1.ConditionFalse, "InProgress", fmt.Sprintf("%s; `kubectl clusterip migrate verify` names what else is in the way.", text))
	case covered < claimed:
		return migrated(metav1.ConditionFalse, "InProgress", text+".")
	}
	return migrated(metav1.ConditionTrue, "ReadyToFlip",
		"Every ClusterIP has its IPAddress: an API server that allocates from IPAddresses finds nothing to repair.")
}

// Flipped returns the condition of a cluster whose API servers allocate from IPAddresses.
func Flipped() metav1.Condition {
	return migrated(metav1.ConditionTrue, "Flipped", "The API servers allocate from IPAddresses.")
}

// Finalized returns the condition of a cluster that has no bitmaps any more.
func Finalized() metav1.Condition {
	return migrated(metav1.ConditionTrue, reasonFinalized, "The API servers allocate from IPAddresses, and the bitmaps are deleted.")
}

func migrated(status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return conditions.New(v1alpha1.ConditionMigrated, status, reason, message)
}

type inputs struct {
	bitmap                   bool
	covered, claimed, others int               // as in Counted
	now                      *metav1.Condition // that is there, nil without one
}

// decide returns the condition to write, nil for none. Where API servers allocate from IPAddresses,
// one is due only if a migration had begun; that it was finalized, only the command knows.
func decide(w inputs) *metav1.Condition {
	want := Counted(w.covered, w.claimed, w.others)
	if !w.bitmap {
		if w.now == nil || w.now.Reason == reasonFinalized {
			return nil
		}
		want = Flipped()
	}
	if w.now != nil && conditions.Same(*w.now, want) {
		return nil
	}
	return &want
}

// Write updates the condition on the default ServiceCIDR, if that exists and the condition is news.
// It adds one only with begin: clusters without it never used a bitmap under our eyes.
func Write(ctx context.Context, c client.Client, apiVersion string, want metav1.Condition, now time.Time, begin bool) error {
	cidr := &networkingv1.ServiceCIDR{}
	if err := c.Get(ctx, client.ObjectKey{Name: v1alpha1.DefaultServiceCIDR}, cidr); err != nil {
		return client.IgnoreNotFound(err)
	}
	there := meta.FindStatusCondition(cidr.Status.Conditions, want.Type)
	if there == nil && !begin || there != nil && conditions.Same(*there, want) {
		return nil
	}
	return apply(ctx, c, apiVersion, cidr, want, now)
}

func apply(ctx context.Context, c client.Client, apiVersion string, cidr *networkingv1.ServiceCIDR, want metav1.Condition, now time.Time) error {
	object := networkingv1ac.ServiceCIDR(cidr.Name).WithAPIVersion(apiVersion).WithUID(cidr.UID)
	dated := conditions.Dated(cidr.Status.Conditions, []metav1.Condition{want}, now)
	return objects.ApplyToServiceCIDR(ctx, c, object, dated, v1alpha1.ManagerMigration)
}

// pause is between two writes, so that a migration of many addresses is a few of them.
const pause = 5 * time.Second

// Reconciler keeps the condition. All fields are required.
type Reconciler struct {
	Client     client.Client
	Index      *addressindex.Index
	Clock      clock.PassiveClock
	APIVersion string
	Bitmap     bool // the API server allocates from the bitmap

	written time.Time
}

// SetupWithManager starts the controller with mgr. There is one key: the default ServiceCIDR.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	key := []string{v1alpha1.DefaultServiceCIDR}
	b := builder.TypedControllerManagedBy[string](mgr).
		Named("migration").
		WatchesRawSource(addressindex.Map(r.Index.Ranges(), func(string) []string { return key }))
	if r.Bitmap {
		b = b.WatchesRawSource(addressindex.Map(r.Index.Addresses(), func(netip.Addr) []string { return key }))
	}
	return b.WithOptions(controller.TypedOptions[string]{
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[string](200*time.Millisecond, time.Minute),
	}).Complete(r)
}

// Reconcile compares the condition with the address index.
func (r *Reconciler) Reconcile(ctx context.Context, name string) (reconcile.Result, error) {
	now := r.Clock.Now()
	if wait := pause - now.Sub(r.written); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	cidr := &networkingv1.ServiceCIDR{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, cidr); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	claimed, covered := r.Index.Relation()
	w := inputs{bitmap: r.Bitmap, covered: covered, claimed: claimed, now: meta.FindStatusCondition(cidr.Status.Conditions, v1alpha1.ConditionMigrated)}
	if meta.IsStatusConditionTrue(cidr.Status.Conditions, v1alpha1.ConditionDefaultRangeMismatch) {
		w.others = 1
	}
	want := decide(w)
	if want == nil {
		return reconcile.Result{}, nil
	}
	if err := apply(ctx, r.Client, r.APIVersion, cidr, *want, now); err != nil {
		return reconcile.Result{}, fmt.Errorf("telling how far the migration is: %w", err)
	}
	r.written = now
	return reconcile.Result{}, nil
}
