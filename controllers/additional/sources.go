package additional

import (
	"context"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/steering"
)

// concerned lets the events of Services through that ask for addresses, or have some; in most clusters those are few.
func (r *Reconciler) concerned() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return r.concerns(e.Object) },
		UpdateFunc:  func(e event.UpdateEvent) bool { return r.concerns(e.ObjectOld) || r.concerns(e.ObjectNew) },
		DeleteFunc:  func(e event.DeleteEvent) bool { return r.concerns(e.Object) },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

func (r *Reconciler) concerns(o client.Object) bool {
	s, ok := o.(*corev1.Service)
	if !ok {
		return false
	}
	return s.Annotations[v1alpha1.AnnotationAdditionalFrom] != "" || len(r.Index.Additional(key(s))) > 0
}

// addresses wake the Service of every additional IPAddress that came, changed or went; at the start, those of all there are.
func (r *Reconciler) addresses() *addressindex.Feed[reconcile.Request] {
	return addressindex.Map(r.Index.Addresses(), func(a netip.Addr) []reconcile.Request { return r.owners.wake(r.Index, a) })
}

// ranges wake the Services that name a ServiceCIDR.
func (r *Reconciler) ranges() *addressindex.Feed[reconcile.Request] {
	return addressindex.Map(r.Index.Ranges(), r.askers.wake)
}

// policies wake the Services that wait: a range may be open to them now.
func (r *Reconciler) policies() source.Source { return changes{r.Board, &r.patience} }

// changes is the source of those who wait, whenever policies or ranges have changed.
type changes struct {
	board    *steering.Cache
	patience *patience
}

// Start implements source.Source.
func (c changes) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	c.board.Subscribe(func(_, _ *steering.Compiled) {
		for _, request := range c.patience.wake() {
			queue.Add(request)
		}
	})
	return nil
}

// String names the source in the controller's log.
func (changes) String() string { return "policies" }
